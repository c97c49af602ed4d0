"""A prediction before a demo: asked in a terminal, settled by the run, kept in the log."""

import io
import random
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from inline_snapshot import snapshot
from run_program import ddpquiz
from sample import BYTES, HOOKS, PHASES, PRINTS, START, Clock
from sample_sittings import screen as screen_of

from ddpquiz.curriculum.concept import DemoLink
from ddpquiz.curriculum.loading import load
from ddpquiz.curriculum.posed_question import expected, pose
from ddpquiz.events.event import End
from ddpquiz.events.run_state import RunState
from ddpquiz.learning.answers import linked_cards
from ddpquiz.learning.judge import Verdict, judge
from ddpquiz.learning.log_rows import AnswerRow
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade
from ddpquiz.learning.side_files import load_timings
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.sittings.prediction import (
    NoRun,
    PredictedRun,
    Prediction,
    PredictionScreen,
    find_question,
    makes_card_due,
)
from ddpquiz.terminal.sittings.rank_runner import DemoOptions, RankRunner

ENDED_WELL = RunState(end=End(0.0, ok=True, proven=1, claims=1))


def demo(home, *words):
    return ddpquiz("demo", "sampler", *words, home=home, height=60)


def predicted(name="sampler"):
    _, question = find_question(load(), DemoLink(name, ""))
    return question


def place(shown, right, name="sampler"):
    """Return the digit of an option as it was shuffled on screen."""
    option = next(option.text for option in predicted(name).options if option.right == right)
    row = next(row for row in shown.splitlines() if row.endswith(option[:60]))
    return row.split()[0]


def begin_lesson(home):
    with Progress(home) as progress:
        progress.stage("distributed-sampler/step-1", "done", datetime.now(UTC).astimezone())


@pytest.mark.parametrize("right", [True, False])
def test_the_run_says_whether_a_prediction_held_and_a_wrong_one_makes_a_card_due(tmp_path, right):
    begin_lesson(tmp_path)
    terminal = demo(tmp_path)
    shown = terminal.wait("no prediction")
    first, second, *_ = shown.splitlines()
    assert first.startswith("Predict · demo sampler · distributed-sampler")
    assert second == "Your answer counts, as in a test. If it is wrong, a related card comes due."
    terminal.press(place(shown, right), "predicted")  # in sight while it runs
    assert terminal.end() == 0
    text = " ".join(terminal.lines)
    held, failed = r"✓ You predicted .*\. The run showed the same\.", r"✗ The run showed .*\. You predicted "
    assert (bool(re.search(held, text)), bool(re.search(failed, text)) and not right) == (right, not right)
    whys = {" ".join(option.why.split())[:40] for option in predicted().options if option.why}
    assert sum(text.count(why) for why in whys) == (not right)  # the reason is said once
    assert sum(line.startswith("✓ You predicted" if right else "✗ The run showed") for line in terminal.lines) == 1
    assert bool(re.search(r"The card [\w/-]+ is due: ddpquiz study distributed-sampler", text)) is not right
    with Progress(tmp_path) as progress:
        (row,) = progress.entries("answer")
        assert (row.item, row.credit) == (predicted().key, float(right))
        assert bool(progress.memories()) is not right
        _, seen = progress.entries("stage")
        assert (seen.item, seen.given) == ("distributed-sampler/demo", "done")


def test_a_wrong_prediction_before_the_lesson_makes_no_card_due_and_does_not_say_so_also_the_second_time(tmp_path):
    for count in (1, 2):
        terminal = demo(tmp_path)
        shown = terminal.wait("no prediction")
        assert shown.splitlines()[1] == "Your answer counts, as in a test."
        terminal.press(place(shown, right=False), "predicted")
        assert terminal.end() == 0
        assert "is due" not in " ".join(" ".join(terminal.lines).split())
        with Progress(tmp_path) as progress:
            assert [row.credit for row in progress.entries("answer")] == [0.0] * count
            assert progress.memories() == {}


def test_a_card_is_promised_exactly_where_a_wrong_prediction_makes_one_due(progress, monkeypatch):
    asked = []
    monkeypatch.setattr(PredictionScreen, "show", lambda screen, _: asked.append(screen_of(screen)))
    catalog, question = load(), predicted()
    ranks = RankRunner(catalog, progress, Clock())
    about = DemoOptions(about=question.concept)

    def promised(how):
        """Whether the screen promises a card, which is compared with what a wrong answer then does."""
        run = ranks._ask(DemoLink("sampler", ""), how)
        answer = Prediction("words", Verdict(right=False))
        saved = replace(run, answer=answer).remark(ENDED_WELL, progress, START)
        said = "If it is wrong, a related card comes due." in asked[-1]
        assert said == ("is due." in saved)
        return said

    assert not promised(about)  # the lesson has not begun
    assert promised(replace(about, asked_at="2 of 4"))  # it has, in the path
    progress.stage(f"{question.concept}/step-1", "done", START)
    assert not promised(about)  # it has made a card due today
    assert "Your answer counts, as in a test.\n" in asked[-1]


def test_a_prediction_promises_no_card_that_is_hidden(progress):
    catalog, question = load(), predicted()
    progress.stage(f"{question.concept}/step-1", "done", START)

    def promised():
        return makes_card_due(catalog, question, progress, START, in_path=False)

    assert promised()
    for card in linked_cards(question, catalog.concept(question.concept).cards):
        progress.suspend(card.key, START)
    assert not promised()


def test_a_run_that_is_started_from_the_screen_settles_neither_the_prediction_nor_the_time_of_the_demo(tmp_path):
    terminal = ddpquiz("demo", "shrink", "--stay", home=tmp_path, height=60)
    terminal.press(place(terminal.wait("no prediction"), right=True, name="shrink"), "→ step through")
    terminal.press("t", "^  3 ddpquiz demo shrink --nproc 2$")
    terminal.press("3", "^done in .* claims proven\n→ step through")
    terminal.press("q")
    assert terminal.end() == 0
    assert load_timings(tmp_path)["shrink"].ranks == 4
    with Progress(tmp_path) as progress:
        (row,) = progress.entries("answer")
        assert (row.item, row.credit) == (predicted("shrink").key, 1.0)


def test_a_demo_that_is_run_from_a_card_asks_too(tmp_path):
    with Progress(tmp_path) as progress:
        progress.stage("distributed-sampler/lesson", "done", datetime.now(UTC).astimezone())
    terminal = ddpquiz("study", "distributed-sampler", home=tmp_path, height=60)
    terminal.wait("Card 1/")
    terminal.press("d", "Predict · demo sampler")
    terminal.press("q", "Card 1/")  # no run after all
    shown = terminal.press("d", "no prediction")
    terminal.press(place(shown, right=False), "enter go on", "^✗ The run showed .* You predicted")
    shown = " ".join(terminal.press("\r", "Card 1/", "✗ The run showed").split())
    assert re.search(r"The run showed .*\. The card distributed-sampler/[\w-]+ is due\.", shown)
    terminal.press("q")
    assert terminal.end() == 0
    with Progress(tmp_path) as progress:
        assert [(row.item, row.credit) for row in progress.entries("answer")] == [(predicted().key, 0.0)]


def test_the_first_demo_of_home_asks_nothing_that_no_lesson_has_taught_and_opens_at_its_first_step(tmp_path):
    terminal = ddpquiz(home=tmp_path)
    terminal.wait("1-3 answer")
    terminal.press("\x1b", "enter begin")
    terminal.press("d", r"^call 0 of \d+ · ", "→ call")
    terminal.press("\x1b[F", r"call (\d+) of \1$")
    terminal.press("q", "enter go on")
    terminal.press("q", "enter begin")
    terminal.press("q")
    assert terminal.end() == 0
    with Progress(tmp_path) as progress:
        assert progress.entries("answer") == []


def test_the_question_on_screen_is_not_asked_as_a_prediction(progress, monkeypatch):
    asked = []
    monkeypatch.setattr("ddpquiz.terminal.sittings.prediction.ask", lambda *args, **_: asked.append(args))
    ranks, link = RankRunner(load(), progress, Clock()), DemoLink("sampler", "")
    progress.stage(f"{predicted().concept}/lesson", "done", START)
    ranks._ask(link, DemoOptions(answered=predicted().key))
    assert asked == []
    ranks._ask(link, DemoOptions())
    assert asked[0][1][1].key == predicted().key


def test_a_sitting_asks_no_prediction_that_no_lesson_which_has_begun_teaches(progress, monkeypatch):
    asked = []
    monkeypatch.setattr("ddpquiz.terminal.sittings.prediction.ask", lambda *args, **_: asked.append(args))
    ranks, link = RankRunner(load(), progress, Clock()), DemoLink("sampler", "")
    ranks._ask(link, DemoOptions())
    begun = progress.stage(f"{predicted().concept}/step-1", "done", START)
    ranks._ask(link, DemoOptions())
    assert asked == []
    ranks._ask(link, DemoOptions(about=predicted().concept))
    assert len(asked) == 1
    progress.undo(begun, START)
    progress.review(f"{predicted().concept}/what-it-deals", Grade.GOOD, START, timedelta(0))
    ranks._ask(link, DemoOptions())
    assert len(asked) == 2


def test_a_question_whose_last_answer_was_right_is_not_asked_as_a_prediction(progress, monkeypatch):
    asked = []
    monkeypatch.setattr("ddpquiz.terminal.sittings.prediction.ask", lambda *args, **_: asked.append(args))
    ranks, link = RankRunner(load(), progress, Clock()), DemoLink("sampler", "")
    for credit in (1.0, 0.0):
        at = START + timedelta(minutes=credit == 0.0)
        progress.answer(
            AnswerRow(item=predicted().key, credit=credit, took=timedelta(0), given="1", level="easy", chance=0.3), at
        )
        ranks._ask(link, DemoOptions())
        assert len(asked) == (credit == 0.0)


def test_a_demo_runs_without_a_prediction_too(tmp_path):
    terminal = demo(tmp_path)
    terminal.wait("no prediction")
    terminal.press("s")
    assert terminal.end() == 0
    assert not any("You predicted" in line for line in terminal.lines)
    assert any(line.startswith("done in") for line in terminal.lines)
    with Progress(tmp_path) as progress:
        assert progress.entries("answer") == []


@pytest.mark.parametrize("key", ["q", "\x1b"])
def test_who_leaves_at_the_prediction_gets_no_demo(tmp_path, key):
    terminal = demo(tmp_path)
    terminal.wait("no prediction")
    terminal.press("?", "esc back")
    terminal.press("?", "no prediction")
    terminal.press(key)
    assert terminal.end() == 0
    assert not any("rank" in line for line in terminal.lines[-24:])


def keyed(question, *keys):
    asking = PredictionScreen(pose(question, random.Random(1)), "sampler")
    for key in keys:
        asking.handle_key(key)
    return asking


def foot(asking):
    console = style.console(io.StringIO(), width=80)
    console.print(asking.foot(80))
    return console.file.getvalue()


@pytest.mark.parametrize("question", [BYTES, PHASES, HOOKS, PRINTS], ids=lambda question: question.kind)
def test_no_prediction_is_s_and_leaving_is_q_or_escape(question):
    typed = question.kind in ("order", "output")
    before = ["escape"] if typed else []
    asking = keyed(question, *before, "s")
    assert (asking.left, asking.prediction) == (True, None)
    asking = keyed(question, "enter")  # a key that turned pages until here must not throw the prediction away
    assert (asking.left, asking.prediction) == (False, None)
    assert "to run the demo without a prediction." in foot(asking)
    for key in ("q", "escape"):
        with pytest.raises(NoRun):
            keyed(question, *before, key)
    assert "esc back" in foot(keyed(question, *before, "?"))
    assert not keyed(question, *before, "?", "q").left
    assert not keyed(question, "1", "x", "backspace").left or question is BYTES


def test_a_prediction_that_is_typed_takes_letters_as_a_quiz_does():
    asking = keyed(PRINTS, *"qs?")
    assert foot(asking).splitlines() == snapshot(
        ["> qs?_ ", "enter answer · esc then: s no prediction · ? help · q leave"]
    )
    assert foot(keyed(PRINTS, "escape")).splitlines()[1] == "s no prediction · ? help · q leave"
    asking = keyed(PRINTS, *"qs?", "ctrl+u", *"[4.0,6.0]", "enter")
    assert (asking.prediction.verdict.right, asking.prediction.words) == (True, "[4.0,6.0]")
    asking = keyed(HOOKS, "1", "enter")
    assert (asking.left, asking.prediction) == (False, None)
    asking = keyed(PRINTS, "s", "enter")
    assert foot(asking).splitlines()[:2] == snapshot(["`s` is a key: press esc, then s.", "> _ "])


def test_ctrl_c_at_the_prediction_leaves(tmp_path):
    terminal = demo(tmp_path)
    terminal.wait("no prediction")
    terminal.press("\x03")
    assert terminal.end() == 130


@pytest.mark.parametrize("words", [["--no-predict"], ["--plain"], ["--nproc", "2"], ["--", "--samples", "7"]])
def test_nothing_is_asked_about_another_run_or_when_nobody_wants_it(tmp_path, words):
    terminal = demo(tmp_path, *words)
    assert terminal.end() == 0
    assert not any("Predict ·" in line for line in terminal.lines)


def test_a_prediction_is_about_the_very_run_that_follows():
    catalog = load()
    for concept in catalog.concepts:
        for link in concept.demos:
            if link.predict and (found := find_question(catalog, link)):
                assert found[0].args == link.args
                assert found[0].ranks == link.ranks
                assert expected(pose(found[1], random.Random(1)))


def test_why_a_prediction_failed_stands_in_full_beside_the_result():
    question = predicted()
    posed = pose(question, random.Random(0))
    link = DemoLink("sampler", "look")
    for right in (True, False):
        place = next(at for at, shown in enumerate(posed.shown, 1) if question.options[shown].right == right)
        given = Prediction("words", judge(posed, str(place)))
        why = PredictedRun(load(), link, posed, given, timedelta(0)).hint.why
        assert [step in why for step in question.steps] == [not right] * len(question.steps)
