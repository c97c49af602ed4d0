"""The files that `ddpquiz.record` writes, one per rank, joined: the same operations of all ranks, on one clock.

A file holds the newest operations of a rank only, so those are left out that another rank no longer holds: then the
k-th operation of each member of a group is the same one. Machines have clocks of their own. They are compared by what
their ranks did together: all members of a collective such as an all-reduce leave it at about the same time, and none
before all have entered.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, takewhile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from ddpquiz.errors import UserError
from ddpquiz.events.event import (
    VERSION,
    Began,
    Dropped,
    Ended,
    Event,
    Forming,
    Issued,
    Joining,
    Note,
    OperationEvent,
    RankEvent,
    Recorded,
    Started,
    Waited,
    check_ranks,
    decode,
    when,
)
from ddpquiz.events.operation import ANY_SOURCE, POINT_TO_POINT, ROOTED, Operation, Ranks
from ddpquiz.events.run_state import RunState
from ddpquiz.events.saved_run import MAX_LINE
from ddpquiz.jobs.job_record import JobRecord
from ddpquiz.jobs.rank_process import Liveness, ProcessSpace, find_process

_SOURCE = "ddpquiz.record"
_FILE = re.compile(r"rank-(?P<rank>\d{1,4})(?:\.old)?\.jsonl(?P<before>\.\d+)?")


def is_rank_file(name: str) -> bool:
    """Whether a file of this name is one that the recorder wrote."""
    return bool(_FILE.fullmatch(name))


def rank_of_file(name: str) -> int | None:
    """The rank whose newest processes wrote a file of this name; None for files of earlier jobs, and all others."""
    found = _FILE.fullmatch(name)
    return int(found["rank"]) if found and not found["before"] else None


def read_rank_files(folder: Path, *others: Path) -> JobRecord:
    """Read the newest job that was recorded into a folder, or into several, such as one for each machine.

    UserError names a line that no recorder wrote.

    A last line that is not complete is noted and left out: its process may be writing it, or the file is half a copy.
    """
    reader = _RankReader()
    read = [reader.read(rank, each) for rank, each in sorted(_ranks_in((folder, *others)).items())]
    records, notes = _newest_job([record for record in read if record])
    if not records:
        raise UserError(f"{folder} holds no recorded ranks; `python -m ddpquiz.record --to {folder} ...` writes them.")
    began = max((each for record in records for each in record.began), key=lambda each: each.backend != "unknown")
    began = replace(began, ranks=max(each.ranks for record in records for each in record.began))
    dropped = _DroppedOperations(records)
    remaining = [
        (process, list(dropped.remaining(record, process)))
        for record in records
        for process in dropped.processes(record)
    ]
    alignment = _align(remaining)
    if dropped.left_out:
        notes.append("Only the newest operations of each rank are known; older ones are left out.")
    notes += [
        f"The clock of {host} was compared by its time of day only: no collective joins it with the others."
        for host in alignment.uncompared
    ]
    cut = tuple(record.rank for record in records if record.is_cut)
    notes += [
        f"The last line of rank-{rank}.jsonl is cut off: what rank {rank} did after that is not known." for rank in cut
    ]
    written = (event for process, _ in remaining for event in process.events if isinstance(event, Note))
    notes += dict.fromkeys(note.text for note in written)  # every rank may have the same
    return JobRecord(
        events=(began, *sorted(_on_one_clock(remaining, alignment), key=when)),
        ranks=began.ranks,
        present=tuple(record.rank for record in records),
        source=_SOURCE,
        clock_error=alignment.error,
        notes=tuple(notes),
        cut=cut,
    )


_LONG_SILENT = 60.0  # seconds; a process that lives writes each second, but clocks of machines may differ


def find_unended(record: JobRecord, state: RunState) -> dict[int, Liveness]:
    """Whether the process of a rank still runs, for each rank whose record does not say how it ended.

    It is looked up now, on this machine; of a process that cannot be seen from here, only a long silence tells, and of
    a job that was saved, nothing. Empty for a job that no recorder recorded.
    """
    recorded = {event.rank: event for event in record.events if isinstance(event, Recorded)}
    told = state.exited.keys() | state.raised.keys() | state.finished.keys()
    here = ProcessSpace.here()
    return {
        rank: "unknown"
        if state.end
        else _liveness(of_rank, state.pids.get(rank, 0), state.last_event_at[rank] - of_rank.time, here)
        for rank, of_rank in sorted(recorded.items())
        if rank not in told
    }


def _liveness(recorded: Recorded, pid: int, lasted: float, here: ProcessSpace) -> Liveness:
    """Whether a process runs whose record ends after `lasted` seconds."""
    seen = find_process(recorded, pid, here)
    is_silent = time.time() - (recorded.wall + lasted) > _LONG_SILENT
    return "gone" if seen == "unknown" and is_silent else seen


def _ranks_in(folders: Sequence[Path]) -> dict[int, Path]:
    """In which folder each rank has its files, also those of each machine; the newer one if there are two."""
    found: dict[int, Path] = {}
    try:
        inner = [each for folder in folders for each in sorted(folder.iterdir()) if each.is_dir()]
        for place in (*folders, *inner):
            for path in place.iterdir():
                rank = rank_of_file(path.name)
                if rank is not None and (rank not in found or _written(found[rank], rank) < _written(place, rank)):
                    found[rank] = place
    except OSError as wrong:
        raise UserError(f"{folders[0]} cannot be read: {wrong.strerror}.") from None
    return found


def are_of_two_jobs(one: Path, other: Path) -> bool:
    """Whether two files of a rank were begun by two processes, and not because the ranks were restarted."""
    first, second = _beginning(one), _beginning(other)
    return bool(first and second) and first != second and first[0] == second[0]


def _beginning(path: Path) -> tuple[object, ...]:
    """The restart with which a file of a rank begins, and by which process; empty if the file does not say it."""
    try:
        _, started, recorded = (decode(line) for line in islice(_lines(path), 3))
    except ValueError:
        return ()
    if not isinstance(started, Started) or not isinstance(recorded, Recorded):
        return ()
    return started.restart, started.pid, recorded.host, recorded.clock


def _written(folder: Path, rank: int) -> float:
    """When the newest file of a rank in a folder was written."""
    paths = (folder / f"rank-{rank}.jsonl", folder / f"rank-{rank}.old.jsonl")
    return max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)


def _newest_job(records: Sequence[_RankRecord]) -> tuple[list[_RankRecord], list[str]]:
    """The records of the job that began last, and a note if the folder holds others, too."""

    def jobs(record: _RankRecord) -> set[tuple[object, ...]]:
        return {(each.script, each.args, each.module, each.ranks, each.reason) for each in record.began}

    if not records:
        return [], []
    wanted = jobs(max(records, key=lambda record: record.processes[-1].recorded.wall))
    newest = [record for record in records if jobs(record) & wanted]
    others = [record.rank for record in records if not jobs(record) & wanted]
    if not others:
        return newest, []
    files = ", ".join(f"rank-{rank}.jsonl" for rank in others)
    return newest, [f"The folder holds files of an earlier job, which are left out: {files}."]


def _align(remaining: Sequence[_Remaining]) -> _Alignment:
    guesses: defaultdict[Clock, list[float]] = defaultdict(list)
    for process, _ in remaining:
        guesses[process.clock].append(process.recorded.wall - process.recorded.clock)
    visits = _visits(remaining).values() if len(guesses) > 1 else ()
    return align({clock: median(each) for clock, each in guesses.items()}, visits)


def _visits(remaining: Sequence[_Remaining]) -> dict[_Place, list[CollectiveVisit]]:
    """When the ranks entered and left each collective that all of them leave together."""
    visits: defaultdict[_Place, list[CollectiveVisit]] = defaultdict(list)
    for process, events in remaining:
        entered: dict[int, tuple[float, _Place]] = {}
        for event, place in events:
            if isinstance(event, Issued) and place and event.operation.op not in (*POINT_TO_POINT, *ROOTED):
                entered[event.number] = event.time + process.recorded.clock, place
            elif isinstance(event, Ended) and not event.failed and event.number in entered:
                since, at = entered.pop(event.number)
                visits[at].append(CollectiveVisit(process.clock, since, event.time + process.recorded.clock))
    return visits


def _on_one_clock(remaining: Sequence[_Remaining], alignment: _Alignment) -> Iterator[Event]:
    """Yield all events; their times count from the moment when the first process began."""
    begins = [process.recorded.clock + alignment.offsets[process.clock] for process, _ in remaining]
    for (process, events), begin in zip(remaining, begins, strict=True):
        by = begin - min(begins)
        started = replace(process.started, time=_first_joining(process, (event for event, _ in events)))
        for event in (started, process.recorded, *(event for event, _ in events)):
            yield _shifted(event, by)


def _first_joining(process: _ProcessRecord, events: Iterable[Event]) -> float:
    """When a rank began to form its first group: until then it imports torch, which is no work of the run."""
    joining = (each.time for each in chain(process.repeated, events) if isinstance(each, Joining) and not each.done)
    return next(joining, process.started.time)


def _shifted(event: Event, by: float) -> Event:
    """An event `by` seconds later."""
    if by == 0.0 or not isinstance(event, RankEvent):
        return event
    time = round(event.time + by, 6)
    match event:
        case Issued():
            return Issued(time, event.rank, event.number, event.operation, event.before)
        case Ended(started=float(started)):
            return replace(event, time=time, started=round(started + by, 6))
        case Waited():
            return replace(event, time=time, since=round(event.since + by, 6))
    return replace(event, time=time)


# One rank: its file, and the older one that the file continues.

_ISSUED = re.compile(
    rb'\{"event": "issued", "time": (\d{1,8}\.\d+(?:e-\d+)?), "rank": (\d{1,4}), "number": (\d{1,15}), '
)


@dataclass(slots=True)
class _ProcessRecord:
    """What one process recorded, on its own clock."""

    started: Started
    recorded: Recorded
    dropped: list[Dropped] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def clock(self) -> Clock:
        return Clock(self.recorded.host, self.recorded.boot)

    @property
    def repeated(self) -> list[Event]:
        """The joinings and formings that begin a file which continues another one; those are of earlier times."""
        if not self.recorded.number:
            return []
        return list(takewhile(lambda each: isinstance(each, Joining | Forming), self.events))


@dataclass(slots=True)
class _RankRecord:
    """The processes of one rank, the earliest first; the first lacks its beginning if its file was a continuation."""

    rank: int
    began: list[Began] = field(default_factory=list)
    processes: list[_ProcessRecord] = field(default_factory=list)
    is_cut: bool = False  # whether its newest file ends within a line
    _started: Started | None = None  # of the process whose Recorded comes next

    def add(self, event: Event) -> None:
        """Append an event; ValueError if it does not fit there."""
        if isinstance(event, Began):
            if event.version != VERSION:
                raise ValueError(f"its version is {event.version}, and ddpquiz reads versions up to {VERSION}")
            self.began.append(event)
            return
        if not self.began:
            raise ValueError("the first event must be a `run` event")
        check_ranks(event, self.began[-1])
        if getattr(event, "rank", self.rank) != self.rank:
            raise ValueError(f"it is of another rank than {self.rank}")
        if isinstance(event, Started):
            self._started = event
        elif isinstance(event, Recorded) and self._started:
            self.processes.append(_ProcessRecord(self._started, event))
        elif not self.processes:
            raise ValueError("a `start` and a `record` event must come before it")
        elif isinstance(event, Dropped):
            self.processes[-1].dropped.append(event)
        else:
            self.processes[-1].events.append(event)


class _RankReader:
    """Reads the files of ranks; equal operations share memory."""

    def __init__(self) -> None:
        self._operations: dict[bytes, Operation] = {}

    def read(self, rank: int, folder: Path) -> _RankRecord | None:
        """What the files of a rank hold, or None if that is nothing; UserError for a line that does not fit.

        The newer file is read first: if the rank writes meanwhile, no line is missed or read twice.
        """
        record = self._read_file(rank, folder / f"rank-{rank}.jsonl")
        before = self._read_file(rank, folder / f"rank-{rank}.old.jsonl")
        if record is None or before is None:
            return record or before
        if record.processes[0].recorded.number != before.processes[-1].recorded.number + 1:
            return record
        continued, *later = record.processes
        before.processes[-1].events += continued.events[len(continued.repeated) :]
        return _RankRecord(rank, before.began + record.began, before.processes + later, record.is_cut)

    def _read_file(self, rank: int, path: Path) -> _RankRecord | None:
        record = _RankRecord(rank)
        for number, line in enumerate(_lines(path), 1):
            if not line.endswith(b"\n") and len(line) < MAX_LINE:
                record.is_cut = True
                break
            try:
                record.add(self._decode(line.removesuffix(b"\n")))
            except ValueError as wrong:
                raise UserError(f"{path}:{number}: invalid event: {wrong}.") from None
        return record if record.processes else None

    def _decode(self, line: bytes) -> Event:
        """Decode a line. What is issued is checked once; most lines then differ in time and number only."""
        match = _ISSUED.match(line)
        if match is None:
            return decode(line)
        time, rank, number, rest = float(match[1]), int(match[2]), int(match[3]), line[match.end() :]
        operation = self._operations.get(rest)
        if operation is not None and rank in operation.members:
            return Issued(time, rank, number, operation)
        event = decode(line)
        if isinstance(event, Issued) and event == Issued(time, rank, number, event.operation):  # it has no values
            self._operations[rest] = event.operation
        return event


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, if it exists, each with its end; UserError if it cannot be read."""
    try:
        with path.open("rb") as file:
            yield from iter(partial(file.readline, MAX_LINE), b"")
    except FileNotFoundError:
        return
    except OSError as wrong:
        raise UserError(f"{path} cannot be read: {wrong.strerror}.") from None


# A process of a rank, and its events that are not left out
_Remaining = tuple[_ProcessRecord, list[tuple[Event, "_Place | None"]]]

# Which operations all files of a job still hold.

# How often the ranks were restarted, and how often they have formed the default group since
_Generation = tuple[int, int]
_Channel = tuple[str, Ranks, int, int]  # group, its members; source and destination, ANY_SOURCE for collectives
_Place = tuple[_Generation, _Channel, int]  # an operation is the n-th in its channel, for all of its members


class _DroppedOperations:
    """Leaves out the operations that some rank no longer holds; `left_out` counts them and those of no file."""

    def __init__(self, records: Sequence[_RankRecord]) -> None:
        self._generation = max((_first_generation(record) for record in records), default=(0, 0))
        self._dropped: dict[int, Counter[_Channel]] = {}
        self._floor: Counter[_Channel] = Counter()
        for record in records:
            dropped = self._dropped[record.rank] = Counter[_Channel]()
            if _first_generation(record) == self._generation:
                dropped.update({_channel_of(each): each.count for each in record.processes[0].dropped})
            self._floor |= dropped  # the highest count of each channel
        self.left_out = sum(each.count for record in records for each in record.processes[0].dropped)

    def processes(self, record: _RankRecord) -> list[_ProcessRecord]:
        """The processes of a rank that all ranks hold at least in part."""
        return [process for process in record.processes if process.started.restart >= self._generation[0]]

    def remaining(self, record: _RankRecord, process: _ProcessRecord) -> Iterator[tuple[Event, _Place | None]]:
        """Yield the events of a process that are not left out, each Issued with its place."""
        sources = {event.number: event.source for event in process.events if isinstance(event, Ended)}
        generation = process.started.restart, 0
        issued = self._issued_before(record.rank, generation)
        numbers: set[int] = set()
        for event in process.events:
            place = None
            if isinstance(event, Joining) and not event.done:
                generation = generation[0], generation[1] + 1
                issued = self._issued_before(record.rank, generation)
            elif isinstance(event, Issued):
                channel = _channel(record.rank, event.operation, sources.get(event.number))
                if channel is not None:
                    place = generation, channel, issued[channel]
                    issued[channel] += 1
                if not self._is_held_by_all(generation, place):
                    self.left_out += 1
                    continue
                numbers.add(event.number)
            elif isinstance(event, OperationEvent) and event.number not in numbers:
                continue
            yield event, place

    def _issued_before(self, rank: int, generation: _Generation) -> Counter[_Channel]:
        """Count what a rank issued in a generation before the first operation that its files hold."""
        return Counter(self._dropped[rank]) if generation == self._generation else Counter()

    def _is_held_by_all(self, generation: _Generation, place: _Place | None) -> bool:
        if generation != self._generation:
            return generation > self._generation
        return place is None or place[2] >= self._floor[place[1]]


def _first_generation(record: _RankRecord) -> _Generation:
    """The generation in which the files of a rank begin."""
    process = record.processes[0]
    return process.started.restart, sum(isinstance(each, Joining) and not each.done for each in process.repeated)


def _channel(rank: int, operation: Operation, source: int | None = None) -> _Channel | None:
    """The channel of an operation; None for a receive from any rank whose source is not known yet."""
    if operation.op not in POINT_TO_POINT:
        return operation.group, operation.members, ANY_SOURCE, ANY_SOURCE
    peer = operation.peer if source is None else source
    if peer is None:
        return None
    return operation.group, operation.members, *((rank, peer) if operation.op == "send" else (peer, rank))


def _channel_of(dropped: Dropped) -> _Channel:
    if not dropped.op or dropped.peer is None:
        return dropped.group, dropped.members, ANY_SOURCE, ANY_SOURCE
    ends = (dropped.rank, dropped.peer) if dropped.op == "send" else (dropped.peer, dropped.rank)
    return dropped.group, dropped.members, *ends


# The clocks of several machines.

UNCOMPARED = 1.0  # seconds by which clocks that nothing compares may differ: those of a cluster are synchronized


class Clock(NamedTuple):
    """A monotonic clock, which all processes of a machine share until it is booted again."""

    host: str
    boot: str


class CollectiveVisit(NamedTuple):
    """When a rank entered a collective and when it left, on its own clock."""

    clock: Clock
    entered: float
    left: float


@dataclass(frozen=True, slots=True)
class _Alignment:
    """What to add to the times of each clock; afterwards two of them are at most `error` apart."""

    offsets: Mapping[Clock, float]
    error: float
    uncompared: tuple[str, ...] = ()  # hosts whose time of day was trusted, since nothing else could be


def align(guesses: Mapping[Clock, float], collectives: Iterable[Iterable[CollectiveVisit]]) -> _Alignment:
    """Compare clocks; `guesses` are their offsets according to the time of day.

    Clocks that take part in the same collectives are compared directly, others through those that they share.
    """
    first = next(iter(guesses))
    if len(guesses) == 1:
        return _Alignment({first: 0.0}, 0.0)
    compared = _compare_pairs(collectives)
    offsets, errors = {first: guesses[first]}, {first: 0.0}
    while ways := [
        (errors[one] + error, other, offsets[one] + difference)
        for (one, other), (difference, error) in compared.items()
        if one in offsets and other not in offsets
    ]:
        error, clock, offset = min(ways)
        offsets[clock], errors[clock] = offset, error
    uncompared = [clock for clock in guesses if clock not in offsets]
    for clock in uncompared:
        offsets[clock], errors[clock] = guesses[clock], UNCOMPARED
    two_worst = sorted(errors.values())[-2:]
    return _Alignment(offsets, sum(two_worst), tuple(clock.host for clock in uncompared))


def _compare_pairs(collectives: Iterable[Iterable[CollectiveVisit]]) -> dict[tuple[Clock, Clock], tuple[float, float]]:
    """For pairs of clocks the difference of their offsets, and its error.

    The difference is the median over the collectives. It is certain that each rank left after each other one had
    entered, which bounds the difference from both sides; the error is the distance to the farther bound.
    """
    differences: defaultdict[tuple[Clock, Clock], list[float]] = defaultdict(list)
    low: dict[tuple[Clock, Clock], float] = {}
    high: dict[tuple[Clock, Clock], float] = {}
    for visits in collectives:
        spans: dict[Clock, CollectiveVisit] = {}  # of each clock: when its last rank entered, and its first one left
        for visit in visits:
            known = spans.get(visit.clock, visit)
            spans[visit.clock] = CollectiveVisit(
                visit.clock, max(known.entered, visit.entered), min(known.left, visit.left)
            )
        one, *others = spans.values()
        for other in others:
            pair = one.clock, other.clock
            differences[pair].append(one.left - other.left)
            low[pair] = max(low.get(pair, -math.inf), one.entered - other.left)
            high[pair] = min(high.get(pair, math.inf), one.left - other.entered)
    found = {}
    for pair, each in differences.items():
        difference = median(each)
        error = max(abs(difference - low[pair]), abs(high[pair] - difference))
        found[pair], found[pair[1], pair[0]] = (difference, error), (-difference, error)
    return found
