"""The log, and what follows from it."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from progress_histories import AT, TOOK, apply, histories, states
from sample import BYTES, RING_CARDS, answer_row, wrong_answer

from ddpquiz.learning.answers import save_answer
from ddpquiz.learning.log_rows import ExplanationRow, PointRow
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade, Memory, Schedule, Weights, study_day
from ddpquiz.paths import data_dir


def test_a_review_is_saved_and_the_card_is_scheduled(progress):
    receipt = progress.review("ring/one", Grade.GOOD, AT, TOOK)
    assert receipt.sequence == 1
    assert progress.memories() == {"ring/one": Schedule(Weights()).review("ring/one", None, Grade.GOOD, study_day(AT))}
    (row,) = progress.log()
    assert (row.kind, row.item, row.grade, row.took) == ("review", "ring/one", 3, 3000)
    assert (row.at, row.day, row.weights) == ("2026-03-02T09:00:00.000000Z", "2026-03-02", Weights().version)


def test_the_log_has_utc_and_the_study_day_of_where_the_learner_was(progress):
    progress.review("ring/one", Grade.GOOD, datetime(2026, 3, 2, 2, tzinfo=timezone(timedelta(hours=9))), TOOK)
    (row,) = progress.log()
    assert (row.at, row.day) == ("2026-03-01T17:00:00.000000Z", "2026-03-01")


def test_an_undo_is_a_row_and_removes_the_review_from_the_state(progress):
    progress.review("ring/one", Grade.GOOD, AT, TOOK)
    before = progress.memories()
    receipt = progress.review("ring/one", Grade.AGAIN, AT + TOOK, TOOK)
    progress.undo(receipt, AT + 2 * TOOK)
    assert progress.memories() == before
    assert [row.kind for row in progress.log()] == ["review", "review", "undo"]
    assert [row.grade for row in progress.entries("review")] == [3]


def test_an_answer_makes_a_card_due_and_undoing_it_reverts_that(progress):
    progress.review("ring/one", Grade.EASY, AT, TOOK)
    before = progress.memories()
    tomorrow = AT + timedelta(days=1)
    receipt = progress.answer(answer_row("ring/bytes", 0.0, made_due_card="ring/one"), tomorrow)
    assert progress.memories()["ring/one"].due == study_day(tomorrow)
    assert progress.memories()["ring/one"].stability == before["ring/one"].stability
    progress.undo(receipt, tomorrow)
    assert progress.memories() == before
    progress.answer(answer_row("ring/bytes", 0.0, made_due_card="ring/new"), tomorrow)
    assert progress.memories()["ring/new"] == Memory(study_day(tomorrow))


def test_the_log_can_only_grow(progress):
    progress.review("ring/one", Grade.GOOD, AT, TOOK)
    for change in ("DELETE FROM log", "UPDATE log SET grade = 4"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            progress._database.execute(change)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories(max_size=25))
def test_a_rebuilt_state_is_the_same_to_the_byte_here_and_on_another_machine(tmp_path_factory, acts):
    home = tmp_path_factory.mktemp("progress")
    with Progress(home) as progress, Progress(home / "other") as other:
        apply(progress, acts)
        kept = repr(states(progress))
        progress.rebuild()
        assert repr(states(progress)) == kept
        known = dict.fromkeys([Weights(), *(Weights(retention=0.8 + grade / 100) for grade in range(1, 5))], "")
        assert other.merge(progress.log(), known) == len(progress.log())
        assert repr(states(other)) == kept
        assert other.merge(progress.log(), known) == 0


def test_two_machines_can_be_merged_and_agree(tmp_path):
    with Progress(tmp_path / "here") as here, Progress(tmp_path / "there") as there:
        for days in range(4):
            here.review("c/a", Grade.GOOD, AT + timedelta(days=2 * days), TOOK)
            there.review("c/a", Grade.HARD, AT + timedelta(days=2 * days + 1), TOOK)
        mine, theirs = here.log(), there.log()
        here.merge(theirs, there.all_weights())
        there.merge(mine, here.all_weights())
        assert states(here) == states(there)
        assert here.memories()["c/a"].reps == 8
        here.review("c/a", Grade.GOOD, AT + timedelta(days=30), TOOK)
        kept = states(here)
        here.rebuild()
        assert states(here) == kept


def test_weights_in_use_are_those_used_last(progress):
    assert progress.weights() == Weights()
    progress.use_weights(Weights(retention=0.8), AT)
    progress.use_weights(Weights(), AT + TOOK)
    assert progress.weights() == Weights()
    progress.use_weights(Weights(retention=0.8), AT + 2 * TOOK)
    assert progress.weights() == Weights(retention=0.8)


def test_the_folder_is_the_one_that_the_learner_names(monkeypatch, tmp_path):
    monkeypatch.setenv("DDPQUIZ_HOME", str(tmp_path))
    assert data_dir() == tmp_path
    monkeypatch.delenv("DDPQUIZ_HOME")
    assert data_dir().name == "ddpquiz"


def test_flags_and_answers_can_be_read_back(progress):
    progress.answer(answer_row("ring/bytes", 0.5, retry=True), AT)
    progress.flag("ring/bytes", "two options are right", AT)
    assert [(row.credit, row.retry) for row in progress.entries("answer")] == [(0.5, True)]
    assert [row.given for row in progress.entries("flag")] == ["two options are right"]
    assert progress.memories() == {}


def test_days_are_days(progress):
    progress.review("ring/one", Grade.GOOD, AT, TOOK)
    memory = progress.memories()["ring/one"]
    assert isinstance(memory.due, date)
    assert memory.first == memory.last == date(2026, 3, 2)


POINTS = (
    PointRow("every rank sends", True),
    PointRow("to its neighbor", False, True),
    PointRow("twice round", True, True),
)


def test_an_explanation_is_worth_the_share_of_points_that_were_made_and_the_learner_has_the_last_word(progress):
    progress.explain(
        ExplanationRow(item="ring/why", took=TOOK, given="Each rank sends to the next.", points=POINTS), AT
    )
    (row,) = progress.entries("explanation")
    assert (row.item, row.given, row.took) == ("ring/why", "Each rank sends to the next.", 3000)
    assert row.credit == pytest.approx(2 / 3)
    assert tuple(PointRow(**point) for point in json.loads(row.points)) == POINTS
    assert progress.memories() == {}


def test_how_sure_the_learner_was_is_saved_with_an_answer_only(progress):
    progress.answer(answer_row("ring/bytes", 1.0, confidence=0.75), AT)
    progress.answer(answer_row("ring/bytes", 1.0), AT)
    assert [row.confidence for row in progress.entries("answer")] == [0.75, None]
    with pytest.raises(sqlite3.IntegrityError):
        progress.answer(answer_row("ring/bytes", 1.0, confidence=75), AT)


def test_what_is_suspended_is_hidden_until_restored_and_what_is_buried_until_tomorrow(progress):
    today = study_day(AT)
    tomorrow = today + timedelta(days=1)
    progress.review("ring/one", Grade.GOOD, AT, TOOK)
    before = states(progress)
    progress.suspend("ring/one", AT)
    buried = progress.bury("ring/two", AT)
    assert (progress.hidden(today), progress.hidden(tomorrow)) == ({"ring/one", "ring/two"}, {"ring/one"})
    assert states(progress) == before
    progress.undo(buried, AT)
    assert progress.restore("ring/one", AT)
    assert not progress.restore("ring/one", AT)
    assert progress.hidden(today) == frozenset()


def test_a_rebuild_gives_the_same_bytes_in_another_time_zone_and_after_merges_in_another_order(tmp_path):
    homes = [tmp_path / name for name in ("a", "b", "c")]
    for place, home in enumerate(homes):
        with Progress(home) as one:
            one.use_weights(Weights(retention=0.8 + place / 20), AT)
            for number in range(30):
                at = AT + timedelta(days=number * (place + 1), hours=5 * number, seconds=place)
                one.review(f"c/{number % 4}", Grade(1 + number % 4), at.astimezone(timezone(timedelta(hours=9))), TOOK)
            one.undo(one.answer(answer_row("c/q", 0.0, made_due_card="c/5"), AT), AT)
            one.answer(answer_row("c/q", 0.0, made_due_card="c/6"), AT)

    def gathered(order, name):
        with Progress(tmp_path / name) as all_of, contextlib.ExitStack() as stack:
            for home in order:
                one = stack.enter_context(Progress(home))
                all_of.merge(one.log(), one.all_weights())
            return states(all_of)

    kept = gathered(homes, "forward")
    assert len(kept) == 5
    assert repr(gathered(homes[::-1], "backward")) == repr(kept)
    for zone in ("Asia/Tokyo", "America/Los_Angeles"):
        environment = {**os.environ, "DDPQUIZ_HOME": str(tmp_path / "forward"), "TZ": zone}
        words = [sys.executable, "-m", "ddpquiz", "progress", "rebuild"]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
        assert done.stdout == "5 cards from 99 rows of the log; nothing changed.\n"
        with Progress(tmp_path / "forward") as same:
            assert repr(states(same)) == repr(kept)


def test_the_cards_of_one_concept_are_read_alone(progress):
    for item in ("ring/one", "ring-2/one", "rin/g", "ring0/x", "ring/zwei"):
        progress.review(item, Grade.GOOD, AT, TOOK)
    assert set(progress.memories("ring")) == {"ring/one", "ring/zwei"}


def test_a_wrong_answer_calls_a_card_that_is_not_hidden(progress):
    cards = [replace(card, proof=BYTES.id) if card.id == "four" else card for card in RING_CARDS]
    progress.suspend("ring/two", AT)
    assert save_answer(progress, wrong_answer(BYTES, AT), cards).made_due_card == "ring/four"
    progress.restore("ring/two", AT)
    tomorrow = wrong_answer(BYTES, AT + timedelta(days=1))
    assert save_answer(progress, tomorrow, cards, retry=True).made_due_card is None
    assert save_answer(progress, tomorrow, cards).made_due_card == "ring/two"


def test_missing_a_question_again_on_the_same_day_calls_no_second_card(progress):
    wrong = wrong_answer(BYTES, AT)
    first = save_answer(progress, wrong, RING_CARDS)
    assert first.made_due_card
    assert save_answer(progress, wrong, RING_CARDS).made_due_card is None
    progress.undo(first.receipt, AT)
    assert save_answer(progress, wrong, RING_CARDS).made_due_card


def test_of_several_answers_on_a_day_the_first_counts_and_of_days_the_last(progress):
    for days, credit in ((0, 1.0), (0, 0.0), (1, 0.0), (1, 1.0)):
        progress.answer(answer_row(BYTES.key, credit, level="hard"), AT + timedelta(days=days))
        (row,) = progress.last_answers()
        assert row.credit == (0.0 if days else 1.0)


def test_weights_are_in_use_from_when_they_were_chosen_also_by_a_clock_that_was_set_back(progress):
    progress.use_weights(Weights(retention=0.8), AT)
    progress.use_weights(Weights(retention=0.95), AT - timedelta(days=400))
    assert progress.weights() == Weights(retention=0.95)
