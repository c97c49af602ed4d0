"""A run as one page: it needs no network, runs only its own script, and no text of a run can become markup.

The page holds every frame of the run (one before each call, and one at the end), its operations, its lanes, its logs
and its script as JSON, which no browser runs. `policy` allows this page's own style and script and no request.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from importlib.resources import files
from typing import Any

from ddpquiz.events.collective import Collective
from ddpquiz.events.event import Event, Issued, Output
from ddpquiz.events.formatting import format_place
from ddpquiz.events.run_frame import LEGEND, RunFrame, describe_frame, describe_operation, shortened
from ddpquiz.events.run_state import RunState, bounded
from ddpquiz.events.run_steps import beginnings, describe_next, steps, time_before
from ddpquiz.events.source_text import source_line
from ddpquiz.events.summary_sections import Section
from ddpquiz.events.timeline import Span, Timeline
from ddpquiz.terminal.kit.style import plain

PLAIN = 200_000  # characters of data up to which it stands in the page as it is, to be read and searched
_SAFE_LETTERS = str.maketrans("&<>", ",:[")  # no markup in base 85; LETTERS in run.js has the same
_UNSAFE = re.compile("[<>&\u2028\u2029]")


@dataclass(frozen=True, kw_only=True)
class PageInput:
    """What a page is made of: events of a run that is over, its sections on top, and the text of its script.

    With `judged`, the sections are a diagnosis; otherwise they say where the time went. `path` writes the path of a
    file for the reader.
    """

    events: Sequence[Event]
    report: Sequence[Section] = ()
    judged: bool = False
    script: str | None = None
    only_broken_claims: bool = False
    is_cut: bool = False  # the events before these are no longer known
    path: Callable[[str], str] = str


def run_page(given: PageInput, back: str = "") -> str:
    """The page of a run; `back` is the address of the page that lists it."""
    data = _plain(run_data(given))
    style, script = asset("colors.css") + asset("run.css"), asset("run.js")
    values = {
        "TITLE": escape(data["title"] or data["script"] or "ddpquiz"),
        "BACK": f'<p><a href="{escape(back)}">All recorded runs</a></p>' if back else "",
        "POLICY": policy(style, script),
        "STYLE": style,
        "SCRIPT": script,
        "DATA": _embedded(data),
    }
    return re.sub("__([A-Z]+)__", lambda place: values[place[1]], asset("run.html"))


def policy(style: str, script: str) -> str:
    """A Content-Security-Policy that allows this style and this script, and no request."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; "
        "form-action 'none'"
    )


def _embedded(data: Any) -> str:
    """Data as JSON that can stand in a script element; much data becomes one text, compressed and in base 85."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if len(text) > PLAIN:
        packed = zlib.compress(text.encode("utf-8", "replace"), 9)
        text = json.dumps(base64.b85encode(packed).decode().translate(_SAFE_LETTERS))
    return safe_json(text)


def safe_json(text: str) -> str:
    """JSON without the characters that could end a script element."""
    return _UNSAFE.sub(lambda character: f"\\u{ord(character[0]):04x}", text)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def asset(name: str) -> str:
    """The text of a file beside this one."""
    return files("ddpquiz.web").joinpath(name).read_text("utf-8")


def _plain(value: Any) -> Any:
    """Data whose texts hold no control characters and no marks that reverse the direction of writing."""
    if isinstance(value, str):
        return value if value.isascii() and value.isprintable() else plain(value)
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {_plain(name): _plain(each) for name, each in value.items()}
    return value


# The data of a page: every frame of a run, its operations, its lanes, its logs and its script

_TAIL = 12  # lines without a label that a frame shows; the logs have all of them
_LETTERS = {"compute": "p", "communication": "c", "waiting": "w"}  # of the kinds of spans; KINDS in run.js
_GAP = "g"  # between the end of a rank and its restart

_Place = tuple[str, int]  # file and line


def run_data(given: PageInput) -> dict[str, Any]:
    """The data of a page, as JSON can hold it."""
    whole = RunState(timeline=Timeline(limit=None), only_broken_claims=given.only_broken_claims)
    for event in given.events:
        whole.add(event)
    began = whole.began
    operations = _Operations(whole, given)
    logs = _Logs()
    return {
        "title": began.title if began else "",
        "script": began.script if began else "",
        "reason": began.reason if began else "",
        "ranks": whole.ranks,
        "report": [asdict(section) for section in given.report],
        "judged": given.judged,
        "source": given.script.splitlines() if given.script is not None else None,
        "frames": _frames(given, logs),
        "logs": logs.as_json(),
        "operations": operations.as_json(),
        "calls": operations.calls(),
        "lanes": _lanes(whole, operations),
        "isCut": given.is_cut,
        "legend": LEGEND,
    }


def _frames(given: PageInput, logs: _Logs) -> dict[str, Any]:
    """What each step shows, by slots, and the time of each step."""
    events, stops = given.events, steps(given.events)
    state, tracks = RunState(only_broken_claims=given.only_broken_claims), _Tracks()
    labels: dict[str, int] = {}
    times, passed = [], 0
    for step, stop in enumerate(stops):
        logs.add(step, events[passed:stop])
        for event in events[passed:stop]:
            state.add(event)
        passed = stop
        frame = describe_frame(state, given.path, since=time_before(events, stops, step), lanes=False)
        tracks.set("next", step, describe_next(events, stops, step))
        _add_frame(frame, step, tracks, labels)
        tracks.set("lines", step, tuple(logs.number(line) for line in frame.lines[-_TAIL:]))
        times.append(_microseconds(state.time))
    logs.labels = list(labels)
    return {
        **tracks.as_json(),
        "labels": list(labels),
        "times": _differences(times),
        "operations": beginnings(events, stops),
    }


def _add_frame(frame: RunFrame, step: int, tracks: _Tracks, labels: dict[str, int]) -> None:
    for column in frame.columns:
        tracks.set(f"doing.{column.rank}", step, column.doing)
        tracks.set(f"input.{column.rank}", step, column.input and shortened(column.input))
        tracks.set(f"output.{column.rank}", step, column.output and shortened(column.output))
    shown = {label: labels.setdefault(label, len(labels)) for label in frame.values}
    new: list[tuple[int, int]] = []
    for label, values in frame.values.items():
        for rank, value in values.items():
            tracks.set(f"value.{shown[label]}.{rank}", step, value.text)
            new += [(shown[label], rank)] if value.is_new else []
    line, failure = frame.operation, frame.failure
    tracks.set("labels", step, tuple(shown.values()))
    tracks.set("new", step, tuple(new))
    tracks.set("operation", step, (line.pieces, line.more))
    tracks.set("claims", step, frame.claims)
    tracks.set("toCome", step, frame.claims_to_come)
    tracks.set("remarks", step, (*([frame.restarts] if frame.restarts else []), *frame.notes))
    tracks.set("marks", step, tuple(frame.marks.items()))
    tracks.set("elsewhere", step, frame.elsewhere)
    tracks.set("result", step, frame.result)
    tracks.set("failure", step, failure and (failure.rank, failure.traceback, failure.hung_ranks, failure.paths))


class _Logs:
    """What ranks printed: for each line the step at which it is there first, its rank, time, stream and text."""

    def __init__(self) -> None:
        self.labels: list[str] = []
        self._lines: list[tuple[int, Output]] = []
        self._numbers: dict[Output, int] = {}

    def add(self, step: int, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Output):
                line = bounded(event)
                self._numbers[line] = len(self._lines)
                self._lines.append((step, line))

    def number(self, line: Output) -> int:
        """The number of a line among all of them."""
        return self._numbers[line]

    def as_json(self) -> dict[str, Any]:
        """Columns; a line with a label has the label's number, or -1, and only its value as text."""
        places = {label: place for place, label in enumerate(self.labels)}
        lines = [line for _, line in self._lines]
        labeled = [places.get(line.label, -1) if line.label is not None else -1 for line in lines]
        return {
            "steps": _differences([step for step, _ in self._lines]),
            "ranks": [line.rank for line in lines],
            "times": _differences([_microseconds(line.time) for line in lines]),
            "errors": [number for number, line in enumerate(lines) if line.stream == "stderr"],
            "labels": labeled,
            "texts": [
                (line.value or "") if label >= 0 else line.text for line, label in zip(lines, labeled, strict=True)
            ],
        }


class _Operations:
    """The operations of a run, in the order of their first calls, and the lines of code that call them."""

    def __init__(self, whole: RunState, given: PageInput) -> None:
        self._ranks, self._end, self._given = whole.ranks, whole.time, given
        self._script = (whole.script, (given.script or "").splitlines())
        self._collectives = whole.timeline.collectives
        self._places: dict[_Place, int] = {}
        self._calls: dict[tuple[int, int], list[tuple[float, int]]] = {}
        for number, collective in enumerate(self._collectives):
            for rank, call in collective.calls.items():
                self._calls.setdefault((rank, call.number), []).append((call.issued, number))

    def find(self, rank: int, number: int, until: float) -> int:
        """The index of the operation to which a call belongs that a rank has issued by `until`; -1 if it has not."""
        issued = self._calls.get((rank, number), [])
        at = bisect_right(issued, (until, len(self._collectives)))
        return issued[at - 1][1] if at else -1

    def as_json(self) -> dict[str, Any]:
        rows = [self._row(each) for each in self._collectives]
        starts = [_microseconds(min(call.issued for call in each.calls.values())) for each in self._collectives]
        ends = [_microseconds(self._end if each.ended is None else each.ended) for each in self._collectives]
        return {
            "names": [name for name, _, _ in rows],
            "more": [more for _, more, _ in rows],
            "places": [place for _, _, place in rows],
            "starts": _differences(starts),
            "lasted": [end - start for start, end in zip(starts, ends, strict=True)],
            "lines": [[format_place(*place) if place[1] else "", self._code(*place)] for place in self._places],
            "numbers": [place[1] if place[0] == self._script[0] else 0 for place in self._places],
        }

    def calls(self) -> dict[str, Any]:
        """For each step but the last the rank that calls next, and the operation to which the call belongs."""
        issued = [event for event in self._given.events if isinstance(event, Issued)]
        return {
            "ranks": [event.rank for event in issued],
            "operations": _differences([self.find(event.rank, event.number, event.time) for event in issued]),
        }

    def _row(self, collective: Collective) -> tuple[str, str, int]:
        operation = collective.operation
        more = describe_operation(collective, self._ranks)
        place = self._places.setdefault((operation.file, operation.line), len(self._places))
        return collective.op, " · ".join(more), place

    def _code(self, file: str, line: int) -> str:
        """A line of the script or of another Python file; "" for any other file, which a saved run may name."""
        script, lines = self._script
        if file == script and lines:
            return lines[line - 1].strip() if 0 < line <= len(lines) else ""
        return source_line(file, line).strip() if file.endswith(".py") else ""


def _lanes(whole: RunState, operations: _Operations) -> dict[str, Any] | None:
    lanes = describe_frame(whole).lanes
    if lanes is None:
        return None
    return {
        "first": _microseconds(lanes.first),
        "last": _microseconds(lanes.last),
        "ranks": [_lane(rank, spans, operations) for rank, spans in lanes.spans.items()],
    }


def _lane(rank: int, spans: Sequence[Span], operations: _Operations) -> dict[str, Any]:
    """A rank's spans: their kinds, their lengths, and the operations of those that are not computing."""
    start = at = _microseconds(spans[0].start)
    kinds, lengths, numbers = [], [], []
    for span in spans:
        since, until = _microseconds(span.start), _microseconds(span.end)
        if since > at:
            kinds.append(_GAP)
            lengths.append(since - at)
        if until > since:
            kinds.append(_LETTERS[span.kind])
            lengths.append(until - since)
            if span.kind != "compute":
                numbers.append(operations.find(rank, span.number, span.end) if span.number else -1)
        at = until
    return {
        "rank": rank, "start": start, "kinds": "".join(kinds), "lengths": lengths, "operations": _differences(numbers),
    }  # fmt: skip


def _microseconds(seconds: float) -> int:
    """A time as the page holds it."""
    return round(seconds * 1e6)


# What changes from step to step, stored so that a page can show any step at once and stays small


@dataclass(slots=True)
class _SlotHistory:
    """The steps at which the value of a slot changed, and its values from then on."""

    steps: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


class _Tracks:
    """The value of each slot over the steps of a run. Slots of one kind, the word before the dot, share a table."""

    def __init__(self) -> None:
        self._slots: dict[str, _SlotHistory] = {}

    def set(self, slot: str, step: int, value: Any) -> None:
        """Note the value of a slot at a step; values are texts, numbers, None, and tuples of these."""
        history = self._slots.setdefault(slot, _SlotHistory())
        if not history.values or history.values[-1] != value:
            history.steps.append(step)
            history.values.append(value)

    def as_json(self) -> dict[str, Any]:
        """The tables, and for each slot its steps and the places of its values, as numbers that compress well.

        One slot after the other adds its values to its table, so that most places are one after the place before.
        """
        tables: dict[str, dict[Any, int]] = {}
        slots = {}
        for slot, history in self._slots.items():
            table = tables.setdefault(slot.partition(".")[0], {})
            places = [table.setdefault(value, len(table)) for value in history.values]
            slots[slot] = [_differences(history.steps), _advances(places)]
        return {"tables": {kind: list(table) for kind, table in tables.items()}, "slots": slots}


def _advances(places: list[int]) -> list[int]:
    """By how much each place exceeds all before it; one that does not becomes -1 - place. See placesOf in run.js."""
    advances, top = [], -1
    for place in places:
        advances.append(place - top if place > top else -1 - place)
        top = max(top, place)
    return advances


def _differences(numbers: list[int]) -> list[int]:
    """The first number, then for each further one its difference from the one before."""
    return [after - before for before, after in zip([0, *numbers], numbers, strict=False)]
