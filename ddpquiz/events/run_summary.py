"""What a run has cost: time by rank, the costliest lines of the script, bytes by group, mismatches, and advice."""

from dataclasses import asdict, dataclass
from typing import Any

from ddpquiz.events.advice import advice
from ddpquiz.events.costliest_line import CostliestLine, find_costliest_line
from ddpquiz.events.timeline import RankTime, Timeline

_LINES = 10  # lines of the script that a summary lists


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
class PeakMemory:
    """The most bytes that the process of a rank held, and its tensors on GPUs (0 without a GPU)."""

    rank: int
    process: int
    gpu: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The cost of a whole run."""

    costliest: CostliestLine | None
    ranks: tuple[RankTime, ...]
    lines: tuple[LineCost, ...]  # the costliest first
    other_lines: int
    groups: tuple[GroupTraffic, ...]
    memory: tuple[PeakMemory, ...]  # of the ranks that reached their end
    mismatches: tuple[str, ...]
    advice: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {"event": "summary"} | asdict(self)


def summarize(timeline: Timeline, now: float, script: str = "") -> RunSummary:
    """What a run of a script has cost up to `now`."""
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
    memory = tuple(
        PeakMemory(rank, peak.process, peak.gpu) for rank in timeline.ranks if (peak := timeline.training[rank].memory)
    )
    return RunSummary(
        costliest=find_costliest_line(timeline, now),
        ranks=tuple(timeline.totals(now).values()),
        lines=tuple(lines[:_LINES]),
        other_lines=len(lines[_LINES:]),
        groups=groups,
        memory=memory,
        mismatches=tuple(map(str, timeline.mismatches)),
        advice=tuple(advice(timeline, now, script)),
    )
