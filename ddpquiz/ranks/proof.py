"""Run the proof of a question on real ranks, and see that it decides between the answers."""

from __future__ import annotations

import itertools
import random
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ddpquiz.curriculum.concept import CodeProof, DemoProof, Kind, Option, Question, Shows
from ddpquiz.curriculum.pose import Posed, number, pose, worth
from ddpquiz.errors import UserError
from ddpquiz.ranks.events import End, Hung, Output, Raised
from ddpquiz.ranks.launch import Request
from ddpquiz.ranks.run import Run
from ddpquiz.shipped import demos_dir

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PLACE = "<option>"
PRELUDE = "import os, torch, torch.distributed as dist\n"
JOIN = 'dist.init_process_group("gloo")\nrank = dist.get_rank()\nworld_size = dist.get_world_size()\n'
STILL = 1.0  # seconds without any movement that show that ranks hang; proofs sleep less
DRAWS = 3


@dataclass(frozen=True, slots=True)
class Observed:
    """What a run showed: what each rank printed, the last line of the first traceback, and whether it hung."""

    printed: Mapping[int, str]
    raised: str = ""
    hung: bool = False
    failed: str = ""  # why the run ended badly, if it did

    def __str__(self) -> str:
        if self.hung:
            return "the ranks wait for ever"
        if self.raised:
            return self.raised
        if self.failed:
            return self.failed
        texts = list(self.printed.values())
        if len(set(texts)) == 1:
            return f"every rank prints {texts[0]!r}"
        return ", ".join(f"rank {rank} prints {text!r}" for rank, text in self.printed.items())

    def matches(self, shows: Shows) -> bool:
        """Whether this is what `shows` says."""
        if shows.hangs:
            return self.hung
        if shows.raises is not None:
            return self.raised.startswith(shows.raises)
        if self.hung or self.failed:
            return False
        if shows.by_rank is not None:
            return all(text == tidy(shows.by_rank.get(rank, "")) for rank, text in self.printed.items())
        return all(text == tidy(shows.everywhere or "") for text in self.printed.values())


@dataclass(frozen=True, slots=True)
class Proven:
    """The outcome of one proof: no complaints if it holds and decides, and how long it took."""

    question: Question
    complaints: tuple[str, ...]
    seconds: float


def tidy(text: str) -> str:
    """Drop trailing spaces and empty lines at the ends, which nobody sees."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def prove_all(questions: Iterable[Question], demos: Path | None = None) -> Iterator[Proven]:
    """Run every proof of `questions`, one after the other, and yield how each ended."""
    lab = Lab(demos)
    for question in questions:
        if question.proof:
            began = time.monotonic()
            complaints = tuple(lab.complaints(question))
            yield Proven(question, complaints, time.monotonic() - began)


class Lab:
    """Runs proofs; a demo that serves several of them runs once."""

    def __init__(self, demos: Path | None = None) -> None:
        self.demos = demos or demos_dir()
        self.observe_demo = cache(self._observe_demo)

    def observe(self, posed: Posed, option: str | None = None) -> Observed:
        """Run the proof of a question that was posed; `option` is the code of an answer, where answers are code."""
        proof = posed.question.proof
        ranks = int(worth(proof.ranks, posed.values)) if proof else 1
        match proof:
            case DemoProof():
                return self.observe_demo(proof.demo, ranks, proof.args, proof.label)
            case CodeProof():
                return run_code(source(posed, option), ranks)
        raise UserError(f"{posed.question.key} has no proof that runs; `ddpquiz show` names its source.")

    def complaints(self, question: Question) -> Iterator[str]:
        """Yield what is wrong with a proof: that it does not hold for the key, or that it holds for another answer."""
        match question.kind:
            case Kind.NUMBER:
                yield from self._number(question)
            case Kind.ORDER:
                yield from self._order(question)
            case Kind.OUTPUT:
                yield from self._output(question)
            case _ if inserts(question):
                yield from self._inserted(question)
            case _:
                yield from self._options(question)

    def _options(self, question: Question) -> Iterator[str]:
        seen = self.observe(_posed(question))
        for option in question.options:
            if agrees(question, option, seen) != option.right:
                yield f"{_verdict(option)} {option.text!r} does not go with what was observed: {seen}"

    def _inserted(self, question: Question) -> Iterator[str]:
        shows = question.proof.shows if question.proof else None
        for option in question.options:
            seen = self.observe(_posed(question), code_of(option))
            if shows and seen.matches(shows) != option.right:
                yield f"{_verdict(option)} {option.text!r} does not go with what was observed: {seen}"

    def _number(self, question: Question) -> Iterator[str]:
        unseen = set(question.traps)
        for values in draws(question):
            posed = _posed(question, values)
            seen = self.observe(posed)
            right = worth(question.answer, values)
            if not all_close(right, question.tolerance, seen):
                yield f"with {dict(values)} the answer is {right:g}, but {seen}"
            unseen -= {t for t in unseen if not close(worth(t.answer, values), right, question.tolerance)}
        for trap in unseen:
            yield f"the trap {trap.answer!r} gives the right answer in every draw"

    def _order(self, question: Question) -> Iterator[str]:
        if not inserts(question):
            steps = tidy("\n".join(line.shows or "" for line in question.lines))
            seen = self.observe(_posed(question))
            if seen.failed or seen.hung or any(text != steps for text in seen.printed.values() if text):
                yield f"the steps {steps!r} are not what was observed: {seen}"
            return
        shows = question.proof.shows if question.proof else None
        lines = [line.text for line in question.lines]
        seen = self.observe(_posed(question), "\n".join(lines))
        if shows and not seen.matches(shows):
            yield f"the lines in their order do not give what the proof says: {seen}"
        for at in range(len(lines) - 1):
            swapped = [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]
            if shows and self.observe(_posed(question), "\n".join(swapped)).matches(shows):
                yield f"lines {at + 1} and {at + 2} can change places, so the order is not the only right one"

    def _output(self, question: Question) -> Iterator[str]:
        seen = self.observe(_posed(question))
        if not prints(question, question.answer, seen):
            yield f"the answer is {question.answer!r}, but {seen}"
        for trap in question.traps:
            if prints(question, trap.answer, seen):
                yield f"the trap {trap.answer!r} is what is printed"

    def _observe_demo(self, name: str, ranks: int, args: tuple[str, ...], label: str) -> Observed:
        path = self.demos / f"{name}.py"
        values: dict[int, str] = dict.fromkeys(range(ranks), "")
        outputs, seen = self._demo_run(path, ranks, args)
        for output in outputs:
            if output.label == label:
                values[output.rank] = tidy(output.value or "")
        printed = {rank: text for rank, text in values.items() if text} or values
        return Observed(printed, seen.raised, seen.hung, seen.failed)

    @cache  # noqa: B019  # a lab lives as long as its checks
    def _demo_run(self, path: Path, ranks: int, args: tuple[str, ...]) -> tuple[tuple[Output, ...], Observed]:
        return follow(Request(path, args, ranks, "cpu", timeout=10.0))


def agrees(question: Question, option: Option, seen: Observed) -> bool:
    """Whether what was observed is what would be seen if `option` were right."""
    if option.shows is None:
        return False
    if question.kind is Kind.CHOICES and option.shows.everywhere is not None:
        lines = {line for text in seen.printed.values() for line in text.splitlines()}
        return not seen.failed and tidy(option.shows.everywhere) in lines
    return seen.matches(option.shows)


def all_close(right: float, tolerance: float, seen: Observed) -> bool:
    """Whether the last number that each rank printed is `right`."""
    got = [_last_number(text) for text in seen.printed.values()]
    fine = not (seen.hung or seen.failed) and bool(got)
    return fine and all(each is not None and close(each, right, tolerance) for each in got)


def prints(question: Question, text: str, seen: Observed) -> bool:
    """Whether the rank that an `output` question asks for, or else every rank, printed `text`."""
    asked = [question.rank] if question.rank is not None else list(seen.printed)
    texts = {flat(seen.printed.get(rank, "")) for rank in asked}
    return not (seen.hung or seen.failed) and texts == {flat(text)}


def inserts(question: Question) -> bool:
    """Whether the proof runs each answer as code."""
    return isinstance(question.proof, CodeProof) and bool(question.proof.code) and PLACE in (question.proof.code or "")


def code_of(option: Option) -> str:
    """Return the code that an option stands for."""
    return option.text.strip().strip("`")


def source(posed: Posed, option: str | None = None) -> str:
    """Return the script that a proof by code runs."""
    question = posed.question
    code = (question.proof.code if isinstance(question.proof, CodeProof) else None) or question.code
    if option is not None:
        code = "\n".join(_placed(line, option) for line in code.splitlines()) + "\n"
    variables = "".join(f"{name} = {value}\n" for name, value in posed.values.items())
    return PRELUDE + ("" if "init_process_group" in code else JOIN) + variables + code


def _placed(line: str, option: str) -> str:
    if line.strip() != PLACE:
        return line.replace(PLACE, option)
    indent = line[: len(line) - len(line.lstrip())]
    return "\n".join(indent + each for each in option.splitlines())


def run_code(code: str, ranks: int) -> Observed:
    """Run code on `ranks` ranks of this machine's processor."""
    with tempfile.TemporaryDirectory(prefix="ddpquiz-") as folder:
        script = Path(folder) / "proof.py"
        script.write_text(code, encoding="utf-8")
        _, seen = follow(Request(script, (), ranks, "cpu", timeout=STILL))
    return seen


def follow(request: Request) -> tuple[tuple[Output, ...], Observed]:
    """Run to the end and return every line of standard output and what was observed."""
    run = Run(request)
    outputs: list[Output] = []
    raised: list[Raised] = []
    hung, end = False, None
    for event in run.events():
        match event:
            case Output(stream="stdout"):
                outputs.append(event)
            case Raised():
                raised.append(event)
            case Hung():
                hung = True
            case End():
                end = event
    printed = {rank: tidy("\n".join(o.text for o in outputs if o.rank == rank)) for rank in range(run.ranks)}
    first = next((r for r in raised if end and r.rank == end.rank), None)
    text = f"{first.error}: {first.message}" if first else ""
    return tuple(outputs), Observed(printed, text, hung, end.why if end else "")


def draws(question: Question) -> list[dict[str, str]]:
    """Return up to three different draws of a question's variables, always the same ones."""
    every = list(itertools.product(*(variable.values for variable in question.variables)))
    names = [variable.name for variable in question.variables]
    chosen = random.Random(question.key).sample(every, min(DRAWS, len(every)))  # noqa: S311
    return [dict(zip(names, values, strict=True)) for values in chosen]


def close(got: float, right: float, tolerance: float) -> bool:
    """Whether a number counts as the answer; `tolerance` is relative."""
    return abs(got - right) <= max(tolerance * abs(right), 1e-9 * max(1.0, abs(right)))


def flat(text: str) -> str:
    """Return what a text says, whatever its spacing and its kind of quotes."""
    return "\n".join("".join(line.split()) for line in text.strip().splitlines()).replace('"', "'")


def _posed(question: Question, values: Mapping[str, str] | None = None) -> Posed:
    if values is None:
        return Posed(question, {}, ())
    posed = pose(question, _Fixed(values))
    return Posed(posed.question, values, ())


class _Fixed(random.Random):
    """Dice that throw the values of one draw, in the order of the variables."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(0)
        self._left = list(values.values())

    def choice(self, _: object) -> str:  # type: ignore[override]
        return self._left.pop(0)


def _last_number(text: str) -> float | None:
    words = text.replace(",", "").split()
    try:
        return number(words[-1]) if words else None
    except ValueError:
        return None


def _verdict(option: Option) -> str:
    return "the right answer" if option.right else "the wrong answer"
