"""A quiz that reads its answers as lines, from a pipe."""

import io
from datetime import timedelta

from inline_snapshot import snapshot
from sample import BYTES, HOOKS, PHASES, PRINTS, STEPS
from sample_sittings import quizzing, spoken

from ddpquiz.terminal.kit import style


def test_lines_of_a_pipe_are_answers_and_an_empty_one_skips(progress):
    seat = quizzing(progress, BYTES, PHASES, PRINTS, final=True)
    text = spoken(seat, "h", "2", "", ":h", "[1.0, 1.5]")
    assert "How large is a chunk?\n✓ Right, with a hint: half a point.\n" in text
    assert "SUM is the default.\n✗ Wrong. That is the mean.\nyours  [1.0, 1.5]\nright  [4.0, 6.0]\n" in text
    assert [(answer.given, answer.credit) for answer in seat.quiz.answers] == [("2", 0.5), ("[1.0, 1.5]", 0.0)]
    assert seat.over


def test_a_pipe_that_ends_leaves_the_rest_unanswered(progress):
    seat = quizzing(progress, BYTES, PHASES, final=True)
    spoken(seat, "2")
    assert (len(seat.quiz.answers), seat.over) == (1, False)


def test_a_line_that_is_not_an_answer_counts_as_unanswered_in_a_pipe(progress, capsys):
    seat = quizzing(progress, BYTES, HOOKS, STEPS, final=True)
    text = spoken(seat, "bytes", "2", "foo")
    assert seat.over
    assert "Wrong" not in text
    assert capsys.readouterr().err == (
        snapshot("""\
ring/bytes: `bytes` cannot be read as an answer. Answer with one number from 1 to 4.
ddp/hooks: `2` cannot be read as an answer. Give each number from 1 to 3 once, in order, such as 2 1 3.
ring/steps: `foo` cannot be read as an answer. Answer with a number (in bytes), such as 1800, 1.8e3 or 3/4.
""")
    )
    assert "Answer with one number from 1 to 4.\n" in spoken(quizzing(progress, BYTES), "bytes")
    assert progress.log() == []


def test_where_lines_are_read_the_keys_are_named_as_they_are_typed(progress):
    console = style.console(io.StringIO(), width=80)
    quizzing(progress, PRINTS).by_lines.read(console, [":h", ":q"], asked=True)
    assert (
        "enter answer · :h hint (1) · :x solution · :s skip · :f flag · :? help · :q quit\n" in console.file.getvalue()
    )


def test_where_lines_are_read_the_time_of_a_proof_does_not_count_as_time_spent_on_the_question(progress):
    seat = quizzing(progress, BYTES, PRINTS)

    def prove(_posed):
        seat.context.clock.at += timedelta(hours=1)

    seat.context.ranks.prove = prove
    spoken(seat, "1", ":p", "[4.0, 6.0]")
    assert [row.took < 60_000 for row in progress.entries("answer")] == [True, True]
