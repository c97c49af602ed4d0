"""Runs a question's proof or a lesson's listing on real ranks, and compares what is observed with the answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

from ddpquiz.curriculum.concept import CodeProof, DemoProof, Kind, Listing, Option, Question, Shows
from ddpquiz.curriculum.demo_scripts import DEMO_PATIENCE, read_demo
from ddpquiz.curriculum.listing import IMPORTS, JOIN, needs_head, whole_script
from ddpquiz.curriculum.pack_consent import require_consent
from ddpquiz.curriculum.posed_question import Posed, parse_number
from ddpquiz.curriculum.question_code import fixed_script
from ddpquiz.errors import UserError
from ddpquiz.events.event import Event, Output
from ddpquiz.paths import demo_file, demos_dir
from ddpquiz.ranks.elastic_run import begin
from ddpquiz.ranks.installed_torch import require_demos
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.server_connection import temporary_folder

PLACE = "<option>"
STILL = 1.0  # seconds without movement after which ranks hang, if that may be the answer
_PATIENCE = 5.0  # if it may not: torchrun's agents look for each other once a second
_LIMIT = 120.0  # seconds that a run may last: a rank in a loop of its own neither hangs nor ends
_OWN_LIMIT = 30.0  # that a version of the learner's own may last: somebody waits for it
# Newer torch turns its Flight Recorder on by itself.
_AS_IN_NEWER_TORCH = {"TORCH_FR_BUFFER_SIZE": "2000"}
_LACKING = re.compile(r"AttributeError: module '(torch[\w.]*)' has no attribute '(\w+)'")


@dataclass(frozen=True, slots=True)
class Observed:
    """What a run showed: what each rank printed, the last line of the first traceback, and whether it hung."""

    printed: Mapping[int, str]
    raised: str = ""
    hung: bool = False
    failed: str = ""  # why the run ended badly, if it did
    advice: str = ""  # what to do about that; if the run was stopped and diagnosed, where its ranks were

    def __str__(self) -> str:
        if self.hung:
            return "the ranks wait, and no call ends"
        if self.raised:
            return self.raised
        if self.failed:
            return self.failed
        texts = list(self.printed.values())
        if len(set(texts)) == 1:
            return f"every rank prints {texts[0]!r}"
        return ", ".join(f"rank {rank} prints {text!r}" for rank, text in self.printed.items())

    @property
    def unexpected(self) -> str:
        """What was observed, where that is a fault: a function that torch lacks is named in words."""
        lacking = _LACKING.match(self.raised)
        return f"the torch that is installed has no {lacking[1]}.{lacking[2]}" if lacking else str(self)

    def matches(self, shows: Shows) -> bool:
        """Whether this is what `shows` describes."""
        if shows.hangs:
            return self.hung
        if shows.raises is not None:
            return self.raised.startswith(shows.raises)
        if self.hung or self.failed:
            return False
        if shows.by_rank is not None:
            return all(text == tidy(shows.by_rank.get(rank, "")) for rank, text in self.printed.items())
        return all(text == tidy(shows.everywhere or "") for text in self.printed.values())


def tidy(text: str) -> str:
    """Remove trailing spaces, and empty lines at both ends, which nobody sees."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


class ProofRunner:
    """Runs proofs; a demo that several of them use runs once."""

    def __init__(self, demos: Path | None = None) -> None:
        self.demos = demos or demos_dir()

    def observe(self, posed: Posed, option: str | None = None) -> Observed:
        """Run the proof of a posed question; `option` is the code of an answer, if answers are code.

        In a `spot` question `option` is the script, as it is or changed.
        """
        require_demos()
        proof = posed.question.proof
        require_consent(posed.question.concept.rpartition("/")[0], proof.origin if proof else "")
        match proof:
            case DemoProof():
                return self._observe_demo(demo_file(proof.demo, self.demos), posed.ranks, proof.args, proof.label)
            case CodeProof():
                return run_code(
                    source(posed, option), posed.ranks, STILL if may_hang(posed.question, option) else _PATIENCE
                )
        raise UserError(f"{posed.question.key} has no proof that can run; `ddpquiz show` names its source.")

    def _observe_demo(self, path: Path, ranks: int, args: tuple[str, ...], label: str) -> Observed:
        values: dict[int, str] = dict.fromkeys(range(ranks), "")
        outputs, seen = self._demo_run(path, ranks, args)
        for output in outputs:
            if output.label == label:
                values[output.rank] = tidy(output.value or "")
        printed = {rank: text for rank, text in values.items() if text} or values
        return Observed(printed, seen.raised, seen.hung, seen.failed)

    @cache  # noqa: B019  # a lab lives as long as its checks
    def _demo_run(self, path: Path, ranks: int, args: tuple[str, ...]) -> tuple[tuple[Output, ...], Observed]:
        restarts = read_demo(path).restarts
        return follow(Request(path, args=args, ranks=ranks, device="cpu", timeout=DEMO_PATIENCE, restarts=restarts))


def agrees(question: Question, option: Option, seen: Observed) -> bool:
    """Whether the observation is the one that `option` predicts."""
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
    """Whether the rank that an `output` question asks about, or else every rank, printed `text`."""
    asked = [question.rank] if question.rank is not None else list(seen.printed)
    texts = {_flat(seen.printed.get(rank, "")) for rank in asked}
    return not (seen.hung or seen.failed) and texts == {_flat(text)}


def answers(question: Question, seen: Observed) -> bool:
    """Whether the observation, with an answer inserted, is what the proof says of the right answer."""
    wanted = question.proof.shows if isinstance(question.proof, CodeProof) else None
    return wanted is not None and seen.matches(wanted)


def is_fixed(question: Question, seen: Observed) -> bool:
    """Whether the observation is what the script of a `spot` question shows with its fix."""
    wanted = question.proof.fixed if isinstance(question.proof, CodeProof) else None
    return wanted is not None and seen.matches(wanted)


def inserts(question: Question) -> bool:
    """Whether the proof runs each answer as code."""
    return isinstance(question.proof, CodeProof) and bool(question.proof.code) and PLACE in (question.proof.code or "")


def may_hang(question: Question, option: str | None = None) -> bool:
    """Whether an answer may be that the ranks wait forever, or may be code that makes them wait."""
    if question.kind is Kind.SPOT and option in (None, question.code, fixed_script(question)):
        shown = question.proof.shows if isinstance(question.proof, CodeProof) else None
        return shown is not None and shown.hangs and option != fixed_script(question)
    shows = [each.shows for each in question.options]
    return question.kind is Kind.SPOT or inserts(question) or any(each.hangs for each in shows if each is not None)


def code_of(option: Option) -> str:
    """The code of an option."""
    return option.text.strip().strip("`")


def source(posed: Posed, option: str | None = None) -> str:
    """The script that a proof by code runs."""
    question = posed.question
    code = (question.proof.code if isinstance(question.proof, CodeProof) else None) or question.code
    if question.kind is Kind.SPOT:
        code, option = (code if PLACE in code else PLACE), option or question.code
    if option is not None:
        code = "\n".join(_placed(line, option) for line in code.splitlines()) + "\n"
    variables = "".join(f"{name} = {value}\n" for name, value in posed.values.items())
    if not needs_head(variables + code) and "torch" not in code:  # what is imported from torch may ask for the group
        return variables + code
    return IMPORTS + ("" if "init_process_group" in code else JOIN) + variables + code


def observe_listing(concept: str, listing: Listing, code: str) -> Observed:
    """Run code of a listing to its end, as `begin_listing` does."""
    with begin_listing(concept, listing, whole_script(code)) as run:
        return run.finish()


def begin_listing(concept: str, listing: Listing, script: str) -> CodeRun:
    """Begin to run a listing, or the listing with its line changed, as a whole script.

    UserError if `concept` belongs to a pack whose programs the learner has not allowed.
    """
    _require_listing(concept, listing)
    hangs = listing.shows.hangs or bool(listing.change and listing.change.shows.hangs)
    return CodeRun(script, listing.ranks, STILL if hangs else _PATIENCE, name="listing.py")


def begin_own_version(concept: str, listing: Listing, script: str, name: str) -> CodeRun:
    """Begin to run what the learner has made of a listing; `name` is that of the file, where its lines are named.

    Nobody has checked how it ends, so what it shows says who waits for whom, also if it is stopped. UserError as of
    `begin_listing`, and if the script cannot run.
    """
    _require_listing(concept, listing)
    # With less patience, a busy rank would always count as one that has just moved, and not be asked where it is.
    run = CodeRun(script, listing.ranks, _PATIENCE, name=name, diagnose=True)
    run.limit = _OWN_LIMIT
    return run


def _require_listing(concept: str, listing: Listing) -> None:
    require_demos()
    require_consent(concept.rpartition("/")[0], listing.origin)


def _placed(line: str, option: str) -> str:
    if line.strip() != PLACE:
        return line.replace(PLACE, option)
    indent = line[: len(line) - len(line.lstrip())]
    return "\n".join(indent + each for each in option.splitlines())


def run_code(code: str, ranks: int, timeout: float, limit: float = _LIMIT) -> Observed:
    """Run code on `ranks` ranks on CPU; their temporary files are in a folder of their own.

    They hang after `timeout` seconds without movement, and are killed after `limit` seconds in any case.
    """
    with CodeRun(code, ranks, timeout) as run:
        run.limit = limit
        return run.finish()


def follow(request: Request) -> tuple[tuple[Output, ...], Observed]:
    """Run to the end and return every line of standard output and what was observed.

    Ranks that do not end are killed after a time; Ctrl-C kills them too.
    """
    run = _FollowedRun(request)
    run.finish()
    return tuple(run.outputs), run.observed


class _FollowedRun:
    """A run of which only the standard output and the end are of interest; it may last `limit` seconds."""

    def __init__(self, request: Request) -> None:
        self._run = begin(request)
        self.limit = _LIMIT
        self.outputs: list[Output] = []

    def read(self, seconds: float) -> bool:
        """Follow the run for some seconds; return whether it is over."""
        self._collect(self._run.read(seconds))
        if not self._run.over and self._run.now() > self.limit:
            self._run.stop(f"The ranks did not end within {self.limit:g} s.")
        return self._run.over

    def _collect(self, events: Iterable[Event]) -> None:
        self.outputs += [event for event in events if isinstance(event, Output) and event.stream == "stdout"]

    def finish(self) -> Observed:
        """Follow the run to its end; Ctrl-C kills the ranks."""
        try:
            while not self.read(0.1):
                pass
        except KeyboardInterrupt:
            self.close()
            raise
        return self.observed

    def close(self) -> None:
        """Kill the ranks, if they still run; what they printed until then counts."""
        self._collect(self._run.close("You stopped the run."))

    @property
    def observed(self) -> Observed:
        seen, ranks = self._run.seen, range(self._run.ranks)
        printed = {rank: tidy("\n".join(o.text for o in self.outputs if o.rank == rank)) for rank in ranks}
        why, rank, advice = (seen.end.why, seen.end.rank, seen.end.advice) if seen.end else ("", None, "")
        first = seen.raised.get(rank) if rank is not None else None
        text = f"{first.error}: {first.message}" if first else ""
        return Observed(printed, text, seen.hung is not None, why, advice)


class CodeRun(_FollowedRun):
    """Code that runs on ranks on CPU, in a file that is called `name` where its lines are named.

    Code that asks for NCCL gets torch's error. With `diagnose`, what is observed has the advice of `ddpquiz run`, and
    the run ends where calls do not match. Call `read` until it is True; leaving the `with` kills what still runs.
    """

    def __init__(
        self, code: str, ranks: int, timeout: float, *, name: str = "proof.py", diagnose: bool = False
    ) -> None:
        self._folder = temporary_folder()
        script = Path(self._folder.name) / name
        script.write_text(code, encoding="utf-8")
        environment = {"TMPDIR": self._folder.name, **_AS_IN_NEWER_TORCH}
        request = Request(
            script,
            ranks=ranks,
            device="cpu",
            timeout=timeout,
            diagnose=diagnose,
            environment=environment,
            replaces_nccl=False,
        )
        try:
            super().__init__(request)
        except UserError as error:
            raise UserError(str(error).replace(str(script), name)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._folder.cleanup()


def close(got: float, right: float, tolerance: float) -> bool:
    """Whether a number counts as the answer; `tolerance` is relative."""
    return abs(got - right) <= max(tolerance * abs(right), 1e-9 * max(1.0, abs(right)))


def _flat(text: str) -> str:
    """A text without spaces, and with one kind of quotes."""
    return "\n".join("".join(line.split()) for line in text.strip().splitlines()).replace('"', "'")


def _last_number(text: str) -> float | None:
    words = text.replace(",", "").split()
    try:
        return parse_number(words[-1]) if words else None
    except ValueError:
        return None
