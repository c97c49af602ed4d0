"""When a card comes back."""

import random
from datetime import UTC, date, datetime, timedelta, timezone

import fsrs.scheduler
import pytest

from ddpquiz.errors import UserError
from ddpquiz.learning.schedule import FSRS_6, Grade, Memory, Schedule, Weights, make_due, study_day

DAY = date(2026, 3, 2)
SCHEDULE = Schedule(Weights())


def test_the_weights_are_those_that_fsrs_starts_from():
    assert fsrs.scheduler.DEFAULT_PARAMETERS == FSRS_6


@pytest.mark.parametrize(
    ("local", "day"),
    [
        ("2026-03-02T03:59:59", "2026-03-01"),
        ("2026-03-02T04:00:00", "2026-03-02"),
        ("2026-03-03T00:30:00", "2026-03-02"),
    ],
)
def test_the_study_day_turns_at_four_in_the_morning_wherever_the_learner_is(local, day):
    for hours in (-11, 0, 5.5, 14):
        here = timezone(timedelta(hours=hours))
        assert str(study_day(datetime.fromisoformat(local).replace(tzinfo=here))) == day


def test_a_late_evening_and_the_next_morning_are_two_days():
    late, early = datetime(2026, 3, 2, 23, tzinfo=UTC), datetime(2026, 3, 3, 8, tzinfo=UTC)
    memory = SCHEDULE.review("c/a", None, Grade.GOOD, study_day(late))
    later = SCHEDULE.review("c/a", memory, Grade.GOOD, study_day(early))
    assert later.stability > 1.5 * memory.stability


def test_what_is_forgotten_stays_due_and_the_rest_comes_back_the_later_the_better_it_was_known():
    memory = None
    day = DAY
    for _ in range(6):
        days = SCHEDULE.preview("c/a", memory, day)
        assert days[Grade.AGAIN] == 0
        assert 1 <= days[Grade.HARD] <= days[Grade.GOOD] <= days[Grade.EASY]
        memory = SCHEDULE.review("c/a", memory, Grade.GOOD, day)
        assert memory.due == day + timedelta(days=days[Grade.GOOD])
        day = memory.due


def test_a_lapse_is_forgetting_what_was_learned_on_an_earlier_day():
    memory = SCHEDULE.review("c/a", None, Grade.AGAIN, DAY)
    assert (memory.lapses, memory.reps) == (0, 1)
    memory = SCHEDULE.review("c/a", memory, Grade.GOOD, DAY)
    memory = SCHEDULE.review("c/a", memory, Grade.AGAIN, memory.due)
    assert (memory.lapses, memory.reps, memory.first) == (1, 3, DAY)


def test_fuzz_spreads_cards_but_is_the_same_each_time_and_leaves_the_dice_of_others_alone():
    known = Memory(DAY, 30.0, 5.0, DAY - timedelta(30), DAY - timedelta(30), 3)
    random.seed(7)
    expected = random.random()
    random.seed(7)
    dues = [SCHEDULE.review(f"c/{n}", known, Grade.GOOD, DAY).due for n in range(50)]
    assert dues == [Schedule(Weights()).review(f"c/{n}", known, Grade.GOOD, DAY).due for n in range(50)]
    assert len(set(dues)) > 3
    assert random.random() == expected


def test_a_clock_set_back_does_no_harm():
    memory = SCHEDULE.review("c/a", None, Grade.GOOD, DAY)
    assert SCHEDULE.review("c/a", memory, Grade.GOOD, DAY - timedelta(days=400)).last == DAY


def test_the_chance_of_recall_falls_to_the_retention_on_the_due_day():
    memory = SCHEDULE.review("c/a", None, Grade.EASY, DAY)
    assert SCHEDULE.recall(memory, DAY) == 1
    assert SCHEDULE.recall(memory, DAY + timedelta(days=round(memory.stability))) == pytest.approx(0.9, abs=0.01)
    assert SCHEDULE.recall(Memory(DAY), DAY) == 0


def test_a_card_that_is_made_due_is_due_today_and_keeps_what_is_known_of_it():
    memory = SCHEDULE.review("c/a", None, Grade.EASY, DAY)
    assert make_due(memory, DAY + timedelta(days=1)) == Memory(
        DAY + timedelta(days=1), memory.stability, memory.difficulty, memory.first, memory.last, 1, 0
    )
    assert make_due(memory, memory.due + timedelta(days=9)) == memory
    assert make_due(None, DAY) == Memory(DAY)
    assert SCHEDULE.review("c/a", Memory(DAY), Grade.GOOD, DAY) == SCHEDULE.review("c/a", None, Grade.GOOD, DAY)


@pytest.mark.parametrize(
    ("retention", "complaint"),
    [
        (1.2, "Retention must lie between 0.7 and 0.97; 1.2 does not."),
        (0.0, "Retention must lie between 0.7 and 0.97; 0.0 does not."),
    ],
)
def test_a_retention_that_makes_no_sense_is_refused(retention, complaint):
    with pytest.raises(UserError) as refused:
        Weights(retention=retention)
    assert str(refused.value) == complaint


def test_wrong_weights_are_refused_and_right_ones_have_a_name_of_their_own():
    with pytest.raises(UserError, match="not FSRS-6 weights"):
        Weights((1.0, 2.0))
    assert Weights().version == Weights(FSRS_6, 0.9).version != Weights(retention=0.85).version


def test_a_lower_retention_stretches_intervals_by_what_it_says():
    assert Weights().stretch == pytest.approx(1)
    for retention in (0.8, 0.95):
        other = Weights(retention=retention)
        known = Memory(DAY, 300.0, 5.0, DAY - timedelta(300), DAY - timedelta(300), 3)
        memory = Schedule(other).review("c/a", known, Grade.GOOD, DAY)
        days = (memory.due - DAY).days
        assert days / (memory.stability * other.stretch) == pytest.approx(1, abs=0.06)  # fuzz is a twentieth
