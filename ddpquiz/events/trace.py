"""A run in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open.

Each rank is a process. Its first row holds what it did. The rows below hold its operations, on as many rows as ran at
once, since slices of a row must nest. The part of an operation after its last member has entered is a slice within it.
Arrows lead to these slices from the operation of the member that entered last, and from a send to its receive. Perfetto
starts an arrow at the slice that begins first, so an arrow to the whole of an earlier operation would be reversed.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from ddpquiz.events import event as events
from ddpquiz.events.collective import Call, Collective
from ddpquiz.events.formatting import format_shapes
from ddpquiz.events.operation import POINT_TO_POINT
from ddpquiz.events.timeline import Timeline
from ddpquiz.safe_text import escape_controls

_TIME, _OUTPUT, _OPERATIONS = 0, 1, 2  # rows of a rank; more operations at once take the rows that follow
_MOST_ROWS = 100_000  # the most rows of a rank: rows of two ranks must not have the same number
_Json = dict[str, Any]
_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a rank."""

    rank: int
    number: int

    @property
    def ids(self) -> _Json:
        """Its process and thread; process 0 and thread 0 would be the idle kernel."""
        process = (self.rank + 1) * _MOST_ROWS
        return {"pid": process, "tid": process + self.number}


def write(run: Iterable[events.Event], file: TextIO) -> None:
    """Write a run as a trace."""
    file.write('{"displayTimeUnit": "ms", "traceEvents": [')
    texts = (escape_controls(_ENCODER.encode(event)) for event in trace(run))
    file.writelines(("," if number else "") + "\n" + text for number, text in enumerate(texts))
    file.write("\n]}\n")


def trace(run: Iterable[events.Event]) -> Iterator[_Json]:
    """Yield the trace events of a run, not in order of time; the format does not require it."""
    timeline, values, end = Timeline(limit=None), _Values(), 0.0
    claims: dict[int, str] = {}
    gone: dict[int, list[float]] = {}  # when the processes of a rank ended; torchrun's agent may start others
    for event in run:
        timeline.add(event)
        values.add(event)
        if isinstance(event, events.Began):
            claims = {claim.line: claim.text for claim in event.claims}
        if isinstance(event, events.Exited):
            gone.setdefault(event.rank, []).append(event.time)
        end = max(end, events.when(event))
        yield from _instants(event, claims)
    left = _left(timeline, gone, end)
    rows = _rows(timeline, left)
    yield from _names(timeline, rows)
    for rank in timeline.ranks:
        for span in timeline.spans(rank, end):
            about = {"operation": span.op} if span.op else {}
            yield _slice(span.kind, _Row(rank, _TIME), span.start, span.end, about)
    for collective in timeline.collectives:
        shared = _about(collective)
        for rank, call in collective.calls.items():
            about = _about_call(call) | shared | values.of(rank, call)
            row, joined = rows[rank, call], _joined(collective, call, left)
            yield _slice(call.operation.op, row, call.issued, left[call], about)
            if joined > call.issued:
                yield _slice("communication", row, joined, left[call], {"operation": call.operation.op})
    yield from _arrows(timeline.collectives, rows, left)


class _Values:
    """What tensors held before and after an operation, if they are few; restarted ranks count operations from 1."""

    def __init__(self) -> None:
        self._values: dict[tuple[int, int, float], _Json] = {}
        self._issued: dict[tuple[int, int], float] = {}

    def add(self, event: events.Event) -> None:
        match event:
            case events.Issued(rank=rank, number=number, before=before):
                self._issued[rank, number] = event.time
                if before:
                    self._values[rank, number, event.time] = {"before": " ".join(before)}
            case events.Result(rank=rank, number=number, after=after) if after and (rank, number) in self._issued:
                key = rank, number, self._issued[rank, number]
                self._values.setdefault(key, {})["after"] = " ".join(after)

    def of(self, rank: int, call: Call) -> _Json:
        return self._values.get((rank, call.number, call.issued), {})


def _instants(event: events.Event, claims: dict[int, str]) -> Iterator[_Json]:
    """Yield what has no duration: output, claims, notes and errors; numbers after a label become a curve."""
    match event:
        case events.Output(rank=rank, time=time, text=text):
            yield _instant(text, rank, time, {"stream": event.stream})
            number = _number(event.value)
            if event.label is not None and number is not None:
                value = {"": number}  # this key is added to the name of the curve
                yield {"ph": "C", "name": event.label} | _Row(rank, _OUTPUT).ids | {"ts": _micro(time), "args": value}
        case events.Claimed(rank=rank, time=time, line=line, held=held):
            verdict = "holds" if held else "is broken"
            yield _instant(f"claim {verdict}: {claims.get(line, '')}", rank, time, {"line": line})
        case events.Marked(rank=rank, time=time):
            details: _Json = {name: getattr(event, name) for name in event.__match_args__[2:]}  # after time and rank
            yield _instant(event.what, rank, time, details)
        case events.Note(rank=rank, time=time, text=text):
            yield _instant(text, rank, time, {})
        case events.Raised(rank=rank, time=time):
            yield _instant(f"{event.error}: {event.message}", rank, time, {"traceback": event.traceback})
        case events.Hung(time=time, ranks=ranks):
            for position in ranks:
                at = f"{position.file}:{position.line}"
                about = {"waits in": position.waits_in, "at": at, "stack": position.stack}
                yield _instant("hang", position.rank, time, about)
        case events.End(time=time, rank=rank, why=why) if why:
            yield _instant(why, rank or 0, time, {})


def _rows(timeline: Timeline, left: dict[Call, float]) -> dict[tuple[int, Call], _Row]:
    """A row for each call of a rank: the first one that is free when it is issued."""
    rows: dict[tuple[int, Call], _Row] = {}
    calls: dict[int, list[Call]] = {}
    for collective in timeline.collectives:
        for rank, call in collective.calls.items():
            calls.setdefault(rank, []).append(call)
    for rank, made in calls.items():
        free: list[float] = []
        for call in sorted(made, key=lambda call: (call.issued, call.number)):
            row = next((row for row, since in enumerate(free) if since <= call.issued), len(free))
            free[row : row + 1] = [left[call]]
            rows[rank, call] = _Row(rank, _OPERATIONS + row)
    return rows


def _names(timeline: Timeline, rows: dict[tuple[int, Call], _Row]) -> Iterator[_Json]:
    used: dict[int, set[int]] = {}
    for row in rows.values():
        used.setdefault(row.rank, set()).add(row.number)
    for rank in sorted({0, *timeline.ranks}):  # rank 0 has the notes of the run, even if it runs elsewhere
        yield _name("process_name", _Row(rank, _TIME), {"name": f"rank {rank}"})
        yield _name("process_sort_index", _Row(rank, _TIME), {"sort_index": rank})
        names = {_TIME: "time", _OUTPUT: "output"} | dict.fromkeys(sorted(used.get(rank, ())), "operations")
        for number, name in names.items():
            yield _name("thread_name", _Row(rank, number), {"name": name})
            yield _name("thread_sort_index", _Row(rank, number), {"sort_index": number})


def _about(collective: Collective) -> _Json:
    about: _Json = {"ranks": list(collective.members)}
    if collective.group:
        about["group"] = collective.group
    if collective.entered_last is not None:
        about["last to enter"] = collective.entered_last
    algbw, busbw = collective.algbw, collective.busbw
    if algbw and busbw:
        about |= {"algbw MB/s": round(algbw) / 1e6, "busbw MB/s": round(busbw) / 1e6}
    return about


def _about_call(call: Call) -> _Json:
    asked = call.operation
    about = {
        "line": f"{asked.file}:{asked.line}", "number": call.number, "bytes": asked.bytes, "dtype": asked.dtype,
        "shapes": format_shapes(asked.shapes), "reduce": asked.reduce, "peer": asked.peer, "bucket": asked.bucket,
    }  # fmt: skip
    return {name: value for name, value in about.items() if value not in (None, "")}


def _arrows(
    collectives: list[Collective], rows: dict[tuple[int, Call], _Row], left: dict[Call, float]
) -> Iterator[_Json]:
    number = 0
    for collective in collectives:
        last, started = collective.entered_last, collective.started
        if last is None or started is None:
            continue
        source = next(rank for rank in collective.members) if collective.op in POINT_TO_POINT else last
        for rank, call in collective.calls.items():
            if rank != source and left[call] > started:  # a rank that left before did not wait
                number += 1
                about = {"name": collective.op, "cat": "operation", "id": number}
                for phase, at in ({"ph": "s"}, source), ({"ph": "f", "bp": "e"}, rank):
                    end = collective.calls[at]
                    begin = _micro(_joined(collective, end, left))  # where a slice begins
                    yield phase | about | rows[at, end].ids | {"ts": begin}


def _joined(collective: Collective, call: Call, left: dict[Call, float]) -> float:
    """When all calls had been made, or when this one was made if it was done before that, or did not fit."""
    started = None if call.ended is None and collective.differs else collective.started
    return call.issued if started is None or left[call] <= started else max(call.issued, started)


def _left(timeline: Timeline, gone: dict[int, list[float]], end: float) -> dict[Call, float]:
    """When each call was done, or when the process of its rank or the run ended if it never was."""
    left: dict[Call, float] = {}
    for collective in timeline.collectives:
        for rank, call in collective.calls.items():
            never = next((time for time in gone.get(rank, ()) if time >= call.issued), end)
            left[call] = max(call.issued, never if call.ended is None else call.ended)
    return left


def _slice(name: str, row: _Row, start: float, end: float, about: _Json) -> _Json:
    begin = _micro(start)
    kind = "time" if row.number == _TIME else "operation"
    lasts = {"ts": begin, "dur": round(_micro(end) - begin, 3)}
    return {"ph": "X", "name": name, "cat": kind} | row.ids | lasts | {"args": about}


def _instant(text: str, rank: int, time: float, about: _Json) -> _Json:
    kind = {"ph": "i", "s": "t", "name": text, "cat": "output"}
    return kind | _Row(rank, _OUTPUT).ids | {"ts": _micro(time), "args": about}


def _name(what: str, row: _Row, args: _Json) -> _Json:
    return {"ph": "M", "name": what} | row.ids | {"ts": 0, "args": args}


def _micro(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None  # JSON has no NaN
