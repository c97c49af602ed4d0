"""A run drawn as text: a column a rank, claims with their verdicts, failures with their reason."""

import io

import pytest

from ddpquiz.ranks.events import (
    Began,
    Claimed,
    ClaimText,
    End,
    Exited,
    Hung,
    Issued,
    Note,
    Output,
    Raised,
    Standing,
)
from ddpquiz.ranks.seen import Seen
from ddpquiz.terminal import style
from ddpquiz.terminal.ranks import frame, say, sparkline

BEGAN = Began(
    "demo.py", (), 2, "cpu", "gloo", "2 ranks on CPU over Gloo · no GPU found",
    (ClaimText(7, "every rank holds the sum"), ClaimText(9, "the sum is 3")),
)  # fmt: skip


def said(rank, label, value):
    return Output(0.1, rank, "stdout", f"{label}: {value}", label, value)


def seen(*events, began=BEGAN):
    picture = Seen()
    for event in (began, *events):
        picture.add(event)
    return picture


def drawn(picture, width=60, *, live=False):
    console = style.console(io.StringIO(), width=width)
    console.print(frame(picture, width, live=live))
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def plain(*events):
    console = style.console(io.StringIO(), width=60)
    picture = Seen()
    for event in (BEGAN, *events):
        picture.add(event)
        say(event, picture, console)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_labels_are_rows_and_ranks_are_columns():
    picture = seen(
        said(0, "mine", "1"), said(1, "mine", "2"), said(0, "sum", "3"),
        Output(0.2, 1, "stdout", "INFO: a log line"),
        Claimed(0.3, 0, 7, held=True), Claimed(0.3, 1, 7, held=True), Claimed(0.3, 1, 9, held=True),
        End(0.42, True, 2, 2),
    )  # fmt: skip
    assert drawn(picture) == (
        "2 ranks on CPU over Gloo · no GPU found\n"
        "\n"
        "        rank 0  rank 1\n"
        "mine    1       2\n"
        "sum     3       -\n"
        "rank 1  INFO: a log line\n"
        "\n"
        "✓ every rank  every rank holds the sum\n"
        "✓ 1 of 2      the sum is 3\n"
        "\n"
        "done in 0.42 s · 2 of 2 claims proven"
    )


def test_a_live_frame_says_what_each_rank_is_doing():
    picture = seen(Issued(0.1, 1, 1, "all_reduce", (0, 1), None, ((2,),), "float32", 8, "demo.py", 5))
    assert drawn(picture, live=True).splitlines()[2:4] == ["        rank 0     rank 1", "doing   computing  all_reduce"]


def test_a_failure_shows_the_traceback_of_the_rank_that_failed_and_no_claim_that_was_not_reached():
    picture = seen(
        Output(0.1, 0, "stderr", "a warning of the other rank"),
        Output(0.1, 1, "stderr", "a warning of this rank"),
        Claimed(0.1, 0, 7, held=True),
        Claimed(0.1, 1, 7, held=False),
        Raised(0.2, 1, "AssertionError", "every rank holds the sum", "Traceback (most recent call last):\n  ...\n"),
        Exited(0.3, 1, 1),
        End(0.5, False, 0, 2, 1, "Rank 1 raised AssertionError: every rank holds the sum"),
    )
    assert drawn(picture, 72) == (
        "2 ranks on CPU over Gloo · no GPU found\n"
        "rank 1  a warning of this rank\n"
        "\n"
        "✗ rank 1  every rank holds the sum\n"
        "\n"
        "rank 1\n"
        "Traceback (most recent call last):\n"
        "  ...\n"
        "Rank 1 raised AssertionError: every rank holds the sum\n"
        "ended after 0.50 s · 0 of 2 claims proven"
    )


def test_a_hang_shows_who_waits_in_what_and_where_each_rank_stands():
    picture = seen(
        Exited(0.2, 1, 0),
        Hung(3.0, 2.5, (Standing(0, "all_reduce", "/x/demo.py", 9, "File"), Standing(1, "", "", 0, ""))),
        End(3.4, False, 0, 2, None, "Nothing moved for 2.5 s: rank 0 waits in a communication that cannot end."),
    )
    assert drawn(picture, 80).splitlines()[3:6] == [
        "        waits in                             stands at",
        "rank 0  all_reduce                           /x/demo.py:9",
        "rank 1  nothing: it has ended with status 0  -",
    ]


def test_a_label_whose_numbers_repeat_becomes_a_curve():
    picture = seen(*(said(0, "loss", str(value)) for value in (4, 3, 2, 1)))
    assert "1       -\n        █▆▃▁" in drawn(picture)


CURVES = {(0, 1, 2, 3): "▁▃▆█", (1, 1): "▁▁", (1, float("inf"), 2): "▁!█", tuple(range(100)): "▁▂▄▆█"}


@pytest.mark.parametrize("numbers", CURVES, ids=len)
def test_a_curve_fits_its_width(numbers):
    assert sparkline([float(number) for number in numbers], 5) == CURVES[numbers]


def test_more_ranks_than_fit_stand_below_each_other():
    began = Began("demo.py", (), 8, "cpu", "gloo", "8 ranks")
    lines = drawn(seen(*(said(rank, "a long label of some size", "12345678") for rank in range(8)), began=began), 60)
    assert [line.split() for line in lines.splitlines() if "rank " in line] == [
        ["rank", "0", "rank", "1", "rank", "2"], ["rank", "3", "rank", "4", "rank", "5"], ["rank", "6", "rank", "7"]
    ]  # fmt: skip


def test_what_ranks_print_cannot_steer_the_terminal():
    text = drawn(
        seen(Output(0.1, 0, "stdout", "\x1b[31mred\x1b[0m [bold]"), said(0, "mine", "\x1b]0;title\x07 [red]x"))
    )
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]" in text
    assert "[red]x" in text


def test_plain_lines_come_as_they_are_said():
    note = Note(0.1, 0, "The script asks for nccl; Gloo takes its place on CPU.")
    assert plain(note, said(1, "mine", "2"), Claimed(0.3, 0, 7, held=True), End(0.4, True, 1, 2)) == [
        "2 ranks on CPU over Gloo · no GPU found",
        "The script asks for nccl; Gloo takes its place on CPU.",
        "rank 1  mine: 2",
        "✓ 1 of 2        every rank holds the sum",
        "· not this run  the sum is 3",
        "done in 0.40 s · 1 of 2 claims proven, 1 about other arguments",
    ]


def test_claims_are_named_when_they_are_reached_and_counted_before():
    live = drawn(seen(Claimed(0.3, 0, 7, held=True)), live=True)
    assert "✓ 1 of 2  every rank holds the sum\n1 claim to come" in live
    assert "not this run" not in live


def test_a_claim_that_is_longer_than_a_line_hangs_below_itself():
    began = Began("demo.py", (), 1, "cpu", "gloo", "1 rank", (ClaimText(1, "word " * 12),))
    lines = drawn(seen(Claimed(0.1, 0, 1, held=True), began=began), 40).splitlines()
    assert lines[2].startswith("✓ the rank  word word")
    assert lines[3].startswith("            word")


def test_a_run_begins_with_what_its_script_says_it_is_and_what_to_look_at():
    began = Began("demo.py", (), 2, "cpu", "gloo", "2 ranks on CPU over Gloo", title="Sums: everybody gets them.")
    console = style.console(io.StringIO(), width=60)
    console.print(frame(seen(began=began), 60, live=False, look="`sum` on rank 1"))
    lines = console.file.getvalue().splitlines()
    assert lines[:2] == ["Sums: everybody gets them.", "2 ranks on CPU over Gloo"]
    assert lines[2].startswith("look at  ")
