"""The page of an item: a card, a question or a prompt, with its answer."""

import json
from dataclasses import asdict

import pytest
from sample_catalog import BUG, EXPLAIN, HELD, ORDER, RING, SENT, drawn

from ddpquiz.curriculum.catalog import Source
from ddpquiz.terminal.pages.item import item_page


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        (
            HELD,
            "ring/held  card · easy\n\nWhat does each rank hold after `all_reduce`?\n\nThe sum of all tensors.\n",
        ),
        (
            SENT,
            """\
ring/sent  question · number · medium

4 ranks all-reduce 1,200 bytes. How many does each send?

right  1,800 bytes
       2 * (n - 1) / n * s with n = 4, s = 1,200
wrong  2,400
         That is the limit for very many ranks.

Steps
  1. A chunk has 1,200 / 4 = 300 bytes.
  2. There are 2(N-1) steps.

Cross-check
  Between S and 2 S.

Proof
  what the demo allreduce --size 300 prints as `bytes sent by the ring` on 4
  ranks
  ddpquiz prove ring/sent
""",
        ),
        (
            BUG,
            """\
ring/bug  question · choice · hard

Which line mends it?

│ if rank == 0:
│     dist.all_reduce(x)

right  dist.all_reduce(x)
wrong  dist.barrier()
         A barrier moves no data.

Proof
  this code on 2 ranks
  │ print(1)
  │ <option>
  ddpquiz prove ring/bug

Source
  A page · 2026
""",
        ),
        (ORDER, "ring/order  question · order · easy\n\nIn order?\n\n1. reduce-scatter\n2. all-gather\n"),
        (
            EXPLAIN,
            "ring/why  explain\n\nExplain the ring.\n\nA model answer\n  Every link is busy.\n\nA good answer makes these points\n  • all links work\n",
        ),
    ],
)
def test_an_item_is_shown_with_its_answer(item, shown):
    source = Source("dist", "A page", year="2026") if item is BUG else None
    assert drawn(item_page(item, source)) == shown


def test_every_item_can_be_written_as_json():
    for item in RING.items():
        assert json.loads(json.dumps(asdict(item)))["id"] == item.id
