"""Checks a training script that is stopped after two epochs and started again, against one process that is not.

torchrun --nproc-per-node 4 labs/repair_train_script/check.py repair_train_script.py --seed 7
"""

import csv
import shutil
import sys
import tempfile
import threading
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import Dataset

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, differs, explain_hang, same

STEPS, SAMPLES = 2, 6  # in an epoch, and in a step on each rank
RATE, MAX_NORM = 0.2, 0.25
RESTART, EPOCHS = 2, 4  # the job is stopped before epoch 2
check = Check("train")
n, rank = check.world_size, check.rank
share = STEPS * SAMPLES  # samples that a rank reads in an epoch


class Points(Dataset):
    """Points with random labels, in double precision, so that no prediction depends on rounding.

    `read` has the samples that were read, in order.
    """

    def __init__(self, number: int) -> None:
        self.x, self.y = 3 * torch.randn(number, 3).double(), torch.randint(2, (number,))
        self.read: list[int] = []

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, sample: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.read.append(int(sample))
        return self.x[sample], self.y[sample]


class OneProcess:
    """Takes each step with the samples of all ranks."""

    def __init__(self, model: nn.Module, data: Points) -> None:
        self.model, self.data = model, data
        self.optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)

    def step(self, samples: list[int]) -> float:
        """Take a step, and return the norm of its gradient."""
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(self.data.x[samples]), self.data.y[samples]).backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), MAX_NORM)
        self.optimizer.step()
        return norm.item()

    def count_right(self, held_out: Points) -> list[int]:
        """Count the right predictions in the share of each rank."""
        with torch.no_grad():
            right = self.model(held_out.x).argmax(dim=1) == held_out.y
        return [int(right[each::n].sum()) for each in range(n)]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()


def of_all_ranks(mine: object) -> list:
    everyone = [None] * n
    dist.all_gather_object(everyone, mine)
    return everyone


def misread(read: list[list[int]], epochs: range) -> str:
    """Say which samples the ranks have not read as they should have; "" if nothing is wrong."""
    for reader, samples in enumerate(read):
        if len(samples) != len(epochs) * share:
            expected = f"expected {len(epochs) * share} for epochs {epochs[0]} and {epochs[-1]}"
            return f"rank {reader} read {len(samples)} samples{' after the restart' * (epochs[0] > 0)}, {expected}"
    for epoch, begin in zip(epochs, range(0, len(epochs) * share, share)):
        readers: list[list[int]] = [[] for _ in range(n * share)]
        for reader, samples in enumerate(read):
            for sample in samples[begin : begin + share]:
                readers[sample].append(reader)
        most = max(range(n * share), key=lambda sample: len(readers[sample]))
        if len(readers[most]) > 1:
            by, never = " and ".join(map(str, readers[most])), readers.count([])
            return f"sample {most} was read by ranks {by} in epoch {epoch}, and {never} samples were read by no rank"
    return ""


def place_of_gap(ours: torch.Tensor, theirs: torch.Tensor) -> int | None:
    """Return where two tensors differ most, or None if they are the same."""
    gaps = (ours - theirs).detach().abs().flatten()
    return int(gaps.argmax()) if not gaps.max() < 1e-6 else None


def unlike(model: nn.Module, when: str) -> str:
    """Say where the weights of the ranks differ; "" if they are the same."""
    for name, parameter in model.named_parameters():
        copies = of_all_ranks(parameter.detach().flatten())
        for other in range(1, n):
            at = place_of_gap(copies[0], copies[other])
            if at is not None:
                values = f"{copies[0][at]:.4f} on rank 0 and {copies[other][at]:.4f} on rank {other}"
                return f"element {at} of `{name}` is {values} {when}"
    return ""


def unlike_one_process(model: nn.Module, alone: nn.Module, when: str) -> str:
    """Say where the weights differ from those of one process; "" if they are the same."""
    for (name, ours), theirs in zip(model.named_parameters(), alone.parameters()):
        at = place_of_gap(ours, theirs)
        if at is not None:
            return f"element {at} of `{name}` is {ours.flatten()[at]:.4f} {when}, expected {theirs.flatten()[at]:.4f}"
    return ""


def inaccurate(accuracy: float, right: list[int], samples: int, epoch: int) -> str:
    """Say what accuracy the log should have; "" if it has that."""
    all_right = sum(right)
    if abs(accuracy - all_right / samples) < 1e-3:
        return ""
    shares = " and ".join(f"{each} of {len(range(owner, samples, n))}" for owner, each in enumerate(right))
    whose = f"the ranks got {shares} held-out samples right, " if n > 1 else "the model got "
    overall = f"{'which is ' * (n > 1)}{all_right} of {samples}, or {all_right / samples:.4f}"
    return f"the log has {accuracy:.4f} as the accuracy after epoch {epoch}, but {whose}{overall}"


def log_in(folder: Path) -> list[list[str]]:
    file = folder / "log.csv"
    return list(csv.reader(file.read_text().splitlines())) if file.exists() else []


def save(state: object, file: object, *args: object, **options: object) -> None:
    """Save as torch does, and note which files were written."""
    if isinstance(getattr(file, "name", file), str | Path):  # else it is in memory
        saved.append(str(file))
    torch_save(state, file, *args, **options)


def trains_on() -> str:
    """Say, if the ranks hang, that this one trains longer than it should; "" if it does not."""
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame and frame.f_code.co_filename != str(check.args.file.absolute()):
        frame = frame.f_back
    if not frame or len(data.read) <= len(epochs) * share:
        return ""
    left = f"{'After the restart, only' if first else 'Only'} epochs {first} and {last} are left"
    waits = f"it waits in line {frame.f_lineno} for ranks that are done"
    return f"{left}, but rank {rank} has trained for two epochs and begun another, in which {waits}."


saved: list[str] = []
torch_save, torch.save = torch.save, save
paths = [tempfile.mkdtemp(prefix="ddpquiz-lab-") if rank == 0 else ""]
dist.broadcast_object_list(paths)
for case, _ in enumerate(check.seeds()):
    folder = Path(paths[0], str(case))
    if rank == 0:
        folder.mkdir()
    dist.barrier()
    data, held_out = Points(n * share), Points(3 * n + 1)  # held-out samples cannot be divided evenly
    model, alone = network(), OneProcess(network(), data)
    alone.model.load_state_dict(model.state_dict())
    orders: list[list[int]] = []  # in which this rank has read its samples, by epoch
    right: list[list[int]] = []  # predictions of the one process after each epoch, by the rank whose share they are in
    for epochs in range(RESTART), range(RESTART, EPOCHS):
        first, last = epochs[0], epochs[-1]
        when = f"at the end of epoch {last}{', after the restart' * (first > 0)}"
        data.read.clear()
        saved.clear()
        check.delay()
        with explain_hang(trains_on), check.phase("training", steps=STEPS * len(epochs), epochs=len(epochs)):
            norms = check.learner.train(model, data, held_out, folder, last + 1)
        dist.barrier()

        read = of_all_ranks(data.read)
        wrong = misread(read, epochs)
        assert not wrong or differs(wrong), "in each epoch, every sample is read once, by one rank"
        for epoch, order in zip(epochs, (data.read[:share], data.read[share:])):
            is_new = order not in orders
            assert is_new or differs(f"epochs {orders.index(order)} and {epoch} both begin with samples {order[:4]}"), (
                "every epoch has an order of its own"
            )
            orders.append(order)
        assert same(len(norms), STEPS * len(epochs), what="norms returned"), "train returns the norm of each step"
        wrong = unlike(model, when)
        assert not wrong or differs(wrong), "the weights are the same on all ranks"

        expected = []
        for begin in range(0, len(epochs) * share, SAMPLES):
            expected.append(alone.step([sample for samples in read for sample in samples[begin : begin + SAMPLES]]))
            if (begin + SAMPLES) % share == 0:
                right.append(alone.count_right(held_out))
        is_right = abs(norms[0] - expected[0]) <= 1e-6 * expected[0]
        where = f"in the first step of epoch {first}{', after the restart,' * (first > 0)}"
        assert is_right or differs(f"the norm of the gradient {where} is {norms[0]:.4f}, expected {expected[0]:.4f}"), (
            "the norm is that of one process that trains on the samples of all ranks"
        )
        wrong = unlike_one_process(model, alone.model, when)
        assert not wrong or differs(wrong), (
            "the weights are those of one process that trains on the samples of all ranks and is never stopped"
        )

        savers = [each for each, files in enumerate(of_all_ranks(saved)) if files]
        assert savers in ([], [0]) or differs(f"ranks {' and '.join(map(str, savers))} saved checkpoints"), (
            "only rank 0 saves checkpoints"
        )
        lines = log_in(folder)
        logged = [int(line[0]) for line in lines]
        assert logged == [*range(last + 1)] or differs(f"log.csv has lines for the epochs {logged}"), (
            "the log has one line for each epoch"
        )
        for epoch in epochs:
            wrong = inaccurate(float(lines[epoch][1]), right[epoch], len(held_out), epoch)
            assert not wrong or differs(wrong), "the accuracy in the log is that over all held-out samples"
        model = network()  # new processes begin with new weights

dist.barrier()
if rank == 0:
    shutil.rmtree(paths[0])
check.end()
