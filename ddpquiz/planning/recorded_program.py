"""What each rank of a recorded run did, in order: computing, calls, waits and steps, without the seconds of calls."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ddpquiz.analysis.collective import Collective
from ddpquiz.analysis.events import Ended, Event, Exited, Issued, Joining, Marked, Raised, RankEvent, Waited
from ddpquiz.analysis.operation import Operation
from ddpquiz.analysis.timeline import Timeline

FEWEST_STEPS = 3  # marks of an optimizer's step that make a run one of steps


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """A rank computes for `seconds`, then calls (and is blocked), posts (and goes on), waits for a post, or steps."""

    seconds: float
    kind: Literal["call", "post", "wait", "step", "leave"]
    meeting: int = -1  # which collective, or send with its receive


@dataclass(frozen=True, slots=True)
class RecordedMeeting:
    """A collective, or a send with its receive: what each rank asks for."""

    operations: dict[int, Operation]  # by rank

    @property
    def operation(self) -> Operation:
        return self.operations[min(self.operations)]


@dataclass(frozen=True, slots=True)
class RecordedProgram:
    """The actions of each rank, and the collectives in which they meet."""

    actions: dict[int, tuple[RecordedAction, ...]]
    meetings: tuple[RecordedMeeting, ...]

    @property
    def has_steps(self) -> bool:
        """True if every rank made steps with an optimizer, so that a step can be timed."""
        return all(sum(each.kind == "step" for each in rank) >= FEWEST_STEPS for rank in self.actions.values())


@dataclass(slots=True)
class _Reader:
    """Follows one rank through its events."""

    numbers: dict[int, int]  # its calls by number -> the collective
    cursor: float | None = None  # the rank has computed since then; None: it has not joined yet
    actions: list[RecordedAction] = field(default_factory=list)
    open: dict[int, Operation] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        match event:
            case Joining(done=True):
                self.cursor = event.time if self.cursor is None else self.cursor
            case Issued():
                self.open[event.number] = event.operation
                self._act(event.time, "post" if event.operation.in_background else "call", event.number)
            case Ended() if event.number in self.open and not self.open[event.number].in_background:
                self.cursor = event.time
            case Waited() if event.number in self.open and self.open[event.number].in_background:
                self._act(event.since, "wait", event.number)
                self.cursor = event.time
            case Marked(what="step"):
                self._act(event.time, "step")
            case Raised() | Exited():
                self._act(event.time, "leave")

    def _act(self, time: float, kind: Literal["call", "post", "wait", "step", "leave"], number: int = -1) -> None:
        if self.cursor is not None and (self.actions[-1:] == [] or self.actions[-1].kind != "leave"):
            self.actions.append(RecordedAction(max(0.0, time - self.cursor), kind, self.numbers.get(number, -1)))
            self.cursor = max(time, self.cursor)


def recorded_program(events: Sequence[Event]) -> RecordedProgram:
    """Return the program of a run that went well; it has no meetings if the run communicated nothing."""
    timeline = Timeline(limit=None)
    for event in events:
        timeline.add(event)
    whole = [each for each in timeline.collectives if each.complete]
    numbers: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for index, collective in enumerate(whole):
        for rank, call in collective.calls.items():
            numbers[rank][call.number] = index
    readers = {rank: _Reader(numbers[rank]) for rank in timeline.ranks}
    for event in events:
        if isinstance(event, RankEvent) and event.rank in readers:
            readers[event.rank].add(event)
    return RecordedProgram(
        {rank: tuple(reader.actions) for rank, reader in readers.items()}, tuple(map(_meeting, whole))
    )


def _meeting(collective: Collective) -> RecordedMeeting:
    return RecordedMeeting({rank: call.operation for rank, call in collective.calls.items()})


def measured_step(events: Sequence[Event], *, by_steps: bool) -> tuple[float, int]:
    """Return the seconds of a step of a run and the number of steps, on the slowest rank.

    The first step only begins the count. Without steps, it is the time from when all ranks have joined to the last end
    of a call.
    """
    joined = max((each.time for each in events if isinstance(each, Joining) and each.done), default=0.0)
    if not by_steps:
        return max((each.time for each in events if isinstance(each, Ended)), default=joined) - joined, 1
    marks: defaultdict[int, list[float]] = defaultdict(list)
    for event in events:
        if isinstance(event, Marked) and event.what == "step":
            marks[event.rank].append(event.time)
    count = min(map(len, marks.values())) - 1
    return (max(each[count] for each in marks.values()) - max(each[0] for each in marks.values())) / count, count
