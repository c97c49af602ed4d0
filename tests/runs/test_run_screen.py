"""The log and the source of a run."""

from drawn_run import drawn, live, said, seen, text
from inline_snapshot import snapshot

from ddpquiz.events.event import Alive, Began, End, Ended, Exited, Hung, Issued, Output, RankStack
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_frame import describe_frame
from ddpquiz.terminal.runs.run_screen import log
from ddpquiz.terminal.runs.script import source


def test_a_log_has_all_lines_of_a_rank_and_marks_standard_error():
    picture = seen(said(0, "mine", "1"), Output(2.25, 0, "stderr", "a warning of some length"), said(1, "mine", "2"))
    assert text(log(picture, 0, 40), 40).splitlines() == snapshot(
        [
            "   0.10      mine: 1",
            "   2.25  err a warning of some length",
        ]
    )
    assert text(log(picture, 0, 30), 30).splitlines()[1:] == snapshot(
        ["   2.25  err a warning of some", "             length"]
    )
    assert text(log(seen(), 1, 40), 40) == "Rank 1 has printed nothing so far."
    assert text(log(seen(End(1.0, True, 0, 0)), 1, 40), 40) == "No output of rank 1 was recorded."


def test_the_source_has_a_mark_at_the_line_of_each_rank(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os\n\nx = 1\nprint(x)\n")
    began = Began(str(script), (), 4, "cpu", "gloo", "4 ranks")
    calls = [
        Issued(0.1, rank, 1, Operation("barrier", (0, 1, 2, 3), None, (), "", 0, str(script), 3)) for rank in (0, 1, 3)
    ]
    elsewhere = Issued(0.1, 2, 1, Operation("barrier", (0, 1, 2, 3), None, (), "", 0, "/lib/other.py", 9))
    picture = seen(*calls, elsewhere, Ended(0.2, 3, 1), Exited(0.3, 1, 1), began=began)
    drawn_source, at = source(describe_frame(picture), 60)
    assert text(drawn_source, 60).splitlines() == [
        "rank 2 is in /lib/other.py:9",
        "              1 import os",
        "              2",
        "▶ 0 ▷ 3 ■ 1   3 x = 1",
        "              4 print(x)",
    ]
    assert at == 3


def test_a_rank_that_ddpquiz_stopped_is_marked_where_it_stood(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("x = 1\nbarrier()\nsleep()\n")
    began = Began(str(script), (), 3, "cpu", "gloo", "3 ranks")
    barrier = Operation("barrier", (0, 1, 2), None, (), "", 0, str(script), 2)
    hung = Hung(5.0, 4.0, (RankStack(0, "barrier", str(script), 2, ""), RankStack(1, "", str(script), 3, "")))
    ends = [Exited(5.1, rank, -9, stopped=True) for rank in (0, 1)]
    picture = seen(
        Issued(0.1, 0, 1, barrier), Alive(0.2, 1, str(script), 3), hung, Exited(5.0, 2, 0), *ends, began=began
    )
    drawn_source, _ = source(describe_frame(picture), 60)
    assert text(drawn_source, 60).splitlines() == [
        "           1 x = 1",
        "▶ 0        2 barrier()",
        "▷ 1        3 sleep()",
    ]
    assert [picture.doing(rank) for rank in range(3)] == ["stopped", "stopped", "done"]


def test_a_missing_script_is_reported():
    drawn_source, at = source(describe_frame(seen(began=Began("/none/x.py", (), 1, "cpu", "gloo", "1 rank"))), 60)
    assert (text(drawn_source, 60), at) == ("The script /none/x.py cannot be read here.", 0)


def test_a_long_line_of_the_source_goes_on_below_its_start(tmp_path):
    script = tmp_path / "script.py"
    script.write_text('"""A demo.\n\nTry    --fast    every rank is twice as fast as before\n"""\nx = 1\n')
    events = [Issued(0.1, 0, 1, Operation("barrier", (0,), None, (), "", 0, str(script), 5)), Exited(0.2, 0, 0)]
    picture = seen(*events, began=Began(str(script), (), 1, "cpu", "gloo", "1 rank"))
    drawn_source, at = source(describe_frame(picture), 50)
    assert text(drawn_source, 50).splitlines() == snapshot(
        [
            '           1 """A demo.',
            "           2",
            "           3 Try    --fast    every rank is twice",
            "                 as fast as before",
            '           4 """',
            "■ 0        5 x = 1",
        ]
    )
    assert at == 5
    picture.add(End(0.3, True, 0, 0))
    assert (
        source(describe_frame(picture), 50)[1] == 0
    )  # after a run that ended well, the source is shown from its start


TORCH_SAYS = "[rank0]:[E1122 00:58:31.132186439 ProcessGroupGloo.cpp:2901] [Rank 0]: Rank 1 failed to pass"


def test_what_torch_itself_logs_is_in_the_log_and_not_in_the_picture():
    noise = [Output(0.1, 0, "stderr", TORCH_SAYS), Output(0.2, 0, "stderr", "[W1122 00:58:31.1 socket.cpp:9] no name")]
    picture = seen(*noise, Output(0.3, 0, "stderr", "[E1 of 2] is mine"))
    for shown in (live(picture), drawn(picture, 120), drawn(seen(*noise, End(0.4, True, 0, 0)), 120)):
        assert "cpp" not in shown
    assert "[E1 of 2] is mine" in live(picture)
    assert "ProcessGroupGloo.cpp:2901" in text(log(picture, 0, 120), 120)
    assert "ProcessGroupGloo.cpp:2901" in drawn(seen(*noise, Exited(0.5, 0, -6), End(0.6, False, 0, 0, 0, "why")), 120)
