"""What can still be read of a damaged progress file: its pages one by one, whatever became of what held them together.

SQLite opens no file whose first page is gone, and ends a query at the first page that is wrong. Each page of a table
can be read alone, though, and the log needs no more: its rows say what they are.
See https://www.sqlite.org/fileformat.html
"""

from __future__ import annotations

import json
import shutil
import struct
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path  # noqa: TC003  a NamedTuple keeps it
from typing import TYPE_CHECKING, NamedTuple

from ddpquiz.errors import UserError
from ddpquiz.learning.database import FILE
from ddpquiz.learning.exchange import UnreadableError, read_row, read_weights
from ddpquiz.learning.log_rows import Receipt, Row
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

_PAGE = 4096  # bytes, where the first page does not say any more
_SIZES = {1 << power for power in range(9, 17)}
_WAL = (0x377F0682, 0x377F0683)  # how a write-ahead log begins
_TABLE_LEAF, _INDEX_LEAF, _INDEX_INNER = 0x0D, 0x0A, 0x02
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # bytes of an integer, by its type
_SHORTEST = 17  # values of a row of the log in the first version of the schema

Value = int | float | str | bytes | None


class Repaired(NamedTuple):
    """Where the damaged file is kept, and how many rows of the log could be read."""

    aside: Path
    rows: int


def repair(path: Path, at: datetime) -> Repaired:
    """Keep a damaged file under another name, and put one in its place that has all that could be read of it.

    Rows whose weights are lost get those of FSRS-6; an undo whose row is lost is lost too.
    """
    aside = path.with_name(f"{path.name}.damaged-{at:%Y%m%d-%H%M%S}")
    fresh = path.with_name(f".{path.name}.{at:%H%M%S%f}")
    wal, shared = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    try:
        shutil.copy2(path, aside)
        if wal.exists():
            shutil.copy2(wal, aside.with_name(aside.name + "-wal"))
        with Progress(fresh) as progress:
            rows, weights = _read(path, wal, progress.columns())
            progress.merge(rows, weights)
        for old in (wal, shared):
            old.unlink(missing_ok=True)
        (fresh / FILE).replace(path)
    except OSError as wrong:
        raise UserError(f"{path} is damaged and cannot be repaired: {wrong.strerror}; make room, or move it.") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return Repaired(aside, len(rows))


def _read(path: Path, wal: Path, columns: Sequence[str]) -> tuple[list[Row], dict[Weights, str]]:
    size, main = _pages(path.read_bytes())
    newer = list(_frames(wal.read_bytes(), size)) if wal.exists() else []
    latest = {**main, **dict(newer)}
    rows: dict[Receipt, Row] = {}
    weights = {Weights(): ""}
    for number, page in [*main.items(), *newer]:
        for values in _records(page, number, latest):
            with suppress(UnreadableError):
                if _SHORTEST <= len(values) <= len(columns):
                    row = read_row(_of_row(dict(zip(columns, values, strict=False))))
                    rows.setdefault(row.receipt, row)
                elif len(values) == 4:
                    known, since = read_weights(_of_weights(values))
                    weights[known] = max(since, weights.get(known, ""))
    versions = {known.version for known in weights}
    return [
        row if row.weights in versions else replace(row, weights=Weights().version)
        for row in rows.values()
        if row.kind != "undo" or Receipt(row.undone_device or "", row.undone_sequence or 0) in rows
    ], weights


def _of_row(told: dict[str, Value]) -> dict[str, Value]:
    return {**{name: value for name, value in told.items() if value is not None}, "retry": bool(told["retry"])}


def _of_weights(values: Sequence[Value]) -> dict[str, object]:
    version, since, retention, parameters = values
    try:
        return {"version": version, "since": since, "retention": retention, "parameters": json.loads(str(parameters))}
    except ValueError:
        raise UnreadableError from None


def _pages(data: bytes) -> tuple[int, dict[int, bytes]]:
    """Return the size of a page, and the pages of a file by their numbers."""
    told = int.from_bytes(data[16:18], "big")
    size = (told if told != 1 else 1 << 16) if data.startswith(b"SQLite format 3\0") else _PAGE
    size = size if size in _SIZES else _PAGE
    return size, {at // size + 1: data[at : at + size] for at in range(0, len(data) - size + 1, size)}


def _frames(data: bytes, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the pages of a write-ahead log, with their numbers."""
    if len(data) < 32 or int.from_bytes(data[:4], "big") not in _WAL:
        return
    for at in range(32, len(data) - 24 - size + 1, 24 + size):
        yield int.from_bytes(data[at : at + 4], "big"), data[at + 24 : at + 24 + size]


def _records(page: bytes, number: int, pages: Mapping[int, bytes]) -> Iterator[list[Value]]:
    """Yield the values of each row on a page, as far as they can be read."""
    start = 100 if number == 1 else 0  # the header of the file
    kind = page[start]
    if kind not in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INNER):
        return
    first = start + (12 if kind == _INDEX_INNER else 8)
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    for at in range(first, min(first + 2 * count, len(page) - 1), 2):
        cell = int.from_bytes(page[at : at + 2], "big") + (4 if kind == _INDEX_INNER else 0)
        with suppress(IndexError, ValueError, KeyError, struct.error):
            yield _values(_payload(page, cell, kind, pages))


def _payload(page: bytes, at: int, kind: int, pages: Mapping[int, bytes]) -> bytes:
    """Return the bytes of a row, which may go on on other pages."""
    usable = len(page)
    length, at = _varint(page, at)
    if kind == _TABLE_LEAF:
        _, at = _varint(page, at)
    most = usable - 35 if kind == _TABLE_LEAF else (usable - 12) * 64 // 255 - 23
    least = (usable - 12) * 32 // 255 - 23
    if length <= most:
        return page[at : at + length]
    rest = least + (length - least) % (usable - 4)
    local = rest if rest <= most else least
    found, after = page[at : at + local], int.from_bytes(page[at + local : at + local + 4], "big")
    while len(found) < length and after:
        more = pages[after]
        found, after = found + more[4:], int.from_bytes(more[:4], "big")
    return found[:length]


def _values(record: bytes) -> list[Value]:
    head, at = _varint(record, 0)
    types = []
    while at < head:
        kind, at = _varint(record, at)
        types.append(kind)
    sizes = [_INTEGERS.get(kind, 8 if kind == 7 else (kind - 12) // 2 if kind >= 12 else 0) for kind in types]
    ends = [head]
    for size in sizes:
        ends.append(ends[-1] + size)
    if ends[-1] > len(record):
        raise ValueError("the row goes on beyond its end")
    return [_value(kind, record[start:end]) for kind, (start, end) in zip(types, pairwise(ends), strict=True)]


def _value(kind: int, data: bytes) -> Value:
    if kind in _INTEGERS:
        return int.from_bytes(data, "big", signed=True)
    if kind == 7:
        return float(struct.unpack(">d", data)[0])
    if kind < 12:
        return {8: 0, 9: 1}.get(kind)
    return data.decode() if kind % 2 else data


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of one to nine bytes, and where it ends."""
    value = 0
    for byte in data[at : at + 8]:
        at += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at
    return value << 8 | data[at], at + 1
