"""A whole training script: from the first line to resuming from a checkpoint.

    torchrun --nproc-per-node 4 demos/train_script.py

`join`, `train` and `evaluate` are the script that you would copy; the rest is
the demo. It runs the script twice, like a job that is stopped after two epochs
and started again: the second run finds the checkpoint and continues. At the
end, the result is compared with one process that was never stopped.
Look at `first samples (epoch 0)` and at those of the later epochs, and compare
`accuracy (local share)` with `accuracy (logged)`. --without changes one line of
the script; EDITS, in the code, shows which line, and what it becomes.

Try    --without set_epoch   the same order in every epoch
       --without no_sync     an all-reduce for every micro-batch
       --without all_ranks   only rank 0 evaluates: the job hangs
"""

import argparse
import csv
import inspect
import os
import shutil
import tempfile
from contextlib import nullcontext
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported after init_process_group, it would keep the group alive (torch 2.13)
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817 - its usual name
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset

MICRO_BATCH, MICRO_BATCHES = 4, 4  # samples in a rank's micro-batch, and micro-batches in a step
SAMPLES, EPOCHS = 192, 4


def join() -> torch.device:
    """Join the other ranks, and return this rank's device. This is where GPUs and CPUs differ most."""
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):  # NCCL needs a GPU for each rank
        torch.cuda.set_device(local_rank)
        dist.init_process_group("nccl")
        return torch.device("cuda", local_rank)

    dist.init_process_group("gloo", timeout=timedelta(minutes=1))  # short, because this is a demo
    return torch.device("cpu")


def train(
    data: Dataset, held_out: Dataset, folder: Path, epochs: int, device: torch.device
) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    """Train until `epochs` are done, from the checkpoint in `folder`, which all ranks share, if there is one.

    Return the model, and the norm of the gradient of each step.
    """
    rank, gpu, local_rank = dist.get_rank(), device.type == "cuda", device.index
    path, first_epoch, norms = folder / "checkpoint.pt", 0, []
    micro_batches = MICRO_BATCHES  # in an optimizer step

    # 1. The model goes to this rank's device, then it is wrapped, then the optimizer gets its parameters.
    torch.manual_seed(0)
    model = network().to(device)
    ddp = DDP(model, device_ids=[local_rank] if gpu else None)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    count_all_reduces(ddp)  # only for the demo

    # 2. Each rank reads its own share of the samples.
    sampler = DistributedSampler(data, seed=0)
    loader = DataLoader(data, batch_size=MICRO_BATCH, sampler=sampler, pin_memory=gpu)

    # 3. If there is a checkpoint, every rank loads it, to its own device.
    if path.exists():
        past = torch.load(path, map_location=device, weights_only=True)
        ddp.module.load_state_dict(past["model"])
        optimizer.load_state_dict(past["optimizer"])
        first_epoch = past["epoch"] + 1

    for epoch in range(first_epoch, epochs):
        sampler.set_epoch(epoch)
        ddp.train()
        for number, (x, y) in enumerate(loader, start=1):
            # 4. Gradients of micro-batches add up. Only the last backward before a step exchanges them.
            last = number % micro_batches == 0 or number == len(loader)
            with nullcontext() if last else ddp.no_sync():
                with torch.autocast(device.type, dtype=torch.bfloat16):
                    loss = cross_entropy(ddp(x.to(device)), y.to(device))
                (loss / micro_batches).backward()
            if last:
                norms.append(torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0))
                optimizer.step()
                optimizer.zero_grad()
        print(f"loss (last micro-batch): {loss.item():.3f}")  # only for the demo, as is the next print
        print(f"gradient norm: {norms[-1].item():.3f}")

        # 5. All ranks evaluate. Rank 0 writes the log and the checkpoint, and the others wait until it has.
        loss, accuracy = evaluate(ddp.module, held_out, device)
        if rank == 0:
            with (folder / "metrics.csv").open("a", newline="") as log:
                csv.writer(log).writerow([epoch, f"{loss:.4f}", f"{accuracy:.4f}"])
            part = path.with_suffix(".part")
            state = {"model": ddp.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            torch.save(state, part)
            part.replace(path)  # complete or not at all, even if the job is killed now
        dist.barrier()
    return ddp.module, norms


@torch.no_grad()
def evaluate(model: torch.nn.Module, held_out: Dataset, device: torch.device) -> tuple[float, float]:
    """Return the mean loss and the accuracy over all held-out samples, the same on every rank."""
    model.eval()
    share = Subset(held_out, range(dist.get_rank(), len(held_out), dist.get_world_size()))  # no padding
    total = torch.zeros(3, device=device)  # sum of losses, right answers, samples
    for x, y in DataLoader(share, batch_size=16):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            output, target = model(x.to(device)), y.to(device)
        total[0] += cross_entropy(output.float(), target, reduction="sum")
        total[1] += (output.argmax(dim=1) == target).sum()
        total[2] += len(y)
    print(f"accuracy (local share): {total[1] / total[2]:.3f}")  # only for the demo, as is the next print
    dist.all_reduce(total)  # sums first; divide once, at the end
    print(f"accuracy (logged): {total[1] / total[2]:.3f}")
    return (total[0] / total[2]).item(), (total[1] / total[2]).item()


# The rest is the demo: what is trained, what is left out, and what is compared.
EDITS = {  # what --without turns a line above into
    "sampler": ("DistributedSampler(data, seed=0)", "DistributedSampler(data, num_replicas=1, rank=0)"),
    "set_epoch": ("sampler.set_epoch(epoch)", "pass"),
    "no_sync": ("ddp.no_sync()", "nullcontext()"),
    "division": ("(loss / micro_batches)", "loss"),
    "all_ranks": (
        "evaluate(ddp.module, held_out, device)",
        "evaluate(ddp.module, held_out, device) if rank == 0 else (0, 0)",
    ),
    "all_reduce": ("dist.all_reduce(total)", "pass"),
    "module": ("ddp.module.state_dict()", "ddp.state_dict()"),
    "optimizer": ('optimizer.load_state_dict(past["optimizer"])', "pass"),
}
all_reduces = 0


class Points(Dataset):
    """Points in a plane, labeled by the sign of x1 * x2. The dataset records which samples are read."""

    def __init__(self, number: int, seed: int) -> None:
        self.x = torch.randn(number, 2, generator=torch.Generator().manual_seed(seed))
        self.y = (self.x.prod(dim=1) > 0).long()
        self.read = []

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, sample: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.read.append(sample)
        return self.x[sample], self.y[sample]


def network() -> torch.nn.Module:
    """Build a model with 82 parameters."""
    return torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))


def count_all_reduces(ddp: DDP) -> None:
    """Count the buckets of gradients that DDP all-reduces."""

    def counted(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        global all_reduces  # noqa: PLW0603 - the script is called twice, and DDP is made in it
        all_reduces += 1
        return allreduce_hook(group, bucket)  # what DDP does without a hook

    ddp.register_comm_hook(dist.group.WORLD, counted)


def leave_out(name: str) -> None:
    """Change one line of the script, as you would in an editor."""
    old, new = EDITS[name]
    for function in train, evaluate:
        lines, first = inspect.getsourcelines(function)
        source = "".join(lines)
        if old in source:
            source = "\n" * (first - 1) + source.replace(old, new)  # so that lines keep their numbers
            exec(compile(source, __file__, "exec"), globals())  # noqa: S102 - it is this file's own text


def one_process(data: Points, device: torch.device) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    """Train as one process would if it had all samples of each step and were never stopped."""
    torch.manual_seed(0)
    model, norms = network().to(device), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(EPOCHS):
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch))  # as the sampler shuffles
        for batch in order.split(MICRO_BATCH * MICRO_BATCHES * dist.get_world_size()):
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = cross_entropy(model(data.x[batch].to(device)), data.y[batch].to(device))
            loss.backward()
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
            optimizer.step()
            optimizer.zero_grad()
    return model, norms


def check_samples(data: Points, without: str | None, device: torch.device) -> None:
    """Show which samples each rank read in each epoch, and how often each sample was read by all ranks together."""
    epochs = torch.tensor(data.read).chunk(EPOCHS)
    for epoch, samples in enumerate(epochs):
        which = f"epoch {epoch}"
        print(f"first samples ({which}): {' '.join(map(str, samples[:3].tolist()))}")
    times = torch.bincount(epochs[0], minlength=len(data)).to(device)
    dist.all_reduce(times)
    print(f"local samples per epoch: {len(epochs[0])}")
    print(f"times each sample is read: {times.min()} to {times.max()}")
    if without == "sampler":
        assert times.eq(dist.get_world_size()).all(), "with a sampler for one rank, every rank reads all the samples"
    else:
        assert times.eq(1).all(), "with the sampler each sample is read once in an epoch, by one rank"
    if without == "set_epoch":
        assert all(torch.equal(a, b) for a, b in pairwise(epochs)), "without set_epoch every epoch has the same order"
    else:
        assert not any(torch.equal(a, b) for a, b in pairwise(epochs)), "set_epoch gives each epoch a new order"


def check_steps(norms: list[torch.Tensor], alone: list[torch.Tensor], without: str | None) -> None:
    """Count the all-reduces of a step, and compare its gradient with that of one process."""
    ratio = (norms[0] / alone[0]).item()
    print(f"all-reduces per step: {all_reduces / len(norms):.0f}")
    print(f"gradient norm / one process: {ratio:.3f}")
    if without == "no_sync":
        assert all_reduces == MICRO_BATCHES * len(norms), "without no_sync every micro-batch costs an all-reduce"
    else:
        assert all_reduces == len(norms), "with no_sync a step costs one all-reduce of the gradients"
    if without == "division":
        assert abs(ratio - MICRO_BATCHES) < 0.05, (
            "without the division, the gradient is as many times too large as there are micro-batches"
        )
    elif without != "sampler":
        assert abs(ratio - 1) < 0.01, (
            "up to 16-bit rounding, the first step's gradient has the same norm as that of one process with all samples"
        )


def check_log(folder: Path, model: torch.nn.Module, held_out: Points, without: str | None) -> None:
    """Compare the last line of the log with the accuracy that one process measures."""
    with (folder / "metrics.csv").open(newline="") as log:
        lines = list(csv.reader(log))
    device, world = next(model.parameters()).device, dist.get_world_size()
    with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
        right = model(held_out.x.to(device)).argmax(dim=1).cpu() == held_out.y
    whole, share, logged = right.float().mean(), right[::world].float().mean(), float(lines[-1][2])
    print(f"accuracy (one process): {whole:.3f}")
    assert [int(epoch) for epoch, *_ in lines] == list(range(EPOCHS)), "the second run continues where the first ended"
    if without == "all_reduce":
        assert abs(logged - share) < 1e-3 < abs(logged - whole), "without all-reduce, rank 0 logs only its own share"
    else:
        assert abs(logged - whole) < 1e-3, "rank 0 logs the accuracy over all held-out samples"


def check_weights(model: torch.nn.Module, alone: torch.nn.Module, without: str | None) -> None:
    """Compare the weights with those of one process that was never stopped."""
    gap = max((a - b).abs().max().item() for a, b in zip(model.parameters(), alone.parameters(), strict=True))
    print(f"weight gap to one process: {gap:.4f}")
    if without == "optimizer":
        assert gap > 0.05, "without the optimizer's momentum, the resumed training takes a different path"
    elif without not in {"sampler", "set_epoch", "division"}:
        assert gap < 0.02, "stopped and resumed, training ends near the weights of one process that was never stopped"


def compare(folder: Path, without: str | None, device: torch.device) -> None:
    """Run the script twice, and compare the result with that of one process."""
    data, held_out = Points(SAMPLES, seed=1), Points(50, seed=2)
    _, norms = train(data, held_out, folder, EPOCHS // 2, device)
    saved = torch.load(folder / "checkpoint.pt", map_location="cpu", weights_only=True)
    missing = network().load_state_dict(saved["model"], strict=False).missing_keys
    print(f"last epoch in checkpoint: {saved['epoch']}")
    print(f"first key in checkpoint: {next(iter(saved['model']))}")
    print(f"model keys not in checkpoint: {len(missing)}")
    if without == "module":
        assert len(missing) == len(saved["model"]), (
            "saved from the DDP wrapper, the checkpoint does not fit the model inside it"
        )
        if dist.get_rank() == 0:
            print("The second run would fail with `Missing key(s) in state_dict`.")
        return
    assert not missing, "saved from ddp.module, the checkpoint fits a model without DDP"
    model, later_norms = train(data, held_out, folder, EPOCHS, device)
    alone, its_norms = one_process(data, device)
    check_log(folder, model, held_out, without)
    check_samples(data, without, device)
    check_steps(norms + later_norms, its_norms, without)
    check_weights(model, alone, without)


def main() -> None:
    """Run the demo, and delete its files at the end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--without", choices=list(EDITS), help="leave out or change this part of the script")
    without, world = parser.parse_args().without, int(os.environ["WORLD_SIZE"])
    if SAMPLES % (MICRO_BATCH * MICRO_BATCHES * world):
        raise SystemExit("This demo compares whole steps: it needs 1, 2, 3, 4, 6 or 12 ranks.")
    if without in {"sampler", "all_ranks", "all_reduce"} and world < 2:
        raise SystemExit(f"--without {without} needs 2 ranks or more: on one rank it changes nothing.")
    if without:
        leave_out(without)

    device = join()
    paths = [tempfile.mkdtemp(prefix="train-script-") if dist.get_rank() == 0 else ""]
    dist.broadcast_object_list(paths, device=device)
    folder = Path(paths[0])
    try:
        compare(folder, without, device)
        dist.barrier()  # all have read the files
    finally:
        if dist.get_rank() == 0:
            shutil.rmtree(folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
