"""One operation across its ranks: who entered when, who was awaited, what it cost and how fast it was."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ddpquiz.analysis.events import Issued

PAIRED = ("send", "recv")  # point-to-point: two ranks, whatever the size of the group
ROOTED = ("broadcast", "reduce", "gather", "scatter")


class What(NamedTuple):
    """What a call asks for and where it stands in the script; calls that ask for the same share one."""

    op: str
    reduce: str
    peer: int | None
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    bytes: int
    file: str
    line: int
    asynchronous: bool
    bucket: int | None

    @property
    def place(self) -> tuple[str, int, str]:
        """The file and line that call, and the operator."""
        return self.file, self.line, self.op

    @classmethod
    def of(cls, event: Issued) -> What:
        """Return what an event says of the call."""
        return cls(
            event.op, event.reduce, event.peer, event.shapes, event.dtype, event.bytes, event.file, event.line,
            event.asynchronous, event.bucket,
        )  # fmt: skip


@dataclass(slots=True, eq=False)
class Call:
    """One rank's part in a collective: its `number`-th operation. `blocks` are when it held the rank up."""

    what: What
    number: int
    issued: float
    began: float | None = None  # when a GPU began with it, where that was measured
    ended: float | None = None
    failed: bool = False  # it ended in an error
    blocks: tuple[tuple[float, float], ...] = ()

    @property
    def entered(self) -> float:
        """When the rank was there: when its GPU began, or else when it called."""
        return self.issued if self.began is None else self.began

    @property
    def op(self) -> str:
        """The operator, in the words of `torch.distributed`."""
        return self.what.op

    @property
    def file(self) -> str:
        """The file that called."""
        return self.what.file

    @property
    def line(self) -> int:
        """The line that called."""
        return self.what.line

    @property
    def asynchronous(self) -> bool:
        """Whether the script went on at once, as it does beside a bucket of DDP."""
        return self.what.asynchronous or self.what.bucket is not None

    @property
    def bucket(self) -> int | None:
        """The number of DDP's bucket in its backward pass, if it is one."""
        return self.what.bucket

    @property
    def waited(self) -> float:
        """Seconds in which this call held the rank up."""
        return sum(end - start for start, end in self.blocks)


@dataclass(slots=True, eq=False)
class Collective:
    """The calls of all members that belong together; `index` counts those of the group, from 0.

    `started` is when the last member entered: no collective can be done before. `ended` is when it was done on every
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
    def sample(self) -> What:
        """What the first member asks for; the others ask for the same unless there is a mismatch.

        Of a scatter, what its root asks for if it is there: it alone brings all parts.
        """
        first = self.calls[min(self.calls)].what
        root = self.calls.get(first.peer) if first.op == "scatter" and first.peer is not None else None
        return root.what if root else first

    @property
    def op(self) -> str:
        """The operator; `send` for a send with its receive."""
        return "send" if self.sample.op in PAIRED else self.sample.op

    @property
    def reduce(self) -> str:
        """The reduce op, if it reduces."""
        return self.sample.reduce

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the tensors that the first member brings."""
        return self.sample.shapes

    @property
    def dtype(self) -> str:
        """Their element type."""
        return self.sample.dtype

    @property
    def bytes(self) -> int:
        """Their size."""
        return self.sample.bytes

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
        """Whether every member has entered."""
        return len(self.calls) == len(self.members)

    def enter(self, rank: int, call: Call) -> None:
        """A member enters."""
        self.calls[rank] = call
        self.refresh()

    def refresh(self) -> None:
        """Take in what has changed in the calls."""
        if not self.complete:
            return
        calls = self.calls
        last = self.entered_last = max(calls, key=lambda rank: (calls[rank].entered, rank))
        self.started = calls[last].entered
        ends = [call.ended for call in calls.values() if call.ended is not None]
        self.ended = max(ends) if len(ends) == len(calls) else None

    @property
    def waits(self) -> dict[int, float]:
        """Seconds for which each member was held up until the last one entered."""
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
        """Bytes a second that the script sees: the size of the operation by its time."""
        return size(self.sample, len(self.members)) / self.seconds if self.seconds else None

    @property
    def busbw(self) -> float | None:
        """Bytes a second that a link carries, which can be compared over operations and numbers of ranks."""
        return None if self.algbw is None else self.algbw * bus_factor(self.op, len(self.members))


def needs(started: float, end: float) -> bool:
    """Whether a member that left at `end` had to wait for the last one; the root of a broadcast may leave before."""
    return end >= started


def size(what: What, ranks: int) -> int:
    """Return the size of an operation in bytes as nccl-tests count it: of a gather or scatter, of all parts."""
    return what.bytes * ranks if what.op.startswith("all_gather") or what.op == "gather" else what.bytes


def bus_factor(op: str, ranks: int) -> float:
    """Return busbw / algbw (nccl-tests, doc/PERFORMANCE.md)."""
    share = (ranks - 1) / ranks
    if op.startswith("all_reduce"):
        return 2 * share
    return share if op.startswith(("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")) else 1.0


def sent(what: What, rank: int, members: tuple[int, ...]) -> int:
    """Return the bytes that a rank sends for an operation.

    A ring does all_reduce, all_gather and reduce_scatter; broadcast and reduce pass the tensor down a chain, from the
    root or to it; the others send each part to whom it belongs. (Thakur, Rabenseifner, Gropp 2005; Patarasuk, Yuan
    2009.) A backend may choose another algorithm for small tensors.
    """
    op, count = what.op, len(members)
    if op.startswith("all_reduce"):
        return math.ceil(2 * (count - 1) * what.bytes / count)
    if op.startswith("all_gather"):
        return (count - 1) * what.bytes
    if op.startswith(("reduce_scatter", "all_to_all")):
        return math.ceil((count - 1) * what.bytes / count)
    match op:
        case "send":
            return what.bytes
        case "broadcast" if what.peer in members:
            tail = members[members.index(what.peer) - 1]
            return 0 if rank == tail else what.bytes
        case "reduce" | "gather":
            return 0 if rank == what.peer else what.bytes
        case "scatter":
            return math.ceil((count - 1) * what.bytes / count) if rank == what.peer else 0
    return 0
