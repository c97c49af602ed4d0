"""What one rank's Flight Recorder dump says, every field checked: its operations, the user's lines in their stacks.

A dump is foreign data, a pickle or JSON. A pickle can run code, ask for more memory than there is, hash a tuple that
takes ages or exhausts the C stack, and hold a list thousands of times. So the opcodes are looked at before they are
followed, and the values are counted before they are read.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, NoReturn, Self

from ddpquiz.errors import UserError
from ddpquiz.events.operation import MAX_RANKS

_HOW = "Use a dump that `torch.distributed` or NCCL's watchdog wrote."
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
_DTYPES = {  # C++ names with the names that scripts use, and the bytes of an element
    "Byte": ("uint8", 1), "Char": ("int8", 1), "Short": ("int16", 2), "Int": ("int32", 4), "Long": ("int64", 8),
    "Half": ("float16", 2), "BFloat16": ("bfloat16", 2), "Float": ("float32", 4), "Double": ("float64", 8),
    "ComplexHalf": ("complex32", 4), "ComplexFloat": ("complex64", 8), "ComplexDouble": ("complex128", 16),
    "UInt16": ("uint16", 2), "UInt32": ("uint32", 4), "UInt64": ("uint64", 8), "Bool": ("bool", 1),
}  # fmt: skip
_PROFILING_NAME = re.compile(r"(\w{1,40}):(\w{1,100})(?: (\d{1,9})(->|<-)(\d{1,9}))?(?: .*)?")
_RANK = re.compile(r"([0-9]{1,9})(?:\.(?:json|pickle|pkl))?$")
_RANK_INSIDE = re.compile(r"rank[-_]?([0-9]{1,9})(?![0-9])", re.IGNORECASE)
_RANKS = re.compile(r"\[[0-9, ]*\]")
_MAX_TIMEOUT = 10**10  # milliseconds; more cannot be told from no timeout


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
    """Whether the name of a file ends in a rank."""
    return _RANK.search(path.name) is not None


def rank_of(path: Path, values: DumpFields | None = None) -> int:
    """The rank at the end of a dump's file name, or else the one that the dump or another part of it names."""
    found = _RANK.search(path.name)
    rank = int(found[1]) if found else None if values is None else _own_rank(values)
    if rank is None and (found := _RANK_INSIDE.search(path.name)):
        rank = int(found[1])
    if rank is None:
        raise UserError(f"{path} has no rank at the end of its name. Name each dump after its rank: `trace_0`, ...")
    if rank >= MAX_RANKS:
        raise UserError(f"{path} is named after rank {rank:,}; ddpquiz reads jobs of up to {MAX_RANKS:,} ranks.")
    return rank


class DumpReader:
    """Reads dumps; equal calls of all dumps share one object."""

    def __init__(self) -> None:
        self._calls: dict[tuple[Any, ...], DumpedCall] = {}
        self._sites = StackSites()

    def read(self, path: Path) -> Dump:
        """What a dump says; UserError if its fields cannot be those of a dump."""
        rank = rank_of(path) if names_a_rank(path) else None
        values = DumpFields(load(path))
        try:
            return self._dump(path, rank_of(path, values) if rank is None else rank, values)
        except ValueError as wrong:
            raise UserError(f"{path} is not a dump that ddpquiz can read: {wrong}. {_HOW}") from None

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
            timeout=min(fields.number("timeout_ms"), _MAX_TIMEOUT),
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
    dtype, size = _DTYPES.get(dtype, (dtype.lower(), 1))
    peer = int(second) if arrow == ("->" if op == "send" else "<-") and first else None
    if op == "barrier":
        shapes, dtype = (), ""
    return DumpedCall(backend, op, peer, shapes, dtype, size * sum(map(prod, shapes)), file, line)


def _frames(fields: DumpFields) -> list[Any]:
    """The stack of an entry, which JSON does not have."""
    return fields.sequence("frames") if "frames" in fields.items else []


def _groups(values: DumpFields) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the members of each group that has a name; Gloo writes neither."""
    for name, config in values.tables("pg_config").items():
        if (members := _members(config.text("ranks"))) and name:
            yield name, members


@lru_cache(maxsize=1000)
def _members(written: str) -> tuple[int, ...]:
    """The ranks of a group, written like `[0, 1]`; ValueError if they cannot be."""
    if len(written) > 10 * MAX_RANKS or not _RANKS.fullmatch(written):
        raise ValueError("the `ranks` of a group are not a list of ranks")
    members = tuple(map(int, re.findall("[0-9]+", written)))
    if any(rank >= MAX_RANKS for rank in members) or len({*members}) < len(members):
        raise ValueError(f"a group names a rank twice, or a job of more than {MAX_RANKS:,} ranks")
    return members


def _own_rank(values: DumpFields) -> int | None:
    """The rank whose dump it is, as far as it says: NCCL's largest communicator, or else a send or receive."""
    sizes: dict[int, int] = {}  # of communicators, by the rank in them
    for state in values.tables("nccl_comm_state").values():
        rank, size = (str(state.items.get(key, "")) for key in ("rank", "nranks"))
        if re.fullmatch("[0-9]{1,9}", rank):
            sizes[int(rank)] = max(sizes.get(int(rank), 0), int(size) if re.fullmatch("[0-9]{1,9}", size) else 0)
    if sizes and (len(sizes) == 1 or len({*sizes.values()}) == len(sizes)):
        return max(sizes, key=lambda rank: sizes[rank])
    for item in values.sequence("entries") if "entries" in values.items else []:
        match item:
            case {"profiling_name": str(name), "process_group": [_, "default_pg"]}:
                if (found := _PROFILING_NAME.fullmatch(name)) and found[3]:
                    return int(found[3])
    return None


def _ranks_gathered_from(fields: DumpFields) -> int:
    """The size of the default group if an all_gather on Gloo shows it: it has no other place in a Gloo dump."""
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


# Which line of a stack is the user's: the stack of a dump begins in torch and ends in what started Python.

_MAX_LINE = 10**7
_TORCH_OR_PYTHON = re.compile(  # torch installed or in its repository, the standard library, and C++
    r"/(?:site|dist)-packages/(?:torch|torchgen|functorch)/|/torch/(?:distributed|nn|autograd|utils|optim|_\w+)/"
    r"|/torch/multiprocessing/|/lib/python3\.\d+/(?!(?:site|dist)-packages/)|^<|^\?\?|\.(?:cpp|cc|c|h|hpp)$|^$"
)
_INSTALLED = re.compile("/(?:site|dist)-packages/")


class Owner(IntEnum):
    """Whose code a file is, in the order in which a line of it explains an operation to the user."""

    USER = 0
    LIBRARY = 1
    TORCH_OR_PYTHON = 2


def owner_of(file: str) -> Owner:
    """Whose code a file is."""
    file = file.replace("\\", "/")
    if _TORCH_OR_PYTHON.search(file):
        return Owner.TORCH_OR_PYTHON
    return Owner.LIBRARY if _INSTALLED.search(file) else Owner.USER


@dataclass
class StackSites:
    """Finds the user's lines in stack traces; equal texts share memory."""

    _owners: dict[str, tuple[str, Owner]] = field(default_factory=dict)

    def innermost(self, frames: list[Any]) -> tuple[str, int]:
        """The file and line of the user's innermost frame, or else of a library's; or ("", 0)."""
        found, best = ("", 0), Owner.TORCH_OR_PYTHON
        for file, line in _places(frames):
            known, owner = self._owner(file)
            if owner < best:
                found, best = (known, line), owner
            if owner is Owner.USER:
                break
        return found

    def outermost(self, frames: list[Any]) -> str:
        """The file of the user's outermost frame, or an empty text."""
        for file, _ in _places(frames[::-1]):
            known, owner = self._owner(file)
            if owner is Owner.USER:
                return known
        return ""

    def _owner(self, file: str) -> tuple[str, Owner]:
        if file not in self._owners:
            self._owners[file] = file, owner_of(file)
        return self._owners[file]


def _places(frames: list[Any]) -> Iterator[tuple[str, int]]:
    for frame in frames:
        match frame:
            case {"filename": str(file), "line": int(line)} if 0 <= line <= _MAX_LINE and len(file) <= 4096:
                yield file, line
            case _:
                raise ValueError("a frame of `frames` must have a `filename` and a `line`")


# The fields of a dump by their types.

_MAX_NUMBER = 2**63 - 1
_MAX_DIMENSIONS = 64
_MAX_NAME = 200  # characters; a text that many entries share may be large


@dataclass(slots=True)
class DumpFields:
    """A dictionary of a dump, or one in it. Each method returns a field; ValueError says what it should be."""

    items: dict[str, Any]

    @classmethod
    def of(cls, value: Any, what: str) -> Self:
        if type(value) is not dict:
            raise ValueError(f"{what} must be a dictionary")
        return cls(value)

    def number(self, name: str, none: int | None = None) -> int:
        """A whole number, or `none` if the field is None."""
        value = self.items.get(name)
        if value is None and none is not None:
            return none
        if type(value) is not int or not 0 <= value <= _MAX_NUMBER:
            raise ValueError(f"`{name}` must be a whole number from 0 to 2**63 - 1")
        return value

    def flag(self, name: str) -> bool:
        value = self.items.get(name)
        if type(value) is not bool:
            raise ValueError(f"`{name}` must be true or false")
        return value

    def text(self, name: str) -> str:
        value = self.items.get(name)
        if type(value) is not str:
            raise ValueError(f"`{name}` must be a text")
        return value

    def sequence(self, name: str) -> list[Any]:
        value = self.items.get(name)
        if type(value) is not list:
            raise ValueError(f"`{name}` must be a list")
        return value

    def names(self, name: str) -> list[str]:
        value = self.sequence(name)
        if not {*map(type, value)} <= {str} or max(map(len, value), default=0) > _MAX_NAME:
            raise ValueError(f"`{name}` must be a list of texts of at most {_MAX_NAME} characters")
        return value

    def shapes(self, name: str) -> tuple[tuple[int, ...], ...]:
        value = self.sequence(name)
        for shape in value:
            if type(shape) is not list or len(shape) > _MAX_DIMENSIONS or not {*map(type, shape)} <= {int}:
                raise ValueError(f"`{name}` must be a list of lists of whole numbers")
            if shape and (min(shape) < 0 or max(shape) > _MAX_NUMBER):
                raise ValueError(f"`{name}` must have lengths from 0 to 2**63 - 1")
        return tuple(map(tuple, value))

    def tables(self, name: str) -> dict[str, DumpFields]:
        """A dictionary of dictionaries; an empty one if there is no such field."""
        values = DumpFields.of(self.items.get(name, {}), f"`{name}`").items
        return {key: DumpFields.of(value, f"each value of `{name}`") for key, value in values.items()}


# A dump as plain values: dictionaries with texts as keys, lists, texts, numbers.

_MAX_BYTES = 256 << 20
_MAX_VALUES = 8_000_000  # about 50,000 entries; they need less than 1 GB
_MAX_DEPTH = 100  # lists and dictionaries in each other; dumps have 5
_MOST_PER_BYTE = 8  # values for a byte of a pickle, each counted wherever it stands; dumps of real jobs have up to 1

_PLAIN = (
    "PROTO FRAME STOP NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 BINFLOAT LONG1 SHORT_BINUNICODE BINUNICODE "
    "BINUNICODE8 BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET MARK EMPTY_LIST EMPTY_DICT APPEND APPENDS SETITEM "
    "SETITEMS TUPLE2"
)  # the opcodes that build plain values; torch writes a tuple for the name and the description of a group
_SIZES = {  # of the argument of each, as pickletools has them: below zero, the argument begins with its length
    ord(opcode.code): opcode.arg.n if opcode.arg else 0
    for opcode in pickletools.opcodes
    if opcode.name in _PLAIN.split()
}
_LENGTHS = {
    pickletools.TAKEN_FROM_ARGUMENT1: 1, pickletools.TAKEN_FROM_ARGUMENT4U: 4, pickletools.TAKEN_FROM_ARGUMENT8U: 8,
}  # fmt: skip
_TEXTS = {pickle.SHORT_BINUNICODE[0], pickle.BINUNICODE[0], pickle.BINUNICODE8[0]}
_BINGET, _LONG_BINGET = pickle.BINGET[0], pickle.LONG_BINGET[0]
_PUTS = {pickle.BINPUT[0], pickle.LONG_BINPUT[0], pickle.MEMOIZE[0]}
_STOP, _MEMOIZE, _TUPLE2, _FRAME = pickle.STOP[0], pickle.MEMOIZE[0], pickle.TUPLE2[0], pickle.FRAME[0]
_DAMAGED = "it is an incomplete or damaged pickle"


def load(path: Path) -> dict[str, Any]:
    """The contents of a dump; UserError says why a file is not one. A pickle may hold pairs of texts."""
    data = bytearray()
    try:
        with path.open("rb") as file:
            while len(data) <= _MAX_BYTES and (piece := file.read(1 << 20)):
                data += piece
    except FileNotFoundError:
        raise UserError(f"There is no dump {path}.") from None
    except (OSError, ValueError) as wrong:  # the latter for a path that holds a NUL
        raise UserError(f"{path} cannot be read ({getattr(wrong, 'strerror', None) or wrong}).") from None
    if len(data) > _MAX_BYTES:
        raise UserError(f"{path} is larger than 256 MB. Record fewer operations with TORCH_FR_BUFFER_SIZE.")
    if not data:
        raise UserError(f"{path} is empty: the rank ended before its dump was written. Leave the file out.")
    try:
        values = _read_pickle(data) if data.startswith(pickle.PROTO) else _read_json(data)
    except ValueError as wrong:
        raise UserError(f"{path} cannot be read as a Flight Recorder dump: {wrong}. {_HOW}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} is not a Flight Recorder dump. {_HOW}")
    return values


def _read_json(data: bytearray) -> Any:
    if sum(map(data.count, (b",", b"[", b"{"))) > _MAX_VALUES:
        raise ValueError(f"it holds more than {_MAX_VALUES:,} values")
    try:
        return json.loads(data)
    except json.JSONDecodeError as wrong:
        raise ValueError(f"it is neither a pickle nor valid JSON (line {wrong.lineno}, column {wrong.colno})") from None
    except (ValueError, RecursionError):  # bytes that are not text, a number of thousands of digits, deep nesting
        raise ValueError("it is neither a pickle nor valid JSON") from None


class _PlainUnpickler(pickle.Unpickler):
    """Builds plain values only; `_check_opcodes` has refused all that could ask it for others."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, pid: Any, /) -> NoReturn:
        raise pickle.UnpicklingError(str(pid))


def _read_pickle(data: bytearray) -> Any:
    """The value of a pickle; ValueError says what is wrong with it."""
    try:
        _check_opcodes(data)
        values = _PlainUnpickler(io.BytesIO(data)).load()
    except (
        pickle.UnpicklingError,
        EOFError,
        IndexError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        UnicodeDecodeError,
    ):
        raise ValueError(_DAMAGED) from None
    if _count(values) > _MOST_PER_BYTE * len(data):
        raise ValueError("it holds the same values again and again")
    return values


def _check_opcodes(data: bytearray) -> None:  # noqa: C901  # a branch for each kind of opcode
    """Raise ValueError if a pickle does anything but build plain values in little memory; IndexError at its end.

    A tuple can be the key of a dictionary: with nothing but texts in it, its hash needs neither time nor stack.
    """
    at = memoized = 0
    texts_on_top = 0  # how many of the newest values on the stack are known to be texts
    memoized_texts: set[int] = set()
    for _ in range(_MAX_VALUES):
        opcode = data[at]
        if opcode == _BINGET:  # half of all opcodes
            texts_on_top = texts_on_top + 1 if data[at + 1] in memoized_texts else 0
            at += 2
            continue
        size = _SIZES.get(opcode)
        if size is None:
            raise ValueError(f"its byte {at:,} asks for an object that is not a plain value")
        at += 1
        if opcode == _LONG_BINGET:
            texts_on_top = texts_on_top + 1 if int.from_bytes(data[at : at + size], "little") in memoized_texts else 0
        elif opcode in _PUTS:
            place = memoized if opcode == _MEMOIZE else int.from_bytes(data[at : at + size], "little")
            if place > memoized:
                raise IndexError  # no pickler leaves a gap, which would take memory
            memoized = max(memoized, place + 1)
            (memoized_texts.add if texts_on_top else memoized_texts.discard)(place)
        elif opcode in _TEXTS:
            texts_on_top += 1
        elif opcode == _STOP:
            return
        elif opcode == _TUPLE2 and texts_on_top < 2:
            raise ValueError("it holds a tuple that is not a pair of texts")
        elif opcode != _FRAME:
            texts_on_top = 0
        if size < 0:
            length = _LENGTHS[size]
            size = length + int.from_bytes(data[at : at + length], "little")
        at += size
    raise ValueError(f"it holds more than {_MAX_VALUES:,} values")


def _count(values: Any) -> int:
    """How many values these are, where a list or dictionary counts wherever it stands.

    ValueError if one of them contains itself, is nested too deeply, or has a key that is not a text.
    """
    counts: dict[int, int] = {}  # by identity
    begun: set[int] = set()  # those that hold the value on top of the stack
    stack = [values]
    while stack:
        value = stack[-1]
        if id(value) in counts:
            stack.pop()
            continue
        if type(value) is dict and not {*map(type, value)} <= {str}:
            raise ValueError("it holds a key that is not a text")
        inner = value.values() if type(value) is dict else value if type(value) is list else ()
        parts = [part for part in inner if type(part) in (list, dict)]
        if missing := [part for part in parts if id(part) not in counts]:
            if id(value) in begun:
                raise ValueError("it holds a list that contains itself")
            begun.add(id(value))
            if len(begun) > _MAX_DEPTH:
                raise ValueError(f"its lists are nested more than {_MAX_DEPTH} deep")
            stack += missing
        else:
            begun.discard(id(value))
            counts[id(value)] = min(_MAX_BYTES * _MOST_PER_BYTE, len(inner) + sum(counts[id(part)] for part in parts))
            stack.pop()
    return counts[id(values)]
