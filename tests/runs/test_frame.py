"""A run drawn as text: a column for each rank, and claims with their verdicts."""

import io
from dataclasses import replace

import pytest
from drawn_run import BEGAN, drawn, issued, live, said, seen, text
from inline_snapshot import snapshot
from rich.cells import cell_len
from rich.console import ConsoleDimensions, Group

from ddpquiz.events import saved_run
from ddpquiz.events.event import Began, Claimed, ClaimText, End, Issued, Output, Started
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_frame import describe_frame
from ddpquiz.events.run_steps import EventCursor, steps
from ddpquiz.paths import recordings_dir
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.runs.frame import Hint, frame, on_screen
from ddpquiz.terminal.runs.run_screen import log


def test_labels_are_rows_and_ranks_are_columns():
    picture = seen(
        said(0, "mine", "1"), said(1, "mine", "2"), said(0, "sum", "3"),
        Output(0.2, 1, "stdout", "INFO: a log line"),
        Claimed(0.3, 0, 7, held=True), Claimed(0.3, 1, 7, held=True), Claimed(0.3, 1, 9, held=True),
        End(0.42, True, 2, 2),
    )  # fmt: skip
    assert drawn(picture) == (
        snapshot(
            "2 ranks on CPU over Gloo · no GPU found\n"
            "\n"
            "        rank 0  rank 1\n"
            "mine    1       2\n"
            "sum     3       -\n"
            "rank 1  INFO: a log line\n"
            "\n"
            "✓ every rank  every rank holds the sum\n"
            "✓ rank 1      the sum is 3\n"
            "\n"
            "done in 0.42 s · 2 of 2 claims proven"
        )
    )


def test_a_live_frame_says_what_each_rank_is_doing():
    assert live(seen(issued(0.1, 1, 1)), width=60).splitlines()[2:4] == snapshot(
        [
            "          rank 0                    rank 1",
            "doing     computing                 all_reduce",
        ]
    )


def test_the_arguments_of_a_script_stand_in_one_line_below_what_runs():
    began = replace(BEGAN, title="A title", args=("--note", "a b\n[red]c", "--perturb", "1"))
    assert drawn(seen(began=began)).splitlines()[:3] == snapshot(
        ["A title", "2 ranks on CPU over Gloo · no GPU found", "arguments  --note 'a b [red]c' --perturb 1"]
    )
    long = replace(began, args=("--perturb", "1", *("--more",) * 20))
    assert drawn(seen(began=long)).splitlines()[2:4] == snapshot(
        ["arguments  --perturb 1 --more --more --more --more --more -…", ""]
    )


def test_a_low_screen_that_is_stepped_through_shows_the_arguments_before_the_title():
    began = replace(BEGAN, title="A title that is long " * 5, args=("--perturb", "1"))
    events = [Output(at / 10, 0, "stdout", f"step {at}: 1", f"step {at}", "1") for at in range(30)]
    body, _ = on_screen(describe_frame(seen(*events, began=began)), ConsoleDimensions(80, 24), tensors=True)
    assert text(body, 80).splitlines()[0] == snapshot(
        "--perturb 1 · A title that is long A title that is long A title that is long A …"
    )


def test_what_changed_is_marked_and_what_was_repeated_is_not():
    before = [said(0, "mine", "1"), said(1, "mine", "2"), said(1, "other", "5")]
    later = [Output(0.4, rank, "stdout", f"mine: {rank + 2}", "mine", str(rank + 2)) for rank in (0, 1)]
    again = Output(0.4, 1, "stdout", "mine: 2", "mine", "2")
    assert live(seen(*before, later[0], again), since=0.2).splitlines()[2:6] == snapshot(
        [
            "* new     rank 0                    rank 1",
            "doing     computing                 computing",
            "mine     *2                         2",
            "other     -                         5",
        ]
    )
    assert "*" not in live(seen(*before, *later), now=9.0)


@pytest.mark.parametrize("ranks", [1, 4, 9, 16, 64])
@pytest.mark.parametrize(("width", "height"), [(60, 24), (80, 24), (120, 40)])
def test_a_frame_of_any_number_of_ranks_fits_the_width(ranks, width, height):
    began = Began("demo.py", (), ranks, "cpu", "gloo", f"{ranks} ranks")
    everybody = tuple(range(ranks))
    events = [event for rank in everybody for event in (Started(0.0, rank, rank), said(rank, "loss", "0.5" * 20))]
    calls = [Issued(0.2, rank, 1, Operation("all_gather_into_tensor", everybody, None, ((4,),), "float32", 16, "demo.py", 5))
             for rank in everybody[1:]]  # fmt: skip
    shown = live(seen(*events, *calls, began=began), width=width, height=height)
    assert max(map(cell_len, shown.splitlines())) <= width
    assert [f"rank {rank} " in f"{shown} " or f"rank {rank}\n" in shown for rank in everybody] == [True] * ranks
    assert drawn(seen(*events, *calls, began=began), width)


def test_a_low_screen_shows_the_newest_labels_and_counts_the_others():
    events = [Output(at / 10, 0, "stdout", f"step {at}: 1", f"step {at}", "1") for at in range(30)]
    shown = live(seen(*events)).splitlines()
    assert len(shown) == 23  # one more for the keys
    assert [line.split()[1] for line in shown if line.startswith("step ")] == list(map(str, range(15, 30)))
    assert "15 older labels not shown now" in shown
    told = replace(BEGAN, highlighted=("step 3", "another"))
    rows = [line.split()[1] for line in live(seen(*events, began=told)).splitlines() if line.startswith("step ")]
    assert rows == ["3", *map(str, range(16, 30))]
    picture = describe_frame(seen(*events, began=told), now=3.0)
    body, _ = on_screen(picture, ConsoleDimensions(80, 24), hint=Hint("`step 4` and the rest"))
    rows = [line.split()[1] for line in text(body, 80).splitlines() if line.startswith("step ")]
    assert (rows[:2], rows[-1]) == (["3", "4"], "29")


def test_a_low_screen_uses_all_its_room():
    events = [
        Output(at / 10, 0, "stdout", f"step {at}: 1", f"step {at}", "1 " * (30 if at < 25 else 1)) for at in range(30)
    ]
    assert len(live(seen(*events)).splitlines()) in (22, 23)  # one more for the keys, and one less than another label


def test_where_labels_have_no_room_the_claims_are_counted_only():
    claims = tuple(ClaimText(line, f"claim {line}") for line in range(9))
    began = Began("demo.py", (), 2, "cpu", "gloo", "2 ranks", claims)
    events = [said(0, f"label {at}", "1") for at in range(20)]
    shown = live(seen(*events, *(Claimed(0.3, 0, line, held=True) for line in range(7)), began=began))
    assert "7 of 9 claims proven so far" in shown
    assert "claim 3" not in shown


def test_claims_about_other_arguments_are_counted_and_not_named():
    began = Began("demo.py", (), 1, "cpu", "gloo", "1 rank", (ClaimText(1, "word " * 12), ClaimText(2, "it holds")))
    lines = drawn(seen(Claimed(0.1, 0, 2, held=True), End(0.4, True, 1, 2), began=began), 80).splitlines()
    assert lines[2:] == snapshot(
        ["✓ the rank  it holds", "", "done in 0.40 s · 1 claim proven; 1 not tested with these options"]
    )


def test_the_claims_of_a_run_stand_above_its_ranks_over_time():
    picture = seen(issued(0.1, 0, 1), issued(0.1, 1, 1), Claimed(0.3, 0, 7, held=True), End(0.42, True, 1, 2))
    lines = drawn(picture).splitlines()
    assert lines.index("✓ rank 0  every rank holds the sum") < next(
        number for number, line in enumerate(lines) if line.startswith("time ")
    )


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


def test_claims_are_named_when_they_are_reached_and_counted_before():
    shown = live(seen(Claimed(0.3, 0, 7, held=True)))
    assert "✓ rank 0  every rank holds the sum\n1 claim still to be checked" in shown
    assert "not this run" not in shown


def test_a_claim_that_is_longer_than_a_line_hangs_below_itself():
    began = Began("demo.py", (), 1, "cpu", "gloo", "1 rank", (ClaimText(1, "word " * 12),))
    lines = drawn(seen(Claimed(0.1, 0, 1, held=True), began=began), 40).splitlines()
    assert lines[2].startswith("✓ the rank  word word")
    assert lines[3].startswith("            word")


def test_a_run_begins_with_what_its_script_says_it_is_and_what_to_look_at():
    began = Began("demo.py", (), 2, "cpu", "gloo", "2 ranks on CPU over Gloo", title="Sums: everybody gets them.")
    console = style.console(io.StringIO(), width=60)
    console.print(frame(describe_frame(seen(began=began)), 60, hint=Hint("`sum` on rank 1")))
    lines = console.file.getvalue().splitlines()
    assert lines[:2] == ["Sums: everybody gets them.", "2 ranks on CPU over Gloo"]
    assert lines[2].startswith("look at  ")


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ((), "You predicted 3."),
        ((End(0.4, True, 0, 0),), "✓ You were right."),
        ((End(0.4, False, 0, 0),), "You predicted 3."),
    ],
    ids=["it runs", "it ended well", "it failed"],
)
def test_a_prediction_stands_above_a_run_and_its_verdict_once_the_run_has_ended_well(end, said):
    hint = Hint("`sum`", "You predicted 3.", "✓ You were right.")
    lines = text(frame(describe_frame(seen(*end)), 60, hint=hint), 60).splitlines()
    assert list(filter(None, lines[1:]))[:2] == ["look at  `sum`", said]


@pytest.mark.parametrize("demo", ["ddp", "collectives"])
def test_where_labels_are_hidden_the_frame_fits(demo):
    events = saved_run.read(recordings_dir() / f"{demo}.json")
    stops = steps(events)
    cursor, console = EventCursor(events), style.console(io.StringIO(), width=80)
    hidden = 0
    for stop in stops[:: max(1, len(stops) // 20)]:
        shown = describe_frame(cursor.seek(stop), now=0.0, since=0.0)
        body, below = on_screen(shown, ConsoleDimensions(80, 23), tensors=True)
        if "not shown now" in text(body, 80):
            hidden += 1
            assert len(console.render_lines(Group(body, *below), pad=False)) <= 22
    assert hidden


def test_a_script_that_is_not_a_demo_shows_only_broken_asserts():
    proven = [Claimed(0.3, rank, 7, held=True) for rank in (0, 1)]
    picture = seen(*proven)
    picture.only_broken_claims = True
    assert "every rank holds the sum" not in live(picture)
    assert "claim" not in live(picture)
    picture.add(Claimed(0.4, 1, 9, held=False))
    assert "✗ rank 1  the sum is 3" in live(picture)
    picture.add(End(0.5, True, 1, 2))
    assert [line for line in drawn(picture).splitlines() if "claim" in line or "every rank" in line] == []


def test_a_line_of_millions_of_characters_is_drawn_up_to_what_a_screen_can_show():
    long = "x y " * 2_000_000
    picture = seen(Output(0.1, 0, "stdout", long), said(0, "label", long.replace(" ", "")))
    for shown in (live(picture), drawn(picture), text(log(picture, 0, 80), 80)):
        assert "7,996,000 more characters" in " ".join(shown.split())
        assert len(shown) < 50_000
