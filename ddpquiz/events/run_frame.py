"""What each rank holds: what it does, what it brought to its last operation and got from it, and labelled values."""

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ddpquiz.events.collective import Collective
from ddpquiz.events.event import ANYBODY, JOIN, POINT_TO_POINT, ClaimText, Hung, Output, RankStack
from ddpquiz.events.formatting import (
    format_ranks,
    format_seconds,
    format_shapes,
    frames_in,
    list_ranks,
    plural,
    source_line,
)
from ddpquiz.events.run_state import ClaimVerdict, RunState
from ddpquiz.events.timeline import Span

# What each rank holds: what it does, what it brought to its last operation and got from it, and labelled values.

DIGITS = (4, 3, 2)  # digits of a number in a tensor: fewer where there is no room
DONE = "done"  # an operation is over, and its result is not known
_NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+e[-+]?\d+")  # with a point or an exponent; others are whole
_BETWEEN = re.compile(r"\]+, \[+")


class LabelledValue(NamedTuple):
    """The last value of a label on a rank, and whether it is new."""

    text: str
    is_new: bool


@dataclass(frozen=True, slots=True)
class RankColumn:
    """What a rank does, and the values or shapes of its last operation; None where there is nothing to show."""

    rank: int
    doing: str
    brings: str | None
    gets: str | None


def describe_rank(state: RunState, rank: int) -> RankColumn:
    """Return what a rank does, and what its last operation was about."""
    return RankColumn(rank, state.doing(rank), brings(state, rank), gets(state, rank))


def describe_label(state: RunState, label: str, since: float) -> dict[int, LabelledValue]:
    """Return the last value of each rank that has one; it is new if it came after `since` and differs."""
    values = state.rows[label]
    return {
        rank: LabelledValue(values[rank][-1], state.changed(label, rank, since))
        for rank in state.all_ranks
        if values.get(rank)
    }


def brings(state: RunState, rank: int) -> str | None:
    """Return what a rank gave to its last operation: numbers, or the shapes of larger tensors."""
    brought = state.brought.get(rank)
    if brought is None or not brought.operation.dtype:
        return None
    operation = brought.operation
    if operation.op in ("recv", "scatter") and operation.peer != rank and not brought.before:
        return None  # its shape is the room for what it receives
    return " | ".join(brought.before) or f"{format_shapes(operation.shapes)} {operation.dtype}"


def gets(state: RunState, rank: int) -> str | None:
    """Return what the last operation of a rank left there, or at least that it is over."""
    if got := state.got.get(rank):
        return " | ".join(got)
    brought = state.brought.get(rank)
    calls = (each.calls[rank] for each in reversed(state.timeline.collectives) if rank in each.calls)
    last = next((call for call in calls if brought and call.number == brought.number), None)
    return DONE if last and last.ended is not None and not last.failed else None


def has_numbers(text: str) -> bool:
    """Return True if a text holds numbers that can be shortened."""
    return _NUMBER.search(text) is not None


def shortened(tensor: str, digits: int = DIGITS[0]) -> str:
    """Return the text of tensors with at most `digits` digits a number, and a semicolon between rows."""
    text = _NUMBER.sub(lambda found: f"{float(found[0]):.{digits}g}", tensor)
    return _BETWEEN.sub("; ", text).replace(",", "").replace("[", "").replace("]", "")


# Ranks over time: what each did when, and which part of the run is worth showing.

SHORTEST = 0.001  # seconds


@dataclass(frozen=True, slots=True)
class Lanes:
    """The spans of each rank, and the time from when the first rank communicates or prints to when the last one does.

    Before and after that, processes only start and end.
    """

    spans: dict[int, list[Span]]
    first: float
    last: float

    @property
    def communicate(self) -> bool:
        """Whether any rank did anything but computing."""
        return any(span.kind != "compute" for spans in self.spans.values() for span in spans)


def describe_lanes(state: RunState, now: float) -> Lanes | None:
    """Return what each rank did up to now; None if none of them has started."""
    every = {rank: state.timeline.spans(rank, now) for rank in state.all_ranks if rank in state.timeline.ranks}
    every = {rank: spans for rank, spans in every.items() if spans}
    times = [time for rank, spans in every.items() for time in _moments(state, rank, spans)]
    starts = times or [spans[0].start for spans in every.values()]
    if not starts:
        return None
    first = min(starts)
    return Lanes(every, first, max([*times, first + SHORTEST]))


def _moments(state: RunState, rank: int, spans: list[Span]) -> list[float]:
    """Return when a rank first and last communicated or printed, and when it failed."""
    calls = [span for span in spans if span.kind != "compute"]
    lines = state.log.get(rank, ())
    raised, exited = state.raised.get(rank), state.exited.get(rank)
    failed = raised or (exited if exited and exited.status and not exited.stopped else None)
    ends = [calls[0].start, calls[-1].end] if calls else []
    return [*ends, *([lines[0].time, lines[-1].time] if lines else []), *([failed.time] if failed else [])]


# Where the ranks are in the script, as a mark beside each line.

INSIDE, LAST, GONE = "▶", "▷", "■"
LEGEND = f"{INSIDE} waits in this line · {LAST} was last seen here · {GONE} has ended"


def ranks_by_line(state: RunState) -> dict[int, list[int]]:
    """Return the ranks that were last seen in each line of the script."""
    at: dict[int, list[int]] = {}
    for rank in sorted(state.places):
        line = state.in_script(rank)
        if line is not None:
            at.setdefault(line, []).append(rank)
    return at


def elsewhere(state: RunState) -> list[tuple[int, str, int]]:
    """Return rank, file and line of those that were last seen outside the script."""
    return [
        (rank, file, line)
        for rank, (file, line) in sorted(state.places.items())
        if line and state.in_script(rank) is None
    ]


def marks(state: RunState) -> dict[int, str]:
    """Return the text that stands beside each line of the script in which ranks are."""
    return {line: _marks(ranks, state) for line, ranks in ranks_by_line(state).items()}


def _marks(ranks: list[int], state: RunState) -> str:
    kinds: dict[str, list[int]] = {}
    stuck = {each.rank for each in state.hung.ranks if each.waits_in} if state.hung else set()
    for rank in ranks:
        gone = rank in state.exited and not state.exited[rank].stopped
        kind = GONE if gone else INSIDE if state.blocked_in(rank) or rank in stuck else LAST
        kinds.setdefault(kind, []).append(rank)
    return " ".join(f"{kind} {list_ranks(kinds[kind])}" for kind in (INSIDE, LAST, GONE) if kind in kinds)


# A text with its tone, the smallest part of a frame.

Tone = Literal["", "accent", "warn", "good", "bad", "quiet", "code", "head"]
Piece = tuple[str, Tone]  # the words alone say everything; a tone only adds a colour or a weight


# The operation that is under way, in a line: which ranks have arrived, and which are awaited.

_WRAPS_MODEL = re.compile(r"\b(DistributedDataParallel|DDP)\(")
_VARIANT = re.compile(r"_(into_)?(tensor|single)$")  # names of one operator in different versions of torch
_OF_LIBRARY = "called by a library"
_PURPOSES = {"all_gather": "DDP compares the models", "broadcast": "DDP copies rank 0's model"}
LONG = 0.001  # seconds; a rank that comes last by less is not mentioned


@dataclass(frozen=True, slots=True)
class OperationLine:
    """What runs, and after it what may be left out where there is no room."""

    pieces: tuple[Piece, ...]
    more: tuple[str, ...] = ()


def describe_current(state: RunState, now: float, *, newest: bool = False) -> OperationLine:
    """Return what runs at `now`, or what ran last.

    Of several operations that run, that is the one which most ranks have called and others have not, or with `newest`
    the one that was called last.
    """
    joining = [rank for rank in state.all_ranks if state.waits_in(rank) == JOIN]
    if joining:
        late = [rank for rank in state.all_ranks if rank not in joining and rank not in state.joined]
        pieces = _pieces([JOIN], joining, late, state)
        return OperationLine(pieces if late else (*pieces, (", making the group", "")))
    if current := state.timeline.current():
        shown = max(current, key=_called_last if newest else _called_by_most)
        if shown.differs:
            return OperationLine(_different(shown, now))
        others = [f"{len(current) - 1} more under way"] if len(current) > 1 else []
        called = {call.operation.op for call in shown.calls.values()}  # a send, its receive, or both
        what = [shown.op if len(called) > 1 else called.pop(), *between(shown, state.ranks)]
        pieces = _pieces(what, shown.arrived, shown.awaited, state, now - _since(shown))
        return OperationLine(pieces, (*purpose(shown), *about(shown), *others))
    last = next((each for each in reversed(state.timeline.collectives) if each.ended is not None), None)
    if last is None:
        none = "no communication yet"
        return OperationLine(((f"the group is made, {none}" if state.joined else none, "quiet"),))
    more = (*between(last, state.ranks), *outcome(last), *purpose(last), *about(last))
    return OperationLine(((f"last: {last.op}", "quiet"),), more)


def between(collective: Collective, of: int) -> list[str]:
    """Return between which ranks an operation is, if not all `of` ranks take part."""
    if collective.op in POINT_TO_POINT:
        source, to = ("any rank" if rank == ANYBODY else str(rank) for rank in collective.members)
        return [f"{source} → {to}"]
    if len(collective.members) == of:
        return []
    return [format_ranks(collective.members) + (" alone" if len(collective.members) == 1 else "")]


def purpose(collective: Collective) -> list[str]:
    """Return that a library makes this call, and what for if that is known; nothing if the script makes it itself."""
    operation = collective.operation
    line = source_line(operation.file, operation.line)
    if not line or operation.bucket is not None or _VARIANT.sub("", operation.op) in line:
        return []
    return [_PURPOSES.get(operation.op, _OF_LIBRARY) if _WRAPS_MODEL.search(line) else _OF_LIBRARY]


def about(collective: Collective) -> list[str]:
    """Return the root, the bucket and the size of an operation, as far as it has them."""
    operation = collective.operation
    shapes = operation.shapes[:1] if collective.op == "scatter" else operation.shapes  # the root brings every part
    numbers = plural(sum(map(math.prod, shapes)), "number") if operation.dtype else ""
    what = f"{operation.reduce} of {numbers}" if operation.reduce and numbers else numbers
    bucket = "" if operation.bucket is None else f"bucket {operation.bucket}"
    peer = operation.peer
    direction = "to" if collective.op.startswith(("reduce", "gather")) else "from"
    root = "" if peer is None or collective.op in POINT_TO_POINT else f"{direction} {peer}"
    return [part for part in (root, bucket, what) if part]


def outcome(collective: Collective) -> list[str]:
    """Return which rank came late, and how long the operation lasted."""
    waited = max(collective.waits.values(), default=0.0)
    late = waited >= LONG and collective.entered_last is not None
    came = [f"rank {collective.entered_last} came {format_seconds(waited)} late"] if late else []
    if collective.seconds is None:
        return came
    return [*came, f"{'then ' if late else ''}took {format_seconds(collective.seconds)}"]


def _pieces(
    what: list[str], arrived: Collection[int], awaited: Collection[int], state: RunState, for_seconds: float = 0.0
) -> tuple[Piece, ...]:
    op, *between = what
    head: list[Piece] = [(op, "accent"), *((f" · {part}", "") for part in between)]
    lasting = f" {for_seconds:.1f} s" if for_seconds >= 0.1 else ""
    if not awaited:
        return (*head, (f" · all arrived{' for' * bool(lasting)}{lasting}", ""))
    gone = [rank for rank in awaited if rank in state.exited]
    ended = f" ({'it has' if len(gone) == 1 else f'{list_ranks(gone)} have'} ended)" if gone else ""
    return (
        *head,
        (f" · {_named(arrived)} arrived, ", ""),
        (f"waiting{lasting} for {_named(awaited)}{ended}", "warn"),
    )


def _named(ranks: Collection[int]) -> str:
    return "any rank" if ANYBODY in ranks else format_ranks(ranks)


def _different(collective: Collective, now: float) -> tuple[Piece, ...]:
    """Return that members are in different operations, none of which can go on; the fewest ranks come first."""
    ranks: dict[str, list[int]] = {}
    for rank in collective.arrived:
        ranks.setdefault(collective.calls[rank].operation.op, []).append(rank)
    sides = sorted(ranks.items(), key=lambda side: len(side[1]))
    calls = "".join(f" · {op}: {format_ranks(callers)}" for op, callers in sides)
    return ("calls differ", "warn"), (f"{calls} for {now - _since(collective):.1f} s", "")


def _called_by_most(collective: Collective) -> tuple[bool, int, float]:
    return len(collective.awaited) > 0, len(collective.arrived), -_since(collective)


def _called_last(collective: Collective) -> float:
    return max(call.issued for call in collective.calls.values())


def _since(collective: Collective) -> float:
    return min(call.issued for call in collective.calls.values())


# How a run ended: its last line, its claims with their verdicts, and what went wrong with the ranks.

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
    advice = f"\n{end.advice}" if end.why and end.advice else ""
    return (end.why, "bad"), (f"{advice}\nended after {end.time:.2f} s{claims}", "")


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


def _waits(rank: RankStack, state: RunState) -> Piece:
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


# A frame of a run as data: everything that a terminal or a page draws of it, and nothing about how.


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFrame:
    """What a run shows at one moment.

    `remarks` are restarts and notes, `lines` those that ranks printed without a label, `marks` stand beside lines of
    the script, and `elsewhere` says which ranks are in other files. `values` are by label and rank.
    """

    remarks: tuple[str, ...]
    columns: tuple[RankColumn, ...]
    values: dict[str, dict[int, LabelledValue]]
    lines: tuple[Output, ...]
    operation: OperationLine
    claims: tuple[ClaimLine, ...]
    claims_to_come: str
    marks: dict[int, str]
    elsewhere: tuple[str, ...]
    failure: Failure | None
    result: tuple[Piece, ...]


def describe_frame(state: RunState, since: float, path: ShownPath = str) -> RunFrame:
    """Return what a run shows at the time of its last event.

    Values that came after `since` are new; at the end of a run none are, since the last frame is of the whole run.
    """
    since = math.inf if state.end else since
    return RunFrame(
        remarks=remarks(state),
        columns=tuple(describe_rank(state, rank) for rank in state.all_ranks),
        values={label: describe_label(state, label, since) for label in state.rows},
        lines=tuple(line for line in state.lines if matters(line, state)),
        operation=describe_current(state, state.time, newest=True),
        claims=tuple(describe_claims(state)),
        claims_to_come=claims_to_come(state),
        marks=marks(state),
        elsewhere=tuple(f"rank {rank} is in {path(file)}:{line}" for rank, file, line in elsewhere(state)),
        failure=describe_failure(state, path),
        result=result(state),
    )


def remarks(state: RunState) -> tuple[str, ...]:
    """Return how often the ranks were restarted, and the notes of a run."""
    return (*([restarts(state)] if state.restart else []), *state.notes)


def restarts(state: RunState) -> str:
    """Return how often the ranks were restarted, and in which processes they run now."""
    processes = " ".join(str(pid) for _, pid in sorted(state.pids.items()))
    of = f" of {state.began.restarts}" if state.began else ""
    return f"restart {state.restart}{of} · now processes {processes}"
