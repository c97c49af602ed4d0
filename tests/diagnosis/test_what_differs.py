"""A verdict names the difference that matters: two calls of one line by their tensors, an error by what each rank says.

Beside each fault stands a job that looks like it and where nothing differs.
"""

import textwrap

import passed
import pytest
from inline_snapshot import snapshot
from real_run import HEAD, end, run

from ddpquiz.diagnosis.diagnosis import OTHER_TENSORS

pytestmark = passed.ENGINE

LOOP = """\
tensors = {"w": torch.ones(4), "b": torch.ones(10), "g": torch.ones(3)}
for step in range(4):
    for name, tensor in tensors.items():
        if not (%s and name == "b" and step == 2):
            dist.all_reduce(tensor)
dist.destroy_process_group()
"""


@pytest.fixture
def verdict(tmp_path):
    def verdict(body, ranks=4):
        path = tmp_path / "train.py"
        path.write_text(HEAD + textwrap.dedent(body))
        return end(run(path, ranks, diagnose=True))

    return verdict


def test_two_calls_of_one_line_are_told_apart_by_their_tensors(verdict):
    found = verdict(LOOP % "rank == 3")
    assert found.why == snapshot(
        "Rank 3 did not call all_reduce of 10 float32 (sum) at train.py:9, in which ranks 0-2 wait, but went on to "
        "all_reduce of 3 float32 (sum) at train.py:9."
    )
    assert (found.rank, found.advice) == (3, OTHER_TENSORS)
    assert verdict(LOOP % "world").ok  # all ranks leave it out


def test_where_every_rank_has_another_length_none_of_them_is_named_as_the_other_side(verdict):
    found = verdict("dist.all_reduce(torch.ones([3, 5, 7, 9][rank]))")
    assert found.why == snapshot(
        "Ranks ask for different things in one call: rank 0: all_reduce of 3 float32 (sum) at train.py:5; rank 1: "
        "all_reduce of 5 float32 (sum) at train.py:5; rank 2: all_reduce of 7 float32 (sum) at train.py:5; rank 3: "
        "all_reduce of 9 float32 (sum) at train.py:5. As many ranks made each of these calls, so nothing tells which of "
        "them is right."
    )
    assert verdict("dist.all_reduce(torch.ones([5, 5, 5, 5][rank]))\ndist.destroy_process_group()").ok


def test_one_message_of_all_ranks_that_names_a_rank_is_one_message(verdict):
    said = verdict("raise NotImplementedError('copy the parameters of rank 0 to all ranks')").why
    assert said.startswith("Ranks 0-3 raised NotImplementedError at train.py:5: copy the parameters of rank 0")


def test_each_message_is_quoted_where_ranks_raise_one_error_for_different_reasons(verdict):
    body = "dist.barrier()\nraise ValueError('shard %d has %d rows' % {})"
    assert verdict(body.format("(rank, 10 + rank)")).why == snapshot(
        "Ranks 0-3 raised ValueError at train.py:6 with different messages. rank 0: shard 0 has 10 rows; rank 1: shard 1 "
        "has 11 rows; rank 2: shard 2 has 12 rows; rank 3: shard 3 has 13 rows"
    )
    assert verdict(body.format("(7, 10)")).why == "Ranks 0-3 raised ValueError at train.py:6: shard 7 has 10 rows"


TWO_TOWERS = """\
from torch import nn
class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.text, self.image, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1)
    def forward(self, x, kind):
        return self.head(getattr(self, kind)(x))
model = nn.parallel.DistributedDataParallel(Towers())
for step in range(2):
    model(torch.ones(4, 8), %s).sum().backward()
"""


def test_the_parameters_are_named_by_rank_where_ranks_leave_out_different_ones(verdict):
    found = verdict(TWO_TOWERS % "'text' if rank % 2 else 'image'")
    assert found.why == snapshot(
        "In the step before, the ranks left out different parameters, so DDP raised at train.py:14. Without a gradient "
        "were, on ranks 0 and 2: text.weight, text.bias; on ranks 1 and 3: image.weight, image.bias."
    )
    assert found.advice.startswith("Let all ranks leave out the same parameters")
    same = verdict(TWO_TOWERS % "'text'")
    assert same.why == snapshot(
        "No gradient in the step before for image.weight, image.bias, so DDP raised at train.py:14 on rank 0. Ranks 1-3 "
        "raised the same error."
    )
    assert same.advice.startswith("Use all parameters in the loss, or pass find_unused_parameters=True.")
