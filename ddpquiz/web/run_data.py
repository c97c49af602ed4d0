"""A run as the data of its page: every frame of it, its operations, its lanes, its logs and its script."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ddpquiz.analysis.bounded_line import bounded
from ddpquiz.analysis.collective import Collective
from ddpquiz.analysis.events import Event, Issued, Output
from ddpquiz.analysis.formatting import format_place
from ddpquiz.analysis.frames.lanes import describe_lanes
from ddpquiz.analysis.frames.operation_line import about, between, outcome
from ddpquiz.analysis.frames.rank_values import shortened
from ddpquiz.analysis.frames.report import Section
from ddpquiz.analysis.frames.run_frame import RunFrame, describe_frame
from ddpquiz.analysis.frames.steps import beginnings, describe_next, steps, time_before
from ddpquiz.analysis.rank_timeline import Span
from ddpquiz.analysis.run_state import RunState
from ddpquiz.analysis.source_text import source_line
from ddpquiz.analysis.timeline import Timeline
from ddpquiz.web.tracks import Tracks, differences

TAIL = 12  # lines without a label that a frame shows; the logs have all of them
LETTERS = {"compute": "p", "communication": "c", "waiting": "w"}  # of the kinds of spans
GAP = "g"  # between the end of a rank and its restart

Place = tuple[str, int]  # file and line


@dataclass(frozen=True, kw_only=True)
class PageInput:
    """What a page is made of: events of a run that is over, its sections on top, and the text of its script.

    `path` writes the path of a file for the reader.
    """

    events: Sequence[Event]
    report: Sequence[Section] = ()
    script: str | None = None
    only_broken_claims: bool = False
    is_cut: bool = False  # the events before these are no longer known
    path: Callable[[str], str] = str


def run_data(given: PageInput) -> dict[str, Any]:
    """Return the data of a page, as JSON can hold it."""
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
        "source": given.script.splitlines() if given.script is not None else None,
        "frames": _frames(given, logs),
        "logs": logs.as_json(),
        "operations": operations.as_json(),
        "calls": operations.calls(),
        "lanes": _lanes(whole, operations),
        "isCut": given.is_cut,
    }


def _frames(given: PageInput, logs: "_Logs") -> dict[str, Any]:
    """Return what each step shows, by slots, and the time of each step."""
    events, stops = given.events, steps(given.events)
    state, tracks = RunState(only_broken_claims=given.only_broken_claims), Tracks()
    labels: dict[str, int] = {}
    times, passed = [], 0
    for step, stop in enumerate(stops):
        logs.add(step, events[passed:stop])
        for event in events[passed:stop]:
            state.add(event)
        passed = stop
        frame = describe_frame(state, time_before(events, stops, step), given.path)
        tracks.set("next", step, describe_next(events, stops, step))
        _add_frame(frame, step, tracks, labels)
        tracks.set("lines", step, tuple(logs.number(line) for line in frame.lines[-TAIL:]))
        times.append(microseconds(state.time))
    logs.labels = list(labels)
    return {
        **tracks.as_json(),
        "labels": list(labels),
        "times": differences(times),
        "operations": beginnings(events, stops),
    }


def _add_frame(frame: RunFrame, step: int, tracks: Tracks, labels: dict[str, int]) -> None:
    for column in frame.columns:
        tracks.set(f"doing.{column.rank}", step, column.doing)
        tracks.set(f"brings.{column.rank}", step, column.brings and shortened(column.brings))
        tracks.set(f"gets.{column.rank}", step, column.gets and shortened(column.gets))
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
    tracks.set("remarks", step, frame.remarks)
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
        """Return the number of a line among all of them."""
        return self._numbers[line]

    def as_json(self) -> dict[str, Any]:
        """Return columns; a line with a label has the label's number, or -1, and only its value as text."""
        places = {label: place for place, label in enumerate(self.labels)}
        lines = [line for _, line in self._lines]
        labelled = [places.get(line.label, -1) if line.label is not None else -1 for line in lines]
        return {
            "steps": differences([step for step, _ in self._lines]),
            "ranks": [line.rank for line in lines],
            "times": differences([microseconds(line.time) for line in lines]),
            "errors": [number for number, line in enumerate(lines) if line.stream == "stderr"],
            "labels": labelled,
            "texts": [
                (line.value or "") if label >= 0 else line.text for line, label in zip(lines, labelled, strict=True)
            ],
        }


class _Operations:
    """The operations of a run, in the order of their first calls, and the lines of code that call them."""

    def __init__(self, whole: RunState, given: PageInput) -> None:
        self._ranks, self._end, self._given = whole.ranks, whole.time, given
        self._script = (whole.script, (given.script or "").splitlines())
        self._collectives = whole.timeline.collectives
        self._places: dict[Place, int] = {}
        self._calls: dict[tuple[int, int], list[tuple[float, int]]] = {}
        for number, collective in enumerate(self._collectives):
            for rank, call in collective.calls.items():
                self._calls.setdefault((rank, call.number), []).append((call.issued, number))

    def find(self, rank: int, number: int, until: float) -> int:
        """Return the operation of a rank's call that was issued by then; -1 if there is none."""
        issued = self._calls.get((rank, number), [])
        at = bisect_right(issued, (until, len(self._collectives)))
        return issued[at - 1][1] if at else -1

    def as_json(self) -> dict[str, Any]:
        rows = [self._row(each) for each in self._collectives]
        starts = [microseconds(min(call.issued for call in each.calls.values())) for each in self._collectives]
        ends = [microseconds(self._end if each.ended is None else each.ended) for each in self._collectives]
        return {
            "names": [name for name, _, _ in rows],
            "more": [more for _, more, _ in rows],
            "places": [place for _, _, place in rows],
            "starts": differences(starts),
            "lasted": [end - start for start, end in zip(starts, ends, strict=True)],
            "lines": [[format_place(*place) if place[1] else "", self._code(*place)] for place in self._places],
            "numbers": [place[1] if place[0] == self._script[0] else 0 for place in self._places],
        }

    def calls(self) -> dict[str, Any]:
        """Return for each step but the last the rank that calls next, and the operation to which the call belongs."""
        issued = [event for event in self._given.events if isinstance(event, Issued)]
        return {
            "ranks": [event.rank for event in issued],
            "operations": differences([self.find(event.rank, event.number, event.time) for event in issued]),
        }

    def _row(self, collective: Collective) -> tuple[str, str, int]:
        operation = collective.operation
        more = (*between(collective, self._ranks), *about(collective), *outcome(collective))
        place = self._places.setdefault((operation.file, operation.line), len(self._places))
        return collective.op, " · ".join(more), place

    def _code(self, file: str, line: int) -> str:
        """Return a line of the script, or of another Python file: a saved run may name a file that is none of these."""
        script, lines = self._script
        if file == script and lines:
            return lines[line - 1].strip() if 0 < line <= len(lines) else ""
        return source_line(file, line).strip() if file.endswith(".py") else ""


def _lanes(whole: RunState, operations: _Operations) -> dict[str, Any] | None:
    lanes = describe_lanes(whole, whole.time)
    if lanes is None:
        return None
    return {
        "first": microseconds(lanes.first),
        "last": microseconds(lanes.last),
        "ranks": [_lane(rank, spans, operations) for rank, spans in lanes.spans.items()],
    }


def _lane(rank: int, spans: Sequence[Span], operations: _Operations) -> dict[str, Any]:
    """Return a rank's spans: their kinds, their lengths, and the operations of those that are not computing."""
    start = at = microseconds(spans[0].start)
    kinds, lengths, numbers = [], [], []
    for span in spans:
        since, until = microseconds(span.start), microseconds(span.end)
        if since > at:
            kinds.append(GAP)
            lengths.append(since - at)
        if until > since:
            kinds.append(LETTERS[span.kind])
            lengths.append(until - since)
            if span.kind != "compute":
                numbers.append(operations.find(rank, span.number, span.end) if span.number else -1)
        at = until
    return {
        "rank": rank, "start": start, "kinds": "".join(kinds), "lengths": lengths, "operations": differences(numbers),
    }  # fmt: skip


def microseconds(seconds: float) -> int:
    """Return a time as the page holds it."""
    return round(seconds * 1e6)
