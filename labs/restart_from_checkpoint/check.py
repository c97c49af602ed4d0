"""Checks that a training run whose ranks are killed goes on like one that nobody disturbed.

torchrun --nproc-per-node 4 --max-restarts 1 labs/restart_from_checkpoint/check.py restart_from_checkpoint.py --seed 7
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, Disk, Restarts, differs, raised, same

STEPS, EVERY, WIDTH = 8, 3, 4
check = Check("Job", "train", "save", "load", moment="step")
n, rank = check.world_size, check.rank
restarts = Restarts()
disk = Disk(restarts)
losses: list[float] = []  # for the steps that this process has taken
*_, seed = check.seeds()  # the last one: all ranks are killed once only
killed = 2 * EVERY + seed % 2  # the step in which one rank is killed, after two checkpoints


def new_job(start: int):
    """Return a job whose model is the same on all ranks, and give each rank random numbers of its own."""
    torch.manual_seed(seed)
    layers = nn.Linear(WIDTH, 32), nn.Tanh(), nn.Dropout(0.3), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 1)
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.7)
    torch.manual_seed(1000 * seed + 100 * start + rank)
    losses.clear()
    return check.learner.Job(model, optimizer, schedule)


def loss_of(model: nn.Module) -> torch.Tensor:
    """Return the loss on the next random batch; in the first attempt, a rank is killed in a step or a save."""
    x = torch.randn(3, WIDTH)
    loss = nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True))
    losses.append(loss.item())
    if restarts.stage == 0 and check.args.moment == "step" and rank == n - 1 and len(losses) > killed:
        restarts.die(1)
    if restarts.stage == 0 and check.args.moment == "save" and len(losses) == 2 * EVERY:
        disk.fatal = "write"  # in the second checkpoint, which comes next
    return loss


def train_undisturbed(job) -> None:
    """Train as `train` does, without checkpoints."""
    for _ in range(STEPS):
        job.optimizer.zero_grad()
        loss_of(job.model).backward()
        for parameter in job.model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= n
        job.optimizer.step()
        job.schedule.step()


def loads(job) -> bool:
    """Return whether `load` works; print what it raised if not."""
    try:
        check.learner.load(job, folder)
    except Exception as wrong:  # noqa: BLE001  # a torn file can raise anything
        raised("load", wrong, check.args.file)
        return False
    return True


# 1. The first attempt, in which a rank is killed.
folder = restarts.folder / "checkpoints"
folder.mkdir(exist_ok=True)
if restarts.stage == 0:
    check.learner.train(new_job(0), loss_of, folder, STEPS, EVERY)
    disk.fatal, restarts.stage = 0, 1  # nobody was killed in a save that wrote nothing
    dist.barrier()

# 2. The second attempt, in new processes, beside a training run that nobody disturbs.
undisturbed = new_job(0)
train_undisturbed(undisturbed)
expected = list(losses)
job = new_job(1)
if check.args.moment == "save":  # runs in which nothing is torn have already shown that `load` works
    assert loads(job), "after a rank was killed in the middle of a save, the checkpoint before it can be loaded"
    job = new_job(1)
check.learner.train(job, loss_of, folder, STEPS, EVERY)
first, done = STEPS - len(losses), EVERY if check.args.moment == "save" else killed // EVERY * EVERY
assert first == done or differs(f"training went on with step {first}, and {done} steps were saved"), (
    "after a restart, training goes on with the first step that the last checkpoint does not contain"
)
for step, loss in enumerate(losses, first):
    assert same(loss, expected[step], tolerance=1e-4) or differs(
        f"step {step} has the loss {loss:.4f}, expected {expected[step]:.4f}"
    ), "after a restart, each step has the loss that it has without one"
for (name, ours), theirs in zip(job.model.named_parameters(), undisturbed.model.parameters(), strict=True):
    assert same(ours, theirs, tolerance=1e-4, what=f"`{name}`"), (
        "at the end the weights are those of a training run without a restart"
    )

# 3. What a save sends, and that it is done when it returns on any rank, although the disk is slow.
fresh = new_job(2)
disk.slow = 0.1
check.delay(0.003)
with check.phase("save", random=torch.get_rng_state().nbytes):
    check.learner.save(job, folder, STEPS)
found = check.learner.load(fresh, folder)
assert found == STEPS or differs(f"`load` found {found} steps, and `save` had {STEPS}"), (
    "when `save` has returned on any rank, `load` finds the new checkpoint"
)
disk.slow = 0.0

restarts.end()
check.end()
