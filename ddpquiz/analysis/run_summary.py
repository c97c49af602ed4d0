"""What a run has cost: time by rank, the costliest lines of the script, bytes by group, and what could be better."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ddpquiz.analysis.run_advice import findings

if TYPE_CHECKING:
    from ddpquiz.analysis.timeline import Timeline

MOST = 10  # lines of the script that are told


@dataclass(frozen=True, slots=True)
class RankTime:
    """Seconds of a rank by what it did; `overlapped` is communication that ran beside computing."""

    rank: int
    compute: float
    communication: float
    waiting: float
    overlapped: float


@dataclass(frozen=True, slots=True)
class LineCost:
    """What an operator in a line of the script has cost: calls and bytes over all `ranks`, seconds of all together."""

    file: str
    line: int
    op: str
    ranks: int
    calls: int
    bytes: int
    seconds: float
    waiting: float
    is_ddp: bool  # its buckets, which it reduces beside the backward pass


@dataclass(frozen=True, slots=True)
class GroupTraffic:
    """Bytes that the members of a group have sent, by the usual algorithms."""

    group: str
    members: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The whole account of a run."""

    ranks: tuple[RankTime, ...]
    lines: tuple[LineCost, ...]  # the costliest first
    other_lines: int
    groups: tuple[GroupTraffic, ...]
    mismatches: tuple[str, ...]
    advice: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"event": "summary"} | asdict(self)


def summarize(timeline: Timeline, now: float) -> RunSummary:
    """Return what a run has cost up to `now`."""
    ranks = tuple(
        RankTime(rank, totals.compute, totals.communication, totals.waiting, totals.overlapped)
        for rank, totals in timeline.totals(now).items()
    )
    lines = sorted(
        (
            LineCost(file, line, op, len(cost.ranks), cost.calls, cost.bytes, cost.seconds, cost.waiting, cost.is_ddp)
            for (file, line, op), cost in timeline.costs.items()
        ),
        key=lambda cost: (-cost.seconds, -cost.bytes, cost.file, cost.line),
    )
    groups = tuple(
        GroupTraffic(group, members, bytes_)
        for (group, members), bytes_ in sorted(timeline.traffic.items(), key=lambda item: -item[1])
    )
    return RunSummary(
        ranks,
        tuple(lines[:MOST]),
        len(lines[MOST:]),
        groups,
        tuple(map(str, timeline.mismatches)),
        tuple(findings(timeline, now)),
    )
