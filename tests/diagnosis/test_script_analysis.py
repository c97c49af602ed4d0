"""Which ranks a script singles out where it prepares a call."""

import passed
import pytest

from ddpquiz.diagnosis import ranks_at_fault
from ddpquiz.diagnosis.script_analysis import ranks_kept_apart, ranks_that_reach, special_ranks
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_state import RunState

pytestmark = passed.ENGINE

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
    "by a name for a test": (2, "is_odd_one = dist.get_rank() == 3\ndist.all_reduce(x[:2] if is_odd_one else x)", {3}),
    "by another variable": (
        2,
        "me, n = int(os.environ['RANK']), 4\ndist.all_reduce(torch.ones(n - (me in (1,))))",
        {1},
    ),
    "together with the step": (1, "dist.reduce(x, dst=1 if (rank, step) == (2, 3) else 0)", {2}),
    "in a list of ranks and steps": (2, "bad = [(1, 5), (1, 2)]\nif ok: dist.reduce(x[(rank, step) in bad:])", {1}),
    "by a table": (2, "sizes = [4, 4, 5, 4]\ndist.all_reduce(torch.ones(sizes[rank]))", {2}),
    "as all but one": (1, "dist.all_reduce(x if rank > 0 else y)", {0}),
    "as the last one": (1, "dist.all_reduce(x if rank == world_size - 1 else y)", {3}),
    "half of them": (1, "dist.all_reduce(x if rank % 2 == 1 else y)", set()),
    "each in its own way": (1, "dist.broadcast(x, src=rank)", set()),
    "no Python": (1, "dist.all_reduce(", set()),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_rank_is_special_where_the_script_treats_it_unlike_most(name, tmp_path):
    line, text, ranks = SCRIPTS[name]
    path = tmp_path / "train.py"
    path.write_text(text)
    assert special_ranks(str(path), (line,), (0, 1, 2, 3)) == ranks


def test_of_two_ranks_with_different_shapes_the_one_that_the_script_singles_out_is_wrong(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("x = torch.ones(4)\nif rank == 0:\n    x = torch.ones(5)\ndist.all_reduce(x)\n")
    calls = {
        rank: Operation("all_reduce", (0, 1), None, ((5 - rank,),), "float32", 20 - 4 * rank, str(path), 4, "0")
        for rank in range(2)
    }
    found = ranks_at_fault.find_deviation({rank: (calls[rank], None) for rank in calls}, RunState().timeline.order)
    assert (found.fault, found.ranks, found.tied, found.guessed) == ("signature", (0,), True, False)


@pytest.mark.parametrize(
    ("test", "ranks"), [("rank == 1", {1}), ("rank != 1", {1}), ("not rank", {0}), ("not (rank == 1 and step == 3)", {1}),
                        ("rank > 0", set()), ("(rank, step) != (0, 2)", {0}), ("rank in (1,)", {1})]
)  # fmt: skip
def test_of_two_ranks_one_is_special_only_if_the_test_names_it(test, ranks, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(f"dist.all_reduce(x if {test} else y)")
    assert special_ranks(str(path), (1,), (0, 1)) == ranks


def test_a_test_around_one_of_two_lines_counts_and_one_around_both_does_not(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("if rank < 3:\n  if rank != 1:\n    first()\n  second()\n")
    assert special_ranks(str(path), (3, 4), (0, 1, 2, 3)) == {1}


def test_a_file_with_endless_expressions_ends_soon(tmp_path):
    path = tmp_path / "train.py"
    names = "".join(f"a{n} = (a{n + 1},) * 9, {', '.join([f'a{n + 1}'] * 30)}\n" for n in range(40))
    path.write_text(names + "dist.all_reduce(a0[rank == 1])")
    assert special_ranks(str(path), (41,), tuple(range(1024))) == set()


APART = {
    "a condition around the only call": ("if rank == 0: f()", {0}, set()),
    "one that leaves out a rank": ("if rank != 1: f()", set(), {1}),
    "each of two calls": ("if rank == 0: f()\nif step and rank == 0: f()", {0}, set()),
    "one of two calls": ("f()\nif rank == 0: f()", set(), set()),
    "a call in another function": ("def g(): f()\nif rank == 0: g()", {0}, set()),
    "an end of the block before it": ("def g():\n  if rank != 2: return\n  f()\ng()", {2}, set()),
    "the opposite of the other call": ("if rank == 0: f()\nelse: h()", set(), set()),
    "nothing": ("f()", set(), set()),
}


@pytest.mark.parametrize("name", APART)
def test_conditions_on_the_way_to_a_call_make_ranks_exceptions(name, tmp_path):
    text, coming, kept_away = APART[name]
    path = tmp_path / "train.py"
    path.write_text(f"def f():\n  one()\ndef h():\n  other()\n{text}\n")
    one, other = (Operation("barrier", (0, 1, 2), None, (), "", 0, str(path), line) for line in (2, 4))
    assert ranks_kept_apart(one, other) == (coming, kept_away)


def test_only_the_way_on_from_the_call_before_counts(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("def f():\n  if rank == 2: return\n  one()\nf()\nbefore()\nif rank == 0: f()\nother()\n")
    one, before, other = (Operation("barrier", (0, 1, 2), None, (), "", 0, str(path), line) for line in (3, 5, 7))
    assert ranks_kept_apart(one, other) == (set(), {2})
    assert ranks_kept_apart(one, other, before) == ({0}, {2})


def test_a_rank_reaches_a_line_if_one_of_the_ways_there_lets_it(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("def f():\n  if rank > 2: return\n  key()\nif rank == 0: f()\nif rank in (1, 3): f()\n")
    assert ranks_that_reach(str(path), 3, (0, 1, 2, 3)) == (0, 1)
