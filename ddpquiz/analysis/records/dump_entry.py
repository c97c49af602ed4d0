"""What one rank's Flight Recorder dump says, every field checked: its operations, its groups, and what it dropped.

The fields are those of torch/csrc/distributed/c10d/FlightRecorderDetail.hpp, which writes a dump.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

from ddpquiz.analysis.operation import MAX_RANKS
from ddpquiz.analysis.records import dump_file
from ddpquiz.analysis.records.call_site import CallSites
from ddpquiz.analysis.records.dump_fields import DumpFields
from ddpquiz.errors import UserError

NAMES = {  # of operators where the backends have others than scripts
    "_all_gather_base": "all_gather_into_tensor", "_reduce_scatter_base": "reduce_scatter_tensor",
    "all_gather_single": "all_gather_into_tensor", "reduce_scatter_single": "reduce_scatter_tensor",
    "_broadcast_oop": "broadcast", "_reduce_oop": "reduce", "all_reduce_barrier": "barrier",
    "allreduce_coalesced": "all_reduce_coalesced", "ALLGATHER_coalesced": "all_gather_into_tensor_coalesced",
    "REDUCE_SCATTER_coalesced": "reduce_scatter_tensor_coalesced", "all_to_all_v_single": "all_to_all_single",
    "recvAnySource": "recv",
}  # fmt: skip
WITHOUT_TIMES = ("gloo",)  # backends that do not record when an operation completed, only that it is over
COALESCED = "coalesced"  # an entry that closes a group of operations which a backend starts together
DTYPES = {  # C++ names with the names that scripts use, and the bytes of an element
    "Byte": ("uint8", 1), "Char": ("int8", 1), "Short": ("int16", 2), "Int": ("int32", 4), "Long": ("int64", 8),
    "Half": ("float16", 2), "BFloat16": ("bfloat16", 2), "Float": ("float32", 4), "Double": ("float64", 8),
    "ComplexHalf": ("complex32", 4), "ComplexFloat": ("complex64", 8), "ComplexDouble": ("complex128", 16),
    "UInt16": ("uint16", 2), "UInt32": ("uint32", 4), "UInt64": ("uint64", 8), "Bool": ("bool", 1),
}  # fmt: skip
_PROFILING_NAME = re.compile(r"(\w{1,40}):(\w{1,100})(?: (\d{1,9})(->|<-)(\d{1,9}))?(?: .*)?")
_RANK = re.compile(r"([0-9]{1,9})(?:\.(?:json|pickle|pkl))?$")
_RANKS = re.compile(r"\[[0-9, ]*\]")
MAX_TIMEOUT = 10**10  # milliseconds; more cannot be told from no time-out


@dataclass(slots=True, eq=False)
class DumpedCall:
    """What an entry asks for. Equal ones are one object. `peer` is a rank within the group."""

    backend: str
    op: str
    peer: int | None
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    bytes: int
    file: str
    line: int


@dataclass(slots=True, eq=False)
class DumpEntry:
    """One operation that a rank has issued; `sequence` counts those of its group from 1. Times are in nanoseconds.

    `sequence` counts collectives, or sends and receives, and operations that a backend starts together share it.
    `completed` is None if it is not known when the operation ended; `retired` is True if the rank waits no longer.
    """

    group: str
    description: str
    sequence: int
    point_to_point: bool
    call: DumpedCall
    created: int
    completed: int | None
    retired: bool
    timeout: int
    status: str  # of the process group: the key of its pg_status
    logical: int  # counts all operations of the group, also those that have no entry
    retained: bool = True  # False if it cannot be put together with what other ranks did
    given_up: bool = False  # an earlier dump shows that the rank waited for it until it failed

    @property
    def has_ended(self) -> bool:
        return self.retired or self.completed is not None

    @property
    def may_have_succeeded(self) -> bool:
        """True unless the watchdog ended it: then its backend would have recorded that it completed."""
        return self.completed is not None or (self.retired and self.call.backend in WITHOUT_TIMES)


@dataclass(slots=True)
class Dump:
    """The dump of one rank. `groups` holds the members of groups as far as the backend recorded them.

    `is_whole` is True if the dump has every operation that the rank issued. `script` is the outermost file, `ranks`
    the size of the default group as far as the dump shows it; `gathers` is True if an all_gather shows it.
    """

    path: Path
    rank: int
    groups: dict[str, tuple[int, ...]]
    last_completed: dict[str, int]  # sequence number, by process group
    entries: list[DumpEntry]
    is_whole: bool
    script: str
    ranks: int
    gathers: bool


def names_a_rank(path: Path) -> bool:
    """Return whether the name of a file ends in a rank."""
    return _RANK.search(path.name) is not None


def rank_of(path: Path) -> int:
    """Return the rank at the end of a dump's file name."""
    found = _RANK.search(path.name)
    if not found:
        raise UserError(f"{path} has no rank at the end of its name. Name each dump after its rank: `trace_0`, ...")
    rank = int(found[1])
    if rank >= MAX_RANKS:
        raise UserError(f"{path} is named after rank {rank:,}; ddpquiz reads jobs of up to {MAX_RANKS:,} ranks.")
    return rank


@dataclass
class DumpReader:
    """Reads dumps; equal calls of all dumps share one object."""

    _calls: dict[tuple[Any, ...], DumpedCall] = field(default_factory=dict)
    _sites: CallSites = field(default_factory=CallSites)

    def read(self, path: Path) -> Dump:
        """Return what a dump says; UserError if its fields cannot be those of a dump."""
        rank, values = rank_of(path), DumpFields(dump_file.load(path))
        try:
            return self._dump(path, rank, values)
        except ValueError as wrong:
            raise UserError(f"{path} is not a dump that ddpquiz can read: {wrong}. {dump_file.HOW}") from None

    def _dump(self, path: Path, rank: int, values: DumpFields) -> Dump:
        version = values.text("version")
        if not version.startswith("2."):
            raise ValueError(f"its format has version {version[:20]!a}, but ddpquiz reads version 2")
        items = values.sequence("entries") if "entries" in values.items else []
        by_record = {(fields := DumpFields.of(item, "an entry")).number("record_id"): fields for item in items}
        if len(by_record) < len(items):
            raise ValueError("two of its entries have the same `record_id`")
        entries = [by_record[record] for record in sorted(by_record)]
        groups, last_completed = dict(_groups(values)), dict(_statuses(values))
        gathered = max(map(_ranks_gathered_from, entries), default=0)
        highest = max([rank, *map(max, {*groups.values()})])  # thousands of groups may have the same members
        return Dump(
            path, rank, groups, last_completed, [self._entry(fields) for fields in entries],
            is_whole=max(by_record) + 1 == len(entries) if entries else max(last_completed.values(), default=0) < 1,
            script=next(filter(None, (self._sites.outermost(_frames(fields)) for fields in entries)), ""),
            ranks=max(highest + 1, gathered), gathers=gathered > 0,
        )  # fmt: skip

    def _entry(self, fields: DumpFields) -> DumpEntry:
        match fields.items.get("process_group"):
            case [str(group), str(description)]:
                pass
            case _:
                raise ValueError("`process_group` must be a name and a description")
        point_to_point = fields.flag("is_p2p")
        created = fields.number("time_created_ns")
        completed = fields.number("time_discovered_completed_ns", none=0)  # JSON has 0 for None
        return DumpEntry(
            group=group,
            description=description,
            sequence=fields.number("p2p_seq_id" if point_to_point else "collective_seq_id"),
            point_to_point=point_to_point,
            call=self._call(fields),
            created=created,
            completed=max(completed, created) if completed else None,
            retired=fields.flag("retired"),
            timeout=min(fields.number("timeout_ms"), MAX_TIMEOUT),
            status=str(fields.number("pg_id")),
            logical=fields.number("op_id"),
        )

    def _call(self, fields: DumpFields) -> DumpedCall:
        shapes, dtypes = fields.shapes("input_sizes"), fields.names("input_dtypes")
        if not shapes:  # a member of a scatter that brings nothing
            shapes, dtypes = fields.shapes("output_sizes"), fields.names("output_dtypes")
        file, line = self._sites.innermost(_frames(fields))
        key = fields.text("profiling_name"), shapes, dtypes[0] if dtypes else "", file, line
        if key not in self._calls:
            self._calls[key] = _new_call(*key)
        return self._calls[key]


def _new_call(name: str, shapes: tuple[tuple[int, ...], ...], dtype: str, file: str, line: int) -> DumpedCall:
    found = _PROFILING_NAME.fullmatch(name)
    if not found:
        raise ValueError("a `profiling_name` is not like `nccl:all_reduce`")
    backend, op, first, arrow, second = found.groups()
    op = NAMES.get(op, op)
    dtype, size = DTYPES.get(dtype, (dtype.lower(), 1))
    peer = int(second) if arrow == ("->" if op == "send" else "<-") and first else None
    if op == "barrier":
        shapes, dtype = (), ""
    return DumpedCall(backend, op, peer, shapes, dtype, size * sum(map(prod, shapes)), file, line)


def _frames(fields: DumpFields) -> list[Any]:
    """Return the stack of an entry, which JSON does not have."""
    return fields.sequence("frames") if "frames" in fields.items else []


def _groups(values: DumpFields) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the members of each group that has a name; Gloo writes neither."""
    for name, config in values.tables("pg_config").items():
        if (members := _members(config.text("ranks"))) and name:
            yield name, members


@lru_cache(maxsize=1000)
def _members(written: str) -> tuple[int, ...]:
    """Return the ranks of a group, written like `[0, 1]`; ValueError if they cannot be."""
    if len(written) > 10 * MAX_RANKS or not _RANKS.fullmatch(written):
        raise ValueError("the `ranks` of a group are not a list of ranks")
    members = tuple(map(int, re.findall("[0-9]+", written)))
    if any(rank >= MAX_RANKS for rank in members) or len({*members}) < len(members):
        raise ValueError(f"a group names a rank twice, or a job of more than {MAX_RANKS:,} ranks")
    return members


def _ranks_gathered_from(fields: DumpFields) -> int:
    """Return the size of the default group if an all_gather on Gloo shows it: it has no other place in a Gloo dump."""
    match fields.items:
        case {
            "profiling_name": "gloo:all_gather",
            "process_group": [_, "default_pg"],
            "input_sizes": [[*shape]],
            "output_sizes": [[int(ranks), *rest]],
        } if rest == shape:
            return ranks if ranks <= MAX_RANKS else 0
    return 0


def _statuses(values: DumpFields) -> Iterator[tuple[str, int]]:
    """Yield the last completed operation of each process group; JSON writes the numbers as texts."""
    for key, status in values.tables("pg_status").items():
        last = status.items.get("last_completed_collective", -1)
        if type(last) is str and re.fullmatch("-?[0-9]{1,19}", last):
            last = int(last)
        if type(last) is not int:
            raise ValueError("`last_completed_collective` must be a whole number")
        yield key, last
