"""How a run ended: the failure with its traceback, or the hang with where each rank stands."""

from drawn_run import drawn, seen, text
from inline_snapshot import snapshot

from ddpquiz.events.event import Began, Claimed, End, Exited, Hung, Output, Raised, RankStack
from ddpquiz.events.run_frame import describe_frame
from ddpquiz.terminal.runs.script import source


def test_an_explanation_that_is_too_wide_is_folded_by_paragraphs_and_what_is_in_columns_by_lines(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        '"""A demo.\n\n    torchrun demo.py\n\nEvery rank has one number and all of them\nleave with the sum.\n'
        'Look at it.\n\nTry    --fast\n       --slow\n"""\nx = 1\n'
    )
    picture = seen(began=Began(str(script), (), 1, "cpu", "gloo", "1 rank"))
    assert text(source(describe_frame(picture), 40)[0], 40).splitlines() == snapshot(
        [
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
    )
    assert "           6 leave with the sum." in text(source(describe_frame(picture), 60)[0], 60).splitlines()


def test_a_failure_shows_the_traceback_of_the_rank_that_failed_and_no_claim_that_was_not_reached():
    picture = seen(
        Output(0.1, 0, "stderr", "a warning of the other rank"),
        Output(0.1, 1, "stderr", "a warning of this rank"),
        Output(0.1, 1, "stderr", "[rank1]:[W1127 03:04:05.000000000 ProcessGroupGloo.cpp:29] a warning of torch"),
        Claimed(0.1, 0, 7, held=True),
        Claimed(0.1, 1, 7, held=False),
        Raised(0.2, 1, "AssertionError", "every rank holds the sum", "Traceback (most recent call last):\n  ...\n"),
        Exited(0.3, 1, 1),
        End(0.5, False, 0, 2, 1, "Rank 1 raised AssertionError: every rank holds the sum"),
    )
    assert drawn(picture, 72) == (
        snapshot(
            "2 ranks on CPU over Gloo · no GPU found\n"
            "rank 1  a warning of this rank\n"
            "\n"
            "✗ rank 1  every rank holds the sum\n"
            "\n"
            "rank 1\n"
            "Traceback (most recent call last):\n"
            "  ...\n"
            "Rank 1 raised AssertionError: every rank holds the sum\n"
            "ended after 0.50 s"
        )
    )


def test_a_hang_shows_what_each_rank_waits_in_and_where_it_stands():
    picture = seen(
        Exited(0.2, 1, 0),
        Hung(3.0, 2.5, (RankStack(0, "all_reduce", "/x/demo.py", 9, "File"), RankStack(1, "", "", 0, ""))),
        End(
            3.4, False, 0, 2, None, "No rank made progress for 2.5 s: rank 0 waits in a communication that cannot end."
        ),
    )
    assert drawn(picture, 80).splitlines()[2:5] == snapshot(
        [
            "        waits in                             is at",
            "rank 0  all_reduce                           /x/demo.py:9",
            "rank 1  nothing: it has ended with status 0  -",
        ]
    )
