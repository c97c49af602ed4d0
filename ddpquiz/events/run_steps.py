"""The steps of a run that is over: one before each call of a rank, and one at the end."""

from bisect import bisect_left
from collections.abc import Sequence

from ddpquiz.events.event import Event, Issued, when
from ddpquiz.events.formatting import format_place
from ddpquiz.events.operation import ANY_SOURCE, Operation
from ddpquiz.events.run_state import RunState
from ddpquiz.events.timeline import Timeline
from ddpquiz.plural import plural

_SAVED = 16  # states of a long run that are saved


def steps(events: Sequence[Event]) -> list[int]:
    """The number of events before each step: a step comes before each call of a rank, and one at the end."""
    return [number for number, event in enumerate(events) if isinstance(event, Issued)] + [len(events)]


def beginnings(events: Sequence[Event], stops: Sequence[int]) -> list[int]:
    """The steps before the first call of each operation, and the last step."""
    timeline, first_calls = Timeline(), []
    for number, event in enumerate(events):
        before = timeline.count
        timeline.add(event)
        if timeline.count > before:
            first_calls.append(bisect_left(stops, number))
    return [*first_calls, len(stops) - 1]


def time_before(events: Sequence[Event], stops: Sequence[int], at: int) -> float:
    """The time of the previous step; what came after it is new at this one."""
    return when(events[stops[at - 1] - 1]) if at else 0.0


def describe_next(events: Sequence[Event], stops: Sequence[int], at: int) -> tuple[str, ...]:
    """What happens in the next step: which rank calls what, where, and how many bytes."""
    coming = events[stops[at]] if stops[at] < len(events) else None
    if not isinstance(coming, Issued):
        return ()
    call = coming.operation
    where = format_place(call.file, call.line) if call.line else ""
    size = plural(call.bytes, "byte") if call.dtype else ""
    parts = (f"next: rank {coming.rank} calls {call.op}{_towards(call)}", where, size)
    return tuple(part for part in parts if part)


def _towards(call: Operation) -> str:
    """To or from which rank a message or a rooted collective goes, such as ` to rank 3`."""
    if call.peer is None or call.peer == ANY_SOURCE:
        return ""
    outwards = call.op == "send" or call.op.startswith(("reduce", "gather"))
    return f" {'to' if outwards else 'from'} rank {call.peer}"


class EventCursor:
    """The state of a run at any event; some states are saved, so that going back is fast."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.state, self._at = RunState(), 0
        self._apart = max(1000, len(events) // _SAVED)
        self._saved = {0: RunState()}

    def seek(self, to: int) -> RunState:
        """The state after the first `to` events."""
        if to < self._at:
            self._at = max(place for place in self._saved if place <= to)
            self.state = self._saved[self._at].copy()
        for event in self.events[self._at : to]:
            self.state.add(event)
            self._at += 1
            if self._at % self._apart == 0 and self._at not in self._saved:
                self._saved[self._at] = self.state.copy()
        return self.state
