"""Checks latency and bandwidth, fitted to times of a simulated network whose real figures are known.

torchrun --nproc-per-node 4 labs/fit_alpha_beta/check.py fit_alpha_beta.py --seed 7
"""

import random
import sys
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, differs, same

SIZES, REPEATS = [1 << power for power in range(10, 33, 2)], 7  # 1 KiB to 4 GiB


class Network:
    """A network with known figures. Its times are those of a clock that it makes up, so that no other job changes them.

    Every fourth all-reduce of a size is disturbed and takes 3 to 20 times as long; all vary by 5%. One rank is in it
    from the start; the others come late, and see 40 to 95% of it.
    """

    def __init__(self) -> None:
        self.alpha, self.beta = check.random.uniform(5e-6, 5e-5), 1 / check.random.uniform(2e9, 5e10)
        self.offset, self.calls = check.random.randrange(4), Counter[int]()

    def seconds(self, size: int, ranks: int) -> float:
        """Return how long an undisturbed all-reduce takes."""
        return 2 * (ranks - 1) * self.alpha + 2 * (ranks - 1) / ranks * size * self.beta

    def timer(self, size: int) -> float:
        """Return how long the next all-reduce of this size takes on this rank."""
        dice = random.Random(f"{seed} {size} {self.calls[size]}")  # the same on every rank
        disturbed = dice.uniform(3, 20) if (self.calls[size] + self.offset) % 4 == 3 else 1
        seen = [dice.uniform(0.4, 0.95) for _ in range(n)]
        seen[dice.randrange(n)] = 1
        self.calls[size] += 1
        return self.seconds(size, n) * dice.uniform(0.95, 1.05) * disturbed * seen[rank]


def near(name: str, found: float, expected: float, within: float) -> bool:
    """Return whether a number of seconds is right; print it in microseconds if not."""
    is_near = abs(found - expected) <= within * expected
    if not is_near:
        differs(f"{name}: {found * 1e6:.4g} us, expected {expected * 1e6:.4g} us")
    return is_near


check = Check("measure", "predict", "fit", "time_all_reduce", real=0)
n, rank, learner = check.world_size, check.rank, check.learner

for seed in check.seeds():
    network = Network()
    with check.phase("measure"):
        seconds = learner.measure(network.timer, list(SIZES), REPEATS)
    for size in SIZES:
        calls = network.calls[size]
        assert REPEATS <= calls <= REPEATS + 2 or differs(
            f"{calls} all-reduces of {size} bytes, expected {REPEATS} to {REPEATS + 2}"
        ), "every rank runs each size `repeats` times, and at most twice more to warm up"
    shape = list(seconds.shape)
    assert same(shape, [len(SIZES)], what="shape of the result"), "`measure` returns one time for each size"
    for size, found in zip(SIZES, seconds.tolist(), strict=True):
        assert near(f"{size} bytes", found, network.seconds(size, n), 0.1), (
            "each time is that of an all-reduce without disturbance, from its start, within 10%"
        )

    alpha, beta = learner.fit(list(SIZES), seconds.clone(), n)
    balanced = int(n * network.alpha / network.beta)  # half of its time is latency
    for size in (5_000, balanced, 300_000_000):
        found = learner.predict(size, n, alpha, beta)
        assert near(f"{size} bytes on {n} ranks", found, network.seconds(size, n), 0.2), (
            "all-reduces of three other sizes are predicted within 20%"
        )
    assert near("alpha", alpha, network.alpha, 0.2), "alpha is the latency of one message, within 20%"
    assert near("beta for 1 MB", beta * 1e6, network.beta * 1e6, 0.2), "beta is the time of one byte, within 20%"
    for size in (5_000, 300_000_000):
        found = learner.predict(size, 64, alpha, beta)
        assert near(f"{size} bytes on 64 ranks", found, network.seconds(size, 64), 0.2), (
            "all-reduces of 64 ranks on the same network are predicted within 20%"
        )

if check.args.real:  # figures of this machine, which nothing depends on
    sizes = [1 << power for power in (10, 14, 18)]
    alpha, beta = learner.fit(sizes, learner.measure(learner.time_all_reduce, sizes, 5), n)
    measured = learner.measure(learner.time_all_reduce, [1 << 16], 5)[0]
    print(f"alpha here (us): {alpha * 1e6:.0f}")
    print(f"bandwidth here (MB/s): {1e-6 / beta:.0f}")
    print(f"64 KiB predicted (us): {learner.predict(1 << 16, n, alpha, beta) * 1e6:.0f}")
    print(f"64 KiB measured (us): {measured * 1e6:.0f}")

check.end()
