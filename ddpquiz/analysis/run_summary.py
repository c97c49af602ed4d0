"""What a run has cost: time by rank, the costliest lines of the script, bytes by group, mismatches and advice."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ddpquiz.analysis.run_advice import advice

if TYPE_CHECKING:
    from ddpquiz.analysis.timeline import Timeline

LINES = 10  # lines of the script that a summary lists


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
    """What an operator in a line of the script has cost: calls, bytes and seconds of all `ranks` together."""

    file: str
    line: int
    op: str
    ranks: int
    calls: int
    bytes: int
    seconds: float
    waiting: float
    is_ddp: bool  # the buckets that DDP reduces beside the backward pass


@dataclass(frozen=True, slots=True)
class GroupTraffic:
    """Bytes that the members of a group have sent if the usual algorithms were used."""

    group: str
    members: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The cost of a whole run."""

    ranks: tuple[RankTime, ...]
    lines: tuple[LineCost, ...]  # the costliest first
    other_lines: int
    groups: tuple[GroupTraffic, ...]
    mismatches: tuple[str, ...]
    advice: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as an object for JSON."""
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
            for (file, line, op), cost in timeline.costs.lines.items()
        ),
        key=lambda cost: (-cost.seconds, -cost.bytes, cost.file, cost.line),
    )
    groups = tuple(
        GroupTraffic(group, members, sent)
        for (group, members), sent in sorted(timeline.costs.traffic.items(), key=lambda item: -item[1])
    )
    return RunSummary(
        ranks,
        tuple(lines[:LINES]),
        len(lines[LINES:]),
        groups,
        tuple(map(str, timeline.mismatches)),
        tuple(advice(timeline, now)),
    )
