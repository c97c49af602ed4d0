"""Checks proofs and listings of lessons against answer keys: each must confirm the right answer, and no other."""

import itertools
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ddpquiz.curriculum.concept import Concept, Kind, Listing, Question
from ddpquiz.curriculum.listing import changed_code
from ddpquiz.curriculum.posed_question import Posed, pose_with
from ddpquiz.curriculum.question_code import fixed_script, without_line
from ddpquiz.ranks.content_runner import (
    ProofRunner,
    agrees,
    all_close,
    answers,
    close,
    code_of,
    inserts,
    is_fixed,
    may_hang,
    observe_listing,
    prints,
    tidy,
)

_DRAWS = 3
_UNEXPECTED = {  # what an option does that is right or not, and that runs as code or predicts what is observed
    (True, True): "does not do what the proof says",
    (True, False): "does not predict what was observed",
    (False, True): "does what the proof says of the right one",
    (False, False): "predicts what was observed",
}


@dataclass(frozen=True, slots=True)
class Proven:
    """The outcome of one proof: its complaints, none if it confirms only the right answer, and its duration."""

    question: Question
    complaints: tuple[str, ...]
    seconds: float


def prove_all(questions: Iterable[Question], demos: Path | None = None) -> Iterator[Proven]:
    """Run every proof of `questions`, one after the other, and yield the outcomes."""
    lab = ProofRunner(demos)
    for question in questions:
        if question.proof:
            began = time.monotonic()
            found = tuple(_complaints(question, lab))
            yield Proven(question, found, time.monotonic() - began)


@dataclass(frozen=True, slots=True)
class RunListing:
    """The outcome of the listing in a step of a concept: what it does not show as it should, and its duration."""

    concept: Concept
    step: int  # from 0
    complaints: tuple[str, ...]
    seconds: float


def run_listings(concepts: Iterable[Concept]) -> Iterator[RunListing]:
    """Run every listing of lessons, as it is and with its line changed, and yield the outcomes."""
    for concept in concepts:
        for number, step in enumerate(concept.steps):
            if step.listing:
                began = time.monotonic()
                found = tuple(_unlike(concept, step.listing))
                yield RunListing(concept, number, found, time.monotonic() - began)


def _unlike(concept: Concept, listing: Listing) -> Iterator[str]:
    seen = observe_listing(concept.id, listing, listing.code)
    if not seen.matches(listing.shows):
        yield f"the listing does not show what `prints` says: {seen.unexpected}"
    if change := listing.change:
        seen = observe_listing(concept.id, listing, changed_code(listing.code, change.line, change.to))
        if not seen.matches(change.shows):
            yield f"the listing with its line changed does not show what `prints` says: {seen.unexpected}"


def _complaints(question: Question, lab: ProofRunner) -> Iterator[str]:
    """Yield what is wrong with a proof: it does not confirm the right answer, or it confirms another one."""
    match question.kind:
        case Kind.NUMBER:
            yield from _number(question, lab)
        case Kind.ORDER:
            yield from _order(question, lab)
        case Kind.OUTPUT:
            yield from _output(question, lab)
        case Kind.SPOT:
            yield from _spot(question, lab)
        case _:
            yield from _options(question, lab)


def _options(question: Question, lab: ProofRunner) -> Iterator[str]:
    each_runs = inserts(question)
    seen = None if each_runs else lab.observe(_posed(question))
    for option in question.options:
        shown = seen or lab.observe(_posed(question), code_of(option))
        confirmed = answers(question, shown) if each_runs else agrees(question, option, shown)
        if confirmed != option.right:
            verdict = "right" if option.right else "wrong"
            yield f"the {verdict} answer {option.text!r} {_UNEXPECTED[option.right, each_runs]}: {shown.unexpected}"


def _number(question: Question, lab: ProofRunner) -> Iterator[str]:
    unseen = set(question.traps)
    for values in draws(question):
        posed = _posed(question, values)
        seen = lab.observe(posed)
        right, *wrong = posed.numbers
        if not all_close(right, question.tolerance, seen):
            drawn = ", ".join(f"{name} = {value}" for name, value in values.items())
            yield f"{f'with {drawn} ' * bool(drawn)}the answer is {right:g}, but {seen.unexpected}"
        traps = zip(question.traps, wrong, strict=True)
        unseen -= {trap for trap, value in traps if not close(value, right, question.tolerance)}
    for trap in unseen:
        yield f"the trap {trap.answer!r} gives the right answer in every draw"


def _order(question: Question, lab: ProofRunner) -> Iterator[str]:
    if not inserts(question):
        steps = tidy("\n".join(line.shows or "" for line in question.lines))
        seen = lab.observe(_posed(question))
        if seen.failed or seen.hung or any(text != steps for text in seen.printed.values() if text):
            yield f"the steps {steps!r} are not what was observed: {seen.unexpected}"
        return
    lines = [line.text for line in question.lines]
    seen = lab.observe(_posed(question), "\n".join(lines))
    if not answers(question, seen):
        yield f"the lines in their order do not give what the proof says: {seen.unexpected}"
    for at in range(len(lines) - 1):
        swapped = [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]
        if answers(question, lab.observe(_posed(question), "\n".join(swapped))):
            yield f"lines {at + 1} and {at + 2} can change places, so the order is not the only right one"


def _output(question: Question, lab: ProofRunner) -> Iterator[str]:
    seen = lab.observe(_posed(question))
    if not prints(question, question.answer, seen):
        yield f"the answer is {question.answer!r}, but {seen.unexpected}"
    for trap in question.traps:
        if prints(question, trap.answer, seen):
            yield f"the trap {trap.answer!r} is what is printed"


def _spot(question: Question, lab: ProofRunner) -> Iterator[str]:
    """The script shows the fault, with the fix it does not, and without another line that is named it still does."""
    broken, fixed = lab.observe(_posed(question), question.code), lab.observe(_posed(question), fixed_script(question))
    if not answers(question, broken):
        yield f"the script as it is does not show what the proof says: {broken.unexpected}"
    if not is_fixed(question, fixed):
        yield f"the script with the fix does not show what the proof says: {fixed.unexpected}"
    if may_hang(question, question.code):
        return  # each run would take a second
    for trap in question.traps:
        script = without_line(question, trap.answer)
        if script is not None and is_fixed(question, lab.observe(_posed(question), script)):
            yield f"without the line {trap.answer!r} the script is right too, so that line could be at fault"


def draws(question: Question) -> list[dict[str, str]]:
    """Return up to three draws of a question's variables, always the same ones."""
    every = list(itertools.product(*(variable.values for variable in question.variables)))
    names = [variable.name for variable in question.variables]
    chosen = random.Random(question.key).sample(every, min(_DRAWS, len(every)))  # noqa: S311
    return [dict(zip(names, values, strict=True)) for values in chosen]


def _posed(question: Question, values: Mapping[str, str] | None = None) -> Posed:
    return Posed(question, {}, ()) if values is None else pose_with(question, values)
