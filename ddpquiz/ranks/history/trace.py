"""A run in the Trace Event Format, which ui.perfetto.dev and chrome://tracing open.

Each rank is a process. Its first row holds what it did; the rows below hold its operations, on as many rows as it had
at once, since slices of a row must nest. Arrows lead from the member that came last into a collective to where it let
the others go, and from a send to its receive.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TextIO

from ddpquiz.ranks.events import Began, Claimed, End, Event, Hung, Issued, Marked, Note, Output, Raised, Result
from ddpquiz.ranks.history.collective import PAIRED, Collective
from ddpquiz.ranks.history.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ddpquiz.ranks.history.collective import Call

TIME, OUTPUT, OPERATIONS = 0, 1, 2  # rows of a rank; more operations at once take the rows that follow
Trace = dict[str, Any]
_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"))


def write(events: Iterable[Event], file: TextIO) -> None:
    """Write a run as a trace."""
    file.write('{"displayTimeUnit": "ms", "traceEvents": [')
    texts = (_ENCODER.encode(event) for event in trace(events))
    file.writelines(("," if number else "") + "\n" + text for number, text in enumerate(texts))
    file.write("\n]}\n")


def trace(events: Iterable[Event]) -> Iterator[Trace]:
    """Yield the trace events of a run, in no order of time; the format asks for none."""
    timeline, values, end = Timeline(kept=None), _Values(), 0.0
    claims: dict[int, str] = {}
    for event in events:
        timeline.add(event)
        values.add(event)
        if isinstance(event, Began):
            claims = {claim.line: claim.text for claim in event.claims}
        end = max(end, getattr(event, "time", 0.0))
        yield from _instants(event, claims)
    rows = _rows(timeline, end)
    yield from _names(timeline, rows)
    for rank in timeline.ranks:
        for span in timeline.spans(rank, end):
            about = {"operation": span.op} if span.op else {}
            yield _slice(span.kind, rank, TIME, span.start, span.end, about)
    for collective in timeline.collectives:
        shared = _about(collective)
        for rank, call in collective.calls.items():
            about = _about_call(call) | shared | values.of(rank, call.number)
            yield _slice(call.op, rank, rows[rank, call.number], call.issued, _left(call, end), about)
    yield from _arrows(timeline.collectives, rows, end)


class _Values:
    """What tensors held before and after an operation, where they are few."""

    def __init__(self) -> None:
        self._values: dict[tuple[int, int], Trace] = {}

    def add(self, event: Event) -> None:
        match event:
            case Issued(before=before) if before:
                self._values.setdefault((event.rank, event.number), {})["before"] = " ".join(before)
            case Result(after=after) if after:
                self._values.setdefault((event.rank, event.number), {})["after"] = " ".join(after)

    def of(self, rank: int, number: int) -> Trace:
        return self._values.get((rank, number), {})


def _instants(event: Event, claims: dict[int, str]) -> Iterator[Trace]:
    """Yield what has no length: output, claims, notes and errors; numbers behind a label become a curve."""
    match event:
        case Output(rank=rank, time=time, text=text):
            yield _instant(text, rank, time, {"stream": event.stream})
            number = _number(event.value)
            if event.label is not None and number is not None:
                yield {
                    "ph": "C", "name": event.label, "pid": rank, "tid": OUTPUT, "ts": _micro(time),
                    "args": {event.label: number},
                }  # fmt: skip
        case Claimed(rank=rank, time=time, line=line, held=held):
            verdict = "holds" if held else "is broken"
            yield _instant(f"claim {verdict}: {claims.get(line, '')}", rank, time, {"line": line})
        case Marked(rank=rank, time=time):
            yield _instant(event.what, rank, time, {"line": event.line})
        case Note(rank=rank, time=time, text=text):
            yield _instant(text, rank, time, {})
        case Raised(rank=rank, time=time):
            yield _instant(f"{event.error}: {event.message}", rank, time, {"traceback": event.traceback})
        case Hung(time=time, ranks=ranks):
            for each in ranks:
                about = {"waits in": each.waits_in, "at": f"{each.file}:{each.line}", "stack": each.stack}
                yield _instant("hang", each.rank, time, about)
        case End(time=time, rank=rank, why=why) if why:
            yield _instant(why, rank or 0, time, {})


def _rows(timeline: Timeline, end: float) -> dict[tuple[int, int], int]:
    """Give each call, by rank and number, the first row that is free when it is issued."""
    rows: dict[tuple[int, int], int] = {}
    calls: dict[int, list[Call]] = {}
    for collective in timeline.collectives:
        for rank, call in collective.calls.items():
            calls.setdefault(rank, []).append(call)
    for rank, its in calls.items():
        free: list[float] = []
        for call in sorted(its, key=lambda call: (call.issued, call.number)):
            row = next((row for row, since in enumerate(free) if since <= call.issued), len(free))
            free[row : row + 1] = [_left(call, end)]
            rows[rank, call.number] = OPERATIONS + row
    return rows


def _names(timeline: Timeline, rows: dict[tuple[int, int], int]) -> Iterator[Trace]:
    for rank in timeline.ranks:
        yield _name("process_name", rank, 0, {"name": f"rank {rank}"})
        yield _name("process_sort_index", rank, 0, {"sort_index": rank})
        used = {row for (of, _), row in rows.items() if of == rank}
        names = {TIME: "time", OUTPUT: "output"} | dict.fromkeys(sorted(used), "operations")
        for row, name in names.items():
            yield _name("thread_name", rank, row, {"name": name})
            yield _name("thread_sort_index", rank, row, {"sort_index": row})


def _about(collective: Collective) -> Trace:
    about: Trace = {"ranks": list(collective.members)}
    if collective.group:
        about["group"] = collective.group
    if collective.entered_last is not None:
        about["last to enter"] = collective.entered_last
    algbw, busbw = collective.algbw, collective.busbw
    if algbw and busbw:
        about |= {"algbw MB/s": round(algbw) / 1e6, "busbw MB/s": round(busbw) / 1e6}
    return about


def _about_call(call: Call) -> Trace:
    what = call.what
    shapes = " ".join("x".join(map(str, shape)) or "1" for shape in what.shapes)
    about = {
        "line": f"{what.file}:{what.line}", "number": call.number, "bytes": what.bytes, "dtype": what.dtype,
        "shapes": shapes, "reduce": what.reduce, "peer": what.peer, "bucket": what.bucket,
    }  # fmt: skip
    return {name: value for name, value in about.items() if value not in (None, "")}


def _arrows(collectives: list[Collective], rows: dict[tuple[int, int], int], end: float) -> Iterator[Trace]:
    number = 0
    for collective in collectives:
        last = collective.entered_last
        if last is None:
            continue
        source = next(rank for rank in collective.members) if collective.op in PAIRED else last
        begin = collective.calls[source].issued
        for rank, call in collective.calls.items():
            left = _left(call, end)
            if rank != source and left >= begin:  # whoever left before was not held up
                number += 1
                about = {"name": collective.op, "cat": "operation", "id": number}
                start = {"ph": "s", "pid": source, "tid": rows[source, collective.calls[source].number]}
                finish = {"ph": "f", "bp": "e", "pid": rank, "tid": rows[rank, call.number]}
                yield about | start | {"ts": _micro(begin)}
                yield about | finish | {"ts": _micro(left)}


def _left(call: Call, end: float) -> float:
    """Return when an operation let its rank go, or the end of the run when it never did."""
    return max(call.issued, end if call.ended is None else call.ended)


def _slice(name: str, rank: int, row: int, start: float, end: float, about: Trace) -> Trace:
    begin = _micro(start)
    return {
        "ph": "X", "name": name, "cat": "time" if row == TIME else "operation", "pid": rank, "tid": row, "ts": begin,
        "dur": round(_micro(end) - begin, 3), "args": about,
    }  # fmt: skip


def _instant(text: str, rank: int, time: float, about: Trace) -> Trace:
    return {
        "ph": "i",
        "s": "t",
        "name": text,
        "cat": "output",
        "pid": rank,
        "tid": OUTPUT,
        "ts": _micro(time),
        "args": about,
    }


def _name(what: str, rank: int, row: int, args: Trace) -> Trace:
    return {"ph": "M", "name": what, "pid": rank, "tid": row, "ts": 0, "args": args}


def _micro(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None  # JSON knows no NaN
