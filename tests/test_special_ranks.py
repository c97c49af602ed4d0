"""Which ranks a script singles out where it prepares a call."""

import pytest

from ddpquiz.analysis import ranks_at_fault
from ddpquiz.analysis.operation import Operation
from ddpquiz.analysis.run_state import RunState
from ddpquiz.analysis.special_ranks import special_ranks

SCRIPTS = {
    "in the call": (1, "dist.broadcast(torch.ones(4 + 3 * (rank == 1 and step == 0)), src=0)", {1}),
    "in a conditional value": (1, "dist.reduce(x, dst=0 if self.rank != 2 else 1)", {2}),
    "where a variable is assigned": (
        5,
        "def f():\n  x = torch.ones(3)\n  if dist.get_rank() == 2:\n    x = x[:2]\n  dist.all_reduce(x)\n",
        {2},
    ),
    "of a variable that the call does not use": (3, "y = 1\nif rank == 0:\n  y = 2\ndist.all_reduce(x)", set()),
    "around the call": (3, "if rank == 0:\n  x = 1\n  dist.send(x, 1)", set()),
    "in another function": (4, "def f():\n  x = 1 if rank == 3 else 2\ndef g(x):\n  dist.all_reduce(x)", set()),
    "of something else": (1, "dist.all_reduce(torch.ones(4 + (step == 1)))", set()),
    "no Python": (1, "dist.all_reduce(", set()),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_rank_is_special_where_the_script_compares_it_by_number(name, tmp_path):
    line, text, ranks = SCRIPTS[name]
    path = tmp_path / "train.py"
    path.write_text(text)
    assert special_ranks(str(path), line) == ranks


def test_of_two_ranks_with_different_shapes_the_one_that_the_script_singles_out_is_wrong(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("x = torch.ones(4)\nif rank == 0:\n    x = torch.ones(5)\ndist.all_reduce(x)\n")
    calls = {
        rank: Operation("all_reduce", (0, 1), None, ((5 - rank,),), "float32", 20 - 4 * rank, str(path), 4, "0")
        for rank in range(2)
    }
    found = ranks_at_fault.find_deviation({rank: (calls[rank], None) for rank in calls}, RunState().timeline.order)
    assert (found.fault, found.ranks, found.tied, found.guessed) == ("signature", (0,), True, False)
