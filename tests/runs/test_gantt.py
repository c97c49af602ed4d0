"""Ranks over time, a character for each moment."""

from itertools import pairwise

import pytest
from drawn_run import QUIET, drawn, issued, said, seen, text
from inline_snapshot import snapshot

from ddpquiz.events.event import End, Ended, Exited, Joining, Output, Started
from ddpquiz.events.run_frame import describe_frame
from ddpquiz.terminal.runs.gantt import gantt
from ddpquiz.terminal.runs.run_screen import log

MEETING = [
    Started(0.0, 0, 7), Started(0.0, 1, 8),
    issued(0.2, 0, 1), issued(0.6, 1, 1), Ended(0.7, 0, 1), Ended(0.7, 1, 1),
    Exited(0.9, 1, 0), End(1.0, True, 0, 0),
]  # fmt: skip


def test_ranks_over_time_have_a_glyph_for_each_thing_that_they_do():
    assert text(gantt(describe_frame(seen(*MEETING)), 48, live=False), 48).splitlines() == snapshot(
        [
            "time    ━ compute   █ communication   ░ waiting",
            "rank 0  ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░████████",
            "rank 1  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━████████",
            "        ╵0.2 s          ╵0.4 s          ╵0.6 s",
        ]
    )


def test_the_start_and_the_end_of_processes_take_no_room_beside_what_the_script_does():
    lanes = text(gantt(describe_frame(seen(*MEETING, said(0, "mine", "1"))), 48, live=False), 48).splitlines()
    assert lanes[1].startswith("rank 0  ━━━━━━━░░")  # from what it printed at 0.1 s
    assert lanes[-1].startswith("               ╵0.2 s")


@pytest.mark.parametrize("live", [False, True])
def test_the_times_below_the_lanes_are_those_of_the_log(live):
    line = Output(3.5, 0, "stdout", "step: 1", "step", "1")
    late = [Started(0.0, 0, 7), Started(0.0, 1, 8), issued(3.0, 0, 1), line, issued(4.0, 1, 1)]
    state = seen(*late)
    rank_0, axis = text(gantt(describe_frame(state, now=4.0), 48, live=live), 48).splitlines()[1::2]
    assert axis.index("╵3.0 s") == rank_0.index("░"), "the first rank called at 3 s"
    assert text(log(state, 0, 48), 48) == "   3.50  step: 1"


def test_a_lane_marks_an_operation_that_is_too_short_for_a_column():
    events = [Started(0.0, 0, 7), issued(0.301, 0, 1), issued(0.301, 1, 1), Ended(0.303, 0, 1), Ended(0.303, 1, 1)]
    around = [Output(at, 0, "stdout", "a line") for at in (0.0, 1.0)]
    picture = seen(*events, *around)
    assert text(gantt(describe_frame(picture), 48, live=False), 48).splitlines()[1] == f"rank 0  {'━' * 12}╋{'━' * 27}"


def test_live_lanes_show_the_last_seconds():
    picture = seen(Started(0.0, 0, 7), Output(0.0, 0, "stdout", "a line"), issued(30.0, 0, 1))
    lines = text(gantt(describe_frame(picture, now=35.0), 48, live=True), 200).splitlines()
    assert lines[1] == f"rank 0  {'━' * 20}{'░' * 20}"
    assert lines[-1].split() == ["╵25", "s", "╵30", "s"]


def test_a_run_that_is_known_is_drawn_to_its_own_scale_however_short_it_is():
    picture = seen(Started(0.0, 0, 7), Started(0.0, 1, 8), issued(0.01, 0, 1), issued(0.02, 1, 1))
    lines = text(gantt(describe_frame(picture, now=0.02), 48, live=True, until=0.05), 48).splitlines()
    assert lines[1] == f"rank 0  {'░' * 10}", "40 columns are the 0.04 s of the whole run"


def test_ranks_over_time_are_shown_where_ranks_did_nothing_but_wait_to_join():
    events = [
        Started(0.0, 0, 1, 0),
        Started(0.0, 1, 2, 0),
        Joining(0.1, 0, False, 3),
        Exited(1.0, 1, 0),
        Exited(2.0, 0, 1),
    ]
    assert "rank 0  ░░░" in drawn(seen(*events, End(2.1, False, 0, 0, 0, "why"), began=QUIET))


def test_two_times_of_the_axis_never_touch():
    events = [Started(0.0, 0, 7), issued(0.0737, 0, 1), Output(1.0737, 0, "stdout", "a line")]
    for width in range(20, 120):
        axis = text(gantt(describe_frame(seen(*events)), width, live=False), width).splitlines()[-1]
        assert all(before == " " for before, mark in pairwise(axis) if mark == "╵"), axis
