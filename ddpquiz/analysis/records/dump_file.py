"""One Flight Recorder dump, from a pickle or from JSON, as plain values: dicts with text keys, lists, texts, numbers.

A dump is foreign data. A pickle can run code, ask for more memory than there is, hash a tuple that takes ages or
exhausts the C stack, and hold a list thousands of times. So the opcodes are looked at before they are followed, and the
values are counted before they are read.
"""

import io
import json
import pickle
import pickletools
from pathlib import Path
from typing import Any, NoReturn

from ddpquiz.errors import UserError

MAX_BYTES = 256 << 20
MAX_VALUES = 8_000_000  # about 50,000 entries; they need less than 1 GB
MOST_PER_BYTE = 8  # values for a byte of a pickle, each counted wherever it stands; dumps of real jobs have up to 1

HOW = "Use a dump that `torch.distributed` or NCCL's watchdog wrote."
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
    """Return the contents of a dump; UserError says why a file is not one. A pickle may hold pairs of texts."""
    data = bytearray()
    try:
        with path.open("rb") as file:
            while len(data) <= MAX_BYTES and (piece := file.read(1 << 20)):
                data += piece
    except FileNotFoundError:
        raise UserError(f"There is no dump {path}.") from None
    except (OSError, ValueError) as wrong:  # the latter for a path that holds a NUL
        raise UserError(f"{path} cannot be read ({getattr(wrong, 'strerror', None) or wrong}).") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"{path} is larger than 256 MB. Record fewer operations with TORCH_FR_BUFFER_SIZE.")
    if not data:
        raise UserError(f"{path} is empty: the rank ended before its dump was written. Leave the file out.")
    try:
        values = _read_pickle(data) if data.startswith(pickle.PROTO) else _read_json(data)
    except ValueError as wrong:
        raise UserError(f"{path} cannot be read as a Flight Recorder dump: {wrong}. {HOW}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} is not a Flight Recorder dump. {HOW}")
    return values


def _read_json(data: bytearray) -> Any:
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise ValueError(f"it holds more than {MAX_VALUES:,} values")
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
    """Return the value of a pickle; ValueError says what is wrong with it."""
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
    if _count(values) > MOST_PER_BYTE * len(data):
        raise ValueError("it holds the same values again and again")
    return values


def _check_opcodes(data: bytearray) -> None:  # noqa: C901  # a branch for each kind of opcode
    """Raise ValueError if a pickle does anything but build plain values in little memory; IndexError at its end.

    A tuple can be the key of a dictionary: with nothing but texts in it, its hash needs neither time nor stack.
    """
    at = memoized = 0
    texts_on_top = 0  # how many of the newest values on the stack are known to be texts
    memoized_texts: set[int] = set()
    for _ in range(MAX_VALUES):
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
    raise ValueError(f"it holds more than {MAX_VALUES:,} values")


def _count(values: Any) -> int:
    """Return how many values these are, where a list or dictionary counts wherever it stands.

    ValueError if one of them contains itself, or has a key that is not a text.
    """
    counts: dict[int, int] = {}  # by identity
    begun: set[int] = set()
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
            stack += missing
        else:
            counts[id(value)] = min(MAX_BYTES * MOST_PER_BYTE, len(inner) + sum(counts[id(part)] for part in parts))
            stack.pop()
    return counts[id(values)]
