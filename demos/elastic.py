"""Elastic restart: one rank is killed, and all go on from the last checkpoint.

    torchrun --nproc-per-node 4 --max-restarts 1 demos/elastic.py

In step 7 of 0 to 11 the last rank kills itself, as the kernel would when memory
runs out. The others cannot go on without it. So the agent stops them too and
starts all ranks again, as new processes that know only what they read from the
checkpoint: weights, optimizer state and the next step.
Look at `step`, which falls back to the checkpoint, and at `process`: which
ranks are new? In the end the weights are those of a run without a failure.

Try    --forget       no momentum in the checkpoint: different weights at the end
       --every 100    only the first checkpoint: all steps are repeated
       --kill-at 99   nobody dies: the same weights
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

STEPS, BATCH, LR, MOMENTUM = 12, 4, 0.05, 0.9  # BATCH samples of each rank in a step
HOSTED = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # the store outlives the workers


def store() -> dist.Store:
    """Connect to the agent's key-value store, in which ranks and agents find each other."""
    return dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)


def learn(weights: Tensor, momentum: Tensor, step: int, shares: int, share: int) -> None:
    """Take one step of SGD with momentum, with the mean gradient of all shares of the step's samples."""
    # The samples depend on the step only, so the step is all the state of this data loader.
    x = torch.randn(BATCH * dist.get_world_size(), 2, generator=torch.Generator().manual_seed(step))
    x = x[share::shares].to(weights.device)
    y = x.sum(dim=1, keepdim=True) + 0.1
    gradient = 2 * x.T @ (x @ weights - y) / len(y)
    if shares > 1:
        dist.all_reduce(gradient)
    momentum.mul_(MOMENTUM).add_(gradient / shares)
    weights.sub_(LR * momentum)


def resume(path: Path, args: argparse.Namespace, pids: list[int], device: torch.device) -> dict:
    """Load the checkpoint: it is all that a new process knows of the past."""
    past = torch.load(path, map_location=device, weights_only=True)
    if args.forget:
        past["momentum"].zero_()
    print(f"process: {past['pids'][dist.get_rank()]} then {os.getpid()}")
    print(f"killed in step: {args.kill_at}")
    print(f"resumed at step: {past['step']}")
    print(f"finished steps lost: {args.kill_at - past['step']}")
    assert 0 <= args.kill_at - past["step"] < args.every, "only the steps since the last checkpoint are lost"
    assert set(pids).isdisjoint(past["pids"]), "every rank is a new process, not only the rank that died"
    return past


def train(args: argparse.Namespace, attempt: int, device: torch.device) -> tuple[Tensor, int]:
    """Train from the last checkpoint to the end; return the weights, and the step in which this attempt began."""
    rank, world = dist.get_rank(), dist.get_world_size()
    job = os.environ["MASTER_PORT"] if HOSTED else os.environ["TORCHELASTIC_RUN_ID"]  # the same in each attempt
    folder = Path(tempfile.gettempdir(), f"elastic-{job}")  # on a cluster: a shared folder
    path, part = folder / "checkpoint.pt", folder / "checkpoint.part"
    weights, momentum, pids = torch.zeros(2, 1, device=device), torch.zeros(2, 1, device=device), [0] * world
    dist.all_gather_object(pids, os.getpid())

    def save(step: int) -> None:
        if rank == 0:
            torch.save({"step": step, "weights": weights, "momentum": momentum, "pids": pids}, part)
            part.replace(path)  # complete or not at all, even if this process is killed now
            print(f"next step in checkpoint: {step}")
        dist.barrier()  # no rank goes on before the checkpoint is written

    first = 0
    if attempt == 0:
        if rank == 0:
            shutil.rmtree(folder, ignore_errors=True)  # left by a run that was interrupted
            folder.mkdir(mode=0o700)  # fails if another user has made it: a checkpoint there could be theirs
        save(0)
    else:
        past = resume(path, args, pids, device)
        first, weights, momentum = past["step"], past["weights"], past["momentum"]

    # Training, with a death in the first attempt.
    for step in range(first, STEPS):
        print(f"step: {step}")
        time.sleep(0.05)  # time to look
        if attempt == 0 and rank == world - 1 and step == args.kill_at:
            print(f"Rank {rank} dies in step {step}.")
            os.kill(os.getpid(), signal.SIGKILL)
        learn(weights, momentum, step, world, rank)
        if (step + 1) % args.every == 0:
            save(step + 1)
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder)
    return weights, first


def compare(weights: Tensor, forgot: bool) -> None:
    """Compare with one process that uses all samples and is not interrupted."""
    alone, its_momentum = torch.zeros_like(weights), torch.zeros_like(weights)
    for step in range(STEPS):
        learn(alone, its_momentum, step, 1, 0)
    print(f"weights: {' '.join(f'{number:.4f}' for number in weights.flatten().tolist())}")
    print(f"weights if nobody dies: {' '.join(f'{number:.4f}' for number in alone.flatten().tolist())}")
    off = (weights - alone).abs().max()
    if forgot:
        assert off > 1e-3, "without the optimizer's momentum, a restart changes the result"
    else:
        assert off < 1e-5, "the weights at the end are those of a run without a failure"


def main() -> None:
    """Train, be killed, start again, and end with the weights of a run without a failure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=3, help="steps from one checkpoint to the next")
    parser.add_argument("--kill-at", type=int, default=7, help="the step in which the last rank kills itself")
    parser.add_argument("--forget", action="store_true", help="do not restore the optimizer's momentum")
    args = parser.parse_args()
    if args.every < 1 or args.kill_at < 1:
        raise SystemExit("--every and --kill-at need 1 or more.")
    sys.stdout.reconfigure(line_buffering=True)  # output that a killed process has not written is lost
    if os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") == "0":
        raise SystemExit("Without restarts the ranks end here: start this demo with --max-restarts 1.")
    names = ("RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")
    rank, world, attempt = (int(os.environ[name]) for name in names)
    device = torch.device("cpu")
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)

    # Form a new group in each attempt. The store still holds the keys of the last group (pytorch issue 135712).
    found = dist.PrefixStore(f"attempt {attempt}", store()) if HOSTED else None
    backend, patience = "nccl" if device.type == "cuda" else "gloo", timedelta(seconds=10)
    dist.init_process_group(backend, store=found, rank=rank, world_size=world, timeout=patience)
    print(f"process: {os.getpid()}")
    print(f"restarts: {attempt}")
    try:
        weights, first = train(args, attempt, device)
        compare(weights, forgot=args.forget and first > 0)
    except RuntimeError as lost:  # another rank is gone; the agent has noticed it too
        print(f"Rank {rank} cannot go on: {str(lost).rpartition('] ')[2].partition('. ')[0]}")
        raise SystemExit(1) from None
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
