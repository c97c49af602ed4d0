"""PyTorch's Flight Recorder dumps, one file per rank, as the record of a job."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from ddpquiz.analysis.event_codec import decode, encode
from ddpquiz.analysis.events import Began, Ended, Event, Issued, Started, when
from ddpquiz.analysis.operation import ROOTED, Operation
from ddpquiz.analysis.records.dump_alignment import DumpedGroup, find_groups, join_coalesced
from ddpquiz.analysis.records.dump_entry import WITHOUT_TIMES, Dump, DumpedCall, DumpEntry, DumpReader
from ddpquiz.analysis.records.dump_merge import merge
from ddpquiz.analysis.records.dump_notes import notes_on
from ddpquiz.analysis.records.job_record import JobRecord
from ddpquiz.errors import UserError

DEVICES = {"gloo": "cpu", "mpi": "cpu", "xccl": "xpu", "hccl": "npu"}  # of other backends: cuda
MAX_SECONDS = 1e8
MOVING = 1.0  # seconds; a job that issued an operation so shortly before its dumps is not stuck


def read_dumps(paths: Sequence[Path], ranks: int = 0) -> JobRecord:
    """Return what the dumps of a job's ranks hold; UserError names a file that cannot be read.

    `ranks` is the size of the job if the user knows it: dumps do not always show it.
    """
    if not paths:
        raise UserError("There are no Flight Recorder dumps to read.")
    reader, dumps = DumpReader(), dict[int, Dump]()
    for path in paths:
        dump = reader.read(path)
        dumps[dump.rank] = merge(dumps[dump.rank], dump) if dump.rank in dumps else dump
    dumps = dict(sorted(dumps.items()))
    return _DumpedJob(dumps, ranks).record()


class _DumpedJob:
    """Puts the dumps of a job together."""

    def __init__(self, dumps: dict[int, Dump], ranks: int) -> None:
        self.dumps = dumps
        self.ranks = max(ranks, *(dump.ranks for dump in dumps.values()))
        self._is_size_known = bool(ranks) or any(dump.groups or dump.gathers for dump in dumps.values())
        for dump in dumps.values():
            join_coalesced(dump)
        self.groups = find_groups(dumps, self.ranks)
        for rank, dump in dumps.items():
            own: defaultdict[str, list[DumpEntry]] = defaultdict(list)
            for entry in dump.entries:
                own[entry.group].append(entry)
            for name, entries in own.items():
                self.groups[rank, name].add(rank, entries)
        for group in {*self.groups.values()}:
            group.align(dumps)
        self._written = {rank: dump.path.stat().st_mtime_ns for rank, dump in dumps.items()}
        self._begin = min((dump.entries[0].created for dump in dumps.values() if dump.entries), default=0)
        self._operations: dict[tuple[DumpedCall, DumpedGroup], Operation] = {}

    def record(self) -> JobRecord:
        """Return the events of all ranks, in order, and what is not known."""
        left_out = 0
        events: list[Event] = []
        for rank, dump in self.dumps.items():
            retained = [entry for entry in dump.entries if self._is_retained(rank, entry)]
            left_out += len(dump.entries) - len(retained)
            events += self._events(rank, retained)
        events.sort(key=lambda event: (when(event), isinstance(event, Ended)))
        if events and when(events[-1]) >= MAX_SECONDS:
            raise UserError("The times in the dumps are more than three years apart. Read dumps of one job only.")
        notes = notes_on(self.dumps, {*self.groups.values()}, left_out)
        if not self._is_size_known:
            notes += (f"The dumps do not say how many ranks the job had; if not {self.ranks}, name it with --ranks.",)
        return JobRecord(
            (self._began(), *events), self.ranks, tuple(self.dumps), "Flight Recorder", until=self._until(),
            seen={rank: self._seconds(written) for rank, written in self._written.items()}, notes=notes,
        )  # fmt: skip

    def _until(self) -> float:
        """Return the time until which nothing else happened: infinity, unless the job went on after the dumps.

        Then some rank is still in an operation, and the files are hardly older than the newest one. A file that was
        copied is newer: what it holds counts as stuck.
        """
        held = [dump for dump in self.dumps.values() if dump.entries]
        newest = max((dump.entries[-1].created for dump in held), default=0) / 1e9
        written = max((self._written[dump.rank] for dump in held), default=math.inf) / 1e9
        is_open = any(not dump.entries[-1].has_ended for dump in held)
        if is_open and 0 <= written - newest < MOVING:
            return max(0.0, written - self._begin / 1e9)
        return math.inf

    def _is_retained(self, rank: int, entry: DumpEntry) -> bool:
        aligned = self.groups[rank, entry.group].aligned
        return entry.retained and (entry.point_to_point or entry.sequence in aligned)

    def _events(self, rank: int, entries: Sequence[DumpEntry]) -> Iterator[Event]:
        """Yield what a rank did; the operations of one thread never go back in time."""
        now = self._seconds(entries[0].created) if entries else 0.0
        yield Started(now, rank, 0)
        # The status of a group counts its collectives and its sends together, and on Gloo also what has no entry
        mixed = {entry.status for entry in entries if entry.point_to_point or entry.call.backend in WITHOUT_TIMES}
        for number, entry in enumerate(entries):
            group = self.groups[rank, entry.group]
            now = max(now, self._seconds(entry.created))
            yield Issued(now, rank, number, self._operation(rank, entry.call, group))
            last_completed = self.dumps[rank].last_completed.get(entry.status, -1)
            if entry.has_ended or (entry.status not in mixed and entry.sequence <= last_completed):
                failed = self._has_failed(rank, entry, group, is_last=entry is entries[-1])
                yield Ended(max(now, self._end(entry, group, failed=failed)), rank, number, failed=failed)

    def _has_failed(self, rank: int, entry: DumpEntry, group: DumpedGroup, *, is_last: bool) -> bool:
        """Return True if a rank no longer waits for an operation although it cannot have succeeded.

        The root of a broadcast or reduce need not wait for the others. But a rank that went no further did wait.
        """
        if entry.given_up or not entry.may_have_succeeded:
            return entry.retired
        if entry.completed is not None:
            return False
        if entry.sequence <= group.least or (entry.call.op in ROOTED and not is_last):
            return False
        return any(
            last < entry.sequence and self._stood_still(other, entry, self._written[rank])
            for other, last in group.last.items()
        )

    def _stood_still(self, rank: int, entry: DumpEntry, until: int) -> bool:
        """Return True if the dump of a rank shows that it did not issue an operation until then, or for long."""
        return self._written[rank] >= until or self._written[rank] - entry.created > MOVING * 1e9

    def _end(self, entry: DumpEntry, group: DumpedGroup, *, failed: bool) -> float:
        """Return when an operation ended, or else the earliest time at which it can have ended."""
        if entry.completed is not None:
            return self._seconds(entry.completed)
        if failed and entry.call.backend not in WITHOUT_TIMES:
            return self._seconds(entry.created) + entry.timeout / 1e3
        return self._seconds(entry.created if entry.point_to_point else group.latest[entry.sequence])

    def _seconds(self, nanoseconds: int) -> float:
        return max(0, nanoseconds - self._begin) / 1e9

    def _operation(self, rank: int, call: DumpedCall, group: DumpedGroup) -> Operation:
        """Return what a call asks for in a group; equal ones are one object."""
        if (call, group) not in self._operations:
            operation = Operation(
                call.op, group.members, group.peer(call), call.shapes, call.dtype, call.bytes, call.file, call.line,
                group.name,
            )  # fmt: skip
            _check(Issued(0.0, rank, 0, operation), self.dumps[rank].path)
            self._operations[call, group] = operation
        return self._operations[call, group]

    def _began(self) -> Began:
        backends = {entry.call.backend for dump in self.dumps.values() for entry in dump.entries}
        devices = {DEVICES.get(backend, "cuda") for backend in backends}
        script = next((dump.script for dump in self.dumps.values() if dump.script), "")
        first = next(iter(self.dumps.values())).path
        began = Began(
            script=script or first.resolve().parent.name, args=(), ranks=self.ranks,
            device="cuda" if "cuda" in devices else min(devices, default="cpu"), backend=",".join(sorted(backends)),
            reason="as PyTorch's Flight Recorder dumps say",
        )  # fmt: skip
        _check(began, first)
        return began


def _check(event: Event, path: Path) -> None:
    """Raise UserError if an event has a value that no event of a saved run may have."""
    try:
        is_whole = decode(encode(event)) == event
    except ValueError as wrong:
        raise UserError(f"{path} has a value that cannot be: {wrong}.") from None
    if not is_whole:
        raise UserError(f"{path} has a value that cannot be: a text holds half of a character.")
