"""Operations: what one call of torch.distributed asks for, and how many bytes each rank sends for it.

The annotations of its fields, which those of events use too, say which values a field may have.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

MAX_RANKS = 1024  # of a run, a recording and a dump
MAX_LOGGED_RANKS = 65536  # of a job whose logs or reports are read; a larger number is damage


class Range(NamedTuple):
    """The smallest and the largest value of a number, or length of a text or tuple."""

    low: float
    high: float


Seconds = Annotated[float, Range(0, 1e8)]
Rank = Annotated[int, Range(0, MAX_RANKS - 1)]
Peer = Annotated[int, Range(-(2**31), 2**31)]  # scripts may name a rank that does not exist
Count = Annotated[int, Range(0, 2**53)]
Line = Annotated[int, Range(0, 10**7)]
Name = Annotated[str, Range(0, 200), "printable"]
File = Annotated[str, Range(0, 4096), "path"]
Ranks = Annotated[tuple[Rank, ...], Range(0, MAX_RANKS)]
Shape = Annotated[tuple[Count, ...], Range(0, 64)]
Parts = Annotated[tuple[Count, ...], Range(0, MAX_RANKS)]

POINT_TO_POINT = ("send", "recv")  # between two ranks, whatever the size of the group
ANY_SOURCE = -1  # stands for the source of a receive from any rank until it is known
CallPlace = tuple[str, int, str]  # the file and the line that call, and the operator
ROOTED = ("broadcast", "reduce", "gather", "scatter")


class Operation(NamedTuple):
    """What one call asks for, and where it stands in the script.

    `members` are the global ranks of the group, `group` is torch's name of it. `peer` is the root, source or
    destination as a global rank. `bytes` is the size of the tensors that this rank brings, `reduce` the reduce op
    (`sum`). `bucket` is the number of DDP's bucket in its backward pass, from 0. `tag` is that of a send or receive
    over Gloo; NCCL ignores tags. Of an all_to_all, `parts` has how many elements it sends to each member, then how many
    it expects from each.
    """

    op: Name
    members: Ranks
    peer: Peer | None
    shapes: Annotated[tuple[Shape, ...], Range(0, 100_000)]
    dtype: Name
    bytes: Count
    file: File
    line: Line
    group: Name = ""
    reduce: Name = ""
    asynchronous: bool = False
    bucket: Count | None = None
    tag: Annotated[int, Range(-(2**63), 2**63)] = 0
    parts: Annotated[tuple[Parts, ...], Range(0, 2)] = ()

    @property
    def place(self) -> CallPlace:
        return self.file, self.line, self.op

    @property
    def in_background(self) -> bool:
        """True if the script goes on while the operation runs, as it does beside DDP's buckets."""
        return self.asynchronous or self.bucket is not None

    @property
    def total_bytes(self) -> int:
        """The size of the operation as nccl-tests count it: for a gather or scatter, of all parts together."""
        gathers = self.op.startswith("all_gather") or self.op == "gather"
        return self.bytes * len(self.members) if gathers else self.bytes

    def bytes_sent_by(self, rank: int) -> int:
        """The bytes that a member sends for the operation.

        A ring does all_reduce, all_gather and reduce_scatter; broadcast and reduce pass the tensor along a chain, from
        the root or to it; the others send each part to the rank that it belongs to (Thakur, Rabenseifner, Gropp 2005;
        Patarasuk, Yuan 2009). A backend may choose another algorithm for small tensors.
        """
        op, count, members = self.op, len(self.members), self.members
        if op.startswith("all_reduce"):
            return math.ceil(2 * (count - 1) * self.bytes / count)
        if op.startswith("all_gather"):
            return (count - 1) * self.bytes
        if op.startswith(("reduce_scatter", "all_to_all")):
            return math.ceil((count - 1) * self.bytes / count)
        match op:
            case "send":
                return self.bytes
            case "broadcast" if self.peer in members:
                tail = members[members.index(self.peer) - 1]
                return 0 if rank == tail else self.bytes
            case "reduce" | "gather":
                return 0 if rank == self.peer else self.bytes
            case "scatter":
                return math.ceil((count - 1) * self.bytes / count) if rank == self.peer else 0
        return 0


def bus_factor(op: str, ranks: int) -> float:
    """The ratio of busbw to algbw of an operator on some ranks (nccl-tests, doc/PERFORMANCE.md)."""
    share = (ranks - 1) / ranks
    if op.startswith("all_reduce"):
        return 2 * share
    return share if op.startswith(("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")) else 1.0
