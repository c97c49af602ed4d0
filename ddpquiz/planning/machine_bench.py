"""What `ddpquiz bench` measured on a machine: times of collectives by operation, number of ranks and size."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median, quantiles
from typing import Any

from ddpquiz.analysis.operation import MAX_RANKS, bus_factor
from ddpquiz.planning.cost_line import FEWEST, CostFit, fit

VERSION = 1
OPS = (
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "all_to_all", "send",
)  # fmt: skip


def measured_as(op: str) -> str:
    """Return the operation under which an operator of torch is measured: `all_to_all` for `all_to_all_single`."""
    return next((each for each in OPS if op == each or op.startswith((f"{each}_", "_" + each))), op)


@dataclass(frozen=True, slots=True)
class SizeTime:
    """The times of one size: bytes as nccl-tests count them, and seconds: the median and the quartiles."""

    size: int
    seconds: float
    low: float
    high: float
    samples: int

    @classmethod
    def of(cls, size: int, samples: Sequence[float]) -> "SizeTime":
        """Return what some samples, in seconds, say of a size."""
        low, _, high = quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else [samples[0]] * 3
        return cls(size, median(samples), low, high, len(samples))

    @property
    def algorithm_bandwidth(self) -> float:
        """Bytes per second, as the caller sees them."""
        return self.size / self.seconds


@dataclass(frozen=True, slots=True)
class BenchGroup:
    """What was measured with one number of ranks, on one kind of device."""

    device: str  # cpu or cuda
    backend: str
    ranks: int
    machines: int
    host: str
    torch: str
    measured: str  # the time of day in UTC, as ISO 8601
    ops: Mapping[str, tuple[SizeTime, ...]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int, int]:
        """What a later measurement has in common with the one that it replaces."""
        return self.device, self.ranks, self.machines

    def fit_of(self, op: str) -> CostFit | None:
        """Return the lines of an operation, or None if too few sizes were measured."""
        times = self.ops.get(measured_as(op), ())
        return fit([(each.size, each.seconds) for each in times]) if len(times) >= FEWEST else None


def bus_bandwidth(op: str, ranks: int, time: SizeTime) -> float:
    """Return the bytes per second that pass over the slowest link, whatever the number of ranks (nccl-tests)."""
    return time.algorithm_bandwidth * bus_factor(op, ranks)


@dataclass(frozen=True, slots=True)
class MachineBench:
    """All measurements of a machine."""

    groups: tuple[BenchGroup, ...] = ()

    def merged(self, new: BenchGroup) -> "MachineBench":
        """Return the measurements with those of a new group, which replace older ones of the same operations."""
        same = next((each for each in self.groups if each.key == new.key and each.host == new.host), None)
        others = tuple(each for each in self.groups if each.key != new.key)
        usable = {op: times for op, times in new.ops.items() if len(times) >= FEWEST}
        ops = {**(same.ops if same else {}), **usable}
        groups = (*others, replace(new, ops=ops)) if ops else others
        return MachineBench(tuple(sorted(groups, key=lambda each: (each.machines, each.device, each.ranks))))

    def group(self, device: str, ranks: int) -> BenchGroup | None:
        """Return what was measured on one machine with this number of ranks."""
        return next((each for each in self.groups if each.key == (device, ranks, 1)), None)

    def figures(self) -> dict[str, str]:
        """Return the lines through the times of the CPU's most ranks, as questions ask for them, with two digits.

        `ranks`, and for each operation `OP.alpha` in µs and `OP.beta` in µs per MB (10^6 bytes).
        """
        groups = [each for each in self.groups if each.device == "cpu" and each.machines == 1]
        if not groups:
            return {}
        group = max(groups, key=lambda each: each.ranks)
        fits = {op: found for op in group.ops if (found := group.fit_of(op))}
        of_ops = {
            f"{op}.{name}": f"{float(f'{value:.2g}'):g}"
            for op, found in fits.items()
            for name, value in (("alpha", found.lines[0].alpha * 1e6), ("beta", found.lines[-1].beta * 1e12))
            if 0.1 <= value < 1e6
        }
        return {"ranks": str(group.ranks)} | of_ops

    def as_json(self) -> dict[str, Any]:
        """Return the measurements as plain data: what the file holds and `--json` prints."""
        return {"version": VERSION, "groups": [group_json(each) for each in self.groups]}


def group_json(group: BenchGroup) -> dict[str, Any]:
    """Return a group as plain data, with the lines through its times."""
    ops = {}
    for op, times in group.ops.items():
        sizes = [
            {
                "bytes": each.size, "seconds": each.seconds, "low": each.low, "high": each.high,
                "samples": each.samples, "algbw": each.algorithm_bandwidth,
                "busbw": bus_bandwidth(op, group.ranks, each),
            }
            for each in times
        ]  # fmt: skip
        found = group.fit_of(op)
        ops[op] = {"sizes": sizes, "fit": None if found is None else _fit_json(found)}
    names = ("device", "backend", "ranks", "machines", "host", "torch", "measured")
    return {**{name: getattr(group, name) for name in names}, "ops": ops}


def _fit_json(found: CostFit) -> dict[str, Any]:
    lines = [
        {"alpha": each.alpha, "beta": each.beta, "until": None if math.isinf(each.until) else each.until}
        for each in found.lines
    ]
    return {"lines": lines, "mean_error": found.mean_error, "single_line_error": found.single_error}


def decode(data: Any) -> MachineBench:
    """Return the measurements that plain data describe; ValueError if they are not valid."""
    try:
        if data["version"] != VERSION:
            raise ValueError(f"its version is {data['version']}, not {VERSION}")
        return MachineBench(tuple(_decode_group(each) for each in data["groups"]))
    except (KeyError, TypeError, AttributeError, OverflowError) as wrong:
        raise ValueError(f"{type(wrong).__name__}: {wrong}") from None


def _decode_group(data: Mapping[str, Any]) -> BenchGroup:
    ops = {str(op): tuple(_decode_time(each) for each in found["sizes"]) for op, found in data["ops"].items()}
    ranks, machines = int(data["ranks"]), int(data["machines"])
    if not (1 <= machines <= ranks <= MAX_RANKS and ops.keys() <= {*OPS}):
        raise ValueError("a group has an impossible number of ranks, or an unknown operation")
    texts = {name: str(data[name])[:200] for name in ("device", "backend", "host", "torch", "measured")}
    return BenchGroup(**texts, ranks=ranks, machines=machines, ops=ops)


def _decode_time(data: Mapping[str, Any]) -> SizeTime:
    time = SizeTime(
        int(data["bytes"]), float(data["seconds"]), float(data["low"]), float(data["high"]), int(data["samples"])
    )
    if not (time.size > 0 and all(math.isfinite(each) and each > 0 for each in (time.seconds, time.low, time.high))):
        raise ValueError("a time or a size is not positive")
    return time
