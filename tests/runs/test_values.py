"""The values of labels and tensors, side by side for all ranks."""

from dataclasses import replace

import pytest
from drawn_run import QUIET, drawn, drawn_with_tensors, issued, said, seen

from ddpquiz.events.event import Began, Ended, Result

LONG = "127.0.0.1:46949 from far away"


def test_what_does_not_fit_and_is_the_same_everywhere_goes_right_across_once():
    picture = seen(said(0, "store", LONG), said(1, "store", LONG), began=QUIET)
    assert drawn(picture, 40).splitlines()[2:] == [
        "        rank 0  rank 1",
        f"store   {LONG} ·",
        "        ranks 0 and 1",
    ]


def test_words_that_would_break_get_a_line_for_each_rank():
    picture = seen(said(0, "clock", "FFFFFFFFBBBB......"), said(1, "clock", "....FFFFFFFFBBBB.."), began=QUIET)
    assert drawn(picture, 40).splitlines()[2:] == [
        "        rank 0  rank 1",
        "clock",
        "rank 0  FFFFFFFFBBBB......",
        "rank 1  ....FFFFFFFFBBBB..",
    ]


@pytest.mark.parametrize(("op", "given"), [("scatter", "-"), ("broadcast", "2x2 float32")])
def test_a_rank_that_gets_its_part_from_the_root_gives_nothing(op, given):
    call = issued(0.1, 0, 1, op, peer=1)
    lines = drawn_with_tensors(seen(call, said(0, "a", "1"), began=QUIET), 80)
    assert next(line for line in lines if line.startswith("input")).split()[1:3] == [*given.split(), "-"][:2]


def held(before, after=(), width=80, shape=(2, 2), ended=True):
    """Return the cells of `input` and `output` of rank 0."""
    events = [replace(issued(0.1, 0, 1, shapes=(shape,)), before=before), Result(0.2, 0, 1, after)]
    lines = drawn_with_tensors(seen(*events, *([Ended(0.3, 0, 1)] if ended else []), said(0, "a", "1")), width)
    return [line.partition("  ")[2].strip().rstrip("- ") for line in lines if line.startswith(("input", "output"))]


def test_the_numbers_of_a_tensor_stand_in_a_line_with_four_digits_at_most():
    assert held(("[[1.0, -0.005293981172144413], [1e-09, 32563.25]]",), ("[1, 2]", "[3, 4]")) == [
        "1 -0.005294; 1e-09 3.256e+04",
        "1 2 | 3 4",
    ]


def test_numbers_that_do_not_fit_have_fewer_digits_and_then_are_cut():
    assert held(("[-0.6112467, 0.1717298]",), width=32)[0] == "-0.61 0.17"
    assert held(("[-0.6112467, 0.1717298, 0.5]",), width=32)[0] == "-0.61.."


def test_a_tensor_that_is_too_large_is_shown_by_its_shape_and_its_result_as_done():
    assert held((), shape=(576,)) == ["576 float32", "done"]
    assert held((), shape=(576,), ended=False)[1] == ""


CLOCKS = ["FFFF......BBBB", ".FFFF....BBBB.", "..FFFF..BBBB..", "...FFFFBBBB..."]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_values_with_a_character_for_each_time_slot_stand_below_each_other_at_every_width(width):
    began = Began("demo.py", (), 4, "cpu", "gloo", "4 ranks")
    lines = drawn(seen(*(said(rank, "clock", value) for rank, value in enumerate(CLOCKS)), began=began), width)
    assert [line.split() for line in lines.splitlines()[3:8]] == [
        ["clock"], *(["rank", str(rank), value] for rank, value in enumerate(CLOCKS))
    ]  # fmt: skip


@pytest.mark.parametrize(
    "values",
    [
        ("0.123456", "0.654321"),
        ("torch.Tensor", "torch.Tensor"),
        ("F..B", ".FB."),
        ("FFFF..BB", "FF..B"),
        ("A . . .",) * 2,
    ],
)
def test_other_values_stand_beside_each_other(values):
    lines = drawn(seen(said(0, "mine", values[0]), said(1, "mine", values[1]), began=QUIET)).splitlines()
    assert lines[3].split() == ["mine", *values[0].split(), *values[1].split()]


def test_the_input_and_the_output_of_an_operation_have_as_many_digits():
    assert held(("[-0.6112467, 0.1717298]",), ("[3.0, 0.25]",), width=32) == ["-0.61 0.17", "3 0.25"]
    assert held(("[0.5, 0.25]",), ("[-0.6112467, 0.1717298]",), width=32) == ["0.5 0.25", "-0.61 0.17"]
    assert held(("[0.12345, 0.5]",), ("[-0.6112467, 0.1717298]",), width=32) == ["0.12 0.5", "-0.61 0.17"]
