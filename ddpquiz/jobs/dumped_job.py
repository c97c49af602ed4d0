"""PyTorch's Flight Recorder dumps, one or two files per rank, as the record of a job.

The ring buffer of each rank has dropped its oldest entries, and the analysis counts the operations of a group on each
member from 0. So an operation stays only if every member that has issued it still has an entry of it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ddpquiz.errors import UserError
from ddpquiz.events.event import Began, Ended, Event, Issued, Started, decode, encode, when
from ddpquiz.events.formatting import format_ranks
from ddpquiz.events.operation import POINT_TO_POINT, ROOTED, Operation
from ddpquiz.jobs.dump_file import COALESCED, WITHOUT_TIMES, Dump, DumpedCall, DumpEntry, DumpReader, rank_of
from ddpquiz.jobs.job_record import JobRecord
from ddpquiz.plural import plural

_DEVICES = {"gloo": "cpu", "mpi": "cpu", "xccl": "xpu", "hccl": "npu"}  # of other backends: cuda
_MAX_SECONDS = 1e8
_MOVING = 1.0  # seconds; a job that issued an operation so shortly before its dumps is not stuck


def read_dumps(paths: Sequence[Path], ranks: int = 0) -> JobRecord:
    """What the dumps of a job's ranks hold; UserError says what is wrong with a file if none can be read.

    `ranks` is the size of the job if the user knows it: dumps do not always show it. A dump that cannot be read is
    left out, with a note.
    """
    if not paths:
        raise UserError("There are no Flight Recorder dumps to read.")
    reader, dumps = DumpReader(), dict[int, Dump]()
    unread: dict[Path, UserError] = {}
    for path in paths:
        try:
            dump = reader.read(path)
        except UserError as wrong:
            unread[path] = wrong
            continue
        dumps[dump.rank] = _merge(dumps[dump.rank], dump) if dump.rank in dumps else dump
    if not dumps:
        raise next(iter(unread.values()))
    record = _DumpedJob(dict(sorted(dumps.items())), ranks, {*map(_rank_in_name, unread)}).record()
    ranks_unread = tuple(rank for rank in record.missing if rank in map(_rank_in_name, unread))
    notes = [f"A dump is left out: {wrong}" for wrong in unread.values()]
    if ranks_unread:
        notes.append(f"So what {format_ranks(ranks_unread)} did is not known.")
    return replace(record, notes=(*record.notes, *notes), unread=ranks_unread)


def _rank_in_name(path: Path) -> int | None:
    """The rank that the name of a dump tells, whatever is in it."""
    try:
        return rank_of(path)
    except UserError:
        return None


class _DumpedJob:
    """Puts the dumps of a job together; the dumps of the ranks `unread` are there, but cannot be read."""

    def __init__(self, dumps: dict[int, Dump], ranks: int, unread: Collection[int | None]) -> None:
        self.dumps = dumps
        self.ranks = max(ranks, *(dump.ranks for dump in dumps.values()))
        self._is_size_known = bool(ranks) or any(dump.groups or dump.gathers for dump in dumps.values())
        while not self._is_size_known and self.ranks in unread:
            self.ranks += 1
        for dump in dumps.values():
            _join_coalesced(dump)
        self.groups = _find_groups(dumps, self.ranks)
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
        self._operations: dict[tuple[DumpedCall, _DumpedGroup], Operation] = {}

    def record(self) -> JobRecord:
        """The events of all ranks, in order, and what is not known."""
        left_out = 0
        events: list[Event] = []
        for rank, dump in self.dumps.items():
            retained = [entry for entry in dump.entries if self._is_retained(rank, entry)]
            left_out += len(dump.entries) - len(retained)
            events += self._events(rank, retained)
        events.sort(key=lambda event: (when(event), isinstance(event, Ended)))
        if events and when(events[-1]) >= _MAX_SECONDS:
            raise UserError("The times in the dumps are more than three years apart. Read dumps of one job only.")
        notes = _notes_on(self.dumps, {*self.groups.values()}, left_out)
        if not self._is_size_known:
            notes += (f"The dumps do not say how many ranks the job had; if not {self.ranks}, name it with --nproc.",)
        return JobRecord(
            (self._began(), *events), self.ranks, tuple(self.dumps), "Flight Recorder", until=self._until(),
            seen={rank: self._seconds(written) for rank, written in self._written.items()}, notes=notes,
        )  # fmt: skip

    def _until(self) -> float:
        """The time until which nothing else happened: infinity, unless the job went on after the dumps.

        Then some rank is still in an operation, and the files are hardly older than the newest one. A file that was
        copied is newer: what it holds counts as stuck.
        """
        held = [dump for dump in self.dumps.values() if dump.entries]
        newest = max((dump.entries[-1].created for dump in held), default=0) / 1e9
        written = max((self._written[dump.rank] for dump in held), default=math.inf) / 1e9
        is_open = any(not dump.entries[-1].has_ended for dump in held)
        if is_open and 0 <= written - newest < _MOVING:
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

    def _has_failed(self, rank: int, entry: DumpEntry, group: _DumpedGroup, *, is_last: bool) -> bool:
        """True if a rank no longer waits for an operation although it cannot have succeeded.

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
        """True if the dump of a rank shows that it did not issue an operation until then, or for long."""
        return self._written[rank] >= until or self._written[rank] - entry.created > _MOVING * 1e9

    def _end(self, entry: DumpEntry, group: _DumpedGroup, *, failed: bool) -> float:
        """When an operation ended, or else the earliest time at which it can have ended."""
        if entry.completed is not None:
            return self._seconds(entry.completed)
        if failed and entry.call.backend not in WITHOUT_TIMES:
            return self._seconds(entry.created) + entry.timeout / 1e3
        return self._seconds(entry.created if entry.point_to_point else group.latest[entry.sequence])

    def _seconds(self, nanoseconds: int) -> float:
        return max(0, nanoseconds - self._begin) / 1e9

    def _operation(self, rank: int, call: DumpedCall, group: _DumpedGroup) -> Operation:
        """What a call asks for in a group; equal ones are one object."""
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
        devices = {_DEVICES.get(backend, "cuda") for backend in backends}
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


# Which operations of several dumps belong together.

_Channel = tuple[int, int]  # from which rank to which


@dataclass(slots=True, eq=False)
class _DumpedGroup:
    """A process group, and what its present members did in it. `is_inferred` if no dump names the members.

    `last` is the number of the last collective that a member is known to have issued, `latest` when the last member
    issued a collective, in nanoseconds, by its number. `aligned` are the collectives that stay, and all present members
    have issued those up to `least`.
    """

    name: str
    members: tuple[int, ...]
    is_inferred: bool
    last: dict[int, int] = field(default_factory=dict)
    latest: dict[int, int] = field(default_factory=dict)
    aligned: frozenset[int] = frozenset()
    least: int = 0
    _holders: Counter[int] = field(default_factory=Counter)  # how many members have an entry of a collective
    _channels: defaultdict[_Channel, dict[int, list[DumpEntry]]] = field(default_factory=lambda: defaultdict(dict))
    _last_succeeded: int = 0

    def add(self, rank: int, entries: Sequence[DumpEntry]) -> None:
        """Count the entries of a member."""
        held = set()
        for entry in entries:
            if entry.point_to_point:
                self._add_to_channel(rank, entry)
                continue
            sequence = entry.sequence
            self.last[rank] = max(self.last.get(rank, 0), sequence)
            self.latest[sequence] = max(self.latest.get(sequence, 0), entry.created)
            if entry.may_have_succeeded:
                self._last_succeeded = max(self._last_succeeded, sequence)
            if entry.retained:
                held.add(sequence)
        self._holders.update(held)

    def peer(self, call: DumpedCall) -> int | None:
        """The other rank of a send or receive, if the dump names it."""
        return None if call.peer is None or call.peer >= len(self.members) else self.members[call.peer]

    def align(self, dumps: Mapping[int, Dump]) -> None:
        """Find the operations that every present member which issued them still has."""
        present = [rank for rank in self.members if rank in dumps]
        for rank in present:
            if rank not in self.last and not dumps[rank].is_whole:
                self.last[rank] = self._last_succeeded  # a collective that has succeeded was issued by all
        self.least = min(self.last.get(rank, 0) for rank in present)
        lasts = sorted(self.last.values())
        self.aligned = frozenset(
            sequence
            for sequence, holders in self._holders.items()
            if holders == len(lasts) - bisect_left(lasts, sequence)
        )
        for ends, entries in self._channels.items():
            if all(rank in dumps for rank in ends) and not all(dumps[rank].is_whole for rank in ends):
                _align_ends([entries.get(rank, []) for rank in ends])

    def _add_to_channel(self, rank: int, entry: DumpEntry) -> None:
        peer = self.peer(entry.call)
        if peer is not None and entry.call.op in POINT_TO_POINT:
            channel = (rank, peer) if entry.call.op == "send" else (peer, rank)
            self._channels[channel].setdefault(rank, []).append(entry)


def _align_ends(sides: Sequence[Sequence[DumpEntry]]) -> None:
    """Leave as many ended operations on each side of a channel, the last ones."""
    ended = [[entry for entry in side if entry.has_ended] for side in sides]
    fewest = min(map(len, ended))
    for side in ended:
        for entry in side[: len(side) - fewest]:
            entry.retained = False


def _join_coalesced(dump: Dump) -> None:
    """Give the operations that were started together the end of the entry that closes them, and drop that entry.

    The first of them may be lost: then what is left of them is not retained.
    """
    parts: defaultdict[tuple[str, bool, int], list[DumpEntry]] = defaultdict(list)
    kept: list[DumpEntry] = []
    first = None if dump.is_whole or not dump.entries else dump.entries[0]
    for entry in dump.entries:
        together = parts[entry.group, entry.point_to_point, entry.sequence]
        if entry.call.op != COALESCED:
            together.append(entry)
            kept.append(entry)
        elif together:
            for part in together:
                part.completed, part.retired = entry.completed, entry.retired
                part.retained = first not in together
        elif not entry.point_to_point:  # before version 2.7 the collectives themselves have no entries
            entry.retained = entry is not first
            kept.append(entry)
    dump.entries[:] = kept


def _find_groups(dumps: Mapping[int, Dump], ranks: int) -> dict[tuple[int, str], _DumpedGroup]:
    """The group of each name on each rank that used it."""
    users: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for rank, dump in dumps.items():
        for key in dict.fromkeys((entry.group, entry.description) for entry in dump.entries):
            users[key].append(rank)
    known: dict[tuple[str, tuple[int, ...]], _DumpedGroup] = {}
    groups: dict[tuple[int, str], _DumpedGroup] = {}
    everyone = tuple(range(ranks))
    for (name, description), using in users.items():
        recorded = {members for dump in dumps.values() if (members := dump.groups.get(name))}
        for rank in using:
            own = [dumps[rank].groups.get(name, ()), *sorted(recorded)]
            members = next((each for each in own if rank in each), ())
            inferred = members or (everyone if description == "default_pg" else tuple(using))
            group = known.setdefault((name, inferred), _DumpedGroup(name, inferred, is_inferred=not members))
            groups[rank, name] = group
    return groups


# Two dumps of one rank as one, such as JSON from the time when it hung and a pickle with stacks from its timeout.

_Key = tuple[str, int, bool, int, int]


def _merge(first: Dump, second: Dump) -> Dump:
    """What two dumps of a rank hold together; only the later one if they have no operation in common."""
    earlier, later = sorted((first, second), key=_progress)
    known = {_key(entry): entry for entry in earlier.entries}
    created = {key[:-1]: key[-1] for key in known}
    if any(created.get(key[:-1], key[-1]) != key[-1] for key in map(_key, later.entries)):
        raise UserError(
            f"{first.path} and {second.path} are dumps of rank {first.rank} of two jobs, or of two starts of one job. "
            "Name one job at a time."
        )
    common = [entry for entry in later.entries if _key(entry) in known]
    if not common:
        return later
    for entry in common:
        if not entry.call.line:
            entry.call = known[_key(entry)].call
    last, was = later.entries[-1], earlier.entries[-1]
    if _key(last) == _key(was) and last.completed is None and not was.has_ended:
        last.given_up = last.has_ended
    held = {_key(entry) for entry in later.entries}
    older = [entry for entry in earlier.entries if _key(entry) not in held and entry.created < later.entries[0].created]
    later.entries[:0] = older
    later.is_whole = later.is_whole or (earlier.is_whole and _key(earlier.entries[-1]) in held)
    later.groups = earlier.groups | later.groups
    later.script, later.ranks = later.script or earlier.script, max(earlier.ranks, later.ranks)
    return later


def _progress(dump: Dump) -> tuple[int, int, int]:
    """What grows from one dump of a rank to the next."""
    ended = sum(entry.has_ended for entry in dump.entries)
    return dump.entries[-1].created if dump.entries else 0, ended, sum(entry.call.line > 0 for entry in dump.entries)


def _key(entry: DumpEntry) -> _Key:
    return entry.group, entry.sequence, entry.point_to_point, entry.logical, entry.created


# What Flight Recorder dumps do not say, in sentences.


def _notes_on(dumps: Mapping[int, Dump], groups: Collection[_DumpedGroup], left_out: int) -> tuple[str, ...]:
    """What is not known of a job; `left_out` counts the entries that could not be aligned."""
    entries = [entry for dump in dumps.values() for entry in dump.entries]
    if not entries:
        return ("The dumps hold no operations. Set TORCH_FR_BUFFER_SIZE=2000 in the environment of the job.",)
    notes = ["Flight Recorder does not record roots or reduce operators, so they are not compared."]
    if not any(entry.call.line for entry in entries):
        notes.append("The dumps hold no stack traces, so the lines that issued the operations are not known.")
    if len(dumps) > 1:
        notes.append("Each rank's times come from the clock of its own machine, and the clocks may differ.")
    if dropped := [rank for rank, dump in dumps.items() if not dump.is_whole]:
        lost = f"The dumps of {format_ranks(dropped)} do not hold all operations"
        if left_out:
            lost += f"; {plural(left_out, 'entry', 'entries')} without a counterpart on another rank were left out"
        notes.append(f"{lost}.")
        if any(entry.point_to_point for entry in entries):
            notes.append("Sends and receives are therefore matched from the last one that ended on both ranks.")
    if any(entry.call.backend == "gloo" for entry in entries):
        notes += _gloo_notes(dumps, groups)
    return tuple(notes)


def _gloo_notes(dumps: Mapping[int, Dump], groups: Collection[_DumpedGroup]) -> list[str]:
    notes = ["Gloo does not record when operations end: each is shown to end when the last rank has issued it."]
    if any(group.is_inferred for group in groups):
        notes.append("Gloo does not record who is in a group: a group is taken to be the ranks that used it.")
    unrecorded = {
        rank
        for rank, dump in dumps.items()
        if any(entry.call.backend == "gloo" and entry.logical > entry.sequence for entry in dump.entries)
    }
    called = f"; {format_ranks(unrecorded)} called some" if unrecorded else ""
    notes.append(f"Gloo does not record sends or receives{called}. A rank that seems late may wait in one.")
    return notes
