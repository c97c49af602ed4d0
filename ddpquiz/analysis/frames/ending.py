"""How a run ended: its last line, its claims with their verdicts, and what went wrong with the ranks."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ddpquiz.analysis.events import ClaimText, Hung, Output, RankPosition
from ddpquiz.analysis.formatting import format_ranks, plural
from ddpquiz.analysis.frames.piece import Piece
from ddpquiz.analysis.run_state import ClaimVerdict, RunState
from ddpquiz.analysis.source_text import frames_in

INSTALLED = re.compile(r"[/\\](lib[/\\]python3|site-packages|dist-packages|ddpquiz[/\\]ranks)[/\\.]|^<")
TORCH_LOG = re.compile(r"(\[rank\d+\]:)?\[[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ \S+:\d+\] ")  # as torch's C++ code logs
MARKS: dict[str, Piece] = {"proven": ("✓", "good"), "broken": ("✗", "bad"), "not reached": ("·", "quiet")}

ShownPath = Callable[[str], str]  # how a path is written for the reader


class ClaimLine(NamedTuple):
    """A verdict with its ranks, and the claim."""

    verdict: Piece
    text: Piece


class HungRank(NamedTuple):
    """Where a rank stands when nothing moves."""

    rank: int
    waits_in: Piece
    place: str


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong: the traceback of the rank that failed first, or which rank waits where.

    `paths` are the calls that led each rank to where it stands.
    """

    rank: int | None = None
    traceback: str = ""
    hung_ranks: tuple[HungRank, ...] = ()
    paths: tuple[tuple[int, str], ...] = ()


def result(state: RunState) -> tuple[Piece, ...]:
    """Return the last line of a run: whether it ended well, after how long, and with how many claims proven."""
    end = state.end
    if end is None:
        return ()
    claims = ""
    if end.claims and not state.only_broken_claims:
        others = end.claims - end.proven
        claims = f" · {end.proven} of {end.claims} claims proven"
        if end.ok and others:
            claims = f" · {plural(end.proven, 'claim')} proven; {others} need{'s' * (others == 1)} other options"
    if end.ok:
        return ("done", "good"), (f" in {end.time:.2f} s{claims}", "")
    mend = f"\n{end.mend}" if end.why and end.mend else ""
    return (end.why, "bad"), (f"{mend}\nended after {end.time:.2f} s{claims}", "")


def describe_failure(state: RunState, path: ShownPath = str) -> Failure | None:
    """Return what went wrong; None if nothing did, or if the last line says it all."""
    if state.hung:
        return _hang(state.hung, state, path)
    if state.end is None or state.end.rank is None:
        return None
    rank = state.end.rank
    raised, exited = state.raised.get(rank), state.exited.get(rank)
    if raised and raised.traceback and raised.error != "SystemExit":
        return Failure(rank, raised.traceback.rstrip())
    if exited and exited.stack:
        return Failure(rank, paths=((rank, " > ".join(calls(exited.stack, path))),))
    return None


def _hang(hung: Hung, state: RunState, path: ShownPath) -> Failure:
    hung_ranks = tuple(
        HungRank(each.rank, _waits(each, state), f"{path(each.file)}:{each.line}" if each.line else "-")
        for each in hung.ranks
    )
    led = {each.rank: calls(each.stack, path) for each in hung.ranks}
    deep = any(len(each) > 1 for each in led.values())
    return Failure(
        hung_ranks=hung_ranks, paths=tuple((rank, " > ".join(each)) for rank, each in led.items()) if deep else ()
    )


def _waits(rank: RankPosition, state: RunState) -> Piece:
    """Return what a rank waits in, or why it waits in nothing."""
    if rank.waits_in and rank.stack:
        return rank.waits_in, ""
    exited = state.exited.get(rank.rank)
    if exited and state.hung and exited.time < state.hung.time and not exited.stopped:
        return f"nothing: it has ended with status {exited.status}", "warn"
    return "not communicating" if rank.stack else "does not answer", "warn"


def calls(stack: str, path: ShownPath = str) -> list[str]:
    """Return the calls that led a rank to where it stands, the outermost first, without those of installed code."""
    frames = frames_in(stack)
    if not stack.startswith("Traceback"):
        frames.reverse()
    return [f"{path(file)}:{line} {name}" for file, line, name in frames if name and not INSTALLED.search(file)]


def matters(line: Output, state: RunState) -> bool:
    """Whether a line belongs into the picture; the log of its rank has it in any case.

    Messages of torch's C++ code do not while nothing has failed. When a rank has failed, the standard error of the
    others does not, nor does the line that the last sentence repeats.
    """
    failed = None if state.end is None or state.hung else state.end.rank
    if line.stream == "stdout":
        return True
    if failed is None:
        return not TORCH_LOG.match(line.text)
    return line.rank == failed and state.end is not None and line.text != state.end.why


def describe_claims(state: RunState) -> list[ClaimLine]:
    """Return verdicts and claims; those that a run did not reach come last, once it has ended well."""
    ended_well = state.end is not None and state.end.ok
    verdicts = sorted(shown_verdicts(state), key=lambda each: each[1] == "not reached")
    return [_claim(*each, len(state.all_ranks)) for each in verdicts if ended_well or each[1] != "not reached"]


def claims_to_come(state: RunState) -> str:
    """Return how many claims a run that goes on may still prove, as text; empty if the number is 0."""
    left = 0 if state.end else len(shown_verdicts(state)) - len(describe_claims(state))
    return to_come(left) if left else ""


def to_come(count: int) -> str:
    """Return how many claims may still be proven, as text."""
    return f"{plural(count, 'claim')} to come"


def shown_verdicts(state: RunState) -> list[ClaimVerdict]:
    """Return the claims that are shown: all of a demo, and the broken ones of any other script."""
    return [each for each in state.verdicts() if each[1] == "broken" or not state.only_broken_claims]


def _claim(claim: ClaimText, verdict: str, ranks: list[int], of: int) -> ClaimLine:
    mark, tone = MARKS[verdict]
    match verdict:
        case "proven":
            where = format_ranks(ranks) if len(ranks) < of else "every rank" if of > 1 else "the rank"
        case "broken":
            where = format_ranks(ranks)
        case _:
            where = "not this run"
    return ClaimLine((f"{mark} {where}", tone), (claim.text, "quiet" if verdict == "not reached" else ""))
