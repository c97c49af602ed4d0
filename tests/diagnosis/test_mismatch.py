"""Ranks that make different calls: which, with their lines."""

import pytest
from inline_snapshot import snapshot
from rank_events import Rank, folded

from ddpquiz.events.event import Hung, RankStack
from ddpquiz.events.timeline import Timeline


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
    "torch does not tell the recorder how one of them reduces": (
        [("all_reduce", 5, {"reduce": ""})],
        [("all_reduce", 7, {"reduce": "sum"})],
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
    "parts that are expected": (
        [("all_to_all_single", 5, {"parts": ((1, 2), (1, 3))})],
        [("all_to_all_single", 5, {"parts": ((3, 4), (2, 4))})],
    ),
    "a tensor is received in another shape": (
        [("send", 5, {"peer": 1, "shapes": ((2, 3),)})],
        [("recv", 7, {"peer": 0, "shapes": ((6,),)})],
    ),
}


@pytest.mark.parametrize("case", FITTING)
def test_calls_that_fit_are_not_a_mismatch(case):
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
def test_lines_with_the_same_text_count_as_the_same_operation(second, swapped):
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


def test_calls_that_cannot_fit_are_no_choice_although_their_lines_have_met_before():
    step = [("all_reduce", 5), ("all_gather", 7)]
    (said,) = mismatched(step * 4, [*step * 3, *step[::-1]])
    assert said == snapshot(
        "Ranks call the same operations in a different order: rank 0: all_reduce (train.py:5), then all_gather (train.py:7); rank 1: all_gather (train.py:7), then all_reduce (train.py:5)."
    )


def test_a_mismatch_that_repeats_in_every_step_is_reported_once():
    steps = [("all_reduce", 5), ("barrier", 6)] * 5
    assert len(mismatched(steps, [("broadcast", 7, {"peer": 0}), ("barrier", 6)] * 5)) == 1


def test_a_hang_of_two_ranks_in_two_operations_is_reported_once():
    one, other = Rank(0), Rank(1)
    one.issue("send", 1, line=5, peer=1)
    other.issue("send", 1, line=5, peer=0)
    places = tuple(RankStack(rank, "send", "train.py", 5, "") for rank in (0, 1))
    assert [str(each) for each in folded(one, other, hung=Hung(9, 5, places), end=9).mismatches] == [
        "Ranks wait for each other: ranks 0 and 1: send (train.py:5)."
    ]


def test_an_operation_that_a_rank_never_enters_because_it_has_ended_is_named():
    stays, goes = Rank(0), Rank(1).exit(2)
    stays.issue("all_reduce", 1, line=5)
    timeline = folded(stays, goes)
    (said,) = map(str, timeline.mismatches)
    assert said == snapshot(
        "Some ranks wait in an operation that others never call: rank 0: all_reduce (train.py:5); rank 1: finished."
    )


def test_a_rank_that_failed_is_not_a_mismatch():
    stays, fails = Rank(0), Rank(1).exit(2, status=1)
    stays.issue("all_reduce", 1)
    assert folded(stays, fails, end=3).mismatches == []


def test_a_collective_under_way_is_not_a_mismatch():
    stays, computes = Rank(0), Rank(1)
    stays.issue("all_reduce", 1)
    assert folded(stays, computes).mismatches == []


def test_a_hang_is_a_mismatch_with_where_each_rank_stands():
    one, other = Rank(0), Rank(1)
    one.issue("all_reduce", 1, line=5, group="a")
    other.issue("all_reduce", 1, line=7, group="b")
    standing = (RankStack(0, "all_reduce", "train.py", 5, ""), RankStack(1, "all_reduce", "train.py", 7, ""))
    timeline = folded(one, other, hung=Hung(9, 5, standing), end=9)
    assert [str(each).partition(": ")[2] for each in timeline.mismatches] == snapshot(
        [
            "rank 0: all_reduce (train.py:5); rank 1: all_reduce (train.py:7).",
            "rank 0: all_reduce (train.py:5); rank 1: all_reduce (train.py:7).",
        ]
    )


def test_parts_of_an_all_to_all_that_are_not_as_large_as_expected_are_named():
    sent = [("all_to_all_single", 5, {"parts": ((1, 2), (1, 3))})]
    assert mismatched(sent, [("all_to_all_single", 5, {"parts": ((3, 4), (9, 4))})]) == snapshot(
        [
            "A rank sends a different number of elements than the receiver expects: rank 0: all_to_all_single sends 2 elements to rank 1 (train.py:5); rank 1: all_to_all_single expects 9 elements from rank 0 (train.py:5)."
        ]
    )
    assert mismatched(sent, [("all_to_all_single", 5, {"parts": ((3,), (9,))})]) == []  # as no torch writes it
