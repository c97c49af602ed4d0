"""Sittings from end to end: real keys in a real terminal, and real pipes."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from program import ENTER_SCREEN, LEAVE_SCREEN, SAMPLE, environment, log, piped, sample
from sample import answer_row

from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade


def test_a_sitting_with_cards_from_the_welcome_to_the_summary(home):
    terminal = sample(home, "study", "--limit", "3")
    assert "Welcome. Each card asks one thing" in terminal.wait("Front of one")
    terminal.press(" ", "Back of one")
    terminal.press("1", "Card 2/3 · 1 coming again · ring")
    assert log(home) == [("review", "ring/one", 1, None)]  # kept before the next card was painted
    terminal.press("u", "Back of one")
    terminal.press("3", "see again in 2 days · u undo")
    terminal.press("?", "Keys that work here")
    terminal.press("?", "Front of two")
    terminal.press("\r", "Back of two")
    terminal.press("\r", "Front of three")
    terminal.press("s", "Done: 2 cards, 2 of them new")
    terminal.press("n", "Card 4/6 · ring\n\n\nFront of four")
    terminal.press("u", "Done: 2 cards, 2 of them new")
    terminal.press("q")
    assert terminal.end() == 0
    assert LEAVE_SCREEN in terminal.raw
    assert "Done: 2 cards, 2 of them new." in terminal.raw.split(LEAVE_SCREEN)[-1]
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


def test_kills_at_random_moments_lose_no_grade_that_was_acknowledged(capsys):
    """The benchmark does it a thousand times; it ends with status 1 at the first loss."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
    try:
        import learning as benchmark
    finally:
        sys.path.pop(0)
    benchmark.kills(20, seed=3)
    assert re.match(
        r"20 kills: \d+ grades acknowledged, \d+ kept, none lost, every database whole", capsys.readouterr().out
    )


@pytest.mark.parametrize(("key", "status"), [("\x03", 130), ("\x04", 0), ("q", 0)])
def test_leaving_by_control_keys_puts_the_terminal_back_and_sums_up(home, key, status):
    terminal = sample(home, "study")
    terminal.wait("Front of one")
    terminal.press(" ", "Back of one")
    terminal.press("3", "Front of two")
    terminal.press(key)
    assert terminal.end() == status
    assert "Done: 1 card, 1 of them new." in terminal.raw.split(LEAVE_SCREEN)[-1]


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


def test_no_colour_is_no_colour(home):
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
    assert "Done: 1 card" in terminal.raw


def test_a_quiz_from_the_first_question_to_the_retry(home):
    terminal = sample(home, "test", "ring", "--kind", "choice", "--seed", "1")
    shown = terminal.wait("Four ranks all-reduce")
    places = dict(re.findall(r"^ (\d)  ([\d,]+) bytes$", shown, re.MULTILINE))
    wrong = next(place for place, size in places.items() if size == "2,400")
    terminal.press("h", "Hint 1  How large is a chunk")
    assert "That is the limit for very many ranks." in terminal.press(wrong, "✗ Wrong")
    terminal.press("p", "enter goes back")
    terminal.press("\r", "✗ Wrong")
    terminal.press("\r", "Done: 0 of 1 right")
    terminal.press("r", "Question 1/1 · once more")
    right = next(place for place, size in places.items() if size == "1,800")
    terminal.press(right, "✓ Right")
    terminal.press("\r", "Once more: 1 of 1 right")
    terminal.press("\r")
    assert terminal.end() == 0
    assert log(home) == [("answer", "ring/bytes", None, 0.0), ("answer", "ring/bytes", None, 1.0)]


def test_a_pipe_studies_by_lines(home):
    done = piped(home, "study", lines="\n3\nspace\n1\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "see again in 2 days" in done.stdout
    assert "Done: 2 cards, 2 of them new." in done.stdout
    assert "\x1b" not in done.stdout
    assert [grade for _, _, grade, _ in log(home)] == [3, 1]


def test_a_pipe_without_lines_shows_the_first_card_and_ends(home):
    done = piped(home, "study")
    assert done.returncode == 0
    assert "Front of one?" in done.stdout
    assert done.stdout.count("Front") == 1
    assert log(home) == []


def test_scripted_answers_give_a_result_in_json_and_nothing_else(home):
    asked = json.loads(piped(home, "test", "--seed", "5", "--json").stdout)
    assert (asked["asked"], asked["answered"]) == (5, 0)
    answers = [question["expected"] for question in asked["questions"]]
    answers[0] = ""
    done = piped(home, "test", "--seed", "5", "--json", lines="\n".join(answers) + "\n")
    result = json.loads(done.stdout)
    assert (result["asked"], result["answered"], result["right"], result["credit"]) == (5, 4, 4, 4.0)
    assert [question["right"] for question in result["questions"]] == [None, True, True, True, True]
    assert result["seed"] == 5
    assert set(result["by_level"]) == {"easy", "medium", "hard"}
    assert len(log(home)) == 4


def test_a_wrong_answer_is_asked_again_with_wrong_and_its_card_is_due(home):
    piped(home, "test", "ring", "--kind", "number", lines="2400\n")
    result = json.loads(piped(home, "test", "--wrong", "--json", lines="1800\n").stdout)
    assert [(one["item"], one["right"]) for one in result["questions"]] == [("ring/steps", True)]
    assert "Front of three?" in piped(home, "study", "--new", "0").stdout
    done = piped(home, "test", "--wrong")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "None of these questions was answered wrong the last time; leave --wrong out.\n"


def test_a_line_that_is_no_answer_is_told_on_standard_error_and_not_kept(home):
    done = piped(home, "test", "ring", "--kind", "number", "--json", lines="foo\n")
    complaint = "Answer with a number of bytes, such as 1800, 1.8e3 or 3/4."
    assert (done.returncode, done.stderr) == (1, f"ring/steps: `foo` cannot be read as an answer. {complaint}\n")
    result = json.loads(done.stdout)
    assert (result["answered"], result["questions"][0]["right"], result["questions"][0]["why"]) == (
        0,
        None,
        [complaint],
    )
    assert log(home) == []
    assert piped(home, "test", "ring", "--kind", "number", lines="7\n").returncode == 0


def test_letters_of_a_typed_answer_skip_nothing(home):
    terminal = sample(home, "test", "ring", "--kind", "number")
    terminal.wait("A ring of 4 ranks")
    terminal.press("1800 bytes", "> 1800 bytes_")
    terminal.press("\r", "✓ Right")
    terminal.press("\r", "Done: 1 of 1 right")
    terminal.press("u", "looking back")
    terminal.press("\r", "Done: 1 of 1 right")
    terminal.press("q")
    assert terminal.end() == 0


def test_the_answer_line_stays_in_sight_on_a_small_terminal(home):
    terminal = sample(home, "test", "ddp", "--kind", "output", width=40, height=12)
    terminal.wait("esc: ")
    assert terminal.press("[4.", r"> \[4\._").endswith("enter answer · esc: ? help · q quit")


def test_who_quits_goes_on_where_the_sitting_ended_with_what_comes_again(home):
    piped(home, "study", "--limit", "4", lines="\n1\n\n2\n")
    said = piped(home, "study", "--limit", "4").stdout
    assert "Card 1/2 · 2 coming again · ring\nFront of three?" in said
    rest = piped(home, "study", "--limit", "4", lines="\n3\n" * 4).stdout
    assert re.findall(r"Front of (\w+)", rest) == ["three", "four", "one", "two"]
    assert "Nothing is due." in piped(home, "study", "--new", "4").stdout  # new cards of this day, not of this sitting


def test_new_cards_are_counted_by_the_day(home):
    piped(home, "study", "--new", "2", lines="\n3\n" * 6)
    assert len(log(home)) == 2
    done = piped(home, "study", "--new", "2").stdout
    assert "Nothing is due." in done
    assert "ddpquiz study --new 12  study more new cards (4 are left)" in done
    assert "Card 1/1" in piped(home, "study", "--new", "3").stdout


@pytest.mark.parametrize(
    ("words", "lines"),
    [("--limit 4", "\n3\n"), ("", "s\n\n3\n"), ("ring --limit 2", "\n1\n"), ("--new 3", "\n2\n")],
)
def test_what_is_left_is_counted_as_the_next_sitting_counts_it(home, words, lines):
    said = " ".join(piped(home, "study", *words.split(), lines=lines).stdout.split())
    left = re.search(r"Left: (\d+) cards?(?:, and (\d+) coming again)?; `(.*)` goes on", said)
    count, again, command = left.groups()
    header = piped(home, *command.split()[1:]).stdout
    assert f"Card 1/{count} ·" in header
    assert (f"· {again} coming again" in header) == bool(again)


def test_a_concept_that_is_named_has_new_cards_beyond_those_of_the_day(home):
    piped(home, "study", "--new", "1", lines="\n3\n" * 3)
    assert "Nothing is due." in piped(home, "study", "--new", "1").stdout
    assert "Nothing is due." in piped(home, "study", "ring", "--new", "1").stdout
    with Progress(home) as progress:
        for number in range(9):  # now the ten of the day are done
            progress.review(f"gone/{number}", Grade.GOOD, datetime.now(UTC).astimezone(), timedelta(0))
    assert "Nothing is due." not in piped(home, "study", "ddp").stdout
    said = piped(home, "study", "ring", lines="\n3\n").stdout
    assert re.findall(r"Front of (\w+)", said) == ["two", "three"]
    assert "Left: 2 cards; `ddpquiz study ring` goes on." in said


def test_another_retention_is_told_and_kept_until_the_next(home):
    said = " ".join(piped(home, "study", "--retention", "0.8", lines="\n3\n").stdout.split())
    assert "From now on you aim to recall 80% of the cards that come due:" in said
    assert "intervals are 3.3 times as long as at 90%." in said
    stretched = r"see again in ([6-9]|10) days"  # instead of 2; the day decides by how many it varies
    assert re.search(stretched, said)
    assert re.search(stretched, piped(home, "study", lines="\n3\n").stdout)
    again = piped(home, "study", "--retention", "0.8").stdout
    assert "You aim to recall 80% of the cards that come due, as before." in again
    wrong = piped(home, "study", "--retention", "1.5")
    assert (wrong.returncode, wrong.stderr) == (1, "Retention must lie between 0.7 and 0.97; 1.5 does not.\n")


def test_what_was_suspended_is_named_and_brought_back(home):
    piped(home, "study", lines="x\nb\nf\n")
    assert "Front of three?" in piped(home, "study").stdout
    listed = piped(home, "list", "--hidden").stdout
    assert re.sub(r"\d{4}-\d\d-\d\d", "DAY", listed) == (
        """\
ring/two  buried until tomorrow · DAY
  Front of two?
ring/one  suspended · DAY
  Front of one?

ddpquiz progress restore ITEM
"""
    )
    assert [mark["item"] for mark in json.loads(piped(home, "list", "--flagged", "--json").stdout)] == ["ring/three"]
    for words in (["ring"], ["--track", "collectives"]):
        assert piped(home, "list", "--hidden", *words).stdout == piped(home, "list", "--hidden").stdout
    assert piped(home, "list", "--hidden", "--flagged", "ddp").stdout == "None.\n"
    done = piped(home, "progress", "restore", "ring/one", "ring/two")
    assert (done.returncode, done.stdout) == (0, "ring/one is asked again.\nring/two is asked again.\n")
    assert "Front of one?" in piped(home, "study").stdout
    assert piped(home, "list", "--hidden").stdout == "None.\n"
    wrong = piped(home, "progress", "restore", "ring/one")
    complaint = "`ring/one` is neither suspended nor buried; `ddpquiz list --hidden` lists what is.\n"
    assert (wrong.returncode, wrong.stderr) == (1, complaint)


def test_what_was_buried_by_a_clock_that_is_ahead_is_listed_as_it_is_hidden(home):
    with Progress(home) as progress:
        progress.bury("ring/one", datetime.now(UTC) + timedelta(days=1))
    assert "Front of one?" not in piped(home, "study").stdout
    assert piped(home, "list", "--hidden").stdout.startswith("ring/one  buried until tomorrow")


def test_what_was_marked_is_seen_where_it_is_listed(home):
    assert "You marked" not in piped(home, "list").stdout
    assert not home.exists()
    piped(home, "study", lines="f\nx\nb\nf\n")
    listed = piped(home, "list", "ring").stdout
    assert "  one  beginner · suspended · flagged\n" in listed
    assert "  two  intermediate · buried until tomorrow\n" in listed
    assert "  three  advanced · flagged\n" in listed
    for words in (["list"], ["list", "--track", "collectives"]):
        told = piped(home, *words).stdout
        assert (
            "\nYou marked: 1 suspended · 1 buried until tomorrow · 2 flagged\nddpquiz list --hidden --flagged\n" in told
        )
    assert piped(home, "show", "ring/one").stdout.startswith("ring/one  card · beginner · suspended · flagged\n")
    assert "ring/two  card · buried until tomorrow\n" in piped(home, "search", "two").stdout
    assert json.loads(piped(home, "show", "ring/three", "--json").stdout)["marks"] == ["flag"]
    assert json.loads(piped(home, "list", "ring", "--json").stdout)["concepts"][0]["marks"] == {
        "ring/one": ["suspend", "flag"], "ring/two": ["bury"], "ring/three": ["flag"]
    }  # fmt: skip
    piped(home, "progress", "restore", "ring/one", "ring/two")
    assert "\nYou marked: 2 flagged\nddpquiz list --flagged\n" in piped(home, "list").stdout
    assert "  one  beginner · flagged\n" in piped(home, "list", "ring").stdout


def test_the_curriculum_is_listed_though_the_progress_cannot_be_read(home):
    home.mkdir()
    (home / "progress.db").mkdir()
    done = piped(home, "list", "ring")
    assert (done.returncode, done.stdout) == (0, piped(home / "other", "list", "ring").stdout)
    assert "progress.db cannot be opened;" in done.stderr
    assert done.stderr.endswith(" Until then, marks are not shown.\n")


@pytest.mark.parametrize(
    "words",
    [
        "",
        "ring --level beginner --two-button",
        "--track collectives --limit 3 --all --new 4",
        "ring --limit 30",
    ],
)
def test_who_quits_is_told_the_command_that_goes_on_with_the_same_sitting(home, words):
    said = piped(home, "study", *words.split(), lines="\n1\n").stdout
    left = re.search(r"Left: (\d+) cards?, and 1 coming again; `([^:]*)` goes on\.", " ".join(said.split()))
    count, command = left.groups()
    assert command.split() == ["ddpquiz", "study", *words.split()]
    again = piped(home, *command.split()[1:]).stdout
    assert f" Card 1/{count} · 1 coming again · " in again
    (one,) = re.findall(r"Front of (\w+)\?", again)
    assert one in {"two", "four"}  # the next one
    assert ("easy" in piped(home, *command.split()[1:], lines="\n").stdout) == ("--two-button" not in words)


def test_who_quits_a_cram_is_told_that_the_next_one_begins_anew(home):
    piped(home, "study", lines="\n3\n" * 6)
    said = " ".join(piped(home, "study", "ring", "--cram", lines="\n1\n").stdout.split())
    assert "`ddpquiz study ring --cram` begins anew." in said
    assert "Card 1/4 · cram" in piped(home, "study", "ring", "--cram").stdout


def test_who_ends_a_test_early_is_told_the_command_that_goes_on_in_the_same_manner(home):
    words = "ddp ring --track collectives --level medium --count 7 --seed 0 --timed 60 --exam --confidence"
    said = piped(home, "test", *words.split(), lines="1\n1\n").stdout
    command = re.search(r"\n  (ddpquiz test [^\n]* \\\n[^\n]*)\n    go on: 1 question not answered yet\n", said)[1]
    command = command.replace("\\\n", "")
    assert sorted(command.split()) == sorted(f"ddpquiz test {words}".split())
    assert "Question 1/2 · exam · medium · ring" in piped(home, *command.split()[1:]).stdout


def test_cramming_leaves_the_log_as_it_is(home):
    piped(home, "study", lines="\n3\n" * 6)
    before = log(home)
    said = piped(home, "study", "--cram", lines="\n1\n" + "\n3\n" * 6).stdout
    assert "cram: the schedule does not change" in said
    assert "Done: 6 cards." in said
    assert log(home) == before


def test_a_concept_proven_strong_offers_no_new_cards_unless_all_are_wanted(home):
    with Progress(home) as progress:
        for number in range(8):
            progress.answer(answer_row(f"ring/q{number}", 1.0, level="hard"), datetime.now(UTC).astimezone())
    said = piped(home, "study", lines="\n3\n" * 2).stdout
    assert re.findall(r"Card \d/(\d) · (\w+)", said) == [("2", "ddp")] * 2
    assert "Left out: 4 new cards of concepts proven strong; --all deals them too." in said
    assert "Left out: 4 new cards" in piped(home, "study").stdout
    assert "Card 1/4 · ring" in piped(home, "study", "--all").stdout


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


@pytest.mark.skipif(not shutil.which("less"), reason="there is no less here")
@pytest.mark.parametrize("less", [{}, {"LESS": "-X"}])
def test_a_page_longer_than_the_terminal_goes_through_a_pager_in_colour(home, less):
    terminal = sample(home, "learn", "ring", height=10, LESSCHARSET="utf-8", **less)
    assert terminal.wait("space next page, b page back, q quit" if not less else ":").startswith(
        "The ring\ncollectives · ring\n"
    )
    assert "ddpquiz explain ring" not in terminal.text
    terminal.press(" ", "A lesson")
    terminal.press("G", "ddpquiz explain ring  describe it")
    assert "38;5;" in terminal.raw
    assert "ESC[" not in terminal.raw
    terminal.press("\x03", "ddpquiz explain ring")
    while terminal.child.isalive():  # less drops what was typed before it has seen the interrupt
        terminal.press("q")
        terminal.read(0.2)
    assert terminal.end() == 0


@pytest.mark.parametrize("pager", ["cat", "", "/no/such/program", "less 'never closed"])
def test_other_pagers_and_none_are_obeyed(home, pager):
    terminal = sample(home, "list", "ring", height=8, PAGER=pager)
    terminal.wait("ddpquiz show ring/ITEM")
    assert terminal.end() == 0
    assert "Front of one?" in terminal.raw


def test_a_pager_gets_question_marks_for_letters_that_the_language_does_not_know(home):
    few = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    terminal = sample(home, "learn", "ring", height=8, PAGER="cat", **few)
    assert terminal.end() == 0
    assert "collectives ? ring" in terminal.raw


def test_a_page_that_fits_needs_no_pager(home):
    terminal = sample(home, "show", "ring/one", PAGER="/no/pager/is/asked --x")
    terminal.wait("Back of one")
    assert terminal.end() == 0


def test_rebuilding_says_what_it_did(home):
    piped(home, "study", lines="\n3\n\n1\n")
    assert piped(home, "progress", "rebuild").stdout == "2 cards from 2 rows of the log; nothing changed.\n"
    with sqlite3.connect(home / "progress.db") as database:
        database.execute("UPDATE card SET due = '2001-01-01' WHERE item = 'ring/one'")
    database.close()
    assert piped(home, "progress", "rebuild").stdout == "2 cards from 2 rows of the log; 1 of them changed.\n"


def test_nothing_due_offers_more(home):
    piped(home, "study", lines="\n3\n" * 6)
    done = piped(home, "study", "ring")
    assert done.returncode == 0
    assert re.sub(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b", "DAY", done.stdout) == (
        """\
Nothing is due.
Due in the next seven days: 4 (4 DAY).

Instead
  ddpquiz study ring --cram  go over cards that are not due
  ddpquiz test ring          find out how strong you are
  ddpquiz demo allreduce     see it run on real ranks
"""
    )
    assert "Front of" in piped(home, "study", "--cram").stdout
    told = piped(home, "study", "ring", "--level", "advanced").stdout  # of which there is one
    assert "Due in the next seven days: 1 (" in told


def test_home_tells_where_you_stand(home):
    first = piped(home)
    assert first.stdout.startswith("ddpquiz\n\nddpquiz teaches distributed training")
    assert max(map(len, first.stdout.splitlines())) <= 80
    piped(home, "test", "ddp", "--seed", "1", lines=":x\n:x\n")
    second = piped(home).stdout
    assert "Due        2 cards due now." in second
    assert "Weakest unknown until you have answered more questions about one concept" in " ".join(second.split())
    piped(home, "test", "ring", "--seed", "1", lines="x\nx\n:x\n")
    third = " ".join(piped(home).stdout.split())
    assert "Weakest The ring (ring): weak, 2–44 %" in third


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("study", "rang"), "No concept named 'rang'. Did you mean 'ring'?\n"),
        (("study", "--track", "x"), "There is no track `x`; tracks are collectives.\n"),
        (("demo", "ring"), "No demo named 'ring'. Did you mean 'allreduce'?\n"),
        (("demo", "no-such"), "No demo named 'no-such'. `ddpquiz demo` lists them.\n"),
        (
            ("test", "ddp", "--level", "hard"),
            "No question fits; leave out --level, or name another concept.\n",
        ),
    ],
)
def test_what_does_not_exist_is_told_in_a_sentence(home, words, complaint):
    done = piped(home, *words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", complaint)


@pytest.mark.parametrize(
    "words", [("study", "--level", "hard"), ("test", "--level", "beginner"), ("study", "--limit", "0")]
)
def test_wrong_usage_is_status_two(home, words):
    assert piped(home, *words).returncode == 2


def test_a_sitting_loads_neither_torch_nor_a_markdown_parser(home):
    script = f"""
import runpy, sys
sys.argv = ["ddpquiz", "study"]
try:
    runpy.run_path({SAMPLE!r}, run_name="__main__")
except SystemExit:
    pass
heavy = {{name.split(".")[0] for name in sys.modules}} & {{"torch", "markdown_it", "pydantic", "pygments"}}
print(sorted(heavy), "rich.markdown" in sys.modules, file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        input="\n3\n",
        capture_output=True,
        text=True,
        env=environment(home, PYTHONPATH=str(Path(__file__).parent)),
    )
    assert done.stderr == "[] False\n"


PRINTING = (
    *("", "--help", "study", "test ring", "learn ring", "explain ring", "demo", "demo allreduce --help", "run --help"),
    *("prove --help", "list", "search ring", "show ring/one", "stats", "optimize --help", "export csv", "export json"),
    *("import progress.json", "check --help", "doctor --help", "progress rebuild", "progress restore-backup --list"),
)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_every_command_says_in_one_sentence_that_its_output_cannot_be_written(tmp_path):
    home = tmp_path / "home"
    piped(home, "study", lines="\n3\n")
    (tmp_path / "progress.json").write_text(piped(home, "export", "json").stdout)
    commands = set(re.findall(r"^  ([a-z]+)  ", piped(home, "--help").stdout.partition("Commands:")[2], re.MULTILINE))
    assert commands == {words.split()[0] for words in PRINTING if words} - {"--help"}
    wrong = {}
    for words in PRINTING:
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, SAMPLE, *words.split()],
                input="The root\n" if "explain" in words else "\n3\n",
                stdout=full, stderr=subprocess.PIPE, text=True, env=environment(home), cwd=tmp_path, timeout=120,
            )  # fmt: skip
        if (done.returncode, done.stderr) != (1, "Standard output cannot be written: No space left on device.\n"):
            wrong[words] = (done.returncode, done.stderr[-300:])
    assert wrong == {}
