"""What a rank did from when to when, and how many seconds of each kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Kind = Literal["compute", "communication", "waiting"]


class Span(NamedTuple):
    """What a rank did from `start` to `end`, and in which operation (none and 0 for computing and merged spans)."""

    kind: Kind
    start: float
    end: float
    op: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """Seconds of a rank by what it did. `overlapped` is communication that ran while it computed: it cost nothing."""

    compute: float = 0.0
    communication: float = 0.0
    waiting: float = 0.0
    overlapped: float = 0.0

    @property
    def lifetime(self) -> float:
        """Seconds from its start to its end."""
        return self.compute + self.communication + self.waiting


def merge(spans: list[Span], count: int) -> list[Span]:
    """Divide spans into about `count` stretches of time, each with at most one span of a kind.

    So a run of any length fits into memory, and its picture still shows the shares of each stretch.
    """
    shortest = (spans[-1].end - spans[0].start) / count
    merged: list[Span] = []
    seconds: dict[Kind, float] = {}
    start = spans[0].start
    for span in spans:
        seconds[span.kind] = seconds.get(span.kind, 0.0) + span.end - span.start
        if span.end - start < shortest and span is not spans[-1]:
            continue
        last = next(reversed(seconds))
        for kind, share in seconds.items():
            end = span.end if kind == last else min(start + share, span.end)  # without errors of rounding
            if end > start:
                merged.append(Span(kind, start, end))
            start = end
        seconds = {}
    return merged
