"""What a rank asks for when it calls a collective or point-to-point operation, and what that costs."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from ddpquiz.analysis.field_ranges import Count, File, Line, Name, Peer, Range, Ranks, Shape

POINT_TO_POINT = ("send", "recv")  # between two ranks, whatever the size of the group
ANYBODY = -1  # stands for the source of a receive from any rank until it is known
ROOTED = ("broadcast", "reduce", "gather", "scatter")


class Operation(NamedTuple):
    """What one call asks for, and where it stands in the script.

    `members` are the global ranks of the group, `group` is torch's name of it. `peer` is the root, source or
    destination as a global rank. `bytes` is the size of the tensors that this rank brings, `reduce` the reduce op
    (`sum`). `bucket` is the number of DDP's bucket in its backward pass, from 0.
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

    @property
    def place(self) -> tuple[str, int, str]:
        """The file and the line that call, and the operator."""
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
        """Return the bytes that a member sends for the operation.

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
    """Return busbw / algbw of an operator on some ranks (nccl-tests, doc/PERFORMANCE.md)."""
    share = (ranks - 1) / ranks
    if op.startswith("all_reduce"):
        return 2 * share
    return share if op.startswith(("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")) else 1.0
