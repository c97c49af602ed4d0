"""A sitting with cards."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample import CARDS, DDP_CARDS, RING_CARDS, START, Clock, card

from ddpquiz.learning.schedule import Grade, Memory, Schedule, Weights, study_day
from ddpquiz.learning.study import (
    CardQueue,
    Hiding,
    QueueRules,
    Return,
    StudyAction,
    begin,
    choose_cards,
    due_now,
    due_soon,
    should_return,
    step,
    sum_up,
)
from ddpquiz.terminal.sittings import study_screen

TODAY = study_day(START)
SCHEDULE = Schedule(Weights())


def ago(days, due=0, lapses=0):
    return Memory(TODAY + timedelta(days=due), 10.0, 5.0, TODAY - timedelta(days), TODAY - timedelta(days), 2, lapses)


def sitting(cards=RING_CARDS, memories=None, **options):
    memories = memories or {}
    chosen = choose_cards(cards, memories, TODAY, QueueRules(limit=20, new=20))
    return begin(chosen, memories, SCHEDULE, START, **options)


def play(state, *events, clock=None):
    clock = clock or Clock()
    for event in events:
        state, _ = step(state, event, clock())
    return state


def grade(state, *grades, clock=None):
    clock = clock or Clock()
    for one in grades:
        state = play(state, StudyAction.SHOW, one, clock=clock)
    return state


@pytest.mark.parametrize(
    ("limit", "new", "cram", "chosen", "held"),
    [
        (20, 20, False, ["ring/two", "ring/one", "ring/four", "ddp/one", "ddp/two"], (0, 0, 0)),
        (20, 1, False, ["ring/two", "ring/one", "ring/four"], (0, 0, 2)),
        (20, 0, False, ["ring/two", "ring/one"], (0, 0, 3)),
        (1, 9, False, ["ring/two"], (1, 3, 0)),
        (3, 9, False, ["ring/two", "ring/one", "ring/four"], (0, 2, 0)),
        (3, 2, False, ["ring/two", "ring/one", "ring/four"], (0, 1, 1)),
        (20, 9, True, ["ring/two", "ring/one", "ring/three"], (0, 0, 0)),
        (2, 9, True, ["ring/two", "ring/one"], (1, 0, 0)),
    ],
)
def test_cards_that_are_due_come_first_the_longest_overdue_ahead_then_new_ones(limit, new, cram, chosen, held):
    memories = {"ring/one": ago(9, due=-1), "ring/two": ago(9, due=-4), "ring/three": ago(9, due=3)}
    found = choose_cards(CARDS, memories, TODAY, QueueRules(limit=limit, new=new, cram=cram))
    assert [one.key for one in found.cards] == chosen
    assert (found.due_held, found.later, found.of_other_days) == held


def test_no_limit_is_exceeded_by_what_is_asked_again():
    memories = {card.key: ago(0) for card in RING_CARDS}
    earlier = {"ring/one": [Grade.AGAIN], "ring/two": [Grade.HARD], "ring/three": [Grade.AGAIN]}
    for limit in range(1, 5):
        found = choose_cards(CARDS, memories, TODAY, QueueRules(limit=limit, new=1, earlier=earlier))
        asked = ["ring/one", "ring/three", "ring/two", "ring/four"][:limit]
        assert sorted(one.key for one in found.cards) == sorted(asked)


def test_a_grade_counts_only_when_the_back_was_seen():
    state = sitting()
    assert step(state, Grade.GOOD, START)[0] is state
    state = play(state, StudyAction.SHOW, Grade.GOOD)
    assert state.card.key == "ring/two"
    assert not state.shown
    assert state.reviews[0].after == SCHEDULE.review("ring/one", None, Grade.GOOD, TODAY)
    assert state.memories["ring/one"] == state.reviews[0].after


def test_what_the_buttons_promise_is_what_happens():
    state = play(sitting(memories={"ring/one": ago(40)}), StudyAction.SHOW)
    for one, days in state.preview(TODAY).items():
        assert step(state, one, START)[0].reviews[-1].days == days


def test_a_forgotten_card_comes_back_in_the_same_sitting_and_others_do_not():
    state = grade(sitting(), Grade.AGAIN)
    assert (state.place, state.coming_again) == (2, 1)
    state = grade(state, Grade.GOOD, Grade.GOOD, Grade.EASY)
    assert state.card.key == "ring/one"
    assert (state.place, state.coming_again) == (4, 0)
    state = grade(state, Grade.GOOD)
    assert state.card is None


def test_a_hard_card_comes_back_once_at_the_end_of_the_sitting():
    state = grade(sitting(tuple(card(f"n{n}") for n in range(9))), Grade.HARD)
    assert state.coming_again == 1
    state = grade(state, *[Grade.GOOD] * 8)
    assert state.card.key == "ring/n0"
    assert state.share == pytest.approx(8 / 9)
    assert grade(state, Grade.HARD).card is None


@pytest.mark.parametrize(
    ("grades", "lapses", "then"),
    [
        ((), 0, Return.NO),
        ((1,), 0, Return.SOON),
        ((1, 1, 1), 0, Return.SOON),
        ((1, 1, 1, 1), 0, Return.LEECH),
        ((1,), 4, Return.LEECH),
        ((1, 3), 4, Return.NO),
        ((2,), 0, Return.LAST),
        ((1, 2), 0, Return.LAST),
        ((2, 1, 2), 0, Return.NO),
        ((2, 1), 0, Return.SOON),
        ((3, 4), 0, Return.NO),
    ],
)
def test_whether_a_card_returns_follows_from_its_grades_of_the_day(grades, lapses, then):
    assert should_return(tuple(map(Grade, grades)), lapses) is then


def test_among_due_cards_a_concept_comes_after_what_it_needs_and_overdue_ones_before_those_of_today():
    cards = (*RING_CARDS, *DDP_CARDS)  # learning order: ddp needs ring
    memories = {"ddp/one": ago(9, due=-9), "ring/one": ago(9, due=-1), "ddp/two": ago(9), "ring/two": ago(9)}
    chosen = choose_cards(cards, memories, TODAY, QueueRules(limit=20, new=1)).cards
    assert [one.key for one in chosen] == ["ring/one", "ddp/one", "ring/two", "ddp/two", "ring/three"]
    (kept,) = choose_cards(cards, memories, TODAY, QueueRules(limit=1, new=9)).cards
    assert kept.key == "ddp/one"  # a limit keeps what is longest overdue


def test_hidden_items_and_new_cards_of_what_was_proven_strong_are_left_out():
    memories = {"ring/one": ago(9), "ring/two": ago(9)}
    found = choose_cards(
        CARDS, memories, TODAY, QueueRules(limit=20, new=20, hidden={"ring/one", "ddp/one"}, proven={"ring"})
    )
    assert [one.key for one in found.cards] == ["ring/two", "ddp/two"]
    assert (found.held, found.proven_held) == ((), 2)


def test_a_suspended_or_buried_card_is_gone_and_undo_brings_it_back():
    for act in (StudyAction.SUSPEND, StudyAction.BURY):
        start = grade(sitting(), Grade.GOOD)
        state, change = step(start, act, START)
        assert state.card.key == "ring/three"
        assert change == (Hiding(RING_CARDS[1], act), None)
        back, change = step(state, StudyAction.UNDO, START)
        assert change == (None, Hiding(RING_CARDS[1], act))
        assert back.card.key == "ring/two"
        assert play(back, StudyAction.UNDO).card.key == "ring/one"


def test_cramming_changes_no_memory_and_still_brings_back_what_was_forgotten():
    memories = {card.key: ago(9, due=3) for card in RING_CARDS}
    state = begin(
        choose_cards(RING_CARDS, memories, TODAY, QueueRules(limit=20, new=0, cram=True)), memories, SCHEDULE, START
    )
    state = grade(state, Grade.AGAIN, *[Grade.EASY] * 3)
    assert state.card.key == "ring/one"
    state = grade(state, Grade.GOOD)
    assert state.card is None
    assert state.memories == memories
    assert (sum_up(state).cards, sum_up(state).recalled) == (4, 3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([Grade.AGAIN, Grade.HARD, Grade.GOOD, Grade.EASY]), max_size=14))
def test_who_quits_anywhere_and_starts_again_is_asked_the_same_cards_in_the_end(grades):
    """What is left of a sitting, and what the next one of the day deals, are the same cards."""
    cards = tuple(card(f"n{n}") for n in range(8))
    state = sitting(cards)
    for one in grades:
        if state.card:
            state = grade(state, one)
    earlier = {card.key: state.grades(card) for card in cards}
    left = choose_cards(cards, state.memories, TODAY, QueueRules(limit=20, new=20, earlier=earlier))
    assert sorted(one.key for one in left.cards) == sorted(one.key for one in state.queue)
    resumed = begin(left, state.memories, SCHEDULE, START)
    again = {one.key for one in state.queue if state.grades(one)}
    assert {one.key for one in resumed.queue if resumed.grades(one)} == again
    while resumed.card:
        resumed = grade(resumed, Grade.GOOD)
    assert all(resumed.memory(one).due > TODAY or resumed.grades(one)[-1] is Grade.AGAIN for one in cards)


def test_some_cards_lie_between_a_forgotten_card_and_its_return():
    cards = tuple(card(f"n{n}") for n in range(12))
    state = grade(sitting(cards), Grade.AGAIN, *[Grade.GOOD] * 5)
    assert state.card.key == "ring/n0"


def test_a_card_forgotten_four_times_is_set_aside_for_its_demo():
    state = sitting(cards=RING_CARDS[:1])
    for _ in range(3):
        state = grade(state, Grade.AGAIN)
        assert state.leech is None
    state = grade(state, Grade.AGAIN)
    assert state.leech == RING_CARDS[0]
    assert state.card is None


def test_a_card_with_many_lapses_is_set_aside_at_once():
    state = grade(sitting(memories={"ring/one": ago(9, lapses=3)}), Grade.AGAIN)
    assert state.leech.key == "ring/one"
    assert state.coming_again == 0


def test_undo_goes_back_more_than_once_and_after_the_end_too():
    start = sitting(RING_CARDS[:2])
    over = grade(start, Grade.GOOD, Grade.AGAIN, Grade.EASY)
    assert over.card is None
    back = play(over, StudyAction.UNDO)
    assert (back.card.key, back.shown, len(back.reviews)) == ("ring/two", True, 2)
    back = play(back, StudyAction.UNDO, StudyAction.UNDO)
    assert (back.card.key, back.reviews, back.memories) == ("ring/one", (), {})
    assert step(back, StudyAction.UNDO, START)[0] is back


def test_undo_works_when_the_sitting_was_stopped():
    state = play(grade(sitting(), Grade.GOOD), StudyAction.STOP)
    assert state.card is None
    assert play(state, StudyAction.UNDO).card.key == "ring/one"


def test_the_log_gets_what_was_added_and_what_was_undone():
    start = play(sitting(), StudyAction.SHOW)
    graded, change = step(start, Grade.GOOD, START)
    assert change == (graded.reviews[0], None)
    skipped, change = step(graded, StudyAction.SKIP, START)
    assert change == (None, None)
    assert step(skipped, StudyAction.UNDO, START)[1] == (None, None)
    assert step(graded, StudyAction.UNDO, START)[1] == (None, graded.reviews[0])


def test_a_skipped_card_is_not_asked_again_in_this_sitting():
    state = play(sitting(RING_CARDS[:2]), StudyAction.SKIP)
    assert state.card.key == "ring/two"
    assert grade(state, Grade.GOOD).card is None


def test_with_two_buttons_only_two_grades_count():
    state = play(sitting(two_buttons=True), StudyAction.SHOW)
    assert list(state.preview(TODAY)) == [Grade.AGAIN, Grade.GOOD]
    assert step(state, Grade.EASY, START)[0] is state
    assert step(state, Grade.GOOD, START)[0].reviews


def test_time_in_a_demo_is_no_time_spent_on_the_card():
    state = sitting()
    later = START + timedelta(minutes=5)
    state = play(step(state, StudyAction.BACK, later)[0], StudyAction.SHOW, clock=lambda: later)
    state, _ = step(state, Grade.GOOD, later + timedelta(seconds=2))
    assert state.reviews[0].took == timedelta(seconds=2)


def test_what_was_learned_today_is_not_counted_as_learned_before():
    memories = {"ring/one": replace(ago(9), last=TODAY), "ring/two": ago(9)}
    summary = sum_up(grade(sitting(CARDS[:2], memories), Grade.GOOD, Grade.GOOD))
    assert (summary.known, summary.recalled) == (1, 1)


def test_the_summary_counts_first_sights_of_what_had_been_learned():
    memories = {"ring/one": ago(9), "ring/two": ago(9), "ring/three": Memory(TODAY)}
    state = sitting(CARDS, memories)
    state = grade(state, Grade.HARD, Grade.AGAIN, Grade.GOOD, Grade.GOOD, Grade.AGAIN, Grade.GOOD, Grade.GOOD)
    summary = sum_up(state)
    assert (summary.known, summary.recalled) == (2, 1)
    assert (summary.cards, summary.new) == (6, 3)
    assert summary.weakest_concept == "ddp"
    assert summary.pace == timedelta(seconds=8)
    assert sum_up(sitting()).pace is None


def test_what_is_due_now_is_no_part_of_the_forecast_of_seven_days():
    memories = {"a": ago(1, due=-3), "b": ago(1, due=1), "c": ago(1, due=7), "d": ago(1, due=8), "e": ago(1)}
    assert due_soon(memories, TODAY) == [1, 0, 0, 0, 0, 0, 1]
    assert due_now(memories, TODAY) == 2


def test_an_unseen_card_that_a_wrong_answer_called_is_not_counted_as_new():
    state = sitting(RING_CARDS[:2], {"ring/one": Memory(TODAY)})
    assert state.is_made_due
    state = grade(state, Grade.GOOD)
    assert not state.is_made_due
    summary = sum_up(grade(state, Grade.GOOD))
    assert (summary.cards, summary.new, summary.known) == (2, 1, 0)


def test_new_cards_that_were_held_back_are_asked_when_one_wants_more_and_undo_gives_them_back():
    cards = tuple(card(f"n{n}") for n in range(25))
    chosen = choose_cards(cards, {}, TODAY, QueueRules(limit=3, new=5))
    state = begin(chosen, {}, SCHEDULE, START)
    assert play(state, StudyAction.MORE) is state
    over = grade(state, *[Grade.GOOD] * 3)
    more = play(over, StudyAction.MORE)
    assert (more.card.id, len(more.queue), more.place, len(more.chosen.cards)) == ("n3", 10, 4, 13)
    assert (more.chosen.later, more.chosen.of_other_days, step(over, StudyAction.MORE, START)[1]) == (
        0,
        12,
        (None, None),
    )
    assert play(more, StudyAction.UNDO).card is None
    assert sum_up(grade(more, *[Grade.GOOD] * 10)).new == 13
    last = grade(play(grade(more, *[Grade.GOOD] * 10), StudyAction.MORE), *[Grade.GOOD] * 10)
    assert [one.id for one in play(last, StudyAction.MORE).queue] == ["n23", "n24"]


def test_what_was_done_last_is_nothing_after_a_skip():
    state = grade(sitting(memories={"ring/one": ago(9, lapses=4)}), Grade.AGAIN)
    assert (state.last.card.id, state.leech.id) == ("one", "one")
    skipped = play(state, StudyAction.SKIP)
    assert (skipped.last, skipped.leech) == (None, None)
    assert play(skipped, StudyAction.UNDO).last == state.last


def test_a_card_of_earlier_today_that_comes_before_all_others_has_no_number():
    rules = QueueRules(limit=3, new=3, earlier={CARDS[0].key: (Grade.HARD, Grade.HARD)})
    assert (
        study_screen.card_header(begin(CardQueue(rules, CARDS[:3]), {}, SCHEDULE, START), "The ring").plain
        == "────────── once more · The ring"
    )
