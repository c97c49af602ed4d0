"""What `ddpquiz bench` measured, as lines (seconds = alpha + beta x bytes), and a run's speed beside them.

`achieved_speeds` sets what the calls of a run reached beside what the machine can do by these lines.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median, quantiles
from typing import Any

from ddpquiz.events.costs import Cost
from ddpquiz.events.operation import MAX_RANKS, POINT_TO_POINT, bus_factor

_FEWEST = 3  # sizes that a line needs
FITS = 0.10  # mean relative error up to which one line fits
_ROUNDS = 12  # in which a line is weighted again
_CLOSE = 0.01  # relative errors below this count the same
_GAIN = 0.7  # two lines replace one if their mean error is at most this share of its error


@dataclass(frozen=True, slots=True)
class CostLine:
    """Seconds of an operation on up to `until` bytes: `alpha` seconds and `beta` seconds for each byte.

    The alpha of a second line is where it would cut the axis, and may be negative: no call takes that time.
    """

    alpha: float
    beta: float
    until: float = math.inf

    def seconds(self, size: float) -> float:
        """The seconds of an operation on some bytes."""
        return self.alpha + self.beta * size


@dataclass(frozen=True, slots=True)
class CostFit:
    """One or two lines, the smaller sizes first, and the relative errors of their sizes."""

    lines: tuple[CostLine, ...]
    mean_error: float
    median_error: float
    single_error: float  # the mean relative error of a single line

    def seconds(self, size: float) -> float:
        """The predicted seconds of an operation on some bytes; never less than those of no bytes."""
        line = next(each for each in self.lines if size <= each.until)
        return max(line.seconds(size), self.lines[0].alpha)

    @property
    def bytes_per_second(self) -> float:
        """The speed of large operations; infinite if no time was seen to depend on the size."""
        return 1 / self.lines[-1].beta if self.lines[-1].beta else math.inf


def fit_lines(points: Sequence[tuple[float, float]]) -> CostFit:
    """The lines through (bytes, seconds) that make the relative errors small; times span five powers of ten.

    ValueError if there are fewer than three sizes.
    """
    ordered = sorted(points)
    if len({size for size, _ in ordered}) < _FEWEST:
        raise ValueError(f"A line needs {_FEWEST} sizes or more.")
    one = (_line(ordered, first=True),)
    single = fmean(_errors(one, ordered))
    cuts = range(_FEWEST, len(ordered) - _FEWEST + 1)
    best = min((_two(ordered, cut) for cut in cuts), key=lambda lines: fmean(_errors(lines, ordered)), default=one)
    lines = best if single > FITS and fmean(_errors(best, ordered)) <= _GAIN * single else one
    errors = _errors(lines, ordered)
    return CostFit(lines, fmean(errors), median(errors), single)


def _two(points: Sequence[tuple[float, float]], cut: int) -> tuple[CostLine, ...]:
    """A line for the sizes before a cut and another one for those after it."""
    low, high = _line(points[:cut], first=True), _line(points[cut:], first=False)
    last, following = points[cut - 1][0], points[cut][0]
    slopes = low.beta - high.beta
    crossing = (high.alpha - low.alpha) / slopes if slopes else 0.0
    until = crossing if last <= crossing <= following else math.sqrt(last * following)
    return (CostLine(low.alpha, low.beta, until), high)


def _line(points: Sequence[tuple[float, float]], *, first: bool) -> CostLine:
    """The line whose relative errors are small in sum: one disturbed size does not move it much.

    It never falls, and the first one does not start below zero. Least squares, weighted again by what they leave.
    """
    weights = [seconds**-2 for _, seconds in points]
    line = _least_squares(points, weights, first=first)
    for _ in range(_ROUNDS):
        errors = _errors((line,), points)
        weights = [seconds**-2 / max(error, _CLOSE) for error, (_, seconds) in zip(errors, points, strict=True)]
        line = _least_squares(points, weights, first=first)
    return line


def _least_squares(points: Sequence[tuple[float, float]], weights: Sequence[float], *, first: bool) -> CostLine:
    whole = sum(weights)
    size = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / whole
    time = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / whole
    spread = sum(w * (x - size) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    both = sum(w * (x - size) * (y - time) for w, (x, y) in zip(weights, points, strict=True))
    beta = max(0.0, both / spread) if spread else 0.0
    alpha = time - beta * size
    if first and alpha < 0:
        squares = sum(w * x * x for w, (x, _) in zip(weights, points, strict=True))
        return CostLine(0.0, sum(w * x * y for w, (x, y) in zip(weights, points, strict=True)) / squares)
    return CostLine(alpha, beta)


def _errors(lines: Sequence[CostLine], points: Sequence[tuple[float, float]]) -> list[float]:
    """The relative error of each size."""
    found = []
    for size, seconds in points:
        line = next(each for each in lines if size <= each.until)
        found.append(abs(line.seconds(size) - seconds) / seconds)
    return found


_VERSION = 1
OPS = (
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "all_to_all", "send",
)  # fmt: skip


def measured_as(op: str) -> str:
    """The operation under which an operator of torch is measured: `all_to_all` for `all_to_all_single`."""
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
        """What some samples, in seconds, say of a size."""
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
        """The lines of an operation, or None if too few sizes were measured."""
        times = self.ops.get(measured_as(op), ())
        return fit_lines([(each.size, each.seconds) for each in times]) if len(times) >= _FEWEST else None


def bus_bandwidth(op: str, ranks: int, time: SizeTime) -> float:
    """The bytes per second that pass over the slowest link, whatever the number of ranks (nccl-tests)."""
    return time.algorithm_bandwidth * bus_factor(op, ranks)


@dataclass(frozen=True, slots=True)
class MachineBench:
    """All measurements of a machine."""

    groups: tuple[BenchGroup, ...] = ()

    def merged(self, new: BenchGroup) -> "MachineBench":
        """The measurements with those of a new group, which replace older ones of the same operations."""
        same = next((each for each in self.groups if each.key == new.key and each.host == new.host), None)
        others = tuple(each for each in self.groups if each.key != new.key)
        usable = {op: times for op, times in new.ops.items() if len(times) >= _FEWEST}
        ops = {**(same.ops if same else {}), **usable}
        groups = (*others, replace(new, ops=ops)) if ops else others
        return MachineBench(tuple(sorted(groups, key=lambda each: (each.machines, each.device, each.ranks))))

    def group(self, device: str, ranks: int) -> BenchGroup | None:
        """What was measured on one machine with this number of ranks."""
        return next((each for each in self.groups if each.key == (device, ranks, 1)), None)

    def figures(self) -> dict[str, str]:
        """The lines through the times of the CPU's most ranks, as questions ask for them, with two digits.

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
        """The measurements as plain data: what the file holds and `--json` prints."""
        return {"version": _VERSION, "groups": [_group_json(each) for each in self.groups]}


def _group_json(group: BenchGroup) -> dict[str, Any]:
    """A group as plain data, with the lines through its times."""
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
    """The measurements that plain data describe; ValueError if they are not valid."""
    try:
        if data["version"] != _VERSION:
            raise ValueError(f"its version is {data['version']}, not {_VERSION}")
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


_MOST = 5  # lines of a script that are compared


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
    """The costliest lines of a run that can be compared; those in the background cannot, as they overlap."""
    found = sorted(_compared(lines, bench, device), key=lambda each: -each[0])
    return [speed for _, speed in found[:_MOST]]


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
