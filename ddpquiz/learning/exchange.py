"""Export and import of the log: all of it as JSON for another machine, or as a CSV table for a spreadsheet."""

import csv
import json
import re
import types
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import UTC, date, datetime
from typing import IO, Any, get_args, get_type_hints

from ddpquiz.errors import UserError
from ddpquiz.learning.answers import split_values
from ddpquiz.learning.log_rows import PointRow, Row
from ddpquiz.learning.schedule import Weights

FORMAT, VERSION = "ddpquiz progress", 3  # 2 has rows of labs, 3 those of stages
TABLE = (
    *("at", "day", "kind", "item", "level", "grade", "credit", "chance"),
    *("confidence", "seconds", "given", "values", "retry"),
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_YEARS = (1980, 2200)  # even a wrong clock stays between these; other years show damage
_LARGEST = 2**63 - 1  # integer that SQLite can hold
_OFF = 2  # days between a moment in UTC and its study day, at most
_KINDS = ("review", "answer", "explanation", "flag", "suspend", "bury", "lab", "stage", "undo")


class UnreadableError(ValueError):
    """A value that is not a row of the log, or not weights; the text says why."""


def write_json(rows: Iterable[Row], weights: Mapping[Weights, str], file: IO[str]) -> None:
    """Write a log and its weights as one JSON object, with one row of the log on each line."""
    known = [
        {"version": each.version, "since": since, "retention": each.retention, "parameters": each.parameters}
        for each, since in weights.items()
    ]
    head = {"format": FORMAT, "version": VERSION, "weights": known}
    file.write(json.dumps(head, indent=1)[:-2] + ',\n "log": [')
    for number, row in enumerate(rows):
        values = {name: getattr(row, name) for name in _TYPES if getattr(row, name) != _DEFAULTS[name]}
        file.write(("," if number else "") + "\n  " + json.dumps(values, ensure_ascii=False))
    file.write("\n ]\n}\n")


def read_json(text: str, name: str) -> tuple[list[Row], dict[Weights, str]]:
    """Read what `write_json` wrote; UserError with the `name` of the file for anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError(f"{name} is not valid JSON; export it again: `ddpquiz export json`.") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("version"), int):
        raise UserError(f"{name} is not progress of ddpquiz; `ddpquiz export json` writes such a file.")
    if data["version"] > VERSION:
        raise UserError(
            f"{name} was written by a newer ddpquiz (its version is {data['version']}, this ddpquiz knows {VERSION}); "
            "update ddpquiz. Nothing was changed."
        )
    place = "it"
    try:
        log = _list(data, "log")
        weights = {}
        for number, each in enumerate(_list(data, "weights"), 1):
            place = f"number {number} of its weights"
            known, since = read_weights(each)
            weights[known] = since
        rows = []
        for number, each in enumerate(log, 1):
            place = f"row {number} of its log"
            rows.append(read_row(each))
    except UnreadableError as wrong:
        raise UserError(f"{name} is damaged, so nothing was imported: {place} {wrong}.") from None
    return rows, weights


def write_csv(rows: Iterable[Row], file: IO[str]) -> None:
    """Write reviews, answers and explanations as a table with a header."""
    table = csv.writer(file)
    table.writerow(TABLE)
    for row in rows:
        seconds = None if row.took is None else row.took / 1000
        given, values = split_values(row.given or "") if row.kind == "answer" else (row.given, "")
        cells = {**{name: getattr(row, name) for name in _TYPES}, "seconds": seconds, "retry": int(row.retry)}
        cells |= {"given": given, "values": values}
        table.writerow([cells[name] for name in TABLE])


def read_row(values: object) -> Row:
    """Return the row with these values. Raises UnreadableError if ddpquiz cannot have written it."""
    if not isinstance(values, dict) or not values.keys() <= _TYPES.keys():
        raise UnreadableError("has fields that no row has")
    for name, allowed in _TYPES.items():
        value = values.get(name, _DEFAULTS[name])
        if not isinstance(value, allowed) or not _fits(value) or (isinstance(value, bool) and bool not in allowed):
            raise UnreadableError(f"has no valid `{name}`")
    row = Row(**values)
    if row.kind not in _KINDS or not row.item or not row.device or row.sequence < 1:
        raise UnreadableError("is of an unknown kind, or has no name")
    if not _holds(row):
        raise UnreadableError("has values that contradict each other")
    _check_time(row.at, row.day)
    _check_points(row.points)
    return row


def read_weights(values: Any) -> tuple[Weights, str]:
    """Return the weights with these values, and the time since which they are used. May raise UnreadableError."""
    try:
        weights = Weights(tuple(map(float, values["parameters"])), float(values["retention"]))
        version, since = values["version"], str(values["since"])
    except (KeyError, TypeError, ValueError, OverflowError, UserError):
        raise UnreadableError("cannot be read") from None
    if version != weights.version or (since and not _TIME.fullmatch(since)):
        raise UnreadableError("do not match their version")
    return weights, since


def _check_time(at: str, day: str) -> None:
    try:
        moment = datetime.strptime(at, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
        off = abs((date.fromisoformat(day) - moment.date()).days)
        written = bool(_TIME.fullmatch(at)) and str(date.fromisoformat(day)) == day
    except ValueError:
        raise UnreadableError("has a time that is not valid") from None
    if not written or off > _OFF or not _YEARS[0] <= moment.year < _YEARS[1]:
        raise UnreadableError("has an impossible time")


def _check_points(points: str | None) -> None:
    try:
        for point in json.loads(points or "[]"):
            PointRow(**point)
    except (ValueError, TypeError, RecursionError):
        raise UnreadableError("has points that are not valid") from None


def _holds(row: Row) -> bool:
    """Return whether the values of a row agree with each other; the database checks the same."""
    needed = {"review": "grade", "undo": "undone_sequence", "explanation": "points"}
    shares = (share for share in (row.credit, row.chance, row.confidence) if share is not None)
    return (
        all((row.kind == kind) == (getattr(row, name) is not None) for kind, name in needed.items())
        and (row.kind in ("answer", "explanation", "lab")) == (row.credit is not None)
        and (row.confidence is None or row.kind == "answer")
        and row.grade in (None, 1, 2, 3, 4)
        and all(0 <= share <= 1 for share in shares)
    )


def _fits(value: object) -> bool:
    """Return whether SQLite can hold a value."""
    if isinstance(value, int):
        return -_LARGEST - 1 <= value <= _LARGEST
    if isinstance(value, str):
        return value.isprintable() or not any("\ud800" <= character <= "\udfff" for character in value)
    return True


def _list(data: Mapping[str, Any], name: str) -> list[object]:
    found = data.get(name)
    if not isinstance(found, list):
        raise UnreadableError(f"has no `{name}`")
    return found


def _allowed(hint: Any) -> tuple[type, ...]:
    """Return the types that a value may have; an integer is valid in place of a float."""
    types_ = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return (*types_, int) if float in types_ else types_


_TYPES = {name: _allowed(hint) for name, hint in get_type_hints(Row).items() if name in Row.__dataclass_fields__}
_DEFAULTS = {field.name: field.default for field in fields(Row)}
