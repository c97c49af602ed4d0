"""The whole log as one file, to keep or to take to another machine, and as a table for a spreadsheet."""

from __future__ import annotations

import csv
import json
import re
import types
from dataclasses import fields
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from ddpquiz.errors import UserError
from ddpquiz.learning.answers import parted
from ddpquiz.learning.log_rows import PointRow, Row
from ddpquiz.learning.schedule import Weights

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import IO

FORMAT, VERSION = "ddpquiz progress", 1
TABLE = (
    *("at", "day", "kind", "item", "level", "grade", "credit", "chance"),
    *("confidence", "seconds", "given", "values", "retry"),
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_YEARS = (1980, 2200)  # of clocks that may be wrong, but not of a file that is whole
_LARGEST = 2**63 - 1  # whole number that SQLite holds
_OFF = 2  # days between a moment in UTC and its study day, at most
_KINDS = ("review", "answer", "explanation", "flag", "suspend", "bury", "undo")


class UnreadableError(ValueError):
    """Something that is no row of a log, or no weights; its text says why."""


def write_json(rows: Iterable[Row], weights: Mapping[Weights, str], file: IO[str]) -> None:
    """Write a log with everything that it needs: one object, one row of the log a line."""
    known = [_of_weights(each, since) for each, since in weights.items()]
    head = {"format": FORMAT, "version": VERSION, "weights": known}
    file.write(json.dumps(head, indent=1)[:-2] + ',\n "log": [')
    for number, row in enumerate(rows):
        kept = {name: getattr(row, name) for name in _TYPES if getattr(row, name) != _DEFAULTS[name]}
        file.write(",\n  " * bool(number) + "\n  " * (not number) + json.dumps(kept, ensure_ascii=False))
    file.write("\n ]\n}\n")


def read_json(text: str, name: str) -> tuple[list[Row], dict[Weights, str]]:
    """Read what `write_json` wrote; UserError, with the `name` of the file, if it is anything else."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError(f"{name} is no JSON, or only a part of it; make it again: ddpquiz export json.") from None
    if not isinstance(told, dict) or told.get("format") != FORMAT or not isinstance(told.get("version"), int):
        raise UserError(f"{name} is no progress of ddpquiz; `ddpquiz export json` writes such a file.")
    if told["version"] > VERSION:
        raise UserError(
            f"{name} was written by a newer ddpquiz (its version is {told['version']}, this ddpquiz knows {VERSION}); "
            "update ddpquiz. Nothing was changed."
        )
    place = "it"
    try:
        log = _list(told, "log")
        weights = {}
        for number, each in enumerate(_list(told, "weights"), 1):
            place = f"number {number} of its weights"
            known, since = read_weights(each)
            weights[known] = since
        rows = []
        for number, each in enumerate(log, 1):
            place = f"row {number} of its log"
            rows.append(read_row(each))
    except UnreadableError as wrong:
        raise UserError(f"{name} is damaged, so nothing was taken in: {place} {wrong}.") from None
    return rows, weights


def write_csv(rows: Iterable[Row], file: IO[str]) -> None:
    """Write reviews, answers and explanations as a table with a header."""
    table = csv.writer(file)
    table.writerow(TABLE)
    for row in rows:
        seconds = None if row.took is None else row.took / 1000
        given, values = parted(row.given or "") if row.kind == "answer" else (row.given, "")
        told = {**{name: getattr(row, name) for name in _TYPES}, "seconds": seconds, "retry": int(row.retry)}
        told |= {"given": given, "values": values}
        table.writerow([told[name] for name in TABLE])


def read_row(told: object) -> Row:
    """Make a row of its values by name; raises UnreadableError when that is none that ddpquiz can have written."""
    if not isinstance(told, dict) or not told.keys() <= _TYPES.keys():
        raise UnreadableError("has fields that no row has")
    for name, allowed in _TYPES.items():
        value = told.get(name, _DEFAULTS[name])
        if not isinstance(value, allowed) or not _fits(value) or (isinstance(value, bool) and bool not in allowed):
            raise UnreadableError(f"has no `{name}` that can be read")
    row = Row(**told)
    if row.kind not in _KINDS or not row.item or not row.device or row.sequence < 1:
        raise UnreadableError("is of no kind that ddpquiz knows, or has no name")
    if not _holds(row):
        raise UnreadableError("has values that do not go together")
    _check_time(row.at, row.day)
    _check_points(row.points)
    return row


def read_weights(told: object) -> tuple[Weights, str]:
    """Make weights of their values by name, and tell since when they are in use; may raise UnreadableError."""
    try:
        given: Any = told
        weights = Weights(tuple(map(float, given["parameters"])), float(given["retention"]))
        version, since = given["version"], str(given["since"])
    except (KeyError, TypeError, ValueError, UserError):
        raise UnreadableError("cannot be read") from None
    if version != weights.version or (since and not _TIME.fullmatch(since)):
        raise UnreadableError("do not fit their name")
    return weights, since


def _of_weights(weights: Weights, since: str) -> dict[str, object]:
    told = {"version": weights.version, "since": since, "retention": weights.retention}
    return {**told, "parameters": list(weights.parameters)}


def _check_time(at: str, day: str) -> None:
    try:
        moment = datetime.strptime(at, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
        off = abs((date.fromisoformat(day) - moment.date()).days)
        written = bool(_TIME.fullmatch(at)) and str(date.fromisoformat(day)) == day
    except ValueError:
        raise UnreadableError("has a time that is none") from None
    if not written or off > _OFF or not _YEARS[0] <= moment.year < _YEARS[1]:
        raise UnreadableError("has a time that cannot be")


def _check_points(points: str | None) -> None:
    try:
        for point in json.loads(points or "[]"):
            PointRow(**point)
    except (ValueError, TypeError, RecursionError):
        raise UnreadableError("has points that are none") from None


def _holds(row: Row) -> bool:
    """Whether the values of a row go together, as the database asks too."""
    needed = {"review": "grade", "undo": "undone_sequence", "explanation": "points"}
    shares = (share for share in (row.credit, row.chance, row.confidence) if share is not None)
    return (
        all((row.kind == kind) == (getattr(row, name) is not None) for kind, name in needed.items())
        and (row.kind in ("answer", "explanation")) == (row.credit is not None)
        and (row.confidence is None or row.kind == "answer")
        and row.grade in (None, 1, 2, 3, 4)
        and all(0 <= share <= 1 for share in shares)
    )


def _fits(value: object) -> bool:
    """Whether a database can hold a value."""
    if isinstance(value, int):
        return -_LARGEST - 1 <= value <= _LARGEST
    if isinstance(value, str):
        return value.isprintable() or not any("\ud800" <= character <= "\udfff" for character in value)
    return True


def _list(told: Mapping[str, Any], name: str) -> list[object]:
    found = told.get(name)
    if not isinstance(found, list):
        raise UnreadableError(f"has no `{name}`")
    return found


def _allowed(hint: Any) -> tuple[type, ...]:
    """Return the types that a value may have; a whole number is a number too."""
    types_ = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return (*types_, int) if float in types_ else types_


_TYPES = {name: _allowed(hint) for name, hint in get_type_hints(Row).items() if name in Row.__dataclass_fields__}
_DEFAULTS = {field.name: field.default for field in fields(Row)}
