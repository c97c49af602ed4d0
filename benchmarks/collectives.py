"""How well `ddpquiz bench` predicts sizes that it did not measure.

    python benchmarks/collectives.py [--ranks 2 4] [--seconds 20]

Sizes halfway between those that are fitted are measured in the same passes, so that both see the same noise, and are
left out of the fit. The same is done with the fastest tenth of the calls, which other programs on the machine disturb
less: that shows how good the lines are, and the medians how good they are on this machine as it is.
"""

from __future__ import annotations

import argparse
import os
import statistics
from typing import TYPE_CHECKING

from ddpquiz.bench.bench_run import BenchRun
from ddpquiz.bench.measurements import SizeTime, fit_lines
from ddpquiz.cli.bench import SIZES, USUAL, read_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence


def fastest(samples: Sequence[float]) -> float:
    """The time within which the fastest tenth of the calls ended."""
    return sorted(samples)[len(samples) // 10]


def errors_of_unseen_sizes(ranks: int, seconds: float) -> tuple[list[float], list[float]]:
    """Measure fitted and other sizes, and return the relative errors of the others: of medians, and fastest."""
    fitted = [*read_sizes(SIZES)]
    unseen = [2 * size for size in fitted if 2 * size <= fitted[-1] and 2 * size not in fitted]
    run = BenchRun("auto", ranks, USUAL, sorted([*fitted, *unseen]), seconds)
    for _ in run.follow():
        pass
    errors: tuple[list[float], list[float]] = ([], [])
    spreads = []
    for op in USUAL:
        found = run.samples.of_op(op)
        shown = []
        for which, of in enumerate((statistics.median, fastest)):
            lines = fit_lines([(size, of(samples)) for size, samples in found.items() if size in fitted])
            others = [abs(lines.seconds(size) / of(found[size]) - 1) for size in found if size not in fitted]
            errors[which].extend(others)
            shown.append(f"{statistics.median(others):.1%}")
        times = [SizeTime.of(size, samples) for size, samples in found.items()]
        spreads += [(each.high - each.low) / each.seconds for each in times]
        print(f"  {op:<15} median error {shown[0]}, of the fastest tenth {shown[1]}", flush=True)
    print(f"  quartiles are {statistics.median(spreads):.0%} of the median apart (median over sizes)")
    return errors


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--seconds", type=float, default=20.0)
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for ranks in args.ranks:
        print(f"{ranks} ranks")
        errors = errors_of_unseen_sizes(ranks, args.seconds)
        medians, tenth = map(statistics.median, errors)
        total = f"{len(errors[0])} unseen sizes"
        print(f"  {total}: median error {medians:.1%}, of the fastest tenth {tenth:.1%}", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
