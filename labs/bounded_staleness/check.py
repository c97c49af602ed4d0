"""Checks a parameter server: the updates, and which of them each worker has seen when it begins a step.

torchrun --nproc-per-node 4 labs/bounded_staleness/check.py bounded_staleness.py --seed 7
"""

import sys
import threading
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.append(str(Path(__file__).parents[1]))
from lab_tools import Check, differs, explain_hang, same

STEPS, RATE = 4, 0.5
check = Check("serve", "work")
n, rank = check.world_size, check.rank
store = dist.distributed_c10d._get_default_store()  # a thread may ask it while the ranks hang
jobs = 0


class Job:
    """What one worker computes, and when: one worker is so slow that all others get as far ahead as they may.

    A gradient has an entry for each rank and some more. The one for its own rank says that this worker has taken one
    more step, so the weights show whose gradients they contain.
    """

    def __init__(self, gradients: torch.Tensor, slow: int, bound: int) -> None:
        self.gradients, self.slow, self.bound = gradients, slow, bound
        self.seen: list[torch.Tensor] = []  # the weights with which each step began

    def gradient_of(self, weights: torch.Tensor, step: int) -> torch.Tensor:
        self.seen.append(weights.clone())
        store.add(f"begun {jobs} {rank}", 1)
        if rank != self.slow and step >= self.bound:
            dist.send(torch.tensor(step), self.slow)
        elif rank == self.slow and step + self.bound < STEPS:
            for other in (each for each in range(1, n) if each != rank):
                dist.recv(torch.tensor(0), other)  # it has begun the last step that it may begin now
            check.delay(0.004)  # for its gradient, and for an answer that it must not get yet
        return self.gradients[step]


def position() -> tuple[str, int | None, int]:
    """Return where the server stands: in send or recv, the rank that it names there, and the line of its file."""
    frame = sys._current_frames()[threading.main_thread().ident]
    call, peer = "", None
    while frame and Path(frame.f_code.co_filename) != check.args.file.absolute():
        if frame.f_code.co_name in ("send", "recv"):
            call = frame.f_code.co_name
            peer = frame.f_locals.get("dst" if call == "send" else "src")
        frame = frame.f_back
    return call, peer, frame.f_lineno if frame else 0


def why_stuck(weights: torch.Tensor, slow: int, bound: int) -> str:
    """Return what the server fails to do while nothing moves."""
    finished = {each: int(weights[each]) for each in range(1, n)}
    begun = {each: store.add(f"begun {jobs} {each}", 0) for each in finished}
    call, peer, line = position()
    if call == "send" and finished.get(peer) == STEPS:
        return f"Line {line} sends weights to rank {peer}, which has finished all its {STEPS} steps."
    if call == "recv" and peer == slow and begun[slow] > finished[slow]:
        return f"Rank {slow} is slow here on purpose; line {line} waits for it alone. Receive from whoever comes first."
    unheard = [each for each in finished if each != slow and begun[each] > finished[each]]
    if unheard and (call != "recv" or peer is not None):
        return (
            f"Rank {unheard[0]} has sent a gradient, but line {line} waits for another rank. "
            "Receive from whoever comes first."
        )
    least = min(finished.values())
    for each, steps in finished.items():
        if steps == begun[each] < STEPS and steps - least <= bound:
            return (
                f"Rank {each} has finished {steps} of {STEPS} steps, the slowest {least}, and the bound is {bound}: "
                f"it may begin its next step, but got no weights. The server waits in line {line}."
            )
    return ""


for _ in check.seeds():
    slow = check.random.randrange(1, n)
    for bound in (1, check.random.choice((0, 2))):
        # Rate x gradient takes 1 off the entry of the worker's rank, and whole numbers off the others.
        gradients = torch.randint(-50, 50, (n, STEPS, n + 3)) / RATE
        gradients[:, :, :n] = torch.eye(n).unsqueeze(1) / -RATE
        jobs += 1
        dist.barrier()  # no worker begins before the server has finished with the previous job
        weights, job = torch.zeros(n + 3), Job(gradients[rank], slow, bound)
        if rank == 0:
            check.delay(0.003)
            with (
                check.phase("serve", messages=(n - 1) * STEPS),
                explain_hang(partial(why_stuck, weights, slow, bound)),
            ):
                check.learner.serve(weights, STEPS, bound, RATE)
            assert same(weights, -RATE * gradients[1:].sum(dim=(0, 1)), what="`weights`"), (
                "the server applies each gradient once"
            )
            dist.barrier()
        else:
            check.learner.work(job.gradient_of, weights, STEPS)
            dist.barrier()  # report a wrong server rather than the weights that it sent
            for step, found in enumerate(job.seen):
                assert found[rank] == step or differs(
                    f"the weights for step {step} contain {found[rank]:g} gradients of this rank, expected {step}"
                ), "the weights that a worker gets contain all gradients that it has sent"
                least, other = min((int(found[each]), each) for each in range(1, n))
                assert least >= step - bound or differs(
                    f"step {step} began when rank {other} had finished {least} steps, and the bound is {bound}"
                ), "a worker begins a step only if it is at most `bound` steps ahead of the slowest"

check.end()
