"""The fold of events into collectives across ranks and the time of each rank."""

import dataclasses
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpquiz.analysis import saved_run
from ddpquiz.analysis.events import (
    Began,
    End,
    Ended,
    Exited,
    Hung,
    Issued,
    Joining,
    Output,
    RankPosition,
    Started,
    Waited,
    Waiting,
)
from ddpquiz.analysis.operation import Operation, bus_factor
from ddpquiz.analysis.timeline import Timeline
from ddpquiz.paths import recordings_dir


class Rank:
    """Writes down what a rank of a run says."""

    def __init__(self, rank, world=2, start=0.0):
        self.rank, self.world, self.number = rank, world, 0
        self.events = [Started(start, rank, 100 + rank)]

    def issue(self, op, at, line=1, **more):
        self.number += 1
        given = {
            "members": tuple(range(self.world)), "peer": None, "shapes": ((4,),), "dtype": "float32", "bytes": 16,
            "file": "train.py", "line": line, "group": "0",
        } | more  # fmt: skip
        self.events.append(Issued(at, self.rank, self.number, Operation(op, **given)))
        return self.number

    def end(self, at, number=None, **more):
        self.events.append(Ended(at, self.rank, number or self.number, **more))
        return self

    def sync(self, op, at, to, line=1, **more):
        self.issue(op, at, line, **more)
        return self.end(to)

    def wait(self, since, until, number):
        self.events.append(Waited(until, self.rank, number, since))
        return self

    def exit(self, at, status=0):
        self.events.append(Exited(at, self.rank, status))
        return self


def began(ranks, device="cpu"):
    return Began("train.py", (), ranks, device, "gloo", "")


def folded(*ranks, end=None, hung=None, device="cpu"):
    timeline = Timeline()
    timeline.add(began(len(ranks), device))
    for event in sorted((event for rank in ranks for event in rank.events), key=lambda event: event.time):
        timeline.add(event)
    if hung:
        timeline.add(hung)
    if end is not None:
        timeline.add(End(end, not hung, 0, 0))
    return timeline


def spans(timeline, rank, now):
    return [(span.kind, span.start, span.end) for span in timeline.spans(rank, now)]


def test_a_rank_that_waits_for_what_ran_beside_it_is_seen_to_wait_before_it_is_done():
    early, late = Rank(0), Rank(1)
    early.events.append(Waiting(3, 0, early.issue("all_reduce", 1, asynchronous=True)))
    timeline = folded(early, late)
    assert spans(timeline, 0, 5) == [("compute", 0, 3), ("waiting", 3, 5)]
    late.sync("all_reduce", 4, 6)
    early.end(6).wait(3, 6, 1)
    timeline = folded(early, late)
    assert spans(timeline, 0, 7) == [("compute", 0, 3), ("waiting", 3, 4), ("communication", 4, 6), ("compute", 6, 7)]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_operation_that_failed_holds_nobody_up_any_more(asynchronous):
    early, late = Rank(0), Rank(1)
    number = early.issue("all_reduce", 1, asynchronous=asynchronous)
    if asynchronous:
        early.events.append(Waiting(1, 0, number))
    early.end(4, failed=True)
    timeline = folded(early, late)
    assert spans(timeline, 0, 6) == [("compute", 0, 1), ("waiting", 1, 4), ("compute", 4, 6)]
    assert timeline.current() == []
    timeline.add(Exited(7, 1, 0))
    assert [each.kind for each in timeline.mismatches] == ["missing"]


def test_an_operation_to_which_all_came_and_which_failed_was_never_at_work():
    early, late = Rank(0), Rank(1)
    early.issue("all_reduce", 1)
    early.end(4, failed=True)
    late.issue("all_reduce", 2)
    late.end(5, failed=True)
    timeline = folded(early, late)
    assert spans(timeline, 0, 6) == [("compute", 0, 1), ("waiting", 1, 4), ("compute", 4, 6)]
    assert spans(timeline, 1, 6) == [("compute", 0, 2), ("waiting", 2, 5), ("compute", 5, 6)]


def test_a_rank_waits_until_the_last_one_has_entered_and_then_communicates():
    early = Rank(0).sync("all_reduce", 1, 5).exit(6)
    late = Rank(1).sync("all_reduce", 4, 5.5).exit(6)
    timeline = folded(early, late, end=6)
    assert spans(timeline, 0, 6) == [
        ("compute", 0, 1), ("waiting", 1, 4), ("communication", 4, 5), ("compute", 5, 6),
    ]  # fmt: skip
    assert spans(timeline, 1, 6) == [("compute", 0, 4), ("communication", 4, 5.5), ("compute", 5.5, 6)]
    (collective,) = timeline.collectives
    assert (collective.entered_last, collective.started, collective.ended) == (1, 4, 5.5)
    assert collective.waits == {0: 3, 1: 0}
    assert timeline.costs.late[1] == type(timeline.costs.late[1])(count=1, lost=3)
    assert timeline.current() == []


def test_an_open_collective_says_who_is_awaited_and_grows_while_it_lasts():
    early, late = Rank(0), Rank(1)
    early.issue("all_reduce", 1)
    timeline = folded(early, late)
    (collective,) = timeline.current()
    assert (collective.arrived, collective.awaited, collective.complete) == ((0,), (1,), False)
    assert spans(timeline, 0, 3) == [("compute", 0, 1), ("waiting", 1, 3)]
    assert timeline.totals(4)[0].waiting == 3
    assert spans(timeline, 1, 3) == [("compute", 0, 3)]


def test_an_asynchronous_call_holds_up_only_while_it_is_waited_for():
    both = []
    for rank in range(2):
        both.append(Rank(rank))
        number = both[-1].issue("all_reduce", 1, asynchronous=True)
        both[-1].end(4).wait(3, 4, number).exit(5)
    timeline = folded(*both, end=5)
    assert spans(timeline, 0, 5) == [("compute", 0, 3), ("communication", 3, 4), ("compute", 4, 5)]
    assert timeline.totals(5)[0].overlapped == 2  # from 1 to 3, beside computing


def test_overlapping_operations_are_counted_once():
    only = Rank(0, 1)
    first, second = only.issue("all_reduce", 1, asynchronous=True), only.issue("all_reduce", 2, asynchronous=True)
    only.end(4, first).end(5, second).wait(5.5, 6, second).exit(7)
    timeline = folded(only, end=7)
    assert timeline.totals(7)[0].overlapped == 4
    assert timeline.totals(7)[0].communication == 0.5


def test_buckets_overlap_with_backward_until_it_has_only_them_left():
    only = Rank(0, 1)
    first = only.issue("all_reduce", 1, bucket=0, asynchronous=True)
    second = only.issue("all_reduce", 3, bucket=1, asynchronous=True)
    only.end(3.5, first).end(5, second).wait(4, 5, second).exit(6)
    timeline = folded(only, end=6)
    assert spans(timeline, 0, 6) == [("compute", 0, 4), ("communication", 4, 5), ("compute", 5, 6)]
    assert timeline.totals(6)[0].overlapped == 3


def test_a_root_that_leaves_before_the_others_come_did_not_wait_for_them():
    root = Rank(0).sync("broadcast", 1, 2, peer=0).exit(6)
    other = Rank(1).sync("broadcast", 4, 5, peer=0).exit(6)
    timeline = folded(root, other, end=6)
    assert spans(timeline, 0, 6)[1] == ("communication", 1, 2)
    assert timeline.collectives[0].waits == {0: 0, 1: 0}


def test_the_time_in_which_a_rank_joins_the_others_is_waiting():
    rank = Rank(0, 1)
    rank.events += [Joining(1, 0, False, 3), Joining(2.5, 0, True, 3)]
    timeline = folded(rank.exit(3), end=3)
    assert spans(timeline, 0, 3) == [("compute", 0, 1), ("waiting", 1, 2.5), ("compute", 2.5, 3)]
    assert timeline.spans(0, 3)[1].op == "init_process_group"


def test_on_a_gpu_its_own_times_count():
    early, late = Rank(0), Rank(1)
    early.issue("all_reduce", 1)
    early.end(5, started=2).exit(6)
    late.issue("all_reduce", 1)
    late.end(5, started=4).exit(6)
    timeline = folded(early, late, end=6, device="cuda")
    assert spans(timeline, 0, 6) == [("compute", 0, 2), ("waiting", 2, 4), ("communication", 4, 5), ("compute", 5, 6)]
    assert timeline.costs.late[1].lost == 2


def test_the_calls_of_a_group_are_counted_apart_from_those_of_another_with_the_same_members():
    one, other = Rank(0), Rank(1)
    one.sync("all_reduce", 1, 2, group="a").sync("barrier", 3, 4, group="b")
    other.sync("all_reduce", 1, 2, group="a").sync("barrier", 3, 4, group="b")
    timeline = folded(one, other)
    assert [(each.op, each.group, each.index) for each in timeline.collectives] == [
        ("all_reduce", "a", 0),
        ("barrier", "b", 0),
    ]


def test_a_subgroup_awaits_its_members_only():
    ranks = [Rank(rank, 4) for rank in range(4)]
    for rank in (0, 2):
        ranks[rank].sync("all_reduce", 1 + rank, 4, members=(0, 2), group="even")
    timeline = folded(*ranks)
    (collective,) = timeline.collectives
    assert (collective.members, collective.started, collective.waits) == ((0, 2), 3, {0: 2, 2: 0})


def test_sends_meet_receives_in_order_whoever_is_heard_of_first():
    one, other = Rank(0), Rank(1)
    one.sync("send", 1, 5, peer=1, line=10).sync("send", 6, 7, peer=1, line=11)
    other.sync("recv", 4, 5, peer=0, line=20).sync("recv", 5, 7, peer=0, line=21)
    timeline = folded(one, other)
    met = [
        (each.op, each.calls[0].operation.line, each.calls[1].operation.line, each.entered_last)
        for each in timeline.collectives
    ]
    assert met == [("send", 10, 20, 1), ("send", 11, 21, 0)]
    assert timeline.current() == []


@pytest.mark.parametrize("told_first", [0, 1])
def test_a_receive_from_anybody_meets_its_send_once_the_source_is_told(told_first):
    one, other = Rank(0), Rank(1)
    one.sync("send", 1, 5, peer=1)
    other.issue("recv", 2)
    other.end(5, source=0)
    timeline = Timeline()
    timeline.add(began(2))
    for rank in (one, other) if told_first == 0 else (other, one):
        for event in rank.events:
            timeline.add(event)
    (collective,) = timeline.collectives
    assert (collective.members, collective.started, collective.complete) == ((0, 1), 2, True)
    assert (timeline.current(), timeline.mismatches, timeline.count) == ([], [], 1)


@pytest.mark.parametrize("told_first", [0, 1])
def test_a_receive_from_anybody_waits_for_whoever_sends(told_first):
    one, other = Rank(0).sync("send", 4, 5, peer=1), Rank(1)
    other.issue("recv", 2)
    other.end(5, source=0).sync("recv", 6, 7, peer=0)
    one.sync("send", 6, 7, peer=1)
    timeline = Timeline()
    for rank in (one, other) if told_first == 0 else (other, one):
        for event in rank.events:
            timeline.add(event)
    assert spans(timeline, 1, 7) == [
        ("compute", 0, 2), ("waiting", 2, 4), ("communication", 4, 5), ("compute", 5, 6), ("communication", 6, 7),
    ]  # fmt: skip
    assert timeline.costs.lines["train.py", 1, "recv"].waiting == 2


def test_groups_that_are_made_anew_begin_to_count_anew():
    one, other = Rank(0), Rank(1)
    one.issue("all_reduce", 1, asynchronous=True)  # nobody meets it
    for rank in (one, other):
        rank.events += [Joining(2, rank.rank, False, 3), Joining(2, rank.rank, True, 3)]
        rank.sync("all_reduce", 3, 4, line=9)
    timeline = folded(one, other)
    assert [(each.arrived, each.operation.line) for each in timeline.collectives] == [((0,), 1), ((0, 1), 9)]


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
def test_the_size_of_a_scatter_is_that_of_all_parts_whoever_is_its_root(root):
    ranks = [Rank(rank).sync("scatter", 1, 3, peer=root, bytes=100 if rank == root else 50) for rank in range(2)]
    (collective,) = folded(*ranks).collectives
    assert (collective.operation.bytes, collective.algbw) == (100, 50)


def mismatched(first, second, **more):
    """Return what is found when two ranks issue these, each as (op, line, more) at seconds 1, 2, .."""
    ranks = [Rank(0), Rank(1)]
    for rank, calls in zip(ranks, (first, second), strict=True):
        for at, (op, line, *rest) in enumerate(calls, 1):
            rank.issue(op, at, line, **(rest[0] if rest else {}))
    return [str(mismatch) for mismatch in folded(*ranks, **more).mismatches]


def test_ranks_that_ask_for_the_same_have_no_mismatch():
    assert mismatched([("all_reduce", 1), ("barrier", 2)], [("all_reduce", 1), ("barrier", 2)]) == []


FITTING = {
    "the root and the others call from their own lines": (
        [("broadcast", 5, {"peer": 0}), ("broadcast", 5, {"peer": 0})],
        [("broadcast", 7, {"peer": 0}), ("broadcast", 7, {"peer": 0})],
    ),
    "the root goes round": (
        [("broadcast", 5, {"peer": 0}), ("broadcast", 7, {"peer": 1})],
        [("broadcast", 7, {"peer": 0}), ("broadcast", 5, {"peer": 1})],
    ),
    "ranks choose a line by their data": (
        [("all_reduce", 5), ("all_reduce", 5), ("all_reduce", 7)],
        [("all_reduce", 5), ("all_reduce", 7), ("all_reduce", 5)],
    ),
    "a scalar meets a tensor of one element": (
        [("all_reduce", 5, {"shapes": ((),)})],
        [("all_reduce", 5, {"shapes": ((1,),)})],
    ),
    "parts of a scatter are smaller than the whole": (
        [("scatter", 5, {"peer": 0, "shapes": ((2,), (2,)), "bytes": 16})],
        [("scatter", 5, {"peer": 0, "shapes": ((2,),), "bytes": 8})],
    ),
    "uneven parts go all to all": (
        [("all_to_all_single", 5, {"shapes": ((3,),)})],
        [("all_to_all_single", 5, {"shapes": ((5,),)})],
    ),
    "a tensor is received in another shape": (
        [("send", 5, {"peer": 1, "shapes": ((2, 3),)})],
        [("recv", 7, {"peer": 0, "shapes": ((6,),)})],
    ),
}


@pytest.mark.parametrize("case", FITTING)
def test_what_fits_is_no_mismatch(case):
    assert mismatched(*FITTING[case]) == []


MISMATCHED = {
    "Ranks call different operations: rank 0: all_reduce (train.py:5); rank 1: broadcast (train.py:7).": (
        [("all_reduce", 5)],
        [("broadcast", 7, {"peer": 0})],
    ),
    "Ranks reduce with different operators: rank 0: all_reduce sum (train.py:5); rank 1: all_reduce max (train.py:5).": (
        [("all_reduce", 5, {"reduce": "sum"})],
        [("all_reduce", 5, {"reduce": "max"})],
    ),
    "Ranks name different roots: rank 0: broadcast with root 0 (train.py:5);"
    " rank 1: broadcast with root 1 (train.py:5).": (
        [("broadcast", 5, {"peer": 0})],
        [("broadcast", 5, {"peer": 1})],
    ),
    "Ranks pass tensors of different dtypes: rank 0: all_reduce of float32 (train.py:5);"
    " rank 1: all_reduce of int64 (train.py:5).": (
        [("all_reduce", 5)],
        [("all_reduce", 5, {"dtype": "int64"})],
    ),
    "Ranks pass tensors of different shapes: rank 0: all_reduce of 2x3 float32 (train.py:5);"
    " rank 1: all_reduce of 3x2 float32 (train.py:5).": (
        [("all_reduce", 5, {"shapes": ((2, 3),)})],
        [("all_reduce", 5, {"shapes": ((3, 2),)})],
    ),
    "Ranks pass tensors of different shapes: rank 0: send of 4 float32 (train.py:5); rank 1: recv of 8 float32 (train.py:7).": (
        [("send", 5, {"peer": 1})],
        [("recv", 7, {"peer": 0, "shapes": ((8,),)})],
    ),
    "Ranks call the same operations in a different order: rank 0: all_reduce (train.py:5), then all_reduce"
    " (train.py:7); rank 1: all_reduce (train.py:7), then all_reduce (train.py:5).": (
        [("all_reduce", 5), ("all_reduce", 7)],
        [("all_reduce", 7), ("all_reduce", 5)],
    ),
}


@pytest.mark.parametrize("said", MISMATCHED)
def test_what_does_not_fit_is_named_with_ranks_and_lines(said):
    assert mismatched(*MISMATCHED[said]) == [said]


TEXTS = {5: "dist.all_reduce(a)", 6: "dist.all_reduce(b)", 8: "  dist.all_reduce(b)", 9: "  dist.all_reduce(a)"}


@pytest.mark.parametrize(("second", "swapped"), [((8, 9), True), ((9, 8), False), ((5, 8), False), ((7, 7), False)])
def test_lines_that_read_the_same_are_taken_for_the_same_operation(second, swapped):
    timeline = Timeline(text=lambda _, line: TEXTS.get(line, ""))
    first, other = Rank(0), Rank(1)
    for at, lines in enumerate(zip((5, 6), second, strict=True), 1):
        for rank, line in zip((first, other), lines, strict=True):
            rank.issue("all_reduce", at, line)
    for event in [*first.events, *other.events]:
        timeline.add(event)
    assert [mismatch.kind for mismatch in timeline.mismatches] == ["order"] * swapped


def test_swapped_operations_are_found_also_when_others_stand_between():
    first = [("all_reduce", 5), ("barrier", 6), ("all_reduce", 7), ("barrier", 9)]
    second = [("all_reduce", 7), ("barrier", 6), ("all_reduce", 5), ("barrier", 9)]
    (said,) = mismatched(first, second)
    assert said.startswith("Ranks call the same operations in a different order")


def test_a_mismatch_that_repeats_in_every_step_is_reported_once():
    steps = [("all_reduce", 5), ("barrier", 6)] * 5
    assert len(mismatched(steps, [("broadcast", 7, {"peer": 0}), ("barrier", 6)] * 5)) == 1


def test_a_hang_of_two_ranks_in_two_operations_is_reported_once():
    one, other = Rank(0), Rank(1)
    one.issue("send", 1, line=5, peer=1)
    other.issue("send", 1, line=5, peer=0)
    places = tuple(RankPosition(rank, "send", "train.py", 5, "") for rank in (0, 1))
    assert [str(each) for each in folded(one, other, hung=Hung(9, 5, places), end=9).mismatches] == [
        "Ranks wait for each other: ranks 0 and 1: send (train.py:5)."
    ]


def test_an_operation_that_a_rank_never_enters_because_it_has_ended_is_named():
    stays, goes = Rank(0), Rank(1).exit(2)
    stays.issue("all_reduce", 1, line=5)
    timeline = folded(stays, goes)
    (said,) = map(str, timeline.mismatches)
    assert (
        said
        == "Some ranks wait in an operation that others never call: rank 0: all_reduce (train.py:5); rank 1: has exited."
    )


def test_a_rank_that_failed_is_no_mismatch():
    stays, fails = Rank(0), Rank(1).exit(2, status=1)
    stays.issue("all_reduce", 1)
    assert folded(stays, fails, end=3).mismatches == []


def test_a_collective_under_way_is_no_mismatch():
    stays, computes = Rank(0), Rank(1)
    stays.issue("all_reduce", 1)
    assert folded(stays, computes).mismatches == []


def test_a_hang_is_a_mismatch_with_where_each_rank_stands():
    one, other = Rank(0), Rank(1)
    one.issue("all_reduce", 1, line=5, group="a")
    other.issue("all_reduce", 1, line=7, group="b")
    standing = (RankPosition(0, "all_reduce", "train.py", 5, ""), RankPosition(1, "all_reduce", "train.py", 7, ""))
    timeline = folded(one, other, hung=Hung(9, 5, standing), end=9)
    assert [str(each).partition(": ")[2] for each in timeline.mismatches] == [
        "rank 0: all_reduce (train.py:5); rank 1: all_reduce (train.py:7).",
        "rank 0: all_reduce (train.py:5); rank 1: all_reduce (train.py:7).",
    ]


def test_only_the_last_collectives_are_kept_and_sums_are_of_all():
    few, all_of_them = Timeline(limit=10), Timeline(limit=None)
    rank = Rank(0, 1)
    for number in range(100):
        rank.sync("all_reduce", number + 0.25, number + 0.75)
    for event in [began(1), *rank.exit(100).events, End(100, True, 0, 0)]:
        few.add(event)
        all_of_them.add(event)
    assert len(few.collectives) <= 20 < len(all_of_them.collectives)
    assert len(few.spans(0, 100)) <= 21
    assert few.totals(100) == all_of_them.totals(100)
    assert few.costs.lines == all_of_them.costs.lines
    assert few.count == all_of_them.count == 100


def test_the_merged_spans_of_a_long_run_reach_back_to_its_start_with_the_same_seconds():
    timeline, rank = Timeline(limit=30), Rank(0, 1)
    for number in range(1000):
        rank.sync("all_reduce", number + (0.25 if number < 500 else 0.5), number + 1)
    for event in [began(1), *rank.exit(1001).events]:
        timeline.add(event)
    laid = timeline.spans(0, 1001)
    assert len(laid) <= 80
    assert (laid[0].start, laid[-1].end) == (0, 1001)
    assert all(one.end == other.start for one, other in pairwise(laid))
    for kind, seconds in (("compute", 376), ("communication", 625)):
        assert sum(span.end - span.start for span in laid if span.kind == kind) == pytest.approx(seconds)
    early = sum(min(span.end, 500) - span.start for span in laid if span.kind == "communication" and span.start < 500)
    assert early == pytest.approx(375, rel=0.1)  # the shares of each stretch of time are its own


# Properties, of programs that are played by a clock of our own.

CALLS = st.tuples(
    st.sampled_from(["sync", "async", "send", "sub"]),
    st.lists(st.integers(1, 9), min_size=3, max_size=3),  # what each rank computes before
    st.integers(1, 5),  # what it takes once all are there
)


def played(calls):
    """Return what three ranks say that play these calls, and how long each waited for others in synchronous ones."""
    ranks, clock, waited, open_calls = [Rank(rank, 3) for rank in range(3)], [0.0] * 3, [0.0] * 3, []
    for line, (kind, computes, takes) in enumerate(calls, 1):
        if kind == "async":
            for rank in range(3):
                clock[rank] += computes[rank]
            done = max(clock) + takes
            for rank in range(3):
                number = ranks[rank].issue("all_reduce", clock[rank], line, asynchronous=True)
                open_calls.append((rank, number, done))
            continue
        members = {"sync": (0, 1, 2), "sub": (0, 2), "send": (1, 2)}[kind]
        for rank in members:
            clock[rank] += computes[rank]
        entered = max(clock[rank] for rank in members)
        for at, rank in enumerate(members):
            op, more = "all_reduce", {"members": members, "group": kind}
            if kind == "send":
                op, more = ("send", {"peer": 2}) if at == 0 else ("recv", {"peer": 1})
            waited[rank] += entered - clock[rank]
            ranks[rank].sync(op, clock[rank], entered + takes, line, **more)
            clock[rank] = entered + takes
    for rank, number, done in open_calls:
        since, clock[rank] = clock[rank], max(clock[rank], done)
        ranks[rank].end(clock[rank], number)
        if clock[rank] > since:
            ranks[rank].wait(since, clock[rank], number)
    for rank in range(3):
        ranks[rank].exit(clock[rank] + 1)
    return ranks, waited, max(clock) + 1


@settings(max_examples=150, deadline=None)
@given(st.lists(CALLS, max_size=8), st.randoms(use_true_random=False))
def test_any_interleaving_of_the_ranks_gives_the_same_timeline(calls, dice):
    ranks, _, end = played(calls)
    shuffled, streams = [], [list(rank.events) for rank in ranks]
    while any(streams):
        shuffled.append(dice.choice([stream for stream in streams if stream]).pop(0))
    mixed = Timeline()
    for event in [began(3), *shuffled, End(end, True, 0, 0)]:
        mixed.add(event)
    in_order = folded(*ranks, end=end)

    def seen(timeline):
        by_place = {
            tuple((rank, call.number) for rank, call in sorted(each.calls.items())) for each in timeline.collectives
        }
        costs = {key: dataclasses.asdict(cost) for key, cost in timeline.costs.lines.items()}
        return (
            [timeline.spans(rank, end) for rank in range(3)], timeline.totals(end), costs,
            timeline.costs.late, timeline.costs.traffic, by_place, timeline.mismatches, timeline.current(),
        )  # fmt: skip

    assert seen(mixed) == seen(in_order)


@settings(max_examples=150, deadline=None)
@given(st.lists(CALLS, max_size=8), st.floats(0, 1))
def test_the_spans_of_a_rank_are_disjoint_ordered_and_make_up_its_life(calls, part):
    ranks, waited, end = played(calls)
    timeline, now = folded(*ranks, end=end), end * part
    so_far = Timeline()
    so_far.add(began(3))
    for event in sorted(
        (event for rank in ranks for event in rank.events if event.time <= now), key=lambda event: event.time
    ):
        so_far.add(event)
    for told, at in ((timeline, end), (so_far, now)):
        for rank, totals in told.totals(at).items():
            laid = told.spans(rank, at)
            life = min(at, ranks[rank].events[-1].time)
            assert all(span.start < span.end for span in laid)
            assert all(one.end == other.start for one, other in pairwise(laid))
            assert sum(span.end - span.start for span in laid) == pytest.approx(life)
            assert totals.lifetime == pytest.approx(life)
            assert totals.overlapped <= totals.compute + 1e-9
    if not any(kind == "async" for kind, *_ in calls):
        assert [timeline.totals(end)[rank].waiting for rank in range(3)] == pytest.approx(waited)
