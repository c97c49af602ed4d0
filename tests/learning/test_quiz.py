"""A sitting with questions."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from sample import BYTES, CARDS, PHASES, PRINTS, START
from sample_sittings import play, right

from ddpquiz.learning.answers import card_to_make_due
from ddpquiz.learning.quiz import Given, QuizAction, Rules, begin, step
from ddpquiz.learning.quiz_scores import scores, weakest_concept
from ddpquiz.learning.schedule import Memory, study_day

TODAY = study_day(START)


def quiz(*questions):
    return begin(questions or (BYTES, PRINTS), random.Random(0), START)


def test_the_verdict_stays_until_the_learner_goes_on():
    state = quiz()
    state = play(state, right(state))
    assert state.answer.verdict.right
    assert state.place == 0
    assert play(state, Given("1")) == state
    state = play(state, QuizAction.NEXT)
    assert (state.place, state.answer) == (1, None)


def test_an_answer_that_cannot_be_read_is_asked_again():
    state = play(quiz(), Given("what?"))
    assert (state.unclear, state.answers) == ("Answer with one number from 1 to 4.", ())


def test_hints_come_in_stages_and_halve_the_credit():
    state = play(quiz(), QuizAction.HINT)
    assert state.hints == 1
    state = play(state, QuizAction.HINT, QuizAction.HINT)
    assert state.hints == 2
    state = play(state, right(state))
    assert state.answer.credit == 0.5
    assert play(state, QuizAction.NEXT).hints == 0


def test_a_shown_solution_earns_nothing():
    state = play(quiz(), QuizAction.GIVE_UP)
    assert (state.answer.gave_up, state.answer.credit, state.missed) == (True, 0.0, (BYTES,))


def test_undo_never_costs_what_was_earned():
    state = quiz()
    state = play(state, right(state))
    assert play(state, QuizAction.UNDO) == state  # nothing lies behind the first verdict
    state = play(state, QuizAction.NEXT)
    looked = play(state, QuizAction.UNDO)
    assert (looked.judged, looked.number, looked.shown, looked.posed) == (True, 1, state.answers[0], state.asked[0])
    assert (looked.answers, step(state, QuizAction.UNDO, START)[1]) == (state.answers, (None, None))
    assert play(looked, Given("1"), QuizAction.SKIP, QuizAction.GIVE_UP, QuizAction.HINT, QuizAction.UNDO) == looked
    back = play(looked, QuizAction.NEXT)
    assert (back.place, back.judged, back.looked, back.hints) == (1, False, 0, 0)
    assert play(back, right(back)).answer.credit == 1.0


def test_looking_back_leads_back_to_the_hints_and_to_the_end():
    state = quiz(BYTES, PHASES, PRINTS)
    for _ in range(2):
        state = play(state, right(state), QuizAction.NEXT)
    state = play(state, QuizAction.HINT)
    looked = play(state, QuizAction.UNDO, QuizAction.UNDO, QuizAction.UNDO)
    assert (looked.number, looked.looked) == (1, 2)
    assert play(looked, QuizAction.NEXT, QuizAction.NEXT) == replace(
        state, since=play(looked, QuizAction.NEXT, QuizAction.NEXT).since
    )
    state = play(state, right(state))
    assert play(state, QuizAction.UNDO).number == 2
    state = play(state, QuizAction.NEXT)
    assert (state.posed, play(state, QuizAction.UNDO).number, play(state, QuizAction.UNDO, QuizAction.NEXT).posed) == (
        None,
        3,
        None,
    )


def test_a_skipped_question_is_not_an_answer():
    state = play(quiz(), QuizAction.SKIP)
    assert (state.place, state.answers) == (1, ())
    assert play(state, QuizAction.UNDO).place == 0


def test_a_skip_at_the_end_can_be_undone_but_not_past_a_verdict():
    state = quiz()
    state = play(state, QuizAction.SKIP, QuizAction.SKIP)
    assert state.posed is None
    assert (play(state, QuizAction.UNDO).place, play(state, QuizAction.UNDO, QuizAction.UNDO).place) == (1, 0)
    state = play(state, QuizAction.UNDO)
    assert play(state, right(state)).previous is None


def test_stopping_can_be_undone():
    state = play(quiz(), QuizAction.HINT, QuizAction.STOP)
    assert state.posed is None
    assert (play(state, QuizAction.UNDO).place, play(state, QuizAction.UNDO).hints) == (0, 1)


def test_the_log_gets_what_was_added_and_what_was_undone():
    answered, change = step(quiz(BYTES, PRINTS), Given("1"), START)
    assert change == (answered.answers[0], None)
    for event in (QuizAction.NEXT, QuizAction.UNDO):
        answered, change = step(answered, event, START)
        assert change == (None, None)


def test_an_answer_that_was_saved_when_the_quiz_was_stopped_can_be_taken_back():
    pending = play(begin((BYTES,), random.Random(0), START, rules=Rules(confidence=True)), Given("1"))
    stopped, change = step(pending, QuizAction.STOP, START)
    assert change == (pending.pending, None)
    back, change = step(stopped, QuizAction.UNDO, START)
    assert (change, back.answers, back.pending) == ((None, pending.pending), (), pending.pending)


def test_time_away_does_not_count_as_time_spent_on_the_question():
    state, _ = step(quiz(), QuizAction.BACK, START + timedelta(minutes=9))
    state, _ = step(state, Given("1"), START + timedelta(minutes=9, seconds=3))
    assert state.answers[0].took == timedelta(seconds=3)


def test_the_score_is_shown_by_concept_and_level():
    state = quiz(BYTES, PHASES, PRINTS)
    state = play(state, right(state), QuizAction.NEXT, QuizAction.HINT, QuizAction.SKIP)
    state = play(state, Given("[1.0, 1.5]"), QuizAction.NEXT)
    by_concept = scores(state, "concept")
    assert [(name, s.credit, s.right, s.answered, s.asked) for name, s in by_concept.items()] == [
        ("ring", 1.0, 1, 1, 2),
        ("ddp", 0.0, 0, 1, 1),
    ]
    assert list(scores(state, "level")) == ["medium", "easy"]
    assert scores(state, "")[""].asked == 3
    assert weakest_concept(state) == "ddp"
    assert weakest_concept(quiz()) is None


REVIEWED = Memory(TODAY + timedelta(9), 9, 5, TODAY, TODAY, 1)


@pytest.mark.parametrize(
    ("memories", "made_due"),
    [
        ({}, "ring/two"),
        ({"ring/two": Memory(TODAY)}, "ring/four"),  # that one is due already
        ({"ring/two": REVIEWED}, "ring/four"),  # recalled a moment ago
        ({"ring/two": replace(REVIEWED, last=TODAY - timedelta(1))}, "ring/two"),
        ({f"ring/{name}": Memory(TODAY) for name in ("one", "two", "three", "four")}, "ring/two"),
    ],
)
def test_a_wrong_answer_makes_a_card_due_that_the_question_names_or_proves(memories, made_due):
    cards = [replace(card, proof="bytes") if card.key == "ring/four" else card for card in CARDS]
    assert BYTES.card == "two"
    assert card_to_make_due(BYTES, cards, memories, TODAY) == made_due


def test_a_question_without_a_card_calls_none():
    alone = replace(BYTES, card="")
    assert card_to_make_due(alone, CARDS, {}, TODAY) is None
    elsewhere = [replace(card, proof="bytes") if card.concept == "ddp" else card for card in CARDS]
    assert card_to_make_due(alone, elsewhere, {}, TODAY) is None


def test_a_hint_stays_seen_when_the_learner_goes_back_and_skips_again():
    state = play(quiz(BYTES, PRINTS), QuizAction.SKIP, QuizAction.HINT)
    assert (state.place, state.hints) == (1, 1)
    state = play(state, QuizAction.UNDO)
    assert (state.place, state.hints) == (0, 0)
    state = play(state, QuizAction.SKIP)
    assert (state.place, state.hints) == (1, 1)
    assert play(state, right(state)).answer.credit == 0.5
