"""A frame of a run: everything that a terminal or a page shows of it at one moment, in words, and nothing about how.

`describe_frame` is the one way from a `RunState` to what is shown; the drawing decides only where it stands and in
which colors.
"""

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ddpquiz.events.collective import Collective
from ddpquiz.events.event import JOIN, Began, ClaimText, Hung, Output, RankStack
from ddpquiz.events.formatting import format_ranks, format_seconds, format_shapes, list_ranks
from ddpquiz.events.operation import ANY_SOURCE, POINT_TO_POINT
from ddpquiz.events.run_state import TORCH_LOG, ClaimVerdict, RunState
from ddpquiz.events.source_text import frames_in, source_line
from ddpquiz.events.timeline import Span
from ddpquiz.plural import plural

DIGITS = (4, 3, 2)  # digits of a number in a tensor: fewer where there is no room
_FRESH = 0.5  # seconds for which a value counts as new while a run goes on
DONE = "done"  # an operation is over, and its result is not known
INSIDE, LAST, GONE = "▶", "▷", "■"  # where ranks are in the script
LEGEND = f"{INSIDE} waits in this line · {LAST} was last seen here · {GONE} has ended"

Tone = Literal["", "accent", "warn", "good", "bad", "quiet", "code", "head"]
Piece = tuple[str, Tone]  # the words alone say everything; a tone only adds a color or a weight
ShownPath = Callable[[str], str]  # how a path is written for the reader

MARKS: dict[str, Piece] = {"proven": ("✓", "good"), "broken": ("✗", "bad")}


@dataclass(frozen=True, slots=True)
class RankColumn:
    """What a rank does, and the values or shapes of its last operation; None where there is nothing to show.

    `input` is what the rank gave to that operation, `output` what the operation left there, or DONE.
    """

    rank: int
    doing: str
    input: str | None
    output: str | None


class LabeledValue(NamedTuple):
    """The last value of a label on a rank, whether it is new, when it was printed, and all values so far.

    `values` belongs to the state of the run: who keeps a frame while the run goes on finds more in it.
    """

    text: str
    is_new: bool
    time: float
    values: Sequence[str]


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


@dataclass(frozen=True, slots=True)
class OperationLine:
    """What runs, and after it what may be left out where there is no room."""

    pieces: tuple[Piece, ...]
    more: tuple[str, ...] = ()


class ClaimLine(NamedTuple):
    """A verdict with its ranks, and the claim."""

    verdict: Piece
    text: str


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


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFrame:
    """What a run shows at `time`, in seconds.

    `began` is None until it is known what runs, `ended_well` until the run has ended, and `lanes` until a rank has
    started. `values` are by label and rank, and `lines` are those that ranks printed without a label. `marks` stand
    beside lines of the script, most ranks are in line `current`, and `elsewhere` says which ranks are in other files.
    """

    time: float
    began: Began | None
    ended_well: bool | None
    restarts: str
    notes: tuple[str, ...]
    columns: tuple[RankColumn, ...]
    values: dict[str, dict[int, LabeledValue]]
    lines: tuple[Output, ...]
    lanes: Lanes | None
    operation: OperationLine
    claims: tuple[ClaimLine, ...]
    claims_to_come: str
    claims_counted: tuple[Piece, ...]
    marks: dict[int, str]
    current: int | None
    elsewhere: tuple[str, ...]
    failure: Failure | None
    result: tuple[Piece, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(column.rank for column in self.columns)


def describe_frame(
    state: RunState,
    path: ShownPath = str,
    *,
    now: float | None = None,
    since: float | None = None,
    lanes: bool = True,
) -> RunFrame:
    """Describe a run as it is `now`, or else at the time of its last event, when nothing is new.

    What came in the last half second is new; what came after `since`, if the run is gone through step by step. Of
    several operations that run, a step tells of the one that was called last, and any other frame of the one that most
    ranks have called and others have not. Without `lanes` it has none: they cost time that grows with the run.
    """
    is_step = since is not None
    if since is None:
        since = math.inf if now is None else now - _FRESH
    since = math.inf if state.end else since  # the last frame is of the whole run
    now = state.time if now is None else now
    verdicts = _shown_verdicts(state)
    claims = _claims(verdicts, state)
    places = _ranks_by_line(state)
    return RunFrame(
        time=now,
        began=state.began,
        ended_well=state.end.ok if state.end else None,
        restarts=_restarts(state),
        notes=tuple(state.notes),
        columns=tuple(_column(state, rank) for rank in state.all_ranks),
        values={label: _values(state, label, since) for label in state.rows},
        lines=_lines(state),
        lanes=_lanes(state, now) if lanes else None,
        operation=_current_operation(state, now, newest=is_step),
        claims=claims,
        claims_to_come="" if state.end else _to_come(len(verdicts) - len(claims)),
        claims_counted=_counted(verdicts, state),
        marks={line: _marks(ranks, state) for line, ranks in places.items()},
        current=max(places, key=lambda line: (len(places[line]), line), default=None),
        elsewhere=_elsewhere(state, path),
        failure=_failure(state, path),
        result=_result(state),
    )


def has_numbers(text: str) -> bool:
    """Whether a text holds numbers that can be shortened."""
    return _NUMBER.search(text) is not None


def shortened(tensor: str, digits: int = DIGITS[0]) -> str:
    """Write tensors with at most `digits` digits a number, and a semicolon between rows."""
    text = _NUMBER.sub(lambda number: f"{float(number[0]):.{digits}g}", tensor)
    return _BETWEEN_ROWS.sub("; ", text).replace(",", "").replace("[", "").replace("]", "")


def describe_operation(collective: Collective, of: int) -> tuple[str, ...]:
    """Say of an operation of a run of `of` ranks who takes part, what it moves, who came late, and how long it took."""
    return (*_between(collective, of), *_about(collective), *_outcome(collective))


def _restarts(state: RunState) -> str:
    """Say how often the ranks were restarted, and in which processes they run now; empty if they never were."""
    if not state.restart:
        return ""
    processes = " ".join(str(pid) for _, pid in sorted(state.pids.items()))
    of = f" of {state.began.restarts}" if state.began else ""
    return f"restart {state.restart}{of} · now processes {processes}"


# What each rank holds

_NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+e[-+]?\d+")  # with a point or an exponent; others are whole
_BETWEEN_ROWS = re.compile(r"\]+, \[+")


def _column(state: RunState, rank: int) -> RankColumn:
    return RankColumn(rank, state.doing(rank), _input(state, rank), _output(state, rank))


def _input(state: RunState, rank: int) -> str | None:
    """What a rank gave to its last operation: numbers, or the shapes of larger tensors."""
    call = state.last_call.get(rank)
    if call is None or not call.operation.dtype:
        return None
    operation = call.operation
    if operation.op in ("recv", "scatter") and operation.peer != rank and not call.before:
        return None  # its shape is the room for what it receives
    return " | ".join(call.before) or f"{format_shapes(operation.shapes)} {operation.dtype}"


def _output(state: RunState, rank: int) -> str | None:
    """What the last operation of a rank left there, or at least that it is over."""
    if result := state.last_result.get(rank):
        return " | ".join(result)
    last_call = state.last_call.get(rank)
    if last_call is None:
        return None
    calls = (collective.calls[rank] for collective in reversed(state.timeline.collectives) if rank in collective.calls)
    call = next((call for call in calls if call.number == last_call.number), None)
    return DONE if call and call.ended is not None and not call.failed else None


def _values(state: RunState, label: str, since: float) -> dict[int, LabeledValue]:
    """The last value of each rank that has one; it is new if it came after `since` and differs."""
    by_rank, printed_at = state.rows[label], state.printed_at[label]
    return {
        rank: LabeledValue(values[-1], state.changed(label, rank, since), printed_at.get(rank, 0.0), values)
        for rank in state.all_ranks
        if (values := by_rank.get(rank))
    }


# Lines without a label


def _lines(state: RunState) -> tuple[Output, ...]:
    """The lines that belong into the picture; the log of its rank has each of them in any case.

    Messages of torch's C++ code do not while nothing has failed. When a rank has failed, the standard error of the
    others does not, nor does the line that the last sentence repeats.
    """
    end = state.end
    if end is None or end.rank is None or state.hung:
        return tuple(line for line in state.lines if line.stream == "stdout" or not TORCH_LOG.match(line.text))
    return tuple(
        line for line in state.lines if line.stream == "stdout" or (line.rank == end.rank and line.text != end.why)
    )


# Ranks over time: what each did when, and which part of the run is worth showing

_SHORTEST = 0.001  # seconds


def _lanes(state: RunState, now: float) -> Lanes | None:
    spans = {rank: state.timeline.spans(rank, now) for rank in state.all_ranks if rank in state.timeline.ranks}
    spans = {rank: of_rank for rank, of_rank in spans.items() if of_rank}
    times = [time for rank, of_rank in spans.items() for time in _moments(state, rank, of_rank)]
    starts = times or [of_rank[0].start for of_rank in spans.values()]
    if not starts:
        return None
    first = min(starts)
    return Lanes(spans, first, max([*times, first + _SHORTEST]))


def _moments(state: RunState, rank: int, spans: list[Span]) -> list[float]:
    """When a rank first and last communicated or printed, and when it failed."""
    calls = [span for span in spans if span.kind != "compute"]
    lines = state.log.get(rank, ())
    raised, exited = state.raised.get(rank), state.exited.get(rank)
    failed = raised or (exited if exited and exited.status and not exited.stopped else None)
    ends = [calls[0].start, calls[-1].end] if calls else []
    return [*ends, *([lines[0].time, lines[-1].time] if lines else []), *([failed.time] if failed else [])]


# Where the ranks are in the script, as a mark beside each line


def _ranks_by_line(state: RunState) -> dict[int, list[int]]:
    ranks: dict[int, list[int]] = {}
    for rank in sorted(state.places):
        line = state.in_script(rank)
        if line is not None:
            ranks.setdefault(line, []).append(rank)
    return ranks


def _elsewhere(state: RunState, path: ShownPath) -> tuple[str, ...]:
    places = [
        (rank, file, line)
        for rank, (file, line) in sorted(state.places.items())
        if line and state.in_script(rank) is None
    ]
    paths = {file: path(file) for file in {file for _, file, _ in places}}  # ranks are in few files
    return tuple(f"rank {rank} is in {paths[file]}:{line}" for rank, file, line in places)


def _marks(ranks: list[int], state: RunState) -> str:
    kinds: dict[str, list[int]] = {}
    stuck = {hung.rank for hung in state.hung.ranks if hung.waits_in} if state.hung else set()
    for rank in ranks:
        gone = rank in state.exited and not state.exited[rank].stopped
        kind = GONE if gone else INSIDE if state.blocked_in(rank) or rank in stuck else LAST
        kinds.setdefault(kind, []).append(rank)
    return " ".join(f"{kind} {list_ranks(kinds[kind])}" for kind in (INSIDE, LAST, GONE) if kind in kinds)


# The operation that is under way, in a line: which ranks have arrived, and which are awaited

_WRAPS_MODEL = re.compile(r"\b(DistributedDataParallel|DDP)\(")
_VARIANT = re.compile(r"_(into_)?(tensor|single)$")  # names of one operator in different versions of torch
_OF_LIBRARY = "called by a library"
_COMPARES, _COPIES, _ORDERS = "DDP compares the models", "DDP copies rank 0's model", "DDP sends the order of buckets"
_LONG = 0.001  # seconds; a rank that comes last by less is not mentioned


def _current_operation(state: RunState, now: float, *, newest: bool) -> OperationLine:
    """What runs at `now`, or what ran last."""
    joining = [rank for rank in state.all_ranks if state.communicates_in(rank) == JOIN]
    late = [rank for rank in state.all_ranks if rank not in joining and rank not in state.joined]
    current = state.timeline.current()
    if joining and (late or not current):  # ranks that are in the group already may call an operation before others
        pieces = _pieces([JOIN], joining, late, state)
        return OperationLine(pieces if late else (*pieces, (", forming the group", "")))
    if current:
        shown = max(current, key=_called_last if newest else _called_by_most)
        if shown.differs:
            return OperationLine(_different(shown, now))
        others = [f"{len(current) - 1} more under way"] if len(current) > 1 else []
        called = {call.operation.op for call in shown.calls.values()}  # a send, its receive, or both
        what = [shown.op if len(called) > 1 else called.pop(), *_between(shown, state.ranks)]
        pieces = _pieces(what, shown.arrived, shown.awaited, state, now - _since(shown))
        return OperationLine(pieces, (*_purpose(shown, state), *_about(shown), *others))
    last = next((each for each in reversed(state.timeline.collectives) if each.ended is not None), None)
    if last is None:
        none = "no communication yet"
        return OperationLine(((f"the group is formed, {none}" if state.joined else none, "quiet"),))
    more = (*_between(last, state.ranks), *_outcome(last), *_purpose(last, state), *_about(last))
    return OperationLine(((f"last: {last.op}", "quiet"),), more)


def _between(collective: Collective, of: int) -> list[str]:
    """Between which ranks an operation is, if not all `of` ranks take part."""
    if collective.op in POINT_TO_POINT:
        source, to = ("any rank" if rank == ANY_SOURCE else str(rank) for rank in collective.members)
        return [f"{source} → {to}"]
    if len(collective.members) == of:
        return []
    return [format_ranks(collective.members) + (" alone" if len(collective.members) == 1 else "")]


def _purpose(collective: Collective, state: RunState) -> list[str]:
    """Words for a call that a library makes, and its purpose if that is known; none if the script makes it itself."""
    operation = collective.operation
    line = source_line(operation.file, operation.line)
    if not line or operation.bucket is not None or _VARIANT.sub("", operation.op) in line:
        return []
    if _WRAPS_MODEL.search(line):
        return [_purpose_in_wrapping(collective)]
    return [_ORDERS if _sends_order_of_buckets(collective, state) else _OF_LIBRARY]


def _purpose_in_wrapping(collective: Collective) -> str:
    """Why DDP makes a call when it wraps a model.

    It gathers how many parameters each rank has, and then broadcasts their shapes, to compare them. Only what it
    broadcasts after that is the model itself; buffers may be integers, too.
    """
    operation = collective.operation
    before = next(iter(collective.calls.values())).after
    if operation.op == "broadcast":
        gathered = operation._replace(op="all_gather").place
        return _COMPARES if before is not None and before.place == gathered else _COPIES
    return _COMPARES if operation.op == "all_gather" else _OF_LIBRARY


def _sends_order_of_buckets(collective: Collective, state: RunState) -> bool:
    """Whether DDP, after its first backward pass, broadcasts in which buckets it reduces gradients from now on.

    These are two broadcasts of int32, and the first ones of a group in which buckets were reduced. Buffers of int32
    come before that, at the latest in the first forward pass, and again in each.
    """
    if _bucket_part(collective) != "order":
        return False
    known, group = state.timeline.collectives, (collective.group, collective.members)
    if len(known) < state.timeline.count:  # the first ones of the group may have left memory
        return False
    same = [each for each in known if (each.group, each.members) == group]
    before = [part for each in same if each.index < collective.index and (part := _bucket_part(each))]
    return before[:1] == ["gradients"] and before.count("order") <= 1


def _bucket_part(collective: Collective) -> Literal["gradients", "order", ""]:
    """Whether an operation reduces the gradients of a bucket, or may tell the order of buckets."""
    operation = collective.operation
    if operation.bucket is not None:
        return "gradients"
    return "order" if operation.op == "broadcast" and operation.dtype == "int32" else ""


def _about(collective: Collective) -> list[str]:
    """The root, the bucket and the size of an operation, as far as it has them."""
    operation = collective.operation
    shapes = operation.shapes[:1] if collective.op == "scatter" else operation.shapes  # the root brings every part
    numbers = plural(sum(map(math.prod, shapes)), "number") if operation.dtype else ""
    what = f"{operation.reduce} of {numbers}" if operation.reduce and numbers else numbers
    bucket = "" if operation.bucket is None else f"bucket {operation.bucket}"
    peer = operation.peer
    direction = "to" if collective.op.startswith(("reduce", "gather")) else "from"
    root = "" if peer is None or collective.op in POINT_TO_POINT else f"{direction} {peer}"
    return [part for part in (root, bucket, what) if part]


def _outcome(collective: Collective) -> list[str]:
    """Which rank came late, and how long the operation lasted."""
    waited = max(collective.waits.values(), default=0.0)
    late = waited >= _LONG and collective.entered_last is not None
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
    return "any rank" if ANY_SOURCE in ranks else format_ranks(ranks)


def _different(collective: Collective, now: float) -> tuple[Piece, ...]:
    """Words for members that are in different operations, none of which can go on; the fewest ranks come first."""
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


# How a run ended: its last line, its claims with their verdicts, and what went wrong with the ranks

_INSTALLED = re.compile(r"[/\\](lib[/\\]python3|site-packages|dist-packages|ddpquiz[/\\]ranks)[/\\.]|^<")


def _result(state: RunState) -> tuple[Piece, ...]:
    """How the run ended, after how long, and if well, with how many claims proven; empty while it goes on."""
    end = state.end
    if end is None:
        return ()
    if end.ok and end.why:
        return (end.why, ""), (f"\nrecorded up to {end.time:.2f} s", "")
    if end.ok:
        claims, others = "", end.claims - end.proven
        if end.claims and not state.only_broken_claims:
            untested = f" · {plural(end.proven, 'claim')} proven; {others} not tested with these options"
            claims = untested if others else f" · {end.proven} of {end.claims} claims proven"
        return ("done", "good"), (f" in {end.time:.2f} s{claims}", "")
    lesson = f"`ddpquiz learn {end.concept}` explains it." if end.concept and state.only_broken_claims else ""
    advice = f"\n{' '.join(filter(None, (end.advice, lesson)))}" if end.why and (end.advice or lesson) else ""
    return (end.why, "bad"), (f"{advice}\nended after {end.time:.2f} s", "")


def _failure(state: RunState, path: ShownPath) -> Failure | None:
    """What went wrong; None if nothing did, or if the last line says it all."""
    if state.hung:
        return _hang(state.hung, state, path)
    if state.end is None or state.end.rank is None:
        return None
    rank = state.end.rank
    raised, exited = state.raised.get(rank), state.exited.get(rank)
    if raised and raised.traceback and raised.error != "SystemExit":
        return Failure(rank, raised.traceback.rstrip())
    if exited and exited.stack:
        return Failure(rank, paths=((rank, " > ".join(_calls(exited.stack, path))),))
    return None


def _hang(hung: Hung, state: RunState, path: ShownPath) -> Failure:
    hung_ranks = tuple(
        HungRank(each.rank, _waits(each, state), f"{path(each.file)}:{each.line}" if each.line else "-")
        for each in hung.ranks
    )
    calls = {each.rank: _calls(each.stack, path) for each in hung.ranks}
    if all(len(of_rank) <= 1 for of_rank in calls.values()):
        return Failure(hung_ranks=hung_ranks)
    return Failure(hung_ranks=hung_ranks, paths=tuple((rank, " > ".join(of_rank)) for rank, of_rank in calls.items()))


def _waits(rank: RankStack, state: RunState) -> Piece:
    """What a rank waits in, or why it waits in nothing."""
    if rank.waits_in and rank.stack:
        return rank.waits_in, ""
    exited = state.exited.get(rank.rank)
    if exited and state.hung and exited.time < state.hung.time and not exited.stopped:
        return f"nothing: it has ended with status {exited.status}", "warn"
    return "not communicating" if rank.stack else "does not answer", "warn"


def _calls(stack: str, path: ShownPath) -> list[str]:
    """The calls that led a rank to where it stands, the outermost first, without those of installed code."""
    frames = frames_in(stack)
    if not stack.startswith("Traceback"):
        frames.reverse()
    return [f"{path(file)}:{line} {name}" for file, line, name in frames if name and not _INSTALLED.search(file)]


def _shown_verdicts(state: RunState) -> list[ClaimVerdict]:
    """The claims that are shown: all of a demo, and the broken ones of any other script."""
    return [claim for claim in state.verdicts() if claim[1] == "broken" or not state.only_broken_claims]


def _claims(verdicts: list[ClaimVerdict], state: RunState) -> tuple[ClaimLine, ...]:
    """Verdicts and claims of what was tested; how many were not is said by the last line (`_result`)."""
    return tuple(_claim(*claim, state.ranks) for claim in verdicts if claim[1] != "not reached")


def _counted(claims: list[ClaimVerdict], state: RunState) -> tuple[Piece, ...]:
    """How many claims were proven and broken so far, where there is no room to name them."""
    verdicts: list[str] = [verdict for _, verdict, _ in claims]
    if set(verdicts) == {"not reached"} and not state.end:
        return ((_to_come(len(verdicts)), "quiet"),)
    broken = verdicts.count("broken")
    proven: Piece = (f"{verdicts.count('proven')} of {len(verdicts)} claims proven so far", "quiet")
    return (proven, (f" · {broken} broken", "bad")) if broken else (proven,)


def _to_come(count: int) -> str:
    """How many claims may still be proven; empty if none."""
    return f"{plural(count, 'claim')} still to be checked" if count else ""


def _claim(claim: ClaimText, verdict: str, ranks: list[int], of: int) -> ClaimLine:
    mark, tone = MARKS[verdict]
    everywhere = verdict == "proven" and len(ranks) == of
    where = ("every rank" if of > 1 else "the rank") if everywhere else format_ranks(ranks)
    return ClaimLine((f"{mark} {where}", tone), claim.text)
