"""What `ddpquiz bench` could have measured: times on a line, with quartiles beside them."""

from ddpquiz.bench.measurements import BenchGroup, MachineBench, SizeTime

SIZES = [8 * 4**power for power in range(12)]


def line(size, alpha=300e-6, beta=1e-9):
    return alpha + beta * size


def group(ranks=4, op="all_reduce", seconds=line):
    times = tuple(SizeTime(size, seconds(size), 0.9 * seconds(size), 1.1 * seconds(size), 9) for size in SIZES)
    return BenchGroup("cpu", "gloo", ranks, 1, "host", "torch 2", "2026-01-01T00:00:00+00:00", {op: times})


def machine(*ops, ranks=2, seconds=line):
    bench = MachineBench()
    for op in ops:
        bench = bench.merged(group(ranks, op, seconds))
    return bench
