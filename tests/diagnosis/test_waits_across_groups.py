"""The verdict on ranks that wait for each other in different groups: who left the order, or that both orders exist."""

import passed
import pytest
from state_of_calls import call, state_of

from ddpquiz.diagnosis.diagnosis import ONE_ORDER
from ddpquiz.diagnosis.event_diagnosis import diagnose
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

pytestmark = passed.ENGINE

PAIR, ALL = (0, 1), (0, 1, 2)
NOBODY = "Nothing shows which of these orders is the right one."
FUNCTIONS = """\
rank = dist.get_rank()
def evaluate():
    dist.all_reduce(x, group=b)
def train():
    dist.all_reduce(x, group=a)
"""
# Of each script: what ranks called, as line, members and group
JOBS = {
    "a condition around the caller of the function": (
        f"{FUNCTIONS}if rank == 0:\n    evaluate()\ntrain()\n",
        ([(3, PAIR, "2")], [(5, PAIR, "1")]),
        (0,), (),
    ),
    "the same, where all ranks also come there": (
        (f"{FUNCTIONS}for step in range(9):\n    dist.barrier()\n    if rank == 0 and step == 3:\n        evaluate()\n"
        "    train()\n    evaluate()\n"),
        ([(7, PAIR, "0"), (3, PAIR, "2")], [(7, PAIR, "0"), (5, PAIR, "1")]),
        (0,), (),
    ),
    "a condition that leaves one rank out": (
        ("if rank != 1:\n    dist.all_reduce(x, group=a)\ndist.all_reduce(x, group=b)\n"
        "if rank == 1:\n    dist.all_reduce(x, group=a)\n"),
        ([(2, PAIR, "1")], [(3, PAIR, "2")]),
        (1,), (),
    ),
    "two functions in different orders": (
        f"{FUNCTIONS}if rank == 0:\n    evaluate()\n    train()\nelse:\n    train()\n    evaluate()\n",
        ([(3, PAIR, "2")], [(5, PAIR, "1")]),
        (0, 1), (NOBODY,),
    ),
    "two branches in different orders": (
        ("if rank == 0:\n    dist.all_reduce(x, group=a)\n    dist.all_reduce(x, group=b)\n"
        "else:\n    dist.all_reduce(x, group=b)\n    dist.all_reduce(x, group=a)\n"),
        ([(2, PAIR, "1")], [(5, PAIR, "2")]),
        (0, 1), (NOBODY,),
    ),
    "an order that depends on data": (
        "for name in names:\n    dist.all_reduce(x, group=a) if name else None\n    dist.all_reduce(x, group=b)\n",
        ([(2, PAIR, "1")], [(3, PAIR, "2")]),
        (0, 1), (NOBODY,),
    ),
    "a third rank that is in one of the groups only": (
        "dist.all_reduce(x)\ndist.all_reduce(x, group=b)\n",
        ([(1, ALL, "0")], [(2, PAIR, "1")], [(1, ALL, "0")]),
        (0, 1), (NOBODY,),
    ),
    "two of three ranks that are in both groups": (
        "dist.all_reduce(x)\ndist.all_reduce(x, group=b)\n",
        ([(1, (0, 1, 2, 3), "0")], [(2, ALL, "1")], [(1, (0, 1, 2, 3), "0")], [(1, (0, 1, 2, 3), "0")]),
        (1,), (),
    ),
    "one of three ranks that are in both groups, beside a rank that is in one": (
        "dist.all_reduce(x)\ndist.all_reduce(x, group=b)\n",
        ([(1, (0, 1, 2, 3), "0")], [(2, ALL, "1")], [(2, ALL, "1")], [(1, (0, 1, 2, 3), "0")]),
        (0,), (),
    ),
    "three groups of two": (
        "dist.all_reduce(x, group=a)\ndist.all_reduce(x, group=b)\ndist.all_reduce(x, group=c)\n",
        ([(1, (0, 1), "1")], [(2, (1, 2), "2")], [(3, (0, 2), "3")]),
        (0, 1, 2), (NOBODY,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", JOBS)
def test_of_ranks_that_wait_for_each_other_only_those_are_blamed_whose_order_is_known_to_be_wrong(name, tmp_path):
    text, calls, culprits, limits = JOBS[name]
    path = tmp_path / "job.py"
    path.write_text(text)
    made = [
        [call(line, members=members, file=str(path))._replace(group=group) for line, members, group in of_rank]
        for of_rank in calls
    ]
    found = diagnose(state_of(*made, ranks=len(calls)))
    assert (found.fault, found.culprits, found.limits, found.advice) == ("order", culprits, limits, ONE_ORDER)


def test_a_circle_of_real_ranks_is_told_with_both_orders_or_with_the_condition_that_made_it(tmp_path):
    path = tmp_path / "job.py"
    head = (
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "rank, x = dist.get_rank(), torch.ones(4)\n"
        "a, b = dist.new_group([0, 1]), dist.new_group([0, 1])\n"
        "def first(): dist.all_reduce(x, group=a)\n"
        "def second(): dist.all_reduce(x, group=b)\n"
    )

    def verdict(body):
        path.write_text(head + body)
        run = Run(Request(path, ranks=2, device="cpu", timeout=1.5))
        list(run.events())
        return diagnose(run.seen)

    found = verdict("for each in (first, second)[:: 1 if rank else -1]: each()\n")
    assert (found.culprits, found.sentence) == (
        (0, 1),
        (
            "Ranks wait for each other in different groups: rank 0 for rank 1 in all_reduce at job.py:6 (group 2 of ranks 0 "
            "and 1); rank 1 for rank 0 in all_reduce at job.py:5 (group 1 of ranks 0 and 1)."
        ),
    )
    found = verdict("dist.barrier()\nif rank == 1:\n    second()\nfirst()\nsecond()\n")
    assert (found.culprits, found.sentence) == (
        (1,),
        (
            "Rank 1 called all_reduce at job.py:6 where rank 0 called all_reduce at job.py:5. A condition on the rank leads "
            "rank 1 there."
        ),
    )
