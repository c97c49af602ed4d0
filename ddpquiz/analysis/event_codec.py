"""Events as lines of JSON, and the lines that ranks write: every value is checked once, here, when it is decoded.

The bytes may come from a file that another person sent, or from a pipe into which a script wrote by mistake.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from inspect import signature
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from ddpquiz.analysis.events import Began, Dropped, End, Ended, Event, Hung, Issued, RankEvent, Waited
from ddpquiz.analysis.operation import Range

Check = Callable[[Any], Any]  # returns a value as the event has it; ValueError if it does not fit

KINDS: dict[str, type[Any]] = {kind.event: kind for kind in get_args(Event)}
_LABEL = re.compile(r"([a-z][a-z0-9 _/()-]{0,39}): (.*)", re.DOTALL)
_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, default=asdict)
_NOT_ASCII = re.compile("[^ -~]")
_ANY = Range(0, 1 << 60)


def encode(event: Event) -> str:
    """Return `event` as one line of JSON, without the newline and without control characters."""
    data = {"event": event.event} | {name: getattr(event, name) for name in event.__match_args__}
    if isinstance(event, Issued):
        operation, before = data.pop("operation"), data.pop("before")
        data |= operation._asdict() | {"before": before}
    return escape_controls(_ENCODER.encode(data))


def escape_controls(text: str) -> str:
    """Return JSON in which every character that cannot be printed is an escape, so that it is safe to show."""
    if text.isprintable():
        return text
    whole = text.encode(errors="replace").decode()  # without halves of characters
    return _NOT_ASCII.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], whole)


def decode(line: str | bytes) -> Event:
    """Return the event that `line` holds; ValueError says what does not fit."""
    try:
        data: Any = json.loads(line)
    except json.JSONDecodeError as wrong:
        raise ValueError(f"not valid JSON (column {wrong.colno})") from None
    except (ValueError, RecursionError):  # bytes that are not text, a number of thousands of digits, deep nesting
        raise ValueError("not valid JSON") from None
    name = data.pop("event", None) if isinstance(data, dict) else None
    form = _FORMS.get(name) if isinstance(name, str) else None
    if form is None:
        raise ValueError("not an event of a kind that ddpquiz knows")
    if name == "run" and data.pop("here", None):  # version 0.1 could run a script on several machines
        raise ValueError("it is of a run on several machines, which ddpquiz no longer reads")
    if name == "issued":
        before = {"before": data.pop("before")} if "before" in data else {}
        head = {key: data.pop(key) for key in ("time", "rank", "number") if key in data}
        data = head | {"operation": data} | before
    event: Event = form.read(data)
    _check_consistent(event)
    return event


def check_ranks(event: Event, began: Began) -> None:
    """Raise ValueError if an event names a rank that its run does not have."""
    if max(_ranks_in(event), default=0) >= began.ranks:
        raise ValueError(f"it names a rank that does not exist in a run of {began.ranks}")


def _ranks_in(event: Event) -> Iterable[int]:
    match event:
        case Issued():
            return event.operation.members  # which include the rank
        case Ended(source=int(source)):
            return event.rank, source
        case RankEvent():
            return (event.rank,)
        case Hung():
            return [each.rank for each in event.ranks]
        case End(rank=int(rank)):
            return (rank,)
    return ()


def _check_consistent(event: Event) -> None:
    """Raise ValueError if fields contradict each other in a way on which the analysis relies."""
    match event:
        case Issued() | Dropped():
            members = event.operation.members if isinstance(event, Issued) else event.members
            if event.rank not in members or len({*members}) < len(members):
                raise ValueError("`members` must name the rank that calls, and each rank once")
        case Waited() if event.since > event.time:
            raise ValueError("`since` must not be later than `time`")


class _Form(NamedTuple):
    """How the fields of a class are read from JSON."""

    make: Callable[..., Any]
    checks: dict[str, Check]
    required: frozenset[str]

    @classmethod
    def of(cls, kind: type[Any]) -> _Form:
        hints = get_type_hints(kind, include_extras=True)
        fields = signature(kind).parameters
        required = frozenset(name for name, field in fields.items() if field.default is field.empty)
        return cls(kind, {name: _check_of(hints[name]) for name in fields}, required)

    def read(self, data: Any) -> Any:
        if not isinstance(data, dict):
            raise ValueError("must be an object")  # noqa: TRY004  # decode promises it
        checks, values, name = self.checks, {}, ""
        try:
            for name, value in data.items():
                values[name] = checks[name](value)
        except KeyError:
            raise ValueError("it has a field that events of this kind do not have") from None
        except ValueError as wrong:
            raise ValueError(str(wrong) if str(wrong)[0] == "`" else f"`{name}` {wrong}") from None
        if missing := self.required - values.keys():
            raise ValueError(f"`{min(missing)}` is missing")
        return self.make(**values)


def _check_of(hint: Any, limits: Range = _ANY, how: str = "") -> Check:
    """Return what checks a value of an annotation."""
    if get_origin(hint) is Annotated:
        inner, limits, *rest = get_args(hint)
        return _check_of(inner, limits, *rest)
    arguments = get_args(hint)
    if type(None) in arguments:
        (inner,) = (each for each in arguments if each is not type(None))
        check = _check_of(inner)
        return lambda value: None if value is None else check(value)
    if get_origin(hint) is tuple:
        return partial(_tuple, _check_of(arguments[0]), limits)
    if hint in (int, float):
        return partial(_number, (int, float) if hint is float else (int,), *limits)
    if hint is str:
        return partial(_text, limits.high, how)
    return _bool if hint is bool else _Form.of(hint).read


def _number(kinds: tuple[type, ...], low: float, high: float, value: Any) -> Any:
    if type(value) in kinds and low <= value <= high:  # a bool is not a number, nor is nan between two
        return value
    raise ValueError(f"must be a {'' if float in kinds else 'whole '}number from {low:,.0f} to {high:,.0f}")


def _text(most: float, how: str, value: Any) -> str:
    if type(value) is not str or len(value) > most:
        raise ValueError(f"must be a text of at most {most:,} characters" if most < _ANY.high else "must be a text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("holds half of a character") from None
    if how == "printable" and not value.isprintable():
        raise ValueError("holds a control character")
    if how == "path" and "\0" in value:
        raise ValueError("must be the path of a file")
    return value


def _bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise ValueError("must be true or false")


def _tuple(check: Check, limits: Range, value: Any) -> tuple[Any, ...]:
    if type(value) is list and len(value) <= limits.high:
        return tuple(map(check, value))
    raise ValueError(f"must be a list of at most {limits.high:,}")


_FORMS = {name: _Form.of(kind) for name, kind in KINDS.items()}


def labelled(text: str) -> tuple[str, str] | None:
    """Return label and value of a line `label: value`, or None for any other line."""
    found = _LABEL.fullmatch(text)
    return (found[1], found[2]) if found else None


@dataclass
class LineBuffer:
    """Cuts the bytes of a pipe into whole lines."""

    _rest: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes; empty data completes the last one."""
        if not data:
            last, self._rest = bytes(self._rest), bytearray()
            return [last] if last else []
        self._rest += data
        if b"\n" not in data:
            return []
        *whole, self._rest = self._rest.split(b"\n")
        return list(map(bytes, whole))
