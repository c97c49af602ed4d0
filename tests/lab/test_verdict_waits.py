"""Asynchronous operations that a learner's file starts: a forgotten wait is found, every other way to wait is right."""

from dataclasses import replace

import passed
import pytest

from ddpquiz.curriculum.lab import LabRun
from ddpquiz.curriculum.labs import load_lab
from ddpquiz.events.event import Began, Issued, Output, Started, Waited
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_state import RunState
from ddpquiz.lab.checker import check_solution
from ddpquiz.lab.verdict import MOST_OPEN, FinishedRun, find_forgotten

pytestmark = passed.ENGINE

FREE = replace(load_lab("ring-all-reduce"), runs=(LabRun(2, (1,)),), budgets=(), stars=())
HEAD = """\
import threading, torch, torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
WORKS = []
def all_reduce(x):
    rank = dist.get_rank()
    other, room = 1 - rank, x.clone()
"""
LINE = HEAD.count("\n") + 1


def checked(folder, body):
    file = folder / "ring_all_reduce.py"
    lines = [*body.splitlines(), "dist.all_reduce(x)"]
    file.write_text(HEAD + "".join(f"    {line}\n" for line in lines))
    return check_solution(FREE, file, fresh=9)


RIGHT = {
    "each": "send, recv = dist.isend(x, other), dist.irecv(room, other)\nsend.wait(), recv.wait()",
    "list": "for work in [dist.isend(x, other), dist.irecv(room, other)]: work.wait()",
    "batch": (
        "ops = [dist.P2POp(dist.isend, x, other), dist.P2POp(dist.irecv, room, other)]\n"
        "for work in dist.batch_isend_irecv(ops): work.wait()"
    ),
    "collective": "dist.all_reduce(room, async_op=True).wait()",
    "future": "dist.all_reduce(room, async_op=True).get_future().wait()",
    "then": "dist.all_reduce(room, async_op=True).get_future().then(lambda done: done.value()).wait()",
    "asks": "work = dist.all_reduce(room, async_op=True)\nwhile not work.is_completed(): pass",
    "functional": (
        "import torch.distributed._functional_collectives as functional\n"
        "functional.all_reduce(x, 'sum', dist.group.WORLD).sum()"
    ),
    "thread": (
        "work = dist.all_reduce(room, async_op=True)\n"
        "thread = threading.Thread(target=work.wait)\nthread.start()\nthread.join()"
    ),
    "a list of the module": (
        "WORKS.extend([dist.isend(x.clone(), other), dist.irecv(room, other)])\nwhile WORKS: WORKS.pop().wait()"
    ),
    "hook of DDP": (
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))\n"
        "model.register_comm_hook(None, allreduce_hook)\nmodel(torch.ones(1, 2)).sum().backward()"
    ),
    "manager": "with dist._coalescing_manager(async_ops=True) as all_of_them:\n    dist.all_reduce(room)\nall_of_them.wait()",
    "subgroup": "dist.all_gather([room, room.clone()], x, group=dist.new_group([0, 1]), async_op=True).wait()",
}


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_every_way_to_wait_is_right(tmp_path, body):
    verdict = checked(tmp_path, body)
    assert verdict.passed, verdict.sentence


WRONG = {
    "dist.isend(x.clone(), other)\ndist.recv(room, other)": (
        0, "isend", "its tensor may be changed or freed before it is sent.", "it"
    ),
    "dist.irecv(room, other)\ndist.send(x.clone(), other)": (0, "irecv", "its tensor may be read before it is received.", "it"),
    "work = dist.all_reduce(\n    room,\n    async_op=True,\n)": (
        0, "all_reduce", "its tensor may be read or changed before it is done.", "it"
    ),
    "if rank: dist.isend(x.clone(), other)\nelse: dist.recv(room, other)": (
        1, "isend", "its tensor may be changed or freed before it is sent.", "it"
    ),
    "works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x.clone(), other), dist.P2POp(dist.irecv, room, other)])\nworks[1].wait()": (
        0, "batch_isend_irecv", "its tensor may be changed or freed before it is sent.", "each of them"
    ),
}  # fmt: skip


@pytest.mark.parametrize("body", WRONG, ids=["isend", "irecv", "collective", "rank 1", "batch"])
def test_a_forgotten_wait_is_found_with_its_rank_and_line(tmp_path, body):
    rank, name, early, kept = WRONG[body]
    verdict = checked(tmp_path, body)
    assert (verdict.outcome, verdict.rank, verdict.line) == ("not awaited", rank, LINE), verdict.sentence
    assert verdict.sentence == f"Rank {rank} never waits for the {name} in line {LINE}, so {early}"
    assert verdict.advice == f"Keep what {name} returns, and call wait() on {kept}."
    assert verdict.repeat.startswith("ddpquiz lab ring-all-reduce --check")


def finished(file, *events):
    began = Began("check.py", (), 2, "cpu", "gloo", "")
    return FinishedRun(LabRun(2, (1,)), (began, Started(0.1, 0, 5), *events), RunState())


def send(file, number, line=1):
    operation = Operation("send", (0, 1), 1, ((2,),), "float32", 8, str(file), line, asynchronous=True)
    return Issued(0.2 + number * 1e-6, 0, number, operation)


def test_a_rank_that_was_killed_and_more_operations_than_the_recorder_holds_are_not_judged(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("dist.isend(x, 1)\n")
    seed = Output(0.15, 0, "stdout", "seed: 3", "seed", "3")
    assert find_forgotten(file, finished(file, seed, send(file, 1))).seed == 3
    assert find_forgotten(file, finished(file, send(file, 1), Waited(0.3, 0, 1, 0.2))) is None
    assert find_forgotten(file, finished(file, send(file, 1), Started(0.3, 0, 6, 1))) is None
    assert find_forgotten(file, finished(file, *(send(file, number) for number in range(MOST_OPEN)))) is None
    assert find_forgotten(file, finished(file, send(tmp_path / "check.py", 1))) is None
    file.write_text("dist.isend(x, 1\n")  # saved in the middle of an edit, while the check runs
    assert find_forgotten(file, finished(file, send(file, 1))) is None
