"""A run drawn as text: a column a rank, claims with their verdicts, failures with their reason."""

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import ConsoleDimensions, Group

from ddpquiz.analysis import saved_run
from ddpquiz.analysis.events import (
    Began,
    Claimed,
    ClaimText,
    End,
    Ended,
    Exited,
    Hung,
    Issued,
    Joining,
    Note,
    Output,
    Raised,
    RankPosition,
    Result,
    Started,
    Waiting,
)
from ddpquiz.analysis.formatting import list_ranks
from ddpquiz.analysis.operation import Operation
from ddpquiz.analysis.run_state import RunState
from ddpquiz.paths import recordings_dir
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.runs.curves import scale, sparkline
from ddpquiz.terminal.runs.frame import Hint, frame, on_screen
from ddpquiz.terminal.runs.gantt import gantt
from ddpquiz.terminal.runs.plain_lines import print_events
from ddpquiz.terminal.runs.replay import Tape, steps
from ddpquiz.terminal.runs.run_screen import log
from ddpquiz.terminal.runs.script import source

BEGAN = Began(
    "demo.py", (), 2, "cpu", "gloo", "2 ranks on CPU over Gloo · no GPU found",
    (ClaimText(7, "every rank holds the sum"), ClaimText(9, "the sum is 3")),
)  # fmt: skip


QUIET = Began("demo.py", (), 2, "cpu", "gloo", "2 ranks on CPU over Gloo")  # it claims nothing


def said(rank, label, value):
    return Output(0.1, rank, "stdout", f"{label}: {value}", label, value)


def seen(*events, began=BEGAN):
    picture = RunState()
    for event in (began, *events):
        picture.add(event)
    return picture


def drawn(picture, width=60):
    return text(frame(picture, width), width)


def live(picture, now=None, width=80, height=24, **more):
    body, below = on_screen(picture, ConsoleDimensions(width, height), picture.time if now is None else now, **more)
    return text(Group(body, *below), width)


def text(shown, width):
    console = style.console(io.StringIO(), width=width)
    console.print(shown)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def plain(*events):
    console = style.console(io.StringIO(), width=60)
    picture = RunState()
    for event in (BEGAN, *events):
        picture.add(event)
        print_events([event], picture, console, console)
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
        "✓ rank 1      the sum is 3\n"
        "\n"
        "done in 0.42 s · 2 of 2 claims proven"
    )


def issued(time, rank, number, op="all_reduce", **more):
    fields = {"shapes": ((2, 2),), "peer": None} | more
    return Issued(
        time, rank, number, Operation(op, (0, 1), dtype="float32", bytes=16, file="demo.py", line=5, **fields)
    )


def test_a_live_frame_says_what_each_rank_is_doing():
    assert live(seen(issued(0.1, 1, 1)), width=60).splitlines()[2:4] == [
        "          rank 0                    rank 1",
        "doing     computing                 all_reduce",
    ]


def test_what_runs_beside_the_script_is_not_what_a_rank_is_doing_until_it_waits_for_it():
    picture = seen(issued(0.1, 1, 1, asynchronous=True), issued(0.2, 1, 2, bucket=0))
    assert picture.doing(1) == "computing"
    picture.add(Waiting(0.3, 1, 2))
    assert picture.doing(1) == "all_reduce"
    picture.add(Ended(0.4, 1, 2))
    assert picture.doing(1) == "computing"
    assert picture.waits_in(1) == "all_reduce", "number 1 is open still"


def test_what_changed_is_marked_and_what_was_said_again_is_not():
    before = [said(0, "mine", "1"), said(1, "mine", "2"), said(1, "other", "5")]
    later = [Output(0.4, rank, "stdout", f"mine: {rank + 2}", "mine", str(rank + 2)) for rank in (0, 1)]
    again = Output(0.4, 1, "stdout", "mine: 2", "mine", "2")
    assert live(seen(*before, later[0], again), since=0.2).splitlines()[2:6] == [
        "* new     rank 0                    rank 1",
        "doing     computing                 computing",
        "mine     *2                         2",
        "other     -                         5",
    ]
    assert "*" not in live(seen(*before, *later), now=9.0)


RUNNING = {
    "no communication yet": [],
    "the group is made, no communication yet": [Joining(0.1, 0, done=False, line=3), Joining(0.2, 0, done=True, line=3)],
    "scatter · all arrived for 0.8 s · from 0 · 4 numbers": [
        Issued(0.1, 0, 1, Operation("scatter", (0, 1), 0, ((4,), (4,)), "float32", 32, "demo.py", 5)),
        Issued(0.2, 1, 1, Operation("scatter", (0, 1), 0, ((4,),), "float32", 16, "demo.py", 5)),
    ],
    "init_process_group · arrived 1 · awaiting 0": [Joining(0.1, 1, done=False, line=3)],
    "init_process_group · all arrived, making the group": [
        Joining(0.1, 0, done=False, line=3), Joining(0.1, 1, done=False, line=3),
    ],
    "all_reduce · arrived 1 · awaiting 0 for 0.8 s · sum of 4 numbers": [issued(0.1, 1, 1, reduce="sum")],
    "all_reduce · arrived 1 · awaiting 0 (it has ended) for 0.8 s · 4 numbers": [issued(0.1, 1, 1), Exited(0.2, 0, 0)],
    "all_reduce · all arrived for 0.8 s · 4 numbers": [issued(0.1, 1, 1), issued(0.2, 0, 1)],
    "broadcast · arrived 0 · awaiting 1 for 0.4 s · from 0 · 1 number": [
        Issued(0.5, 0, 1, Operation("broadcast", (0, 1), 0, ((),), "float32", 4, "demo.py", 5))
    ],
    "send · 0 → 1 · arrived 0 · awaiting 1 for 0.8 s · bucket 3 · 4 numbers · 1 more under way": [
        Issued(0.1, 0, 1, Operation("send", (0, 1), 1, ((4,),), "float32", 16, "demo.py", 5, bucket=3)), issued(0.3, 0, 2),
    ],
    "send · any rank → 1 · arrived 1 · awaiting any rank for 0.8 s · 4 numbers": [
        Issued(0.1, 1, 1, Operation("recv", (0, 1), None, ((4,),), "float32", 16, "demo.py", 5))
    ],
    "all_reduce · ranks 0-2 · arrived 1 and 2 · awaiting 0 for 0.6 s · 4 numbers · 1 more under way": [
        Issued(0.1, 0, 1, Operation("all_reduce", (0, 1, 2), None, ((4,),), "float32", 16, "demo.py", 5, group="1")),
        *(Issued(0.3, rank, 1, Operation("all_reduce", (0, 1, 2), None, ((4,),), "float32", 16, "demo.py", 5)) for rank in (1, 2)),
    ],
    "last: barrier · rank 1 alone · took 200 ms": [
        Issued(0.1, 1, 1, Operation("barrier", (1,), None, (), "", 0, "demo.py", 5)), Ended(0.3, 1, 1)
    ],
    "last: barrier · rank 1 came 300 ms late · took 200 ms from then": [
        Issued(0.1, 0, 1, Operation("barrier", (0, 1), None, (), "", 0, "demo.py", 5)),
        Issued(0.4, 1, 1, Operation("barrier", (0, 1), None, (), "", 0, "demo.py", 5)),
        Ended(0.5, 0, 1), Ended(0.6, 1, 1),
    ],
}  # fmt: skip


@pytest.mark.parametrize("line", RUNNING)
def test_the_running_operation_stands_in_one_line_with_who_arrived_and_who_is_awaited(line):
    assert live(seen(*RUNNING[line]), now=0.9, width=100).splitlines()[-1] == line


def test_what_a_rank_had_begun_before_it_was_started_again_is_over():
    lives = [issued(0.1, 0, 1), Exited(0.2, 1, -9), Exited(0.3, 0, -15), Started(0.4, 0, 7, 1), Started(0.5, 1, 8, 1)]
    picture = seen(*lives)
    assert live(picture, now=0.9, width=100).splitlines()[-1] == "no communication yet"
    assert picture.timeline.mismatches == []
    assert "restart 1 of 0 · now processes 7 8" in live(picture)


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ((0, 2, 3), "0, 2 and 3"),
        ((1,), "1"),
        ((0, 1, 2, 5, 6), "0-2, 5 and 6"),
        (range(0, 64, 2), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22 and others, 32 in all"),
    ],
)
def test_ranks_are_named_shortly(ranks, said):
    assert list_ranks(ranks) == said


MEETING = [
    Started(0.0, 0, 7), Started(0.0, 1, 8),
    issued(0.2, 0, 1), issued(0.6, 1, 1), Ended(0.7, 0, 1), Ended(0.7, 1, 1),
    Exited(0.9, 1, 0), End(1.0, True, 0, 0),
]  # fmt: skip


def test_ranks_over_time_have_a_glyph_for_each_thing_that_they_do():
    assert text(gantt(seen(*MEETING), 48, 1.0, live=False), 48).splitlines() == [
        "time    ━ compute   █ communication   ░ waiting",
        "rank 0  ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░████████",
        "rank 1  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━████████",
        "        ╵0 s (200 ms into the run)      ╵0.4 s",
    ]


def test_the_start_and_the_end_of_processes_take_no_room_beside_what_the_script_does():
    lanes = text(gantt(seen(*MEETING, said(0, "mine", "1")), 48, 1.0, live=False), 48).splitlines()
    assert lanes[1].startswith("rank 0  ━━━━━━━░░")  # from what it printed at 0.1 s
    assert lanes[-1].startswith("        ╵0 s (100 ms into the run)")


def test_a_lane_marks_an_operation_that_is_too_short_for_a_column():
    events = [Started(0.0, 0, 7), issued(0.301, 0, 1), issued(0.301, 1, 1), Ended(0.303, 0, 1), Ended(0.303, 1, 1)]
    around = [Output(at, 0, "stdout", "a line") for at in (0.0, 1.0)]
    picture = seen(*events, *around)
    assert text(gantt(picture, 48, 1.0, live=False), 48).splitlines()[1] == f"rank 0  {'━' * 12}╋{'━' * 27}"


def test_live_lanes_show_the_last_seconds():
    picture = seen(Started(0.0, 0, 7), Output(0.0, 0, "stdout", "a line"), issued(30.0, 0, 1))
    lines = text(gantt(picture, 48, 35.0, live=True), 200).splitlines()
    assert lines[1] == f"rank 0  {'━' * 20}{'░' * 20}"
    assert lines[-1].split() == ["╵25", "s", "╵30", "s"]


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
    told = replace(BEGAN, look=("step 3", "another"))
    rows = [line.split()[1] for line in live(seen(*events, began=told)).splitlines() if line.startswith("step ")]
    assert rows == ["3", *map(str, range(16, 30))]


def test_a_log_has_all_lines_of_a_rank_and_tells_standard_error():
    picture = seen(said(0, "mine", "1"), Output(2.25, 0, "stderr", "a warning of some length"), said(1, "mine", "2"))
    assert text(log(picture, 0, 40), 40).splitlines() == [
        "   0.10      mine: 1",
        "   2.25  err a warning of some length",
    ]
    assert text(log(picture, 0, 30), 30).splitlines()[1:] == ["   2.25  err a warning of some", "             length"]
    assert text(log(seen(), 1, 40), 40) == "Rank 1 has printed nothing."


def test_the_source_has_a_mark_at_the_line_of_each_rank(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os\n\nx = 1\nprint(x)\n")
    began = Began(str(script), (), 4, "cpu", "gloo", "4 ranks")
    calls = [
        Issued(0.1, rank, 1, Operation("barrier", (0, 1, 2, 3), None, (), "", 0, str(script), 3)) for rank in (0, 1, 3)
    ]
    elsewhere = Issued(0.1, 2, 1, Operation("barrier", (0, 1, 2, 3), None, (), "", 0, "/lib/other.py", 9))
    picture = seen(*calls, elsewhere, Ended(0.2, 3, 1), Exited(0.3, 1, 1), began=began)
    drawn_source, at = source(picture, 60)
    assert text(drawn_source, 60).splitlines() == [
        "rank 2 is in /lib/other.py:9",
        "              1 import os",
        "              2",
        "▶ 0 ▷ 3 ■ 1   3 x = 1",
        "              4 print(x)",
    ]
    assert at == 3


def test_a_script_that_is_not_here_is_said():
    drawn_source, at = source(seen(began=Began("/none/x.py", (), 1, "cpu", "gloo", "1 rank")), 60)
    assert (text(drawn_source, 60), at) == ("The script /none/x.py cannot be read here.", 0)


def test_a_long_line_of_the_source_goes_on_below_its_start(tmp_path):
    script = tmp_path / "script.py"
    script.write_text('"""A demo.\n\nTry    --fast    every rank is twice as fast as before\n"""\nx = 1\n')
    events = [Issued(0.1, 0, 1, Operation("barrier", (0,), None, (), "", 0, str(script), 5)), Exited(0.2, 0, 0)]
    picture = seen(*events, began=Began(str(script), (), 1, "cpu", "gloo", "1 rank"))
    drawn_source, at = source(picture, 50)
    assert text(drawn_source, 50).splitlines() == [
        '           1 """A demo.',
        "           2",
        "           3 Try    --fast    every rank is twice",
        "                 as fast as before",
        '           4 """',
        "■ 0        5 x = 1",
    ]
    assert at == 5
    picture.add(End(0.3, True, 0, 0))
    assert source(picture, 50)[1] == 0  # once all went well one reads it from its start


def test_an_explanation_that_is_too_wide_is_folded_by_paragraphs_and_what_is_in_columns_by_lines(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        '"""A demo.\n\n    torchrun demo.py\n\nEvery rank has one number and all of them\nleave with the sum.\n'
        'Look at it.\n\nTry    --fast\n       --slow\n"""\nx = 1\n'
    )
    picture = seen(began=Began(str(script), (), 1, "cpu", "gloo", "1 rank"))
    assert text(source(picture, 40)[0], 40).splitlines() == [
        '           1 """A demo.',
        "           2",
        "           3     torchrun demo.py",
        "           4",
        "           5 Every rank has one number",
        "             and all of them leave with",
        "             the sum. Look at it.",
        "           8",
        "           9 Try    --fast",
        "          10        --slow",
        '          11 """',
        "          12 x = 1",
    ]
    assert "           6 leave with the sum." in text(source(picture, 60)[0], 60).splitlines()


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
        Hung(3.0, 2.5, (RankPosition(0, "all_reduce", "/x/demo.py", 9, "File"), RankPosition(1, "", "", 0, ""))),
        End(3.4, False, 0, 2, None, "Nothing moved for 2.5 s: rank 0 waits in a communication that cannot end."),
    )
    assert drawn(picture, 80).splitlines()[2:5] == [
        "        waits in                             stands at",
        "rank 0  all_reduce                           /x/demo.py:9",
        "rank 1  nothing: it has ended with status 0  -",
    ]


def test_a_label_whose_numbers_repeat_becomes_a_curve():
    picture = seen(*(said(0, "loss", str(value)) for value in (4, 3, 2, 0)))
    assert "0       -\n        █▆▄▁" in drawn(picture)
    counter = seen(*(said(0, "step", str(value)) for value in range(9)), began=QUIET)
    assert drawn(counter).splitlines()[2:] == ["        rank 0  rank 1", "step    8       -"]


def test_numbers_that_are_no_longer_finite_are_drawn_too():
    assert "inf     -\n        ▄█!" in drawn(seen(*(said(0, "loss", value) for value in ("1", "2", "inf"))))


def test_a_long_series_gets_a_chart_with_the_ranks_at_the_ends_of_their_lines():
    events = [said(rank, "loss", str(9 - at + rank * at * at / 9)) for at in range(10) for rank in (0, 1)]
    assert drawn(seen(*events, began=QUIET), 44).splitlines()[2:] == [
        "        rank 0  rank 1",
        "loss    0.0     9.0",
        "",
        "   loss",
        "9 ┤▀▚▄▄▖                ▄▄▞▀ rank 1",
        "  │    ▝▀▜▛▀▀▄▄▄▄▄▞▀▀▀▀▀",
        "  │       ▝▀▀▄▄▖",
        "  │            ▝▀▀▚▄▖",
        "  │                 ▝▚▄▄",
        "0 ┤                     ▀▀▚▄ rank 0",
        "  └─────────── value 1 to 10",
    ]


CURVES = {
    (0, 1, 2, 3): "▁▃▆█",
    (1, 1): "██",
    (0, 0): "▁▁",
    (1, float("inf"), 2): "▄!█",
    (-1, 0, 1): "▁▄█",
    (78, 62, 62, 62): "█▇▇▇",
    tuple(range(100)): "▁▂▄▇█",
    (9, 9, 9, 0, 9, 9, 9, 9, 0, 9): "█▁██▁",
    (0, 0, 0, 0, 0, 0, 5): "▁▁▁▁█",
}


@pytest.mark.parametrize("numbers", CURVES, ids=str)
def test_a_curve_fits_its_width_and_starts_from_0(numbers):
    assert sparkline([float(number) for number in numbers], 5, *scale([numbers])) == CURVES[numbers]


def test_the_curves_of_all_ranks_have_one_scale():
    picture = seen(*(said(rank, "loss", str(value * (1 + 3 * rank))) for rank in (0, 1) for value in (4, 3, 2, 0)))
    assert "0       0\n        ▂▂▁▁    █▆▄▁" in drawn(picture)


def test_the_name_of_a_line_that_all_ranks_share_stands_there_once():
    events = [said(rank, "left", str((9 - at) ** 2)) for at in range(10) for rank in (0, 1)]
    assert drawn(seen(*events, began=QUIET), 44).splitlines()[-2].endswith(" ranks 0 and 1")


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


def test_one_number_that_is_not_finite_makes_no_curve():
    assert "!" not in drawn(seen(said(0, "loss", "inf"), began=QUIET))
    assert "!" in drawn(seen(*(said(0, "loss", value) for value in ("1", "inf", "3")), began=QUIET))


@pytest.mark.parametrize(("op", "brings"), [("scatter", "-"), ("broadcast", "2x2 float32")])
def test_who_gets_its_part_of_the_root_brings_nothing(op, brings):
    call = issued(0.1, 0, 1, op, peer=1)
    lines = drawn_with_tensors(seen(call, said(0, "a", "1"), began=QUIET), 80)
    assert next(line for line in lines if line.startswith("brings")).split()[1:3] == [*brings.split(), "-"][:2]


def test_ranks_over_time_are_shown_where_ranks_did_nothing_but_wait_to_join():
    events = [
        Started(0.0, 0, 1, 0),
        Started(0.0, 1, 2, 0),
        Joining(0.1, 0, False, 3),
        Exited(1.0, 1, 0),
        Exited(2.0, 0, 1),
    ]
    assert "rank 0  ░░░" in drawn(seen(*events, End(2.1, False, 0, 0, 0, "why"), began=QUIET))


def held(before, after=(), width=80, shape=(2, 2), ended=True):
    """Return the cells of `brings` and `gets` of rank 0."""
    events = [replace(issued(0.1, 0, 1, shapes=(shape,)), before=before), Result(0.2, 0, 1, after)]
    lines = drawn_with_tensors(seen(*events, *([Ended(0.3, 0, 1)] if ended else []), said(0, "a", "1")), width)
    return [line.partition("  ")[2].strip().rstrip("- ") for line in lines if line.startswith(("brings", "gets"))]


def drawn_with_tensors(picture, width):
    return text(frame(picture, width, tensors=True), width).splitlines()


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


def test_what_does_not_fit_into_the_running_line_is_left_out_and_not_cut():
    line = next(line for line in RUNNING if "bucket 3" in line)
    shown = live(seen(*RUNNING[line]), now=0.9, width=len("send · 0 → 1 · arrived 0 · awaiting 1 for 0.8 s · bucket 3"))
    assert shown.splitlines()[-1] == "send · 0 → 1 · arrived 0 · awaiting 1 for 0.8 s · bucket 3"


def test_claims_about_other_arguments_come_last_and_are_not_cut():
    began = Began("demo.py", (), 1, "cpu", "gloo", "1 rank", (ClaimText(1, "word " * 12), ClaimText(2, "it holds")))
    lines = drawn(seen(Claimed(0.1, 0, 2, held=True), End(0.4, True, 1, 2), began=began), 40).splitlines()
    assert lines[2:4] == ["✓ the rank      it holds", "· not this run  word word word word word"]


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
        "✓ rank 0        every rank holds the sum",
        "· not this run  the sum is 3",
        "done in 0.40 s · 1 claim proven; 1 is about other arguments",
    ]


def test_claims_are_named_when_they_are_reached_and_counted_before():
    shown = live(seen(Claimed(0.3, 0, 7, held=True)))
    assert "✓ rank 0  every rank holds the sum\n1 claim to come" in shown
    assert "not this run" not in shown


def test_a_claim_that_is_longer_than_a_line_hangs_below_itself():
    began = Began("demo.py", (), 1, "cpu", "gloo", "1 rank", (ClaimText(1, "word " * 12),))
    lines = drawn(seen(Claimed(0.1, 0, 1, held=True), began=began), 40).splitlines()
    assert lines[2].startswith("✓ the rank  word word")
    assert lines[3].startswith("            word")


def test_a_run_begins_with_what_its_script_says_it_is_and_what_to_look_at():
    began = Began("demo.py", (), 2, "cpu", "gloo", "2 ranks on CPU over Gloo", title="Sums: everybody gets them.")
    console = style.console(io.StringIO(), width=60)
    console.print(frame(seen(began=began), 60, hint=Hint("`sum` on rank 1")))
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
    lines = text(frame(seen(*end), 60, hint=Hint("`sum`", "You predicted 3.", "✓ You were right.")), 60).splitlines()
    assert lines[1:3] == ["look at  `sum`", said]


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


def test_what_an_operation_brings_and_what_it_gets_have_as_many_digits():
    assert held(("[-0.6112467, 0.1717298]",), ("[3.0, 0.25]",), width=32) == ["-0.61 0.17", "3 0.25"]
    assert held(("[0.5, 0.25]",), ("[-0.6112467, 0.1717298]",), width=32) == ["0.5 0.25", "-0.61 0.17"]
    assert held(("[0.12345, 0.5]",), ("[-0.6112467, 0.1717298]",), width=32) == ["0.12 0.5", "-0.61 0.17"]


@pytest.mark.parametrize("demo", ["ddp", "collectives"])
def test_where_labels_are_hidden_the_frame_fits(demo):
    events = saved_run.read(recordings_dir() / f"{demo}.json")
    stops = steps(events)
    tape, console = Tape(events), style.console(io.StringIO(), width=80)
    hidden = 0
    for stop in stops[:: max(1, len(stops) // 20)]:
        body, below = on_screen(tape.wind(stop), ConsoleDimensions(80, 23), 0.0, tensors=True)
        if "not shown now" in text(body, 80):
            hidden += 1
            assert len(console.render_lines(Group(body, *below), pad=False)) <= 22
    assert hidden


TORCH_SAYS = "[rank0]:[E1122 00:58:31.132186439 ProcessGroupGloo.cpp:2901] [Rank 0]: Rank 1 failed to pass"


def test_what_torch_itself_logs_is_in_the_log_and_not_in_the_picture():
    noise = [Output(0.1, 0, "stderr", TORCH_SAYS), Output(0.2, 0, "stderr", "[W1122 00:58:31.1 socket.cpp:9] no name")]
    picture = seen(*noise, Output(0.3, 0, "stderr", "[E1 of 2] is mine"))
    for shown in (live(picture), drawn(picture, 120), drawn(seen(*noise, End(0.4, True, 0, 0)), 120)):
        assert "cpp" not in shown
    assert "[E1 of 2] is mine" in live(picture)
    assert "ProcessGroupGloo.cpp:2901" in text(log(picture, 0, 120), 120)
    assert "ProcessGroupGloo.cpp:2901" in drawn(seen(*noise, Exited(0.5, 0, -6), End(0.6, False, 0, 0, 0, "why")), 120)


def test_of_a_script_that_is_no_demo_only_broken_asserts_are_shown():
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
