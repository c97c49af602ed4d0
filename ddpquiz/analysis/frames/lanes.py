"""Ranks over time: what each did when, and which part of the run is worth showing."""

from dataclasses import dataclass

from ddpquiz.analysis.rank_timeline import Span
from ddpquiz.analysis.run_state import RunState

SHORTEST = 0.001  # seconds


@dataclass(frozen=True, slots=True)
class Lanes:
    """The spans of each rank, and the time from when the first rank communicates or prints to when the last one does.

    Before and after that, processes only start and end.
    """

    spans: dict[int, list[Span]]
    first: float
    last: float

    @property
    def communicate(self) -> bool:
        """Whether any rank did anything but computing."""
        return any(span.kind != "compute" for spans in self.spans.values() for span in spans)


def describe_lanes(state: RunState, now: float) -> Lanes | None:
    """Return what each rank did up to now; None if none of them has started."""
    every = {rank: state.timeline.spans(rank, now) for rank in state.all_ranks if rank in state.timeline.ranks}
    every = {rank: spans for rank, spans in every.items() if spans}
    times = [time for rank, spans in every.items() for time in _moments(state, rank, spans)]
    starts = times or [spans[0].start for spans in every.values()]
    if not starts:
        return None
    first = min(starts)
    return Lanes(every, first, max([*times, first + SHORTEST]))


def _moments(state: RunState, rank: int, spans: list[Span]) -> list[float]:
    """Return when a rank first and last communicated or printed, and when it failed."""
    calls = [span for span in spans if span.kind != "compute"]
    lines = state.log.get(rank, ())
    raised, exited = state.raised.get(rank), state.exited.get(rank)
    failed = raised or (exited if exited and exited.status and not exited.stopped else None)
    ends = [calls[0].start, calls[-1].end] if calls else []
    return [*ends, *([lines[0].time, lines[-1].time] if lines else []), *([failed.time] if failed else [])]
