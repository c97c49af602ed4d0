"""The verdict on messages that do not arrive: a send or receive that is left out, and tags that differ; on real ranks."""

import passed
import pytest

from ddpquiz.diagnosis.diagnosis import COUNTED
from ddpquiz.diagnosis.event_diagnosis import diagnose
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

pytestmark = passed.ENGINE

HEAD = """\
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
for step in range(4):
    x = torch.ones(5)
"""
JOBS = {
    "a stage that keeps its last micro-batch": (
        ("    if rank > 0: dist.recv(x, rank - 1)\n"
        "    if rank < 2 and not (rank == 1 and step == 3): dist.send(x, rank + 1)\n"
        "dist.barrier()\n"),
        "missing", (1,),
        ("Rank 2 waits in recv at job.py:6 for a message that rank 1 did not send: rank 1 went on to barrier at "
        "job.py:8."),
    ),
    "a receive that one rank leaves out": (
        "    if rank == 0: dist.send(x, 1)\n    if rank == 1 and step < 3: dist.recv(x, 0)\ndist.barrier()\n",
        "missing", (1,),
        "Rank 0 waits in send at job.py:6 for a receive that rank 1 did not call: rank 1 went on to barrier at job.py:8.",
    ),
    "a send too much, beside messages that arrived and for which nobody has waited yet": (
        ("    if rank == 1: sent = dist.isend(x, 0)\n    dist.barrier()\n"
        "    works = [dist.isend(x, 2), dist.irecv(x + 0, 1)] if rank == 0 else []\n"
        "    for work in works: work.wait()\n    dist.all_reduce(x)\n"),
        "missing", (0,),
        "Only rank 0 called send at job.py:8; rank 2, which it waits for, is in all_reduce at job.py:10.",
    ),
    "a receive too much": (
        "    dist.all_reduce(x)\n    if rank == 2 and step == 3: dist.recv(x, 1)\n    dist.barrier()\n",
        "missing", (2,),
        "Only rank 2 called recv at job.py:7; rank 1, which it waits for, is in barrier at job.py:8.",
    ),
    "tags that differ": (
        ("    if rank == 0: dist.send(x, 1, tag=step)\n"
        "    if rank == 1: dist.recv(x, 0, tag=step + (step == 3))\n"
        "dist.barrier()\n"),
        "signature", (0, 1),
        "Rank 0 sends with tag 3 at job.py:6, but rank 1 receives with tag 4 at job.py:7.",
    ),
    "a ring in which one rank receives from the wrong side": (
        ("    work = dist.isend(x, (rank + 1) % world)\n"
        "    dist.recv(x + 0, (rank - 1) % world if rank != 2 else 0)\n"
        "    work.wait()\n"),
        "signature", (2,),
        ("Rank 2 waits in recv at job.py:7 for rank 0: the wrong source. By the pattern that the other ranks follow in that "
        "line, it would receive from rank 1."),
    ),
    "a chain whose last rank sends on": (
        "    if rank: dist.recv(x, rank - 1)\n    dist.send(x, rank + 1)\n",
        "signature", (2,),
        "Rank 2 called send at job.py:7 for rank 3. No such rank exists: the group has ranks 0-2.",
    ),
    "neighbors that the ends do not have": (
        ("    sends, receives = dist.P2POp(dist.isend, x, rank + 1), dist.P2POp(dist.irecv, x + 0, rank - 1)\n"
        "    for work in dist.batch_isend_irecv([sends, receives]): work.wait()\n"),
        "signature", (0, 2),
        ("Rank 0 called recv at job.py:7 for rank -1; rank 2 called send at job.py:7 for rank 3. No such rank exists: the "
        "group has ranks 0-2."),
    ),
    "all receive from any rank": (
        "    dist.recv(x)\n",
        "missing", (0, 1, 2),
        "Ranks 0-2 wait in recv at job.py:6 for a message from any rank, but no rank sends one.",
    ),
    "one receives from any rank after the others have finished": (
        "    if rank == 1: dist.recv(x)\n",
        "missing", (1,),
        ("Rank 1 waits in recv at job.py:6 for a message from any rank, and ranks 0 and 2 finished without sending one."),
    ),
    "one receives from any rank, and the sender sleeps": (
        "    if rank == 1: dist.recv(x)\n    else: __import__('time').sleep(60)\n",
        "late", (0, 2),
        ("Rank 1 waits in recv at job.py:6 for a message from any rank, but ranks 0 and 2 sent none: they have not reached "
        "this call and were last seen at job.py:7."),
    ),
}  # fmt: skip


def run(body, tmp_path):
    path = tmp_path / "job.py"
    path.write_text(HEAD + body)
    run = Run(Request(path, ranks=3, device="cpu", timeout=1.5))
    list(run.events())
    return run.seen


@pytest.mark.parametrize("name", JOBS)
def test_a_message_that_does_not_arrive_is_named(name, tmp_path):
    body, fault, culprits, sentence = JOBS[name]
    found = diagnose(run(body, tmp_path))
    assert (found.fault, found.culprits, found.sentence) == (fault, culprits, sentence)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            "    dist.isend(x, (rank + 1) % world)\ndist.barrier()\n",
            (
                "Rank 0 called send of 5 float32 to rank 1 at job.py:6, and rank 1 finished without receiving it. In all, 12 "
                "calls lack a counterpart."
            ),
        ),
        (
            "dist.barrier()\nif rank == 2: dist.all_reduce(x, async_op=True)\n",
            "Only rank 2 called all_reduce at job.py:7; ranks 0 and 1 finished without it.",
        ),
    ],
)
def test_a_call_that_lacks_its_counterpart_is_named_though_the_run_ended(body, sentence, tmp_path):
    seen = run(body, tmp_path)
    assert seen.end.ok
    assert diagnose(seen).sentence == sentence


@pytest.mark.parametrize(("steps", "advice"), [(1, COUNTED), (0, "let one side send first")])
def test_in_a_circle_of_receives_that_worked_before_a_message_is_missing(steps, advice, tmp_path):
    body = (
        f"    first = rank == 0 and step < {steps}\n"
        "    if first: dist.send(x, 1)\n"
        "    if rank < 2: dist.recv(x, 1 - rank)\n"
        "    if rank < 2 and not first: dist.send(x, 1 - rank)\n"
    )
    found = diagnose(run(body, tmp_path))
    assert found.sentence.startswith(
        "Ranks wait for each other: rank 0 in recv at job.py:8; rank 1 in recv at job.py:8."
    )
    assert advice in found.advice


def test_messages_that_overtake_each_other_are_matched_by_their_tags(tmp_path):
    body = (
        "    if rank == 0:\n"
        "        works = [dist.isend(torch.ones(2 + tag), 1, tag=tag) for tag in (1, 2)]\n"
        "        for work in works: work.wait()\n"
        "    if rank == 1:\n"
        "        for tag in (2, 1): dist.recv(torch.ones(2 + tag), 0, tag=tag)\n"
    )
    seen = run(body, tmp_path)
    pairs = [each for each in seen.timeline.collectives if each.op == "send"]
    assert len(pairs) == 8
    assert all(len({call.operation.tag for call in each.calls.values()}) == 1 and each.complete for each in pairs)
    assert diagnose(seen).fault == "none"
