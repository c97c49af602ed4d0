"""A sitting of explaining, as a pure function."""

from datetime import timedelta

from sample import START, WHY_RING, Clock

from ddpquiz.curriculum.concept import Prompt
from ddpquiz.learning.explain import ExplainAction, Opinion, Toggle, WriteLine, begin, order, step


def play(state, *events, clock=None):
    clock = clock or Clock()
    for event in events:
        state, _ = step(state, event, clock())
    return state


TEXT = WriteLine("A root's link is the bottleneck, and the other links idle.")


def test_no_point_is_ticked_in_advance_also_where_all_its_words_are_used():
    text = " ".join(f"It is not so that {point}." for point in WHY_RING.points)
    state = play(begin([WHY_RING], START), WriteLine(text))
    assert [(point.say, point.made) for point in state.explanation.points] == [(p, False) for p in WHY_RING.points]
    assert state.explanation.made == 0
    assert state.explanation.took == timedelta(seconds=4)


def test_the_learner_ticks_each_point_and_removes_the_tick():
    state = play(begin([WHY_RING], START), TEXT, Toggle(2), Toggle(0))
    assert [point.made for point in state.explanation.points] == [True, False, True]
    assert play(state, Toggle(2), Toggle(0)).explanation.made == 0
    assert play(state, Toggle(3)) == state


def test_what_a_program_ticked_stays_known_when_the_learner_changes_it():
    opinion = Opinion((False, True, True))
    state = play(begin([WHY_RING], START), WriteLine("A text.", opinion), Toggle(0), Toggle(1))
    assert [(p.by_program, p.made) for p in state.explanation.points] == [(False, True), (True, False), (True, True)]


def test_nothing_written_is_no_explanation():
    state = begin([WHY_RING], START)
    assert play(state, WriteLine(" \n ")) == state


def test_a_prompt_can_be_skipped_hinted_and_undone():
    state = play(begin([WHY_RING, WHY_RING], START), ExplainAction.HINT)
    assert state.hinted
    state = play(state, TEXT, ExplainAction.HINT, ExplainAction.SKIP)
    assert state.explanation.hinted
    state = play(state, ExplainAction.NEXT)
    assert (state.place, state.checking, state.hinted) == (1, False, False)
    state = play(state, ExplainAction.SKIP)
    assert state.prompt is None
    state = play(state, ExplainAction.UNDO)
    assert state.place == 1
    state = play(state, ExplainAction.UNDO)
    assert (state.place, state.checking, state.done) == (0, False, ())
    assert play(state, ExplainAction.STOP).prompt is None


def test_a_hint_stays_seen_when_the_learner_goes_back_and_skips_again():
    state = play(begin([WHY_RING, WHY_RING], START), ExplainAction.SKIP, ExplainAction.HINT, ExplainAction.UNDO)
    assert (state.place, state.hinted) == (0, False)
    state = play(state, ExplainAction.SKIP)
    assert (state.place, state.hinted) == (1, True)
    assert play(state, TEXT).explanation.hinted


def test_the_log_learns_what_was_added_changed_and_taken_back():
    written, change = step(begin([WHY_RING], START), TEXT, START)
    assert change == (written.done[0], None)
    overruled, change = step(written, Toggle(0), START)
    assert change == (overruled.done[0], written.done[0])
    assert step(overruled, ExplainAction.UNDO, START)[1] == (None, overruled.done[0])
    confirmed, change = step(overruled, ExplainAction.NEXT, START)
    assert change == (None, None)
    assert step(confirmed, ExplainAction.UNDO, START)[1] == (None, overruled.done[0])


def test_what_was_explained_least_comes_first():
    other = Prompt("ring", "other", "?", "", "", WHY_RING.points)
    assert order([WHY_RING, other], {}) == (WHY_RING, other)
    assert order([WHY_RING, other], {WHY_RING.key: 1}) == (other, WHY_RING)
