"""What the calls of a run reached, beside what the machine can do by its measured lines."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ddpquiz.analysis.costs import Cost
from ddpquiz.analysis.operation import POINT_TO_POINT
from ddpquiz.planning.machine_bench import MachineBench

MOST = 5  # lines of a script that are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class AchievedSpeed:
    """The calls of one operator in one line: the bytes of a call, its seconds, and those that the line predicts.

    `seconds` count from when the last rank has called: until then, the others wait for it and not for the network.
    """

    file: str
    line: int
    op: str
    ranks: int
    size: float
    seconds: float
    possible: float


def achieved_speeds(
    lines: Mapping[tuple[str, int, str], Cost], bench: MachineBench, device: str
) -> list[AchievedSpeed]:
    """Return the costliest lines of a run that can be compared; those in the background cannot, as they overlap."""
    found = sorted(_compared(lines, bench, device), key=lambda each: -each[0])
    return [speed for _, speed in found[:MOST]]


def _compared(
    lines: Mapping[tuple[str, int, str], Cost], bench: MachineBench, device: str
) -> Iterator[tuple[float, AchievedSpeed]]:
    for (file, line, op), cost in lines.items():
        first, busy = cost.first, cost.seconds - cost.waiting
        if first is None or first.in_background or op in POINT_TO_POINT or busy <= 0 or not first.bytes:
            continue
        ranks = len(first.members)
        group = bench.group(device, ranks)
        fitted = group.fit_of(op) if group else None
        if fitted is None:
            continue
        size = first.total_bytes / first.bytes * cost.bytes / cost.calls
        yield cost.seconds, AchievedSpeed(
            file=file, line=line, op=op, ranks=ranks, size=size,
            seconds=busy / cost.calls, possible=fitted.seconds(size),
        )  # fmt: skip
