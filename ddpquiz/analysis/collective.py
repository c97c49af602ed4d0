"""One operation across its ranks: who entered when, who is awaited, how long it lasted and how fast it was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ddpquiz.analysis.operation import POINT_TO_POINT, bus_factor

if TYPE_CHECKING:
    from ddpquiz.analysis.operation import Operation


@dataclass(slots=True, eq=False)
class Call:
    """The `number`-th call of one rank. `blocks` are the times during which it blocked the rank."""

    operation: Operation
    number: int
    issued: float
    began: float | None = None  # when a GPU began with it, if that was measured
    ended: float | None = None
    failed: bool = False  # it ended in an error
    blocks: tuple[tuple[float, float], ...] = ()

    @property
    def entered(self) -> float:
        """When the rank was ready: when its GPU began, or else when it called."""
        return self.issued if self.began is None else self.began


@dataclass(slots=True, eq=False)
class Collective:
    """The calls of all members that belong together; `index` counts the operations of the group, from 0.

    `started` is when the last member entered; no collective can complete before. `ended` is when it was done on every
    member.
    """

    group: str
    members: tuple[int, ...]
    index: int
    calls: dict[int, Call] = field(default_factory=dict)  # by rank
    entered_last: int | None = None
    started: float | None = None
    ended: float | None = None

    @property
    def operation(self) -> Operation:
        """What the first member asks for; the others ask for the same unless there is a mismatch.

        For a scatter it is what the root asks for if the root has called, since only the root brings all parts.
        """
        first = self.calls[min(self.calls)].operation
        root = self.calls.get(first.peer) if first.op == "scatter" and first.peer is not None else None
        return root.operation if root else first

    @property
    def op(self) -> str:
        """The operator; `send` for a send with its receive."""
        op = self.operation.op
        return "send" if op in POINT_TO_POINT else op

    @property
    def arrived(self) -> tuple[int, ...]:
        """The members that have entered."""
        return tuple(rank for rank in self.members if rank in self.calls)

    @property
    def awaited(self) -> tuple[int, ...]:
        """The members that have not entered yet."""
        return tuple(rank for rank in self.members if rank not in self.calls)

    @property
    def complete(self) -> bool:
        """True if every member has entered."""
        return len(self.calls) == len(self.members)

    def enter(self, rank: int, call: Call) -> None:
        """Add the call of a member."""
        self.calls[rank] = call
        self.refresh()

    def refresh(self) -> None:
        """Compute the times again after the calls have changed."""
        if not self.complete:
            return
        calls = self.calls
        last = self.entered_last = max(calls, key=lambda rank: (calls[rank].entered, rank))
        self.started = calls[last].entered
        ends = [call.ended for call in calls.values() if call.ended is not None]
        self.ended = max(ends) if len(ends) == len(calls) else None

    @property
    def waits(self) -> dict[int, float]:
        """Seconds for which each member was blocked until the last one entered."""
        started = self.started
        if started is None:
            return {}
        return {
            rank: sum(max(0.0, min(started, end) - start) for start, end in call.blocks if needs(started, end))
            for rank, call in self.calls.items()
        }

    @property
    def seconds(self) -> float | None:
        """From the last entry to the last end."""
        return None if self.started is None or self.ended is None else self.ended - self.started

    @property
    def algbw(self) -> float | None:
        """Bytes per second that the script sees: the size of the operation divided by its time."""
        seconds = self.seconds
        return self.operation.total_bytes / seconds if seconds and seconds > 1e-9 else None

    @property
    def busbw(self) -> float | None:
        """Bytes per second that a link carries, which can be compared across operations and numbers of ranks."""
        return None if self.algbw is None else self.algbw * bus_factor(self.op, len(self.operation.members))


def needs(started: float, end: float) -> bool:
    """Return True if a member that left at `end` waited for the last one; the root of a broadcast may leave before."""
    return end >= started
