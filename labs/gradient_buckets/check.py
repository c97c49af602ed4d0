"""Checks that gradients are sent in planned buckets, in the same order on all ranks, while backward runs.

torchrun --nproc-per-node 4 labs/gradient_buckets/check.py gradient_buckets.py --seed 7
"""

import copy
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, differs, same

check = Check("plan_buckets", "BucketedDDP")
n, rank = check.world_size, check.rank


class Branches(nn.Module):
    """A trunk, two branches and a head. Odd ranks run the branches in the other order, and so does their backward."""

    def __init__(self, width: int, swapped: bool) -> None:
        super().__init__()
        self.trunk = nn.Linear(4, width, bias=False)
        self.left, self.right = nn.Linear(width, width), nn.Linear(width, width)
        self.head = nn.Linear(width, width)
        self.swapped = swapped

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shared = self.trunk(x)
        shared.register_hook(self.report)  # runs when all other layers have their gradients
        branches = [self.right, self.left] if self.swapped else [self.left, self.right]
        return self.head(sum(torch.tanh(branch(shared)) for branch in branches))

    def report(self, _gradient: torch.Tensor) -> None:
        print("trunk: backward begins", flush=True)


class Timing:
    """Compares, whenever a gradient is complete, the buckets that have been sent with those that may go."""

    def __init__(self, ddp: nn.Module, plan: list[list[int]]) -> None:
        self.ddp, self.plan = ddp, plan
        self.complete: set[int] = set()
        self.wrong = ""  # the first difference in this step
        for at, (name, parameter) in enumerate(ddp.module.named_parameters()):  # these hooks run after those of `ddp`
            parameter.register_post_accumulate_grad_hook(lambda _, at=at, name=name: self.compare(at, name))

    def begin(self) -> None:
        self.complete, self.wrong = set(), ""

    def compare(self, at: int, name: str) -> None:
        self.complete.add(at)
        waiting = [number for number, bucket in enumerate(self.plan) if not self.complete.issuperset(bucket)]
        may_go, sent = min(waiting, default=len(self.plan)), len(self.ddp.sent)
        if sent != may_go and not self.wrong:
            buckets = f"{sent} of the {len(self.plan)} buckets had been sent"
            self.wrong = f"{buckets} after the hook of {name}, whose gradient was complete; expected {may_go} buckets"


def places(buckets: list[list[nn.Parameter]], parameters: list[nn.Parameter]) -> list[list[int]]:
    """Return the buckets with each parameter as its place in the model."""
    return [[next(at for at, each in enumerate(parameters) if each is one) for one in bucket] for bucket in buckets]


def planned(sizes: list[int], capacity: int) -> list[list[int]]:
    """Return the plan for parameters of these sizes, as places."""
    plan: list[list[int]] = []
    for at in range(len(sizes) - 1, -1, -1):
        if not plan or sum(sizes[each] for each in plan[-1]) + sizes[at] > capacity:
            plan.append([])
        plan[-1].append(at)
    return plan


for _ in check.seeds():
    drawn = [check.random.randrange(1, 14) for _ in range(10)]
    # Exact fits, parameters that are too large, one of these at the end, a float64 one at place 1, and random sizes.
    cases = ([10, 4, 6, 2, 8], 40), ([3, 30, 2, 2, 30, 30, 1], 80), ([2, 3, 30], 80), ([3, 3, 2], 32), (drawn, 60)
    for case, (numbers, capacity) in enumerate(cases):
        dtypes = [torch.float64 if (case, at) == (3, 1) else torch.float32 for at in range(len(numbers))]
        parameters = [nn.Parameter(torch.zeros(each, dtype=dtype)) for each, dtype in zip(numbers, dtypes, strict=True)]
        plan = planned([parameter.nbytes for parameter in parameters], capacity)
        buckets = check.learner.plan_buckets(parameters, capacity)
        found = places(buckets, parameters)
        if found != plan:
            sizes = [parameter.nbytes for parameter in parameters]
            differs(f"capacity {capacity} and parameters of {sizes} bytes give the buckets {found}, expected {plan}")
        assert found == plan, "a bucket takes parameters in reverse order while they fit"

    width = check.random.randrange(4, 8)
    model = Branches(width, swapped=rank % 2 == 1)
    reference = copy.deepcopy(model)
    reference.report = lambda _gradient: None
    branch = 4 * width * (width + 1)  # bytes of a branch, and of the head: each fills a bucket
    ddp = check.learner.BucketedDDP(model, capacity=branch)
    plan = planned([parameter.nbytes for parameter in model.parameters()], branch)
    timing = Timing(ddp, plan)
    for _step in range(2):
        inputs = torch.randn(n, 5, 4)
        reference.zero_grad()
        (sum(reference(inputs[each]).square().mean() for each in range(n)) / n).backward()
        model.zero_grad()
        loss = ddp(inputs[rank]).square().mean()
        check.delay(0.003)
        timing.begin()
        with check.phase("backward", planned=len(plan)):
            loss.backward()
            print("whole: backward done", flush=True)
            ddp.finish()
        for (name, ours), theirs in zip(model.named_parameters(), reference.parameters(), strict=True):
            assert same(ours.grad, theirs.grad, tolerance=1e-4, what=f"`{name}.grad`"), (
                "after finish, each gradient is the mean over ranks"
            )
        if timing.wrong:
            differs(timing.wrong)
        assert not timing.wrong, (
            "a bucket goes as soon as its gradients and those of all buckets before it are complete"
        )

check.end()
