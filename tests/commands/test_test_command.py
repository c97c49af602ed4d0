"""`ddpquiz test` from end to end: real keys in a real terminal, and real pipes."""

import json
import re
import subprocess
import sys

import pytest
from inline_snapshot import snapshot
from run_program import LEAVE_SCREEN, environment, log, piped, sample
from sample import START

from ddpquiz.curriculum import loading
from ddpquiz.learning.mastery import ENOUGH
from ddpquiz.learning.progress import Progress


def test_what_was_answered_today_waits_until_all_was_asked(home):
    first = json.loads(piped(home, "test", "ring", "--count", "1", "--json", lines="1\n").stdout)
    done = first["questions"][0]["item"]
    again = piped(home, "test", "ring")
    assert "1 answered earlier today; going on with the rest.\nQuestion 1/2" in again.stdout
    rest = json.loads(piped(home, "test", "ring", "--json", lines="1\n1\n").stdout)
    assert {done, *(each["item"] for each in rest["questions"])} == {"ring/bytes", "ring/phases", "ring/steps"}
    assert (len(rest["questions"]), rest["answered"]) == (2, 2)
    assert (
        json.loads(piped(home, "test", "ring", "--json").stdout)["asked"] == 3
    )  # all were answered, so it starts again
    assert json.loads(piped(home, "test", "--seed", "1", "--json").stdout)["asked"] == 5


def test_a_test_without_a_concept_asks_about_what_was_begun(home):
    def asked(*words: str) -> set[str]:
        return {each["item"] for each in json.loads(piped(home, "test", *words, "--json").stdout)["questions"]}

    every = asked()
    assert {item.partition("/")[0] for item in every} == {"ddp", "ring"}
    piped(home, "test", "ddp", lines="1\n")  # an answer alone begins no lesson
    assert asked("--seed", "1") == every
    piped(home, "study", "ring", "--count", "1", lines="\n3\n")
    ring = {item for item in every if item.startswith("ring/")}
    assert asked() == ring
    assert asked("--all") > ring
    assert asked("--track", "collectives") > ring
    assert asked("--seed", "1") == every
    assert (
        "\nAbout the lesson that you have begun; --all asks about all 2 concepts.\nQuestion 1/"
        in piped(home, "test", "--level", "easy").stdout
    )


def test_what_the_steps_of_a_lesson_ask_is_asked_again_only_where_too_little_else_is_left(home):
    asked_again = {}
    for name in ("data-parallelism", "process-model"):
        concept = loading.load().concept(name)
        steps = {f"{name}/{step.ask}" for step in concept.steps}
        fresh = {each.key for each in concept.questions if each.level != "hard" and each.key not in steps}
        with Progress(home / name) as progress:
            progress.stage(f"{name}/lesson", "done", START)
        done = subprocess.run(
            [sys.executable, "-m", "ddpquiz", "test", "--json", "--count", "99"],
            input="", capture_output=True, text=True, env=environment(home / name), timeout=120,
        )  # fmt: skip
        asked = {each["item"] for each in json.loads(done.stdout)["questions"]}
        assert asked >= fresh
        assert len(asked) == max(ENOUGH, len(fresh))
        asked_again[name] = len(asked - fresh)
    assert asked_again["data-parallelism"] > 0 == asked_again["process-model"]


def test_after_a_lesson_neither_what_it_asked_nor_what_its_further_pages_teach_is_asked_unless_one_names_it(home):
    def levels(*words: str, repeats: bool = False) -> set[str]:
        command = [sys.executable, "-m", "ddpquiz", "test", "--json", "--count", "99", *words]
        done = subprocess.run(command, input="", capture_output=True, text=True, env=environment(home), timeout=120)
        questions = json.loads(done.stdout)["questions"]
        assert {each["item"].partition("/")[0] for each in questions} == {"why-distribute"}
        assert ("why-distribute/five-percent" in {each["item"] for each in questions}) is repeats
        return {each["level"] for each in questions}

    with Progress(home) as progress:
        progress.stage("why-distribute/lesson", "done", START)
    assert levels() == {"easy", "medium"}
    assert levels("--level", "hard") == {"hard"}
    assert levels("why-distribute", repeats=True) == {"easy", "medium", "hard"}
    with Progress(home) as progress:
        progress.stage("why-distribute/more", "done", START)
    assert levels() == {"easy", "medium", "hard"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--count", "0"], "`0` is not possible; a test has one question or more, as in --count 10."),
        (["--count", "ten"], "`ten` is not possible; a test has one question or more, as in --count 10."),
        (["--timed", "abc"], "`abc` is not possible; a question has 5 seconds or more, as in --timed 60."),
        (["--timed", "3"], "`3` is not possible; a question has 5 seconds or more, as in --timed 60."),
    ],
)
def test_a_number_that_is_not_possible_is_refused_with_one_that_is(home, words, said):
    done = piped(home, "test", *words)
    assert done.returncode == 2
    assert said in " ".join(re.sub("[│|]", " ", done.stderr).split())


def test_a_track_given_as_a_concept_is_refused_with_the_right_option(home):
    done = piped(home, "test", "collectives")
    assert (done.returncode, done.stderr) == (1, "collectives is a track: `ddpquiz test --track collectives`\n")


def test_what_comes_next_keeps_the_words_that_say_what_is_asked_about(home):
    said = piped(home, "test", "--track", "collectives", "--kind", "number", lines="7\n").stdout
    assert "\n  ddpquiz test --track collectives --kind number --wrong  " in said


def test_a_hint_is_in_sight_on_a_small_terminal(home):
    terminal = sample(home, "test", "ring", "--kind", "choice", height=12)
    terminal.wait("Question 1/1")
    terminal.press("h", "Hint 1  How large is a chunk")
    terminal.press("h", "Hint 2  There are six steps")
    terminal.press("2", "✓ Right|✗ Wrong")
    terminal.press("q", "Done: ")
    terminal.press("q")
    assert terminal.end() == 0


def test_a_terminal_that_cannot_be_painted_has_a_prompt_and_names_the_unit(home):
    terminal = sample(home, "test", "ring", "--kind", "number", TERM="dumb")
    assert "Type the number of bytes.\n" in terminal.wait("\n>$")
    terminal.press("1800 kg\r", "Answer in bytes")
    terminal.press("1800\r", "✓ Right")
    terminal.end()


def test_all_of_it_at_once_in_a_narrow_terminal(home):
    terminal = sample(
        home, "test", "ring", "--kind", "choice", "--exam", "--confidence", "--timed", "90", "--adaptive",
        width=60, height=16, NO_COLOR="1",
    )  # fmt: skip
    terminal.wait("1:[23][0-9] left")
    terminal.press("1", "How sure are you")
    terminal.resize(14, 60)
    terminal.press("3", "Every question has an answer")
    terminal.press("q", "page 1 of 4", "enter next page · 1 question · q leave")
    for page in range(2, 5):
        terminal.press("\r", f"page {page} of 4")
    terminal.press("\r")
    assert terminal.end() == 0
    left = re.sub(r"\x1b\[[0-9;]*m|\r", "", terminal.raw.split(LEAVE_SCREEN)[-1])
    assert "said 75%" in left
    assert max(map(len, left.split("\n"))) <= 60


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
    terminal.press("w", "Question 1/1 · once more")
    right = next(place for place, size in places.items() if size == "1,800")
    terminal.press(right, "✓ Right")
    terminal.press("\r", "Once more: 1 of 1 right")
    terminal.press("\r")
    assert terminal.end() == 0
    assert log(home) == [("answer", "ring/bytes", None, 0.0), ("answer", "ring/bytes", None, 1.0)]


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
    assert done.stderr == snapshot("You got none of these questions wrong last time; leave --wrong out.\n")


def test_a_line_that_is_not_an_answer_is_reported_on_standard_error_and_not_saved(home):
    done = piped(home, "test", "ring", "--kind", "number", "--json", lines="foo\n")
    complaint = "Answer with a number (in bytes), such as 1800, 1.8e3 or 3/4."
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
    terminal.wait("esc then: ")
    assert terminal.press("[4.", r"> \[4\._").endswith("enter answer · esc then: ? help · q quit")


def test_ending_a_test_early_prints_the_command_that_goes_on_with_the_same_rules(home):
    words = "ddp ring --track collectives --level medium --count 7 --seed 0 --timed 60 --exam --confidence"
    said = piped(home, "test", *words.split(), lines="1\n1\n").stdout
    command = re.search(r"\n  (ddpquiz test [^\n]* \\\n[^\n]*)\n    ask more; 1 question had no answer\n", said)[1]
    command = command.replace("\\\n", "")
    assert sorted(command.split()) == sorted(f"ddpquiz test {words}".split())
    assert "Question 1/2 · exam · medium · The ring" in piped(home, *command.split()[1:]).stdout
