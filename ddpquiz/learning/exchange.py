"""Export and import of the log: all of it as JSON for another machine, or as a CSV table for a spreadsheet."""

import csv
import json
import re
import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import date
from typing import IO, Any, NamedTuple, get_args, get_type_hints

from ddpquiz.curriculum.concept import Level
from ddpquiz.errors import UserError
from ddpquiz.learning.answers import split_values
from ddpquiz.learning.guided_path import SAVED
from ddpquiz.learning.lab_passes import PASSED, SEEN
from ddpquiz.learning.log_rows import LONGEST, MOST_ROWS, STORED_NAMES, UNWRITABLE, PointRow, Receipt, Row, moment
from ddpquiz.learning.schedule import Weights
from ddpquiz.safe_text import plain, to_json

FORMAT, VERSION = "ddpquiz progress", 3  # 2 has rows of labs, 3 those of stages
TABLE = (
    *("at", "day", "kind", "item", "level", "grade", "credit", "chance"),
    *("confidence", "seconds", "given", "values", "retry"),
)
_OFF = 2  # days between a moment in UTC and its study day, at most
_ITEM = re.compile(r"[\w.-]+(/[\w.-]+){1,2}")  # concept/item or pack/concept/item
_LEVELS = frozenset(Level)
_LONGEST_NAME = 300
_MOST_MILLISECONDS = 10**13  # 300 years: a clock may be set from 1970 to today during an answer
# What a row of each kind holds besides what all hold: what it must have, and what it may have
_HOLDS: dict[str, tuple[set[str], set[str]]] = {
    "review": ({"grade"}, {"took"}),
    "answer": ({"credit", "given", "level", "chance"}, {"took", "made_due_card", "retry", "confidence"}),
    "explanation": ({"credit", "given", "points"}, {"took"}),
    "flag": ({"given"}, set()),
    "suspend": (set(), set()),
    "bury": (set(), set()),
    "lab": ({"credit", "given"}, set()),
    "stage": ({"given"}, {"took"}),
    "undo": ({"undone_device", "undone_sequence"}, {"made_due_card"}),
}


class _UnreadableError(ValueError):
    """A value that is not a row of the log, or not weights; the text says why."""


class Exported(NamedTuple):
    """What a file holds: rows that mean something here, weights, and how many other rows there are."""

    rows: list[Row]
    weights: dict[Weights, str]
    unknown: int


def write_json(rows: Iterable[Row], weights: Mapping[Weights, str], file: IO[str]) -> None:
    """Write a log and its weights as one JSON object, with one row of the log on each line.

    Rows that mean nothing here, and that no import would accept, follow the log in a list of their own.
    """
    known = [
        {"version": each.version, "since": since, "retention": each.retention, "parameters": each.parameters}
        for each, since in weights.items()
    ]
    head = {"format": FORMAT, "version": VERSION, "weights": known}
    file.write(json.dumps(head, indent=1)[:-2])
    rows = list(rows)
    faults = _faults(rows, {each.version for each in weights})
    lists: dict[str, list[str]] = {"log": []}
    for row in rows:
        values = {STORED_NAMES[name]: value for name in _TYPES if (value := getattr(row, name)) != _DEFAULTS[name]}
        where = "unknown" if row.receipt in faults else "log"
        lists.setdefault(where, []).append("\n  " + to_json(values))
    for where, lines in lists.items():
        file.write(f',\n "{where}": [{",".join(lines)}\n ]')
    file.write("\n}\n")


def read_json(text: str, name: str) -> Exported:
    """Read what `write_json` wrote; UserError with the `name` of the file for anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError(f"{name} is not valid JSON; export it again: `ddpquiz export json`.") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or type(data.get("version")) is not int:
        raise UserError(f"{name} holds no ddpquiz progress; `ddpquiz export json` writes a file that does.")
    if data["version"] > VERSION:
        raise UserError(
            f"{name} was written by a newer ddpquiz (its version is {data['version']}, this ddpquiz knows {VERSION}); "
            "update ddpquiz. Nothing was changed."
        )
    place = "it"
    try:
        log, unknown = _list(data, "log"), _list({"unknown": [], **data}, "unknown")
        weights = {}
        for number, each in enumerate(_list(data, "weights"), 1):
            place = f"number {number} of its weights"
            known, since = _read_weights(each)
            weights[known] = since
        rows = []
        for number, each in enumerate(log, 1):
            place = f"row {number} of its log"
            rows.append(read_row(each))
    except _UnreadableError as wrong:
        raise _refusal(name, place, str(wrong)) from None
    if faults := _faults(rows, {each.version for each in weights}):
        number, what = next((at, faults[row.receipt]) for at, row in enumerate(rows, 1) if row.receipt in faults)
        raise _refusal(name, f"row {number} of its log", what)
    return Exported(rows, weights, len(unknown))


def _refusal(name: str, place: str, what: str) -> UserError:
    return UserError(f"{name} is damaged, so nothing was imported: {place} {what}.")


def write_csv(rows: Iterable[Row], file: IO[str]) -> None:
    """Write reviews, answers and explanations as a table with a header, without control characters."""
    table = csv.writer(file)
    table.writerow(TABLE)
    for row in rows:
        seconds = None if row.took is None else row.took / 1000
        given, values = split_values(row.given or "") if row.kind == "answer" else (row.given, "")
        cells = {**{name: getattr(row, name) for name in _TYPES}, "seconds": seconds, "retry": int(row.retry)}
        cells |= {"given": given, "values": values}
        shown = (cells[name] for name in TABLE)
        table.writerow([plain(cell) if isinstance(cell, str) else cell for cell in shown])


def read_row(values: object) -> Row:
    """The row with these values. Raises _UnreadableError if ddpquiz cannot have written it."""
    if not isinstance(values, dict) or not values.keys() <= {*STORED_NAMES.values()}:
        raise _UnreadableError("has fields that no row has")
    by_field = {name: values.get(STORED_NAMES[name], _DEFAULTS[name]) for name in _TYPES}
    for name, value in by_field.items():
        if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and bool not in _TYPES[name]):
            raise _UnreadableError(f"has no valid `{STORED_NAMES[name]}`")
    return Row(**by_field)


def _read_weights(values: Any) -> tuple[Weights, str]:
    """The weights with these values, and the time since which they are used. May raise _UnreadableError."""
    try:
        weights = Weights(tuple(map(float, values["parameters"])), float(values["retention"]))
        version, since = values["version"], str(values["since"])
    except (KeyError, TypeError, ValueError, OverflowError, UserError):
        raise _UnreadableError("cannot be read") from None
    if version != weights.version or (since and not moment(since)):
        raise _UnreadableError("do not match their version")
    return weights, since


def _faults(rows: Sequence[Row], versions: Collection[str]) -> dict[Receipt, str]:
    """What is wrong with the rows of a whole log that mean nothing here; `versions` are those of its weights."""
    faults = {}
    for row in rows:
        if fault := _fault(row) or ("" if row.weights in versions else "refers to weights that are not there"):
            faults[row.receipt] = fault
    known = {row.receipt: row for row in rows if row.receipt not in faults}
    for row in rows:
        if row.kind == "undo" and row.receipt not in faults:
            undone = known.get(Receipt(row.undone_device or "", row.undone_sequence or 0))
            if undone is None or undone.kind == "undo" or undone.item != row.item:
                faults[row.receipt] = "undoes a row that is not there"
    return faults


def _fault(row: Row) -> str:
    """What is wrong with a row by itself: "" if ddpquiz may have written it."""
    if row.kind not in _HOLDS or not row.item or not row.device or row.sequence < 1:
        return "is of an unknown kind, or has no name"
    for name in _TYPES:
        if not _fits(name, getattr(row, name)):
            return f"has no valid `{STORED_NAMES[name]}`"
    must, may = _HOLDS[row.kind]
    has = {name for name in _OPTIONAL if getattr(row, name) != _DEFAULTS[name]}
    if not must <= has <= must | may or not _agrees(row):
        return "has values that contradict each other"
    if not _has_time(row):
        return "has a time that is not valid"
    return "has points that are not valid" if row.points is not None and not _are_points(row.points) else ""


def _fits(name: str, value: Any) -> bool:
    """Whether a field can have a value, whatever the kind of its row."""
    if value is None:
        return True
    match name:
        case "item" | "made_due_card":
            return len(value) <= _LONGEST_NAME and bool(_ITEM.fullmatch(value))
        case "sequence" | "undone_sequence":
            return bool(1 <= value <= MOST_ROWS)
        case "took":
            return bool(abs(value) <= _MOST_MILLISECONDS)
        case "grade":
            return value in range(1, 5)
        case "credit" | "chance" | "confidence":
            return bool(0 <= value <= 1)
        case "level":
            return value in _LEVELS
        case "given" | "points":
            return len(value) <= LONGEST and not UNWRITABLE.search(value)
        case "device" | "undone_device" | "weights":
            return len(value) <= _LONGEST_NAME and value.isascii() and value.isprintable()
    return True


def _agrees(row: Row) -> bool:
    """Whether the fields of a row fit its kind and each other."""
    first, *stars = (row.given or "").split("\n")
    if row.kind == "lab":
        return ((first, row.credit) == (PASSED, 1) and all(stars)) or (row.given, row.credit) == (SEEN, 0)
    return row.kind != "stage" or row.given in SAVED


def _has_time(row: Row) -> bool:
    when = moment(row.at)
    try:
        day = date.fromisoformat(row.day)
    except ValueError:
        return False
    return when is not None and str(day) == row.day and abs((day - when.date()).days) <= _OFF


def _are_points(text: str) -> bool:
    try:
        points = [PointRow(**point) for point in json.loads(text)]
    except (ValueError, TypeError, RecursionError):
        return False
    return {(type(each.say), type(each.matched), type(each.overruled)) for each in points} == {(str, bool, bool)}


def _list(data: Mapping[str, Any], name: str) -> list[object]:
    found = data.get(name)
    if not isinstance(found, list):
        raise _UnreadableError(f"has no `{name}`")
    return found


def _allowed(hint: Any) -> tuple[type, ...]:
    """The types that a value may have; an integer is valid in place of a float."""
    types_ = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return (*types_, int) if float in types_ else types_


_TYPES = {name: _allowed(hint) for name, hint in get_type_hints(Row).items() if name in Row.__dataclass_fields__}
_DEFAULTS = {field.name: field.default for field in fields(Row)}
_OPTIONAL = [name for name, default in _DEFAULTS.items() if default is None or default is False]
