"""What the log says about a learner, and the page that shows it."""

import io
import json
import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from run_program import piped
from sample import BYTES, DDP, HOOKS, PHASES, PRINTS, RING, STEPS, answer_row

from ddpquiz.curriculum.posed_question import pose
from ddpquiz.learning.answers import answer_text, beliefs
from ddpquiz.learning.judge import judge
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade, study_day
from ddpquiz.learning.standing import streak
from ddpquiz.learning.statistics import Share, statistics
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.pages.stats import Stats, duration

AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
DAY = study_day(AT)
TOOK = timedelta(seconds=6)
CONCEPTS = (RING, DDP)


def days(count):
    return timedelta(days=count)


def page(progress, at=AT, width=80):
    console = style.console(io.StringIO(), width=width)
    layout.show(console, Stats(statistics(progress, CONCEPTS, study_day(at))))
    return console.file.getvalue()


def test_recall_counts_the_first_review_of_a_later_day_by_the_days_that_had_passed(progress):
    for at, grade in [
        (AT, Grade.GOOD),  # the first day does not count
        (AT + TOOK, Grade.AGAIN),  # nor does the same day
        (AT + days(20), Grade.AGAIN),  # young, forgotten
        (AT + days(20) + TOOK, Grade.GOOD),
        (AT + days(41), Grade.HARD),  # mature, recalled
        (AT + days(44), Grade.GOOD),  # young, recalled
    ]:
        progress.review("ring/one", grade, at, TOOK)
    progress.review("ring/two", Grade.GOOD, AT, TOOK)
    progress.undo(progress.review("ring/two", Grade.GOOD, AT + days(44), TOOK), AT + days(44))
    now = statistics(progress, CONCEPTS, study_day(AT + days(52)))
    assert (now.ever.young, now.ever.mature, now.ever.all) == (Share(1, 2), Share(1, 1), Share(2, 3))
    assert (now.lately.young, now.lately.mature) == (Share(1, 1), Share(1, 1))


ACTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4), st.integers(0, 60), st.booleans()), max_size=20)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ACTS)
def test_recall_is_what_a_plain_count_over_the_log_finds(tmp_path_factory, acts):
    at, today = AT, study_day(AT + days(200))
    with Progress(tmp_path_factory.mktemp("home")) as progress:
        for card, grade, days_on, undo in acts:
            at += timedelta(days=days_on % 30, minutes=1)
            receipt = progress.review(f"ring/{card}", Grade(grade), at, TOOK)
            if undo:
                progress.undo(receipt, at)
        seen, expected = {}, {}
        for row in progress.entries("review"):
            day, before = date.fromisoformat(row.day), seen.get(row.item)
            seen[row.item] = day
            if before and before < day:
                good, of = expected.get((day - before).days >= 21, (0, 0))
                expected[(day - before).days >= 21] = (good + (row.grade > 1), of + 1)
        found = statistics(progress, CONCEPTS, today).ever
    assert (found.young, found.mature) == (Share(*expected.get(False, (0, 0))), Share(*expected.get(True, (0, 0))))


def test_the_interval_of_a_share_is_wilsons():
    assert (round(Share(9, 10).low, 4), round(Share(9, 10).high, 4)) == (0.5958, 0.9821)
    assert (Share(0, 0).low, Share(0, 0).high, Share(0, 0).value) == (0.0, 1.0, None)
    assert Share(0, 5).low == 0.0
    assert Share(5, 5).high == 1.0


def test_a_step_of_a_lesson_is_time_and_makes_a_study_day_and_what_was_skipped_is_neither(progress):
    progress.stage("ring/step-1", "done", AT, 10 * TOOK)
    progress.stage("ring/step-2", "done", AT, days(1))  # the learner was away: it counts as two minutes
    progress.stage("ring/lesson", "done", AT)
    progress.stage("ring/step-1", "done", AT + days(1))  # as 0.1 saved it
    progress.stage("ring/step-3", "skipped", AT + days(2), 10 * TOOK)
    assert progress.days() == [("2026-03-02", 2, 180_000), ("2026-03-03", 1, 0)]
    assert "Done    3 cards, questions and steps of lessons on 2 days\n" in page(progress, AT + days(1))
    assert "Time    3 min, 2 min per study day\n" in page(progress, AT + days(1))


@pytest.mark.parametrize(
    ("ago", "expected"), [([], 0), ([0], 1), ([1], 1), ([2], 0), ([0, 1, 2, 4], 3), ([1, 2], 2), ([3, 4], 0)]
)
def test_a_streak_lasts_until_a_whole_day_was_left_out(ago, expected):
    assert streak([DAY - days(each) for each in ago], DAY) == expected


def test_what_comes_due_leaves_out_what_is_hidden_or_gone(progress):
    for card in ("ring/one", "ring/two", "ring/three", "gone/one"):
        progress.review(card, Grade.GOOD, AT, TOOK)
    progress.suspend("ring/two", AT)
    now = statistics(progress, CONCEPTS, DAY)
    assert (now.due, sum(now.ahead), len(now.ahead)) == (0, 2, 14)
    assert statistics(progress, CONCEPTS, DAY + days(20)).due == 2
    progress.review("ring/three", Grade.AGAIN, AT, TOOK)  # it comes again today, or else is due tomorrow
    assert [statistics(progress, CONCEPTS, DAY + days(ahead)).due for ahead in (0, 1)] == [0, 1]


def test_without_cards_the_forecast_is_one_line(progress):
    progress.answer(answer_row("ring/bytes", 1.0), AT)
    assert "Cards coming due\n  None now, and none in the next 14 days.\n\n" in page(progress)


def test_cards_that_come_again_today_are_said_beside_those_that_are_due_as_home_says_them(progress):
    progress.review("ring/one", Grade.AGAIN, AT, TOOK)
    assert "\n  1 card to repeat today\n" in page(progress)
    progress.review("ring/one", Grade.GOOD, AT, TOOK)
    assert "to repeat" not in page(progress)


def test_time_is_summed_and_long_pauses_are_cut(progress):
    progress.review("ring/one", Grade.GOOD, AT, timedelta(hours=3))
    progress.review("ring/two", Grade.GOOD, AT + days(1), TOOK)
    now = statistics(progress, CONCEPTS, DAY + days(1))
    assert (now.seconds, now.streak, now.longest, len(now.days)) == (126.0, 2, 2, 2)


def answer(progress, question, given, *, at=AT, seed=1, **more):
    posed = pose(question, random.Random(seed))
    if question.options:
        given = " ".join(str(place + 1) for place, i in enumerate(posed.shown) if question.options[i].text in given)
    verdict = judge(posed, given)
    text = answer_text(posed, given, verdict.chosen)
    progress.answer(answer_row(question.key, float(verdict.right), given=text, level=question.level, **more), at)
    return text


def test_what_is_kept_of_an_answer_names_what_was_chosen_however_it_was_shuffled(progress):
    for seed in range(5):
        assert answer(progress, BYTES, ["3,600 bytes"], seed=seed) == "3,600 bytes"
        assert json.loads(answer(progress, PHASES, ["broadcast", "all-gather"], seed=seed).encode()) in (
            ["broadcast", "all-gather"],
            ["all-gather", "broadcast"],
        )
    assert answer(progress, STEPS, "2400") == "2400 with n=4, s=1200"
    assert answer(progress, PRINTS, "[1.0, 1.5]") == "[1.0, 1.5]"
    posed = pose(HOOKS, random.Random(1))
    assert set(json.loads(answer_text(posed, "1 2 3", (0, 1, 2)))) == {line.text for line in HOOKS.lines}


# A number question without variables
FIXED = replace(
    STEPS, ask="How many?", variables=(), answer="1800", steps=(), hints=(), proof=None,
    traps=(replace(STEPS.traps[0], answer="2 * 1200"),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("question", "kept", "whys"),
    [
        (BYTES, "3,600 bytes", ["A root would send that much."]),
        (BYTES, "1,800 bytes", []),
        (BYTES, "an option that was removed", []),
        (PHASES, '["broadcast", "reduce-scatter", "barrier"]', ["A broadcast copies from one rank.", "A barrier moves no data."]),
        (PHASES, "[", []),
        (PHASES, "3", []),
        (STEPS, "2400 with n=4, s=1200", ["That is the limit for very many ranks."]),
        (STEPS, "2401 with n=4, s=1200", []),
        (STEPS, "2400", []),
        (STEPS, "2400 with m=4", []),
        (FIXED, "2400", ["That is the limit for very many ranks."]),
        (PRINTS, "[1.0, 1.5]", ["That is the mean."]),
        (PRINTS, "nothing like it", []),
        (HOOKS, '["a", "b"]', []),
    ],
)  # fmt: skip
def test_the_beliefs_behind_an_answer_are_found_again(question, kept, whys):
    assert [found.why for found in beliefs(question, kept)] == whys


def test_wrong_beliefs_are_counted_and_come_with_the_demo_that_shows_better(progress):
    for seed in range(3):
        answer(progress, BYTES, ["2,400 bytes"], seed=seed)
    answer(progress, BYTES, ["1,800 bytes"])
    answer(progress, PRINTS, "[1.0, 1.5]")
    now = statistics(progress, CONCEPTS, DAY)
    assert [(one.question, one.given, one.times, one.demo, one.why) for one in now.misled] == [
        ("ring/bytes", "2,400 bytes", 3, "allreduce", "That is the limit for very many ranks."),
        ("ddp/prints", "[1.0, 1.5]", 1, None, "That is the mean."),
    ]


def test_a_wrong_answer_is_told_with_what_was_asked_there_and_given_before_why_it_is_wrong(progress):
    answer(progress, STEPS, "2400")
    for seed in range(2):
        answer(progress, PHASES, ["broadcast", "all-gather"], seed=seed)
    assert page(progress).partition("Your most frequent wrong answers, and why they are wrong\n")[2] == (
        snapshot("""\
  twice  Which two collectives make an all-reduce?
         your answer: broadcast
         A broadcast copies from one rank.
         ddpquiz demo allreduce
  once   A ring of 4 ranks moves 1,200 bytes. How many does each rank send?
         your answer: 2400
         That is the limit for very many ranks.
         ddpquiz demo allreduce
""")
    )


def test_how_sure_is_set_against_how_often_right(progress):
    for seed in range(8):
        answer(progress, BYTES, ["1,800 bytes" if seed < 2 else "2,400 bytes"], seed=seed, confidence=0.95)
    answer(progress, BYTES, ["1,800 bytes"])
    (sure,) = statistics(progress, CONCEPTS, DAY).sure
    assert (sure.said, sure.share) == (0.95, Share(2, 8))
    assert "95% sure  right 25% (7% to 59%) of 8 · overconfident\n" in page(progress)


def test_nobody_who_has_done_nothing_sees_empty_charts(progress):
    assert page(progress) == (
        snapshot("Nothing has been studied yet. `ddpquiz study` starts with the first card,\n"
        "`ddpquiz test` with questions.\n")
    )  # fmt: skip


def study_a_while(progress):
    for day, cards in [(0, 2), (1, 12), (3, 1), (4, 35), (30, 1)]:
        for number in range(cards):
            progress.review(f"ring/{('one', 'two', 'three', 'four')[number % 4]}", Grade.GOOD, AT + days(day), TOOK)
    for day in range(3):
        answer(progress, BYTES, ["2,400 bytes"], at=AT + days(day), seed=day)
        answer(progress, PHASES, ["broadcast", "barrier"], at=AT + days(day), seed=day)
        answer(progress, STEPS, "7", at=AT + days(day), seed=day)


def test_the_page_says_everything_in_80_columns(progress):
    study_a_while(progress)
    shown = page(progress, AT + days(30))
    assert max(map(len, shown.splitlines())) <= 80
    for words in (
        "Streak  1 day (longest: 5)\n",
        "Done    60 cards, questions and steps of lessons on 6 days\n",
        "  mature  100% (21% to 100%) of 1  100% (21% to 100%) of 1\n",
        "  now Thu Fri Sat Sun Mon Tue Wed Thu Fri Sat Sun Mon Tue Wed\n",
        "      · none  ░ 1  ▒ 10  ▓ 30  █ 60 or more\n",
        "  1 concept not tested yet: ddpquiz test CONCEPT\n",
        "           your answer: 2,400 bytes\n           That is the limit for very many ranks.\n",
    ):
        assert words in shown, shown
    assert "Fair: neither, and it lies between 35 and 85%." in " ".join(shown.split())
    rows = shown.partition("Study days\n")[2].splitlines()
    assert [row[6:] for row in rows[1:8]] == snapshot(
        [
            "· · · · · · · · · · · ░ · · · ·",
            "· · · · · · · · · · · ▒ · · · ·",
            "· · · · · · · · · · · ░ · · · ░",
            "· · · · · · · · · · · ░ · · ·",
            "· · · · · · · · · · · ▓ · · ·",
            "· · · · · · · · · · · · · · ·",
            "· · · · · · · · · · · · · · ·",
        ]
    )


@pytest.mark.parametrize("width", [20, 30, 45, 60])
def test_the_page_fits_narrow_terminals(progress, width):
    study_a_while(progress)
    shown = page(progress, AT + days(30), width)
    assert max(map(len, shown.splitlines())) <= width
    assert "Streak" in shown
    assert "demo allreduce" in " ".join(shown.split())


@pytest.mark.parametrize(("seconds", "words"), [(6, "6 s"), (60, "1 min"), (3599, "1 h 00 min"), (7500, "2 h 05 min")])
def test_durations_are_short(seconds, words):
    assert duration(seconds) == words


def test_the_command_shows_what_a_sitting_left_and_writes_it_as_json(tmp_path):
    piped(tmp_path, "study", lines="\n3\n\n1\n")
    piped(tmp_path, "test", "ring", "--kind", "number", lines="2400\n")
    assert "Done    3 cards, questions and steps of lessons on 1 day\n" in piped(tmp_path, "stats").stdout
    told = json.loads(piped(tmp_path, "stats", "--json").stdout)
    assert [day["done"] for day in told["days"]] == [3]
    assert told["retention"]["wanted"] == 0.9
    assert told["misconceptions"] == [
        {
            "question": "ring/steps",
            "ask": "A ring of 4 ranks moves 1,200 bytes. How many does each rank send?",
            "given": "2400",
            "why": "That is the limit for very many ranks.",
            "times": 1,
            "demo": "allreduce",
        }
    ]
    assert [one["concept"] for one in told["concepts"]] == ["ring"]
    assert told["due"] + sum(told["forecast"]) >= 2


def test_concepts_with_a_verdict_come_before_those_without_one(progress):
    for number in range(2):
        progress.answer(answer_row(f"ddp/{number}", 0.0), AT)
    for number in range(12):
        progress.answer(answer_row(f"ring/{number}", 0.6 if number % 3 else 1.0, level="medium"), AT)
    (first, fair), (last, unknown) = statistics(progress, CONCEPTS, DAY).strengths
    assert (first.id, last.id, unknown.label.words) == ("ring", "ddp", "no verdict")
    assert fair.label.words != "no verdict"
    assert unknown.mean < fair.mean
