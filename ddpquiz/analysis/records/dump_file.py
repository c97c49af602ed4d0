"""One Flight Recorder dump, from a pickle or from JSON, as plain values: dicts with text keys, lists, texts, numbers.

A dump is foreign data. Python's own unpickler can run code, and a short file can make it fill the memory or exhaust the
C stack. The reader here knows only the opcodes that build plain values, and stops after a number of them.
"""

import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ddpquiz.errors import UserError

MAX_BYTES = 256 << 20
MAX_VALUES = 8_000_000  # about 50,000 entries; they need less than 1 GB

Step = Callable[[int], int]
_STOP, _BINGET = pickle.STOP[0], pickle.BINGET[0]
_INT, _FLOAT = struct.Struct("<i"), struct.Struct(">d")

HOW = "Use a dump that `torch.distributed` or NCCL's watchdog wrote."


def load(path: Path) -> dict[str, Any]:
    """Return the contents of a dump; UserError says why a file is not one. Tuples of a pickle become lists."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UserError(f"There is no dump {path}.") from None
    except (OSError, ValueError) as wrong:  # the latter for a path that holds a NUL
        raise UserError(f"{path} cannot be read ({getattr(wrong, 'strerror', None) or wrong}).") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"{path} is larger than 256 MB. Record fewer operations with TORCH_FR_BUFFER_SIZE.")
    if not data:
        raise UserError(f"{path} is empty: the rank ended before its dump was written. Leave the file out.")
    try:
        values = PickleReader(data).read() if data.startswith(pickle.PROTO) else _read_json(data)
    except ValueError as wrong:
        raise UserError(f"{path} cannot be read as a Flight Recorder dump: {wrong}. {HOW}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} is not a Flight Recorder dump. {HOW}")
    return values


def _read_json(data: bytes) -> Any:
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise ValueError(f"it holds more than {MAX_VALUES:,} values")
    try:
        return json.loads(data)
    except json.JSONDecodeError as wrong:
        raise ValueError(f"it is neither a pickle nor valid JSON (line {wrong.lineno}, column {wrong.colno})") from None
    except (ValueError, RecursionError):  # bytes that are not text, a number of thousands of digits, deep nesting
        raise ValueError("it is neither a pickle nor valid JSON") from None


class PickleReader:
    """Reads the opcodes of pickle that build plain values, and no others: none here can name a class or call it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._stack: list[Any] = []
        self._marks: list[int] = []  # heights of the stack
        self._memo: dict[int, Any] = {}

    def read(self) -> Any:
        """Return the value of the pickle; ValueError says what is wrong with it."""
        steps, data, at = self._steps(), self._data, 0
        push, memo = self._stack.append, self._memo
        try:
            for _ in range(MAX_VALUES):
                opcode = data[at]
                if opcode == _BINGET:  # half of all opcodes
                    push(memo[data[at + 1]])
                    at += 2
                    continue
                if opcode == _STOP:
                    return self._stack.pop()
                step = steps[opcode]
                if step is None:
                    raise ValueError(f"its byte {at:,} asks for an object that is not a plain value")
                at = step(at + 1)
        except (IndexError, KeyError, struct.error, UnicodeDecodeError, AttributeError):
            raise ValueError("it is an incomplete or damaged pickle") from None
        raise ValueError(f"it holds more than {MAX_VALUES:,} values")

    def _steps(self) -> list[Step | None]:
        """Return what each opcode does, as a function from the position of its argument to that of the next opcode."""
        steps: dict[bytes, Step] = {
            pickle.PROTO: lambda at: at + 1,
            pickle.FRAME: lambda at: at + 8,
            pickle.NONE: lambda at: self._push(None, at),
            pickle.NEWTRUE: lambda at: self._push(True, at),
            pickle.NEWFALSE: lambda at: self._push(False, at),
            pickle.BININT: lambda at: self._push(_INT.unpack_from(self._data, at)[0], at + 4),
            pickle.BININT1: lambda at: self._push(self._data[at], at + 1),
            pickle.BININT2: lambda at: self._push(self._length(at, 2), at + 2),
            pickle.BINFLOAT: lambda at: self._push(_FLOAT.unpack_from(self._data, at)[0], at + 8),
            pickle.LONG1: self._long_number,
            pickle.SHORT_BINUNICODE: lambda at: self._text(at + 1, self._data[at]),
            pickle.BINUNICODE: lambda at: self._text(at + 4, self._length(at, 4)),
            pickle.BINUNICODE8: lambda at: self._text(at + 8, self._length(at, 8)),
            pickle.BINPUT: lambda at: self._put(self._data[at], at + 1),
            pickle.LONG_BINPUT: lambda at: self._put(self._length(at, 4), at + 4),
            pickle.MEMOIZE: lambda at: self._put(len(self._memo), at),
            pickle.LONG_BINGET: lambda at: self._push(self._memo[self._length(at, 4)], at + 4),
            pickle.MARK: self._mark,
            pickle.EMPTY_LIST: lambda at: self._push([], at),
            pickle.EMPTY_TUPLE: lambda at: self._push([], at),
            pickle.EMPTY_DICT: lambda at: self._push({}, at),
            pickle.APPEND: lambda at: self._extend([self._stack.pop()], at),
            pickle.APPENDS: lambda at: self._extend(self._pop_to_mark(), at),
            pickle.SETITEM: lambda at: self._set(self._pop(2), at),
            pickle.SETITEMS: lambda at: self._set(self._pop_to_mark(), at),
            pickle.TUPLE: lambda at: self._push(self._pop_to_mark(), at),
            pickle.TUPLE1: lambda at: self._push(self._pop(1), at),
            pickle.TUPLE2: lambda at: self._push(self._pop(2), at),
            pickle.TUPLE3: lambda at: self._push(self._pop(3), at),
        }
        return [steps.get(bytes([opcode])) for opcode in range(256)]

    def _push(self, value: Any, at: int) -> int:
        self._stack.append(value)
        return at

    def _length(self, at: int, size: int) -> int:
        return int.from_bytes(self._bytes(at, size), "little")

    def _bytes(self, at: int, size: int) -> bytes:
        found = self._data[at : at + size]
        if len(found) < size:
            raise IndexError
        return found

    def _long_number(self, at: int) -> int:
        size = self._data[at]
        return self._push(int.from_bytes(self._bytes(at + 1, size), "little", signed=True), at + 1 + size)

    def _text(self, at: int, size: int) -> int:
        return self._push(self._bytes(at, size).decode(), at + size)

    def _put(self, index: int, at: int) -> int:
        self._memo[index] = self._stack[-1]
        return at

    def _mark(self, at: int) -> int:
        self._marks.append(len(self._stack))
        return at

    def _pop_to_mark(self) -> list[Any]:
        height = self._marks.pop()
        items = self._stack[height:]
        del self._stack[height:]
        return items

    def _pop(self, count: int) -> list[Any]:
        items = self._stack[-count:]
        if len(items) < count:
            raise IndexError
        del self._stack[-count:]
        return items

    def _extend(self, items: list[Any], at: int) -> int:
        self._stack[-1].extend(items)
        return at

    def _set(self, items: list[Any], at: int) -> int:
        keys, values = items[::2], items[1::2]
        if not {*map(type, keys)} <= {str}:
            raise ValueError("it holds a key that is not a text")
        if len(keys) > len(values):
            raise IndexError
        self._stack[-1].update(zip(keys, values, strict=True))
        return at
