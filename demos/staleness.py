"""Staleness: an old gradient allows only a fraction of the learning rate.

    torchrun --nproc-per-node 4 demos/staleness.py

Asynchronous workers take turns: pull the weights, compute a gradient, push
it. By then the other N-1 have pushed too, so the gradient is N-1 updates old.
Four weights w start at 1, and their minimum is at 0: one with fresh gradients
at a high rate, one with old gradients at the same rate, and two with old
gradients below and above the theoretical limit. Which go to 0, and which swing
wider and wider? The loss is a parabola, so there is no noise, only age. A
rank shows w right after its own push, one update after its left neighbor.

Try    --age 1      gradients 1 update old: half the rate is stable
       --age 0      synchronous: every gradient is fresh
       --age 16     as with 17 workers
"""

import argparse
import math
import os
from collections import deque
from datetime import timedelta

import torch
import torch.distributed as dist

CURVATURE = 1.0  # the loss is CURVATURE / 2 * weight^2, so the gradient is CURVATURE * weight


def train(rates: list[float], ways: tuple[str, ...], age: int, updates: int, device: torch.device) -> tuple:
    """Train one weight for each rate; return the weights after each update, and the ages of the gradients."""
    rank, world = dist.get_rank(), dist.get_world_size()
    # Every rank keeps the server's weights and applies every push, so a push is a broadcast.
    weights = torch.ones(4, dtype=torch.float64, device=device)
    pulled = deque([(0, weights.clone())], maxlen=age + 1)  # versions of the weights
    path, ages = [weights.tolist()], []
    for update in range(updates):
        my_turn, push = update % world == rank, torch.zeros(5, dtype=torch.float64, device=device)
        if my_turn:  # it pulled these weights `age` updates ago; since then the others have pushed
            version, old = pulled[0]
            push[0], push[1:4], push[4] = CURVATURE * weights[0], CURVATURE * old[1:], version
        dist.broadcast(push, src=update % world)
        weights -= torch.tensor(rates, device=device) * push[:4]
        pulled.append((update + 1, weights.clone()))
        path.append(weights.tolist())
        ages.append(update - int(push[4]))
        if my_turn:
            for way, weight in dict(zip(ways, path[-1], strict=True)).items():  # at age 0 two of them are the same
                print(f"w ({way}): {weight:.2g}")
    return path, ages


def limit(age: int) -> float:
    """Return the largest stable learning rate: beyond it w[t+1] = w[t] - lr * CURVATURE * w[t-age] diverges."""
    return 2 * math.sin(math.pi / (2 * (2 * age + 1))) / CURVATURE


def alone(rate: float, age: int, updates: int) -> list[float]:
    """Return the weights of one process with gradients of this age, the expected result of the workers."""
    weights = [1.0] * (age + 1)  # before the first update the weights did not change
    for _ in range(updates):
        weights.append(weights[-1] - rate * CURVATURE * weights[-1 - age])
    return weights[age:]


def compare(path: list[list[float]], ages: list[int], rates: list[float], age: int) -> None:
    """Compare with one process, and with theory."""
    period = 4 * age + 2  # the period of the swing at the limit
    swing = torch.tensor(path)[-period:].abs().amax(dim=0).tolist()
    for name, each in {"age 0": swing[0], f"age {age}": swing[1]}.items():
        print(f"high rate ({name}): {'goes to 0' if each < 0.1 else 'diverges' if each > 10 else 'swings on'}")
    print(f"gradient age (updates): {ages[-1]}")
    for name, each in {"age 0": 0, f"age {age}": age}.items():
        print(f"rate limit ({name}): {limit(each):.3f}")
    assert set(ages[age:]) == {age}, "once all workers have started, every gradient has the expected age"
    expected = [alone(rate, 0 if way == 0 else age, len(ages)) for way, rate in enumerate(rates)]
    same = torch.allclose(torch.tensor(path), torch.tensor(expected).T, rtol=1e-3)
    assert same, "workers that take turns compute the numbers of one process with a delay"
    assert swing[0] < 0.1, "with fresh gradients the high rate goes to the minimum"
    if age == 0:
        assert swing[1] < 0.1, "at age 0 no gradient is old, and the high rate goes to the minimum both times"
    else:
        assert swing[1] > 10, "with old gradients the same rate diverges"
    assert swing[2] < 0.5, "below the rate 2 sin(pi / (2 (2 age + 1))) / curvature the weight goes to the minimum"
    assert swing[3] > 2, "above that limit the weight swings wider and wider"


def main() -> None:
    """Let the workers take turns at four weights at once, one for each way, and compare with theory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--age", type=int, help="age of a gradient in updates; N-1 unless given")
    parser.add_argument("--rounds", type=int, default=20, help="updates in units of age + 1")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    age = world - 1 if args.age is None else args.age
    if age < 0 or args.rounds < 20:
        raise SystemExit("--age is 0 or more, and --rounds 20 or more: theory is about the long run.")

    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=30))

    # Four weights, one for each way, travel in one tensor.
    updates = args.rounds * (age + 1)
    rates = [0.9 * limit(0), 0.9 * limit(0), 0.8 * limit(age), 1.25 * limit(age)]
    ways = "age 0 high rate", f"age {age} high rate", f"age {age} below limit", f"age {age} above limit"
    if rank == 0:
        print(f"The loss of a weight w is w^2 / 2: curvature {CURVATURE:g}, minimum at 0.")
        print(f"The high rate is {rates[0]:.3f}; below the limit: {rates[2]:.3f}, above it: {rates[3]:.3f}.")

    path, ages = train(rates, ways, age, updates, device)
    compare(path, ages, rates, age)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
