"""Shrink: a rank leaves in the middle of training, and the others go on without it, in the same processes.

    torchrun --nproc-per-node 4 demos/shrink.py

In step 5 of 0 to 9 the last rank leaves before it has summed its gradient. The
others get an error from their all-reduce. They meet in the store, form a new
group with one fewer rank, agree on the step, and repeat it with the samples
dealt out again. Nothing is read from a file, and no process is started. Look at
`ranks in each step` and at `steps repeated`. The global batch is the same, so
the weights at the end are those of a run that nobody left.

Try    --leave-at 99    nobody leaves
       --keep-shares    the samples are not dealt out again: some are never seen
       on 2 ranks       one rank is left, and does all of the work
"""

import argparse
import os
from datetime import timedelta

import torch
import torch.distributed as dist

STEPS, BATCH, LR = 10, 12, 0.05  # BATCH samples of all ranks together in a step
HOSTED = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # the agent's store outlives the ranks


def meet(store: dist.Store, generation: int, name: str, members: int) -> int:
    """Form the group of this generation from `members` ranks; return this rank's new number.

    Each generation has a prefix of its own in the store, or it would read the addresses of the one before.
    """
    at = dist.PrefixStore(f"generation {generation}", store)
    at.set(f"member {at.add('count', 1)}", name)  # a real job waits here until heartbeats tell who is left
    at.wait([f"member {number + 1}" for number in range(members)])
    names = sorted(int(at.get(f"member {number + 1}")) for number in range(members))
    rank = names.index(int(name))
    # A rank that shares no connection with the lost one notices only by this timeout.
    dist.init_process_group("gloo", store=at, rank=rank, world_size=members, timeout=timedelta(seconds=3))
    return rank


def samples(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the samples of a step, the same on every rank: they depend on the step only."""
    x = torch.randn(BATCH, 2, generator=torch.Generator().manual_seed(step))
    return x, x @ torch.tensor([1.0, -2.0])


def gradient(weights: torch.Tensor, step: int, share: slice) -> torch.Tensor:
    """Return the gradient of the squared error on this share, divided by the size of the whole batch."""
    x, y = samples(step)
    x, y = x[share], y[share]
    return 2 * x.T @ (x @ weights - y) / BATCH


def train(args: argparse.Namespace, store: dist.Store, rank: int, world: int) -> tuple[torch.Tensor, list[int], int]:
    """Train; return the weights, the number of ranks in each finished step, and how many steps were repeated."""
    name, generation, again = str(rank), 0, 0
    rank, members = meet(store, generation, name, world), world
    share = slice(rank, None, members)
    weights, finished = torch.zeros(2), []
    while len(finished) < STEPS:
        step = len(finished)
        if step == args.leave_at and members == world > 1 and rank == world - 1:
            print(f"leaves at step: {step}")
            os._exit(0)  # no goodbye: its connections close, as when a machine goes down
        mine = gradient(weights, step, share)  # computed anew after an error: the last sum may be half done
        try:
            dist.all_reduce(mine)
        except RuntimeError:
            dist.destroy_process_group()
            generation, members, again = generation + 1, members - 1, again + 1
            rank = meet(store, generation, name, members)
            if not args.keep_shares:
                share = slice(rank, None, members)
            agreed = torch.tensor(len(finished))
            dist.all_reduce(agreed, dist.ReduceOp.MIN)  # a rank that had finished this step would have to undo it
            assert agreed == len(finished), "all survivors are at the same step"
            continue
        weights -= LR * mine
        finished.append(members)
    return weights, finished, again


def main() -> None:
    """Train through the loss of a rank, and compare with one process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leave-at", type=int, default=5, help="step in which the last rank leaves")
    parser.add_argument("--keep-shares", action="store_true", help="keep the old shares of the samples")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if BATCH % world or (world > 1 and BATCH % (world - 1)):
        raise SystemExit(f"The batch of {BATCH} samples needs 1 to 4 ranks.")

    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(host, port, is_master=rank == 0 and not HOSTED)
    weights, finished, again = train(args, store, rank, world)
    print(f"ranks in each step: {' '.join(map(str, finished))}")
    print(f"steps repeated: {again}")
    print(f"weights: {weights[0]:.4f} {weights[1]:.4f}")

    alone = torch.zeros(2)
    for step in range(STEPS):
        alone -= LR * gradient(alone, step, slice(None))
    if not args.keep_shares:
        assert torch.allclose(weights, alone, atol=1e-5), "the weights are those of one process that saw every sample"
    if world > 1 and args.leave_at < STEPS:
        assert again == 1, "only the step that was under way is repeated"
        assert finished[-1] == world - 1 == dist.get_world_size(), "the rest of the steps are taken with one fewer rank"
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
