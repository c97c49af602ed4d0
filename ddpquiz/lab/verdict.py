"""What the check of a lab found out: the first thing that is wrong with a file, in a sentence with rank and numbers.

A run fails by what broke in it (`find_failure`), by a budget that one of its phases does not meet (`exceeded`), or by
an asynchronous operation that nobody waits for (`find_forgotten`).

What it reads are the events of the run and lines that `labs/lab_tools.py` prints: `seed`, `phase`, `differs` (a result
that is wrong, and how), `stuck` (who waits for whom) and `checked`.
"""

import ast
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Literal

from ddpquiz.curriculum.budget_rule import ROUNDING, Limit, Order, PhaseMoment
from ddpquiz.curriculum.formula import format_number
from ddpquiz.curriculum.lab import Budget, Lab, LabRun
from ddpquiz.diagnosis.diagnosis import SIZES
from ddpquiz.diagnosis.root_cause import failed_in_communication, is_effect, raised_before_hang
from ddpquiz.errors import UserError
from ddpquiz.events.event import ClaimText, Ended, Event, Issued, Output, Raised, RankStack, Started, Waited
from ddpquiz.events.formatting import format_place, format_seconds, in_one_line
from ddpquiz.events.operation import POINT_TO_POINT, Operation
from ddpquiz.events.run_state import RunState
from ddpquiz.events.source_text import frames_in
from ddpquiz.lab.phases import Phase, PhaseCall

Outcome = Literal["passed", "unwritten", "claim", "budget", "error", "hang", "no end", "not awaited"]


@dataclass(frozen=True, slots=True)
class LabFigure:
    """A figure of a run with all ranks: of the rank where it is highest, for the learner and for the reference."""

    name: str
    unit: str
    yours: float
    reference: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LabVerdict:
    """Whether a file passes, and if not, the first thing that is wrong with it.

    `sentence` says it with rank, line and numbers, and `advice` what to do. `caught` is the claim or the budget that
    failed, or the outcome. `values` is what each rank found, by rank. `repeat` is the command that shows the failure
    again; `run` is this run, or the last one, and `events` are its events. `stars` names the targets that
    were met.
    """

    outcome: Outcome
    seconds: float
    runs: int
    sentence: str = ""
    advice: str = ""
    caught: str = ""
    rank: int | None = None
    line: int = 0
    seed: int | None = None
    ranks: int = 0
    run: LabRun | None = None
    values: Mapping[int, str] = field(default_factory=dict)
    waits: tuple[RankStack, ...] = ()
    repeat: str = ""
    stars: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"


_NAMED_LINE = re.compile(r"^`\w+` raised \w+ in line (\d+)")  # what `raised` of lab_tools prints
_UNCHANGED = "; it still holds what this rank had before"  # what `same` of lab_tools prints
_WRONG_CALL = re.compile(r"\(\) (takes|missing|got an unexpected|got multiple)|positional argument")


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run of a check that is over: its events, its last state, and why we ended it, if we did.

    It is `complete` if we ended it when every rank had finished its check.
    """

    run: LabRun
    events: tuple[Event, ...]
    seen: RunState
    stopped: str = ""
    complete: bool = False


def find_failure(lab: Lab, file: Path, finished: FinishedRun) -> LabVerdict | None:
    """The verdict on a run that broke a claim, raised, hung or did not finish; None if it went to its end."""
    seen = finished.seen
    if finished.complete:
        return None
    if finished.stopped:
        return _stopped(finished, file)
    if broken := [(claim, ranks) for claim, verdict, ranks in seen.verdicts() if verdict == "broken"]:
        claim, ranks = broken[0]
        return _broken_claim(claim, ranks, file, finished)
    if seen.end and not seen.end.ok:
        if failed_in_communication(seen) and (unlike := _unlike_sizes(file, finished)):
            return unlike
        failed = raised_before_hang(seen)
        raised = failed.get(seen.end.rank) if seen.end.rank is not None else None
        if seen.end.rank is None and not seen.hung:  # what only followed from a mismatch says less than the mismatch
            own = [each for each in failed.values() if not is_effect(each)]
            raised = min(own, key=lambda each: each.time, default=None)
        if raised:
            return _raised(raised, lab, file, finished)
        return _ended_badly(finished, lab, file)
    left = [
        rank for rank in range(finished.run.ranks) if "checked" not in seen.rows or rank not in seen.rows["checked"]
    ]
    if left:
        sentence = f"Rank {left[0]} exited before the check was over. Your file must not end the process."
        return _verdict("no end", finished, rank=left[0], sentence=sentence)
    return None


def _broken_claim(claim: ClaimText, ranks: Sequence[int], file: Path, finished: FinishedRun) -> LabVerdict:
    text = claim.text
    values = {rank: _difference(rank, finished) or "not as claimed" for rank in ranks}
    rank = ranks[0]
    found = _difference(rank, finished)
    what = f", {found}. This must hold: {text}." if found else f", this does not hold: {text}."
    if forgotten := find_forgotten(file, finished, never_of=rank):  # numbers that race say nothing of the rest
        line, after, why = forgotten.line, f" {forgotten.advice}", f"{forgotten.sentence} "
    else:
        (line, after), why = _place(rank, found, file, finished), ""
    sentence = f"{why}On rank {rank} of {finished.run.ranks}{what}{after}"
    held = finished.seen.claims_held.get(claim.line, {})
    others = {
        other: "as expected" if other in held else _instead(other, file, finished)
        for other in range(finished.run.ranks)
        if other not in values
    }
    unlike = _unlike_sizes(file, finished)  # Gloo takes a message that is too short without a word
    return _verdict(
        "claim", finished, rank=rank, line=line, sentence=sentence, caught=text,
        advice=f"{unlike.sentence} {unlike.advice}" if unlike else "",
        values=dict(sorted({**values, **others}.items())),
    )  # fmt: skip


def _instead(rank: int, file: Path, finished: FinishedRun) -> str:
    """What keeps a rank from a claim that another one broke: a call that has not ended, or nothing that is known."""
    last: Issued | None = None
    for event in finished.events:
        if isinstance(event, Issued) and event.rank == rank and not event.operation.in_background:
            last = event
        elif isinstance(event, Ended) and last and (event.rank, event.number) == (rank, last.number):
            last = last if event.failed else None  # a call fails when the other rank leaves
    if last:
        call = last.operation
        at = f"line {call.line}" if call.file == str(file.absolute()) else format_place(call.file, call.line)
        return f"did not get that far: it was still in {call.op} in {at}"
    return "did not get that far"


def _difference(rank: int, finished: FinishedRun) -> str:
    """What the last comparison of a rank printed: all of the line, also where it reads like progress with numbers."""
    lines = (event for event in finished.events if isinstance(event, Output) and event.rank == rank)
    printed = [event.value or "" for event in lines if event.label == "differs"]
    return printed[-1] if printed else ""


def _place(rank: int, found: str, file: Path, finished: FinishedRun) -> tuple[int, str]:
    """The line of the learner's file that broke a claim, or 0, and a sentence on what came before.

    The line is known if the difference names it, or if the rank called operations in no other line with this seed. The
    last of several operations is often innocent, so it is not named; nor is one blamed that has not touched the tensor
    that differs.
    """
    if named := _NAMED_LINE.search(found):
        return int(named[1]), ""
    path, calls = str(file.absolute()), list[Operation]()
    for event in finished.events:
        if isinstance(event, Output) and event.rank == rank and event.label == "seed":
            calls.clear()
        elif isinstance(event, Issued) and event.rank == rank and event.operation.file == path:
            calls.append(event.operation)
    if not calls:
        return 0, ""
    last = f"{calls[-1].op} in line {calls[-1].line}"
    if found.endswith(_UNCHANGED):
        return 0, f" Nothing that your file called there has changed it; its last operation was {last}."
    if len({call.line for call in calls}) == 1:
        return calls[-1].line, f" The only operation that your file called there is {last}."
    return 0, ""


def _raised(raised: Raised, lab: Lab, file: Path, finished: FinishedRun) -> LabVerdict:
    path = str(file.absolute())
    frames = frames_in(raised.traceback)
    lines = [frame.line for frame in frames if frame.file == path]
    line = lines[-1] if lines else 0
    message = in_one_line(raised.message)
    rank = raised.rank
    if raised.error == "NotImplementedError" and line:
        sentence = f"Line {line} is still to be written: {message}."
        return _verdict("unwritten", finished, rank=rank, line=line, sentence=sentence)
    if raised.error == "SystemExit" and not lines:  # the check says what is missing
        return _verdict("error", finished, rank=rank, sentence=raised.message)
    if not lines and raised.error == "TypeError" and _WRONG_CALL.search(message):
        called = next((frame for frame in reversed(frames) if frame.file == str(lab.check)), None)
        where = f" (check.py, line {called.line})" if called else ""
        sentence = f"The check cannot call your code{where}: {message}."
        return _verdict("error", finished, rank=rank, sentence=sentence)
    if not lines:
        sentence = (
            f"Rank {rank} of {finished.run.ranks}: {raised.error} in the check after your code returned: {message}."
        )
        return _verdict("error", finished, rank=rank, sentence=sentence)
    sentence = f"Rank {rank} of {finished.run.ranks} raised {raised.error} in line {line}: {message}".rstrip(": ")
    return _verdict("error", finished, rank=rank, line=line, sentence=f"{sentence.rstrip('.')}.")


def _unlike_sizes(file: Path, finished: FinishedRun) -> LabVerdict | None:
    """The verdict on a receive that asks for another size than its send brings.

    Gloo closes the connection when a message is too long, and every rank may then raise in an innocent line.
    """
    path = str(file.absolute())
    for _, collective in finished.seen.timeline.unlike():
        calls = {call.operation.op: (rank, call.operation) for rank, call in collective.calls.items()}
        if calls.keys() != {*POINT_TO_POINT}:
            continue
        (source, sent), (to, received) = calls["send"], calls["recv"]
        if sent.bytes != received.bytes:
            sends, receives = (_sized(each, path, with_dtype=sent.dtype != received.dtype) for each in (sent, received))
            sentence = f"Rank {source} sends {sends}, but rank {to} receives {receives}."
            rank, line = (to, received.line) if received.file == path else (source, sent.line * (sent.file == path))
            return _verdict("error", finished, rank=rank, line=line, sentence=sentence, advice=SIZES)
    return None


def _sized(operation: Operation, path: str, *, with_dtype: bool) -> str:
    """Return `4 numbers in line 12`, or `4 numbers of float32 in line 12`."""
    count = sum(map(prod, operation.shapes))
    place = f"line {operation.line}" if operation.file == path else f"{Path(operation.file).name}:{operation.line}"
    what = f"{'number' if count == 1 else 'numbers'}{f' of {operation.dtype}' if with_dtype else ''}"
    return f"{count} {what} in {place}"


def _ended_badly(finished: FinishedRun, lab: Lab, file: Path) -> LabVerdict:
    """The verdict on ranks that hang, whose calls do not match, or whose process died."""
    seen, path = finished.seen, str(file.absolute())
    end = seen.end
    waits = tuple(_in_check(each, lab, path) for each in seen.hung.ranks) if seen.hung else ()
    line = next((each.line for each in waits if each.file == path and each.line), 0)
    hangs = bool(seen.hung)
    for rank, said in sorted(seen.rows.get("stuck", {}).items()):
        if hangs:  # the check knows better why
            line = next((each.line for each in waits if each.rank == rank and each.file == path), line)
            return _verdict("hang", finished, rank=rank, line=line, sentence=said[-1], waits=waits)
    sentence = end.why if end else ""
    named = [int(each) for each in re.findall(rf"\b{re.escape(file.name)}:(\d+)", sentence)]
    if named and line not in named:  # the script began the operation in one line, and waits for it in another
        line = named[0]
    return _verdict(
        "hang" if hangs else "error", finished, rank=end.rank if end else None, line=line,
        sentence=sentence, advice=end.advice if end else "", waits=waits,
    )  # fmt: skip


def _in_check(position: RankStack, lab: Lab, path: str) -> RankStack:
    """A position with the line of check.py if the check waits there, be it called by the learner's code."""
    inner = itertools.takewhile(lambda frame: frame.file != path, frames_in(position.stack))
    called = next((frame for frame in inner if frame.file == str(lab.check)), None)
    return replace(position, file=called.file, line=called.line) if called else position


def _stopped(finished: FinishedRun, file: Path) -> LabVerdict:
    path = str(file.absolute())
    end, places = finished.seen.end, finished.seen.places
    rank, line = next(((rank, line) for rank, (name, line) in sorted(places.items()) if name == path), (None, 0))
    advice = end.advice if end else ""
    return _verdict("no end", finished, rank=rank, line=line, sentence=finished.stopped, advice=advice)


def _verdict(outcome: Outcome, finished: FinishedRun, **fields: object) -> LabVerdict:
    """A verdict with the seed of the rank at fault, which is in the order of events the last that it printed."""
    seeds = [event.value for event in finished.events if isinstance(event, Output) and event.label == "seed"]
    seed = int(seeds[-1]) if seeds and seeds[-1] and seeds[-1].isdecimal() else None
    fields.setdefault("caught", outcome)
    return LabVerdict(outcome=outcome, seconds=0, runs=0, seed=seed, **fields)  # type: ignore[arg-type]


UNITS = {  # of one, and of several
    "sent": ("byte sent", "bytes sent"),
    "received": ("byte received", "bytes received"),
    "calls": ("operation called", "operations called"),
    "collectives": ("collective called", "collectives called"),
    "destinations": ("destination of messages", "destinations of messages"),
    "rounds": ("round of messages", "rounds of messages"),
    "in_flight": ("operation in flight at once", "operations in flight at once"),
    "overlapped": ("operation overlapped", "operations overlapped"),
    "peak": ("byte alive at the peak", "bytes alive at the peak"),
    "kept": ("byte kept", "bytes kept"),
    "read": ("byte read", "bytes read"),
    "held": ("micro-batch held", "micro-batches held"),
}
_BOUNDS = {  # what a comparison asks for
    "<=": ("at most ", "allowed"), "<": ("fewer than ", "allowed"), ">=": ("at least ", "needed"),
    ">": ("more than ", "needed"), "==": ("exactly ", "needed"),
}  # fmt: skip


def exceeded(lab: Lab, file: Path, finished: FinishedRun, phases: Sequence[Phase]) -> LabVerdict | None:
    """The verdict on the first budget, in the order of the lab, that a phase does not meet."""
    ranks = finished.run.ranks
    for budget in lab.budgets:
        found = [phase for phase in phases if phase.name == budget.phase]
        if not found:
            raise UserError(
                f"check.py of the lab {lab.id} never reached the phase `{budget.phase}`; that is a fault of the lab."
            )
        for phase in sorted(found, key=lambda phase: (phase.index, phase.rank)):
            if not meets(budget, phase, ranks):
                return _over_budget(budget, phase, file, found, ranks)
    return None


def meets(budget: Budget, phase: Phase, ranks: int) -> bool:
    """Whether a phase meets a budget."""
    match budget.rule:
        case Limit() as limit:
            return limit.holds(_values(phase, ranks))
        case Order(earlier=earlier, later=later):
            first, then = _time(earlier, phase), _time(later, phase)
            return first is not None and then is not None and first < then
    return False


def _values(phase: Phase, ranks: int) -> dict[str, float]:
    return {**phase.measures(), "n": ranks, "rank": phase.rank}


def _time(moment: PhaseMoment, phase: Phase) -> float | None:
    """When something happened in a phase, or None if it did not."""
    if moment.kind == "label":
        return next((time for label, time in phase.labels if label == moment.name), None)
    call = _call(moment, phase)
    return call.issued if call else None


def _call(moment: PhaseMoment, phase: Phase) -> PhaseCall | None:
    """The call that a moment names, or None if it was not made."""
    calls = [call for call in phase.calls if call.operation.op == moment.name]
    if moment.kind == "label" or not calls:
        return None
    if moment.which in ("first", "last"):
        return calls[0 if moment.which == "first" else -1]
    return calls[int(moment.which) - 1] if int(moment.which) <= len(calls) else None


def _over_budget(budget: Budget, phase: Phase, file: Path, phases: Sequence[Phase], ranks: int) -> LabVerdict:
    call = _call_at_fault(budget, phase, ranks)
    line = call.operation.line if call and call.operation.file == str(file.absolute()) else 0
    what = "" if isinstance(budget.rule, Order) else f"{call.operation.op} " if call else ""
    where = f" ({what}in line {line})" if line else ""
    same = [each for each in phases if each.index == phase.index]
    return LabVerdict(
        outcome="budget", caught=budget.name, seconds=0, runs=0, rank=phase.rank, line=line, seed=phase.seed,
        sentence=f"Rank {phase.rank}: {_measured(budget, phase, ranks, where)}. {budget.say}",
        values={each.rank: _value(budget, each, ranks) for each in sorted(same, key=lambda each: each.rank)},
    )  # fmt: skip


def _measured(budget: Budget, phase: Phase, ranks: int, where: str) -> str:
    """What was measured, and what is allowed or needed; `where` says which call was too much."""
    match budget.rule:
        case Limit(left=left, sign=sign) as limit:
            found, bound = limit.sides(_values(phase, ranks))
            verb = "is" if format_number(bound) == "1" or _forbids(sign, bound) else "are"
            return f"{_amount(found, left)}{where}; {_bound(sign, bound)} {verb} {_asks(sign, bound)}"
        case Order(earlier=earlier, later=later):
            late = _lateness(budget.rule, phase)
            if late is not None:
                return f"{earlier}{where} came {late} after {later}"
            return f"{earlier if _time(earlier, phase) is None else later} did not happen"
    return ""


def _lateness(order: Order, phase: Phase) -> str | None:
    """Return by how much the two moments of an order were the wrong way round, or None if one did not happen."""
    first, then = _time(order.earlier, phase), _time(order.later, phase)
    return None if first is None or then is None else format_seconds(first - then)


def _amount(found: float, left: str) -> str:
    """An amount with its unit, such as `1 collective called`."""
    is_one = format_number(found) == "1"
    if left.startswith("calls_"):
        return f"{format_number(found)} {'call' if is_one else 'calls'} of {left.removeprefix('calls_')}"
    one, many = UNITS.get(left, (left, left))
    return f"{format_number(found)} {one if is_one else many}"


def _bound(sign: str, bound: float) -> str:
    """The limit in words, in whole numbers: `at most 341` for 341.3 bytes."""
    if _forbids(sign, bound):
        return "none"
    whole = math.floor(bound + ROUNDING) if sign == "<=" else math.ceil(bound - ROUNDING) if sign == ">=" else bound
    return f"{_BOUNDS[sign][0]}{format_number(whole)}"


def _asks(sign: str, bound: float) -> str:
    return "allowed" if _forbids(sign, bound) else _BOUNDS[sign][1]


def _forbids(sign: str, bound: float) -> bool:
    return sign in ("<=", "==") and not bound


def _value(budget: Budget, phase: Phase, ranks: int) -> str:
    if isinstance(budget.rule, Limit):
        found, bound = budget.rule.sides(_values(phase, ranks))
        asked = f"{_bound(budget.rule.sign, bound)} {_asks(budget.rule.sign, bound)}"
        return f"{_amount(found, budget.rule.left)} ({asked})"
    if meets(budget, phase, ranks):
        return "in this order"
    late = _lateness(budget.rule, phase)
    return f"{late} too late" if late is not None else "did not happen"


def _call_at_fault(budget: Budget, phase: Phase, ranks: int) -> PhaseCall | None:
    """The first call after which the budget no longer held, or the call that came too late."""
    if isinstance(budget.rule, Order):
        return _call(budget.rule.earlier, phase)
    if not isinstance(budget.rule, Limit) or budget.rule.sign not in ("<=", "<", "=="):
        return None
    calls, phase_so_far = phase.calls, list[PhaseCall]()
    for call in calls:
        phase_so_far.append(call)
        so_far = Phase(phase.rank, phase.name, phase.index, phase.seed, phase.began, phase.values, phase_so_far)
        found, allowed = budget.rule.sides(_values(so_far, ranks))
        if found > allowed:
            return call
    return None


MOST_OPEN = 900  # the recorder forgets the oldest of a thousand
_BATCH = "batch_isend_irecv"
_ASKS_WORKS = {"is_completed", "is_success", "synchronize", "block_current_stream"}  # other ways to know of an end
_ASKS_FUTURES = {"get_future", "_functional_collectives"}
_TOO_EARLY = {"send": "changed or freed before it is sent", "recv": "read before it is received"}


@dataclass(slots=True)
class _Rank:
    """What a rank has issued in its last attempt: the operations that nobody has waited for yet, with their seed."""

    left: dict[int, tuple[Operation, int | None]] = field(default_factory=dict)
    issued: int = 0
    most: int = 0
    seed: int | None = None
    waited: set[int] = field(default_factory=set)  # the lines of operations that it did wait for


def find_forgotten(file: Path, finished: FinishedRun, *, never_of: int | None = None) -> LabVerdict | None:
    """The verdict on the first asynchronous operation for which a rank never waits.

    A run that broke off may have ended before a wait. There, `never_of` names the one rank whose operations count, and
    only those in lines whose operations no rank has ever waited for.
    """
    try:
        source = _Source(file)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # it was saved anew meanwhile
        return None
    ranks = _follow(finished.events, source)
    if never_of is not None:
        waited = {line for each in ranks.values() for line in each.waited}
        own = ranks.get(never_of, _Rank())
        own.left = {number: one for number, one in own.left.items() if one[0].line not in waited}
        ranks = {never_of: own}
    values = {rank: _waited(each) for rank, each in sorted(ranks.items()) if each.issued}
    for rank, each in sorted(ranks.items()):
        if each.left and each.most < MOST_OPEN:
            operation, seed = next(iter(each.left.values()))
            name, line = source.name_of(operation), operation.line
            early = _TOO_EARLY.get(operation.op, "read or changed before it is done")
            kept = "wait() on each of them" if name == _BATCH else "wait() on it"
            return LabVerdict(
                outcome="not awaited", caught="not awaited", seconds=0, runs=0, rank=rank, line=line, seed=seed,
                values=values,
                sentence=f"Rank {rank} never waits for the {name} in line {line}, so its tensor may be {early}.",
                advice=f"Keep what {name} returns, and call {kept}.",
            )  # fmt: skip
    return None


def _follow(events: Iterable[Event], source: "_Source") -> dict[int, _Rank]:
    """What each rank has issued and left; a rank that was killed begins anew."""
    ranks: dict[int, _Rank] = {}
    for event in events:
        match event:
            case Started(rank=rank):
                ranks[rank] = _Rank()
            case Output(rank=rank, label="seed", value=str(value)) if rank in ranks and value.isdecimal():
                ranks[rank].seed = int(value)
            case Issued(rank=rank, operation=operation) if rank in ranks and source.must_wait(operation):
                each = ranks[rank]
                each.left[event.number] = operation, each.seed
                each.issued += 1
                each.most = max(each.most, len(each.left))
            case Waited(rank=rank) if rank in ranks:
                if done := ranks[rank].left.pop(event.number, None):
                    ranks[rank].waited.add(done[0].line)
    return ranks


def _waited(rank: _Rank) -> str:
    return f"never waits for {len(rank.left)} of {rank.issued}" if rank.left else f"waits for all {rank.issued}"


class _Source:
    """What the text of a learner's file says of its calls."""

    def __init__(self, file: Path) -> None:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
        names = {_last_name(node) for node in nodes} | {each.name for node in nodes for each in _imported(node)}
        names |= {part for name in names for part in name.split(".")}
        self._path = str(file.absolute())
        self._by_works = not names & _ASKS_WORKS
        self._by_futures = not names & _ASKS_FUTURES
        self._calls = [node for node in nodes if isinstance(node, ast.Call)]

    def must_wait(self, operation: Operation) -> bool:
        """Whether the file itself has issued an operation, and must wait for its work."""
        if not (self._by_works and operation.asynchronous and operation.file == self._path):
            return False
        return operation.op in POINT_TO_POINT or (
            self._by_futures and any(word.arg == "async_op" for call in self._at(operation) for word in call.keywords)
        )

    def name_of(self, operation: Operation) -> str:
        """The function that a learner calls for an operation."""
        if operation.op not in POINT_TO_POINT:
            return operation.op
        batched = any(_last_name(call.func) == _BATCH for call in self._at(operation))
        return _BATCH if batched else f"i{operation.op}"

    def _at(self, operation: Operation) -> list[ast.Call]:
        return [call for call in self._calls if call.lineno <= operation.line <= (call.end_lineno or 0)]


def _last_name(node: ast.AST) -> str:
    """Return `wait` for `work.wait`; strings count too, for getattr."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Constant(value=str(name)):
            return name
        case ast.ImportFrom(module=str(name)):
            return name
    return ""


def _imported(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, ast.Import | ast.ImportFrom) else []
