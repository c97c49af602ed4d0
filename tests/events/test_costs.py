"""What collectives cost: bytes that a rank sends, and bandwidth."""

import pytest
from rank_events import Rank, folded

from ddpquiz.events import saved_run
from ddpquiz.events.event import Output
from ddpquiz.events.operation import Operation, bus_factor
from ddpquiz.events.timeline import Timeline
from ddpquiz.paths import recordings_dir

SENT = {  # operator, bytes brought, rank of 4, root -> bytes sent
    ("all_reduce", 32, 0, None): 48,
    ("all_gather", 8, 0, None): 24,
    ("all_gather_into_tensor", 8, 3, None): 24,
    ("reduce_scatter_tensor", 32, 0, None): 24,
    ("all_to_all_single", 32, 2, None): 24,
    ("broadcast", 32, 1, 1): 32,
    ("broadcast", 32, 0, 1): 0,  # the end of the chain
    ("reduce", 32, 1, 1): 0,
    ("reduce", 32, 0, 1): 32,
    ("gather", 8, 2, 0): 8,
    ("scatter", 32, 0, 0): 24,
    ("scatter", 8, 1, 0): 0,
    ("send", 32, 0, 1): 32,
    ("recv", 32, 0, 1): 0,
    ("barrier", 0, 0, None): 0,
}


@pytest.mark.parametrize("case", SENT, ids=str)
def test_a_rank_sends_what_the_algorithm_says(case):
    op, size, rank, root = case
    operation = Operation(op, (0, 1, 2, 3), root, (), "float32", size, "train.py", 1)
    assert operation.bytes_sent_by(rank) == SENT[case]


def test_the_formula_of_a_ring_gives_what_the_demo_that_sends_round_a_ring_counts():
    timeline, printed = Timeline(limit=None), {}
    for event in saved_run.read(recordings_dir() / "allreduce.json"):
        timeline.add(event)
        if isinstance(event, Output) and event.label == "bytes sent (ring)":
            printed[event.rank] = int(event.value)
    whole = next(each for each in timeline.collectives if each.op == "all_reduce")
    assert {rank: whole.operation.bytes_sent_by(rank) for rank in whole.members} == printed
    sends = [each for each in timeline.collectives if each.op == "send"]
    line = sends[0].calls[sends[0].members[0]].operation.line  # the ring comes first
    ring = [each for each in sends if each.calls[each.members[0]].operation.line == line]
    by_rank = {rank: sum(each.operation.bytes for each in ring if each.members[0] == rank) for rank in printed}
    assert by_rank == printed


def test_bandwidth_is_counted_as_nccl_tests_count_it():
    ranks = [Rank(rank, 4).sync("all_gather", 1, 3, bytes=100) for rank in range(4)]
    (collective,) = folded(*ranks).collectives
    assert (collective.seconds, collective.algbw, collective.busbw) == (2, 200, 150)  # 400 bytes come together
    assert [bus_factor(op, 4) for op in ("all_reduce", "reduce_scatter_tensor", "broadcast", "send")] == [
        1.5,
        0.75,
        1,
        1,
    ]


@pytest.mark.parametrize("root", [0, 1])
def test_the_size_of_a_scatter_is_that_of_all_parts_for_every_root(root):
    ranks = [Rank(rank).sync("scatter", 1, 3, peer=root, bytes=100 if rank == root else 50) for rank in range(2)]
    (collective,) = folded(*ranks).collectives
    assert (collective.operation.bytes, collective.algbw) == (100, 50)
