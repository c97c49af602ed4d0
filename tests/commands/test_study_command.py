"""`ddpquiz study` from end to end: real keys in a real terminal, and real pipes."""

import os
import re
import signal
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest
from inline_snapshot import snapshot
from places import ROOT
from run_program import ENTER_SCREEN, LEAVE_SCREEN, log, piped, sample
from sample import answer_row

from ddpquiz.learning.log_rows import LabRow
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade


def test_a_sitting_with_cards_from_the_welcome_to_the_summary(home):
    terminal = sample(home, "study", "ring", "ddp", "--count", "3")
    assert "Welcome. Each card asks one thing" in terminal.wait("Front of one")
    terminal.press(" ", "Back of one")
    terminal.press("1", "Card 2/3 · 1 to repeat · The ring")
    assert log(home) == [("review", "ring/one", 1, None)]  # saved before the next card was painted
    terminal.press("u", "Back of one")
    terminal.press("3", "see again in 2 days · u undo")
    terminal.press("?", "Keys of this screen")
    terminal.press("?", "Front of two")
    terminal.press("\r", "Back of two")
    terminal.press("\r", "Front of three")
    terminal.press("s", "Done: 2 new cards")
    terminal.press("n", "Card 4/6 · The ring\n\n\nFront of four")
    terminal.press("u", "Done: 2 new cards")
    terminal.press("q")
    assert terminal.end() == 0
    assert LEAVE_SCREEN in terminal.raw
    assert "Done: 2 new cards." in terminal.raw.split(LEAVE_SCREEN)[-1]
    assert [kind for kind, *_ in log(home)] == ["review", "undo", "review", "review"]


def test_the_demo_has_the_terminal_to_itself_and_leads_back_to_the_card(home):
    terminal = sample(home, "study")
    terminal.wait("Front of one")
    terminal.press("d", "enter goes back")
    away = re.sub(r"\x1b\[\?2004.", "", terminal.raw.split(LEAVE_SCREEN)[1])
    assert away.strip().startswith("the demo allreduce runs")
    terminal.press("\r", "Front of one")
    terminal.press(" ", "Back of one")
    terminal.press("q")
    assert terminal.end() == 0


def test_a_kill_in_the_middle_loses_no_grade(home):
    terminal = sample(home, "study")
    terminal.wait("Front of one")
    terminal.press(" ", "Back of one")
    terminal.press("3", "Front of two")
    terminal.child.kill(signal.SIGKILL)
    assert terminal.end() == -signal.SIGKILL
    assert log(home) == [("review", "ring/one", 3, None)]


def test_kills_at_random_moments_lose_no_grade_that_was_acknowledged(capsys, scale):
    """The benchmark ends with status 1 at the first loss."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import learning as benchmark
    finally:
        sys.path.pop(0)
    benchmark.kills(scale(5, 60), seed=3)
    assert re.match(
        r"\d+ kills: \d+ grades acknowledged, \d+ saved, none lost, no database damaged", capsys.readouterr().out
    )


@pytest.mark.parametrize(("key", "status"), [("\x03", 130), ("\x04", 0), ("q", 0)])
def test_leaving_by_control_keys_puts_the_terminal_back_and_sums_up(home, key, status):
    terminal = sample(home, "study")
    terminal.wait("Front of one")
    terminal.press(" ", "Back of one")
    terminal.press("3", "Front of two")
    terminal.press(key)
    assert terminal.end() == status
    assert "Done: 1 new card." in terminal.raw.split(LEAVE_SCREEN)[-1]


def test_a_terminal_that_goes_away_ends_the_sitting(home):
    terminal = sample(home, "study")
    terminal.wait("Front of one")
    os.kill(terminal.child.pid, signal.SIGHUP)
    assert terminal.end() == 128 + signal.SIGHUP


def test_keys_typed_before_a_card_is_seen_grade_nothing(home):
    terminal = sample(home, "study")
    terminal.wait("Front of one")
    terminal.press(" 3 3 3")
    terminal.wait("Back of one")
    time.sleep(0.3)
    assert len(log(home)) <= 1


def test_a_narrow_terminal_shows_the_card_and_the_way_out(home):
    terminal = sample(home, "study", width=40, height=20)
    assert terminal.wait("Front of one").endswith("? help · q quit")


def test_no_color_is_no_color(home):
    terminal = sample(home, "study", NO_COLOR="1")
    terminal.wait("Front of one")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", terminal.raw.split(ENTER_SCREEN)[1])


def test_a_terminal_that_cannot_be_painted_gets_lines_and_can_answer(home):
    terminal = sample(home, "study", TERM="dumb")
    terminal.wait(re.escape("Front of one?\nspace show the back"))
    terminal.press("\r", "Back of one")
    terminal.press("3\r", "Front of two")
    terminal.press("\x04")
    assert terminal.end() == 0
    assert "\x1b" not in terminal.raw
    assert "Done: 1 new card" in terminal.raw


def test_a_pipe_studies_by_lines(home):
    done = piped(home, "study", lines="\n3\nspace\n1\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "see again in 2 days" in done.stdout
    assert "Done: 2 new cards." in done.stdout
    assert "\x1b" not in done.stdout
    assert [grade for _, _, grade, _ in log(home)] == [3, 1]


def test_a_pipe_without_lines_shows_the_first_card_and_ends(home):
    done = piped(home, "study")
    assert done.returncode == 0
    assert "Front of one?" in done.stdout
    assert done.stdout.count("Front") == 1
    assert log(home) == []


def test_the_next_sitting_goes_on_where_the_last_one_ended_with_cards_that_come_again(home):
    piped(home, "study", "--count", "4", lines="\n1\n\n2\n")
    said = piped(home, "study", "--count", "4").stdout
    assert "Card 1/2 · 2 to repeat · The ring\nFront of three?" in said
    rest = piped(home, "study", "--count", "4", lines="\n3\n" * 4).stdout
    assert re.findall(r"Front of (\w+)", rest) == ["three", "four", "one", "two"]
    assert "Nothing is due." in piped(home, "study", "--new", "4").stdout  # new cards of this day, not of this sitting


def test_new_cards_are_counted_by_the_day(home):
    piped(home, "study", "--new", "2", lines="\n3\n" * 6)
    assert len(log(home)) == 2
    done = piped(home, "study", "--new", "2").stdout
    assert "Nothing is due." in done
    assert "ddpquiz study --new 12  study more new cards (2 are left)" in done
    assert "Card 1/1" in piped(home, "study", "--new", "3").stdout


@pytest.mark.parametrize(
    ("words", "lines"),
    [("--count 4", "\n3\n"), ("", "s\n\n3\n"), ("ring --count 2", "\n1\n"), ("--new 3", "\n2\n")],
)
def test_what_is_left_is_counted_as_the_next_sitting_counts_it(home, words, lines):
    said = " ".join(piped(home, "study", *words.split(), lines=lines).stdout.split())
    left = re.search(r"Left: (\d+) cards?(?:, and (\d+) to repeat)?; to continue: `(.*)`", said)
    count, again, command = left.groups()
    header = piped(home, *command.split()[1:]).stdout
    assert f"Card 1/{count} ·" in header
    assert (f"· {again} to repeat" in header) == bool(again)


def test_a_concept_that_is_named_has_new_cards_beyond_those_of_the_day(home):
    piped(home, "study", "--new", "1", lines="\n3\n" * 3)
    assert "Nothing is due." in piped(home, "study", "--new", "1").stdout
    assert "Nothing is due." in piped(home, "study", "ring", "--new", "1").stdout
    with Progress(home) as progress:
        for number in range(9):  # so all ten new cards of the day are done
            progress.review(f"gone/{number}", Grade.GOOD, datetime.now(UTC).astimezone(), timedelta(0))
    assert "Nothing is due." not in piped(home, "study", "ddp").stdout
    said = piped(home, "study", "ring", lines="\n3\n").stdout
    assert re.findall(r"Front of (\w+)", said) == ["two", "three"]
    assert "Left: 2 cards; to continue: `ddpquiz study ring`." in said


def test_another_retention_is_reported_and_used_until_the_next(home):
    said = " ".join(piped(home, "study", "--retention", "0.8", lines="\n3\n").stdout.split())
    assert "From now on you aim to recall 80% of the cards that come due:" in said
    assert "intervals are 3.3 times as long as at 90%." in said
    stretched = r"see again in ([6-9]|10) days"  # instead of 2; the exact number varies by the day
    assert re.search(stretched, said)
    assert re.search(stretched, piped(home, "study", lines="\n3\n").stdout)
    again = piped(home, "study", "--retention", "0.8").stdout
    assert "You aim to recall 80% of the cards that come due, as before." in again
    wrong = piped(home, "study", "--retention", "1.5")
    assert (wrong.returncode, wrong.stderr) == (1, "Retention must lie between 0.7 and 0.97; 1.5 does not.\n")


@pytest.mark.parametrize(
    "words",
    [
        "",
        "ring --level easy --two-button",
        "--track collectives --count 3 --all --new 4",
        "ring --count 30",
    ],
)
def test_quitting_prints_the_command_that_goes_on_with_the_same_sitting(home, words):
    said = piped(home, "study", *words.split(), lines="\n1\n").stdout
    left = re.search(
        r"Left: (\d+) cards?, and 1 to repeat; to continue: `([^:`]*)`(?: \(new cards done today: 1\))?\.",
        " ".join(said.split()),
    )
    count, command = left.groups()
    assert command.split() == ["ddpquiz", "study", *words.split()]
    again = piped(home, *command.split()[1:]).stdout
    assert f" Card 1/{count} · 1 to repeat · " in again
    (one,) = re.findall(r"Front of (\w+)\?", again)
    assert one in {"two", "four"}  # the next one
    assert ("4 easy" in piped(home, *command.split()[1:], lines="\n").stdout) == ("--two-button" not in words)


def test_quitting_a_cram_says_that_the_next_one_starts_again(home):
    piped(home, "study", lines="\n3\n" * 6)
    said = " ".join(piped(home, "study", "ring", "--cram", lines="\n1\n").stdout.split())
    assert "`ddpquiz study ring --cram` begins anew." in said
    assert "Card 1/4 · cram" in piped(home, "study", "ring", "--cram").stdout


def test_cramming_leaves_the_log_as_it_is(home):
    piped(home, "study", "ring", "ddp", lines="\n3\n" * 6)
    before = log(home)
    said = piped(home, "study", "--cram", lines="\n1\n" + "\n3\n" * 6).stdout
    assert "cram: the schedule does not change" in said
    assert "Done: 6 cards." in said
    assert log(home) == before


def test_a_concept_proven_strong_offers_no_new_cards_unless_all_are_wanted(home):
    with Progress(home) as progress:
        for number in range(8):
            progress.answer(answer_row(f"ring/q{number}", 1.0, level="hard"), datetime.now(UTC).astimezone())
        progress.stage("ddp/lesson", "done", datetime.now(UTC).astimezone())
    said = piped(home, "study", lines="\n3\n" * 2).stdout
    assert re.findall(r"Card \d/(\d) · (.+)", said) == [("2", "DDP")] * 2
    assert "Left out: 4 new cards of concepts that you know well (`--all` shows them)." in said
    assert "Left out: 4 new cards" in piped(home, "study").stdout
    assert "Card 1/4 · The ring" in piped(home, "study", "--all").stdout


def test_something_is_looked_up_from_a_card(home):
    terminal = sample(home, "study")
    terminal.wait("Front of one")
    terminal.press("/", "Type words to search for")
    terminal.press("four", r"> ring/four  card\n    Front of four")
    terminal.press("\r", "Back of four")
    terminal.press("\x1b", r"/four_")
    terminal.press("\x1b", "Front of one")
    terminal.press("q")
    assert terminal.end() == 0


def test_nothing_due_offers_more(home):
    piped(home, "study", lines="\n3\n" * 6)
    done = piped(home, "study", "ring")
    assert done.returncode == 0
    assert re.sub(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b", "DAY", done.stdout) == (
        snapshot("""\
Nothing is due.
Due in the next seven days: 4 cards (4 DAY).

Instead
  ddpquiz study ring --cram  go over cards that are not due
  ddpquiz test ring          find out how well you know it
  ddpquiz demo allreduce     see it run on real ranks
""")
    )
    assert "Front of" in piped(home, "study", "--cram").stdout
    told = piped(home, "study", "ring", "--level", "hard").stdout  # there is one such card
    assert "Due in the next seven days: 1 card (" in told


def asked(home, *words):
    """Return the titles of the lessons whose cards a whole sitting asks."""
    said = piped(home, "study", *words, lines="\n3\n" * 9).stdout
    return [*dict.fromkeys(re.findall(r"Card \d/\d · (.+)", said))]


def test_new_cards_are_those_of_the_lessons_that_have_begun(home):
    said = piped(home, "study").stdout
    assert 'These cards belong to the lesson "The ring", which `ddpquiz learn ring` opens.' in " ".join(said.split())
    with Progress(home) as progress:
        progress.stage("ddp/step-1", "done", datetime.now(UTC).astimezone())
    said = " ".join(piped(home, "study").stdout.split())
    assert "New cards come from the lessons that you have begun; these are from" in said
    assert asked(home) == ["DDP"]
    said = piped(home, "study").stdout
    assert "ddpquiz learn           begin the next lesson, whose cards are new\n" in said
    assert asked(home, "ring") == ["The ring"]  # it was named


def test_new_cards_of_a_track_that_is_named_need_no_lesson(home):
    assert asked(home, "--track", "collectives") == ["The ring", "DDP"]


@pytest.mark.parametrize("kind", ["review", "answer", "suspend", "lab"])
def test_any_row_of_an_old_log_begins_its_concept(home, kind):
    at = datetime.now(UTC).astimezone()
    with Progress(home) as progress:
        match kind:
            case "review":
                progress.undo(progress.review("ddp/gone", Grade.GOOD, at, timedelta(seconds=1)), at)
            case "answer":
                progress.answer(answer_row("ddp/hooks", 1.0), at)
            case "suspend":
                progress.suspend("ddp/gone", at)
            case "lab":
                progress.lab(LabRow(item="ddp/some-lab", passed=True), at)
    assert asked(home) == ["DDP"]
