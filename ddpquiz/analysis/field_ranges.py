"""Which values the fields of events may have: a saved run is foreign data, and screens and sums need sane numbers."""

from __future__ import annotations

from typing import Annotated, NamedTuple

MAX_RANKS = 1024


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
