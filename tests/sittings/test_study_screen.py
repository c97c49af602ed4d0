"""Cards on the screen, as text."""

import re
from dataclasses import replace
from datetime import date, timedelta

import pytest
from inline_snapshot import snapshot
from sample import CARDS, DDP, RING, RING_CARDS, START, card
from sample_sittings import context, press, screen, spoken, studying

from ddpquiz.curriculum.concept import LessonStep, Level
from ddpquiz.errors import UserError
from ddpquiz.learning import standing
from ddpquiz.learning.schedule import Grade, Memory, study_day
from ddpquiz.learning.study_choice import StudyChoice, begin_study
from ddpquiz.terminal.kit.key_screen import HELP, Hotkey, key_line
from ddpquiz.terminal.runs import live_view, replay
from ddpquiz.terminal.sittings import study_screen
from ddpquiz.terminal.sittings.look import look
from ddpquiz.terminal.sittings.more_screen import MoreScreen


def test_the_first_card_ever_comes_with_a_few_sentences(progress):
    assert screen(studying(progress, CARDS, opening=[study_screen.WELCOME])) == (
        snapshot("""\
Welcome. Each card asks one thing: answer it in your head, look at the back, and
grade yourself. A card comes back after a few days, then less and less often,
and `d` runs its demo on real ranks. Every grade is saved at once, so you can
quit at any time.

────────── Card 1/6 · The ring


Front of one?

space show the back · s skip · d demo · f flag · / look up · ? help · q quit\
""")
    )


def test_the_back_comes_with_the_next_interval_on_each_button(progress):
    assert screen(press(studying(progress, CARDS), "space")) == (
        snapshot("""\
────────── Card 1/6 · The ring


Front of one?

│ Back of one.

1 forgot: now   2 hard but right: later   3 good: 2 days   4 easy: 6 days
space good · d demo · s skip · v source · f flag · / look up · ? help · q quit\
""")
    )


def test_a_hard_card_comes_at_the_end_of_the_sitting_and_then_on_another_day(progress):
    seat = press(studying(progress, CARDS[:1]), "space")
    assert "2 hard but right: later" in screen(seat)
    assert "2 hard but right: 1 day" in screen(press(seat, "2", "space"))


def test_a_new_card_that_the_steps_of_its_lesson_do_not_teach_says_where_it_is_told(progress):
    hard = card("three", Level.HARD)
    ring = replace(RING, steps=(LessonStep("Text.", ask="bytes"),), cards=(hard,), more="Further.")

    def shown(concept, memories=None):
        seat = studying(progress, [hard], memories=memories)
        seat.context = context(progress, concepts=(concept,))
        return screen(seat).splitlines()[0]

    assert "· extra pages (m) ·" in shown(ring)
    assert "extra pages" not in shown(replace(ring, more=""))
    assert "extra pages" not in shown(RING)
    assert "extra pages" not in shown(ring, {hard.key: Memory(study_day(START))})


def test_new_cards_that_only_further_pages_tell_wait_until_their_end_was_seen(progress):
    ring = replace(
        RING,
        steps=(LessonStep("Text.", ask="bytes"),),
        cards=(card("hard", Level.HARD), card("one")),
        more="Further.",
        questions=(),
    )
    catalog = context(progress, concepts=(ring,)).catalog

    def asked(**choice):
        chosen = StudyChoice(**choice)
        return [one.id for one in begin_study(catalog, catalog.cards(), chosen, progress, START).queue]

    def new():
        return standing.count_standing(progress, catalog.concepts, study_day(START)).new

    assert (asked(), new()) == (["one"], 1)
    for choice in ({"concept": ["ring"]}, {"level": "hard"}, {"track": "collectives"}, {"every": True}):
        assert asked(**choice) == ["hard", "one"], choice
    further = MoreScreen(context(progress, concepts=(ring,)), ring, back_to="the step")
    further.more = True  # there is more below the screen, so that the learner leaves before the end
    press(further, "escape")
    assert (progress.entries("stage"), asked()) == ([], ["one"])
    further.more = False
    press(further, "m", "escape")
    assert [(row.item, row.given) for row in progress.entries("stage")] == [("ring/more", "done")]
    assert (asked(), new()) == (["hard", "one"], 2)


def test_escape_closes_the_source_of_a_card_and_not_the_sitting(progress):
    seat = studying(progress, CARDS)
    seat.context.back_to = "stages"  # to which escape leads, where no source is open
    press(seat, "space", "v")
    assert "PyTorch docs" in screen(seat)
    press(seat, "escape")
    assert "PyTorch docs" not in screen(seat)
    assert not seat.left


def test_after_a_grade_the_next_card_says_when_the_last_one_comes_back(progress):
    seat = press(studying(progress, CARDS), "space", "1", "enter", "enter")
    assert screen(seat) == (
        snapshot("""\
━━──────── Card 3/6 · 1 to repeat · The ring
see again in 2 days · u undo

Front of three?

space show the back · u undo · s skip · d demo · f flag · ? help · q quit""")
    )


@pytest.mark.parametrize(("width", "height"), [(40, 10), (80, 10)])
def test_after_a_flip_the_back_is_in_sight_on_small_terminals(progress, width, height):
    tall = replace(RING_CARDS[0], front="What is this? " * 20, back="The back begins. " + "It goes on. " * 20)
    seat = press(studying(progress, [tall]), "space")
    shown = screen(seat, width, height).split("\n")
    assert any("The back begins" in line for line in shown[: height - 4])  # buttons, keys, and how much is hidden
    assert shown[0].startswith("──────────")
    assert sum("The front" in line for line in shown) == 1


def test_two_buttons_are_two(progress):
    seat = press(studying(progress, CARDS, two_buttons=True), "space")
    assert "1 forgot: now   2 good: 2 days\n" in screen(seat)
    assert [row.grade for row in press(seat, "4", "2") and progress.log()] == [3]


def test_help_says_what_the_keys_do_that_work_now(progress):
    assert screen(press(studying(progress, CARDS), "space", "?")) == (
        snapshot("""\
Keys of this screen

1      you did not know it; it comes again in this sitting
2      you knew it, but with difficulty; it is asked again at the end of this
       sitting
3      you knew it
4      you knew it without thinking; intervals of three days or more vary a
       little, so that cards spread out
space  you recalled it (or enter)
d      run this concept's demo on real ranks, and come back here
s      leave this card out of this sitting
v      show the source of this item
f      mark this item as wrong or unclear; press again to undo
/      search for a concept or an item, read it, and come back here
b      hide this card until tomorrow
x      hide this card until `ddpquiz progress restore` brings it back
?      the keys that work now
q      leave; everything is saved already
esc back\
""")
    )


def test_the_last_screen_sums_up_and_undo_still_works(progress):
    seat = press(studying(progress, CARDS, limit=3), *["space", "1", "space", "3", "space", "4", "space", "3"])
    assert screen(seat) == (
        snapshot("""\
Done: 3 new cards.

Pace: 8 s per card.
Left out: 3 new (`--count` shows more).
Due now: 0. In the next seven days: 2 cards (1 Tue, 1 Wed).
Next: "The ring" (lesson), ddpquiz learn

enter leave · n 3 more new cards · u undo · d demo · / look up · ? help\
""")
    )
    assert "Card 3/3 · once more · The ring" in screen(press(seat, "u"))
    assert not press(seat, "space", "3").left
    assert not press(seat, "space").left  # a tap too many
    assert press(seat, "enter").left


def test_the_end_of_a_sitting_names_the_same_next_thing_as_home(progress):
    seat = press(studying(progress, CARDS[:1]), "space", "3")
    best = standing.advise(look(seat.context))[0]
    assert (best.command, best.why) == ("ddpquiz learn", "lesson")
    assert 'Next: "The ring" (lesson), ddpquiz learn\n' in screen(seat)
    seat.context.back_to = "home"
    assert "Next:" not in screen(seat)


def test_what_was_learned_before_is_counted_as_recalled_or_not(progress):
    day = study_day(START)
    memories = {card.key: Memory(day, 10.0, 5.0, day.replace(day=1), day.replace(day=1), 2) for card in RING_CARDS}
    seat = press(studying(progress, RING_CARDS[:2], memories=memories), "space", "3", "space", "1", "space", "3")
    assert "Of 2 cards learned before you recalled 1 on the first try (50%)." in screen(seat)


def test_the_limit_of_new_cards_a_day_is_named_and_n_goes_on(progress):
    seat = press(studying(progress, CARDS, new=2, a_day=2), "space", "3", "n", "space", "3")
    left = "Left out: 4 new cards for other days (`ddpquiz study --new 6` shows 4 of them today). Due"
    assert left in " ".join(screen(seat).split())
    assert screen(seat).endswith("enter leave · n 4 more new cards · u undo · / look up · ? help")
    assert "Card 3/6 · The ring\n\n\nFront of three?" in screen(press(seat, "n"))
    press(seat, *["space", "3"] * 4)
    assert "Done: 6 new cards." in screen(seat)
    many = tuple(replace(CARDS[0], id=f"n{number}") for number in range(30))
    told = screen(press(studying(progress, many, new=1, a_day=1), "space", "3", "n", *["space", "3"] * 10))
    assert "Left out: 19 new cards for other days (`ddpquiz study --new 27` shows 10 of them today)." in " ".join(
        told.split()
    )
    assert "limit" not in screen(seat)
    assert "n 4 more" not in screen(seat)


def test_each_grade_is_in_the_log_before_the_next_card_shows(progress):
    seat = press(studying(progress, CARDS), "space", "3")
    assert [(row.kind, row.item, row.grade, row.took) for row in progress.log()] == [("review", "ring/one", 3, 8000)]
    press(seat, "space", "1", "u", "u")
    assert [row.kind for row in progress.log()] == ["review", "review", "undo", "undo"]
    assert progress.memories() == {}


def test_a_grade_that_cannot_be_saved_ends_the_sitting_with_a_sentence_and_does_not_count(progress):
    seat = press(studying(progress, CARDS), "space")
    progress._database.execute("PRAGMA query_only = ON")
    with pytest.raises(UserError, match="cannot be written"):
        press(seat, "3")
    assert seat.sitting.reviews == ()


def test_the_demo_and_the_proof_lead_back_to_the_card(progress):
    seat = press(studying(progress, (replace(RING_CARDS[0], proof="bytes"),)), "d", "p")
    assert seat.context.ranks.started == ["allreduce"]
    assert "The proof shows the answer; turn the card over first." in screen(seat)
    press(seat, "space", "p")
    assert seat.context.ranks.started == ["allreduce", "ring/bytes"]
    assert "p proof" in screen(seat)
    assert seat.sitting.shown


def test_only_a_card_that_names_a_proof_has_one(progress):
    alike = replace(RING_CARDS[0], front="How many bytes does each rank send in a ring?", back="1,800 bytes.")
    seat = press(studying(progress, (alike,)), "space")
    assert "p proof" not in screen(seat)
    assert "This card has no proof." in screen(press(seat, "p"))
    assert seat.context.ranks.started == []


def test_a_demo_that_fails_is_reported_and_the_sitting_goes_on(progress):
    seat = studying(progress, CARDS)
    seat.context.ranks.error = UserError("There is no demo allreduce.")
    assert "There is no demo allreduce." in screen(press(seat, "d"))
    assert "There is no demo" not in screen(press(seat, "space"))


def test_a_card_forgotten_often_offers_its_demo(progress):
    seat = press(studying(progress, CARDS), *["space", "1"] * 1)
    for _ in range(3):
        while seat.sitting.card.key != "ring/one":
            press(seat, "space", "3")
        press(seat, "space", "1")
    assert screen(seat).startswith("Done")
    seat = studying(progress, (RING_CARDS[1], CARDS[4]), memories={"ring/two": Memory(study_day(START), lapses=4)})
    assert "forgotten often: left out for today · d runs its demo · u undo" in screen(press(seat, "space", "1"))
    press(seat, "d")
    assert seat.context.ranks.started == ["allreduce"]  # of the card set aside: that on screen has no demo


def test_a_flag_is_saved_and_can_be_removed(progress):
    seat = press(studying(progress, CARDS), "f")
    assert "flagged as wrong or unclear · f removes the flag" in screen(seat)
    assert [row.item for row in progress.entries("flag")] == ["ring/one"]
    press(seat, "f")
    assert progress.entries("flag") == []


def test_a_flag_is_shown_in_a_later_sitting_too_and_can_be_removed_there(progress):
    for _ in range(2):
        progress.flag("ring/one", "", START)
    seat = studying(progress, CARDS)
    assert "Card 1/6 · flagged · The ring" in screen(seat)
    assert "f unflag" in screen(seat)
    assert "flagged" not in screen(press(seat, "f", "space"))
    assert progress.entries("flag") == []
    assert "Card 1/6 · flagged · The ring" in screen(press(seat, "f"))
    assert "Card 2/6 · The ring" in screen(press(seat, "3"))


def test_after_a_skip_nothing_is_said_of_the_card_before_it(progress):
    seat = press(studying(progress, CARDS), "space", "3", "s")
    assert "Card 3/6 · The ring\nskipped · u undo\n\nFront of three?" in screen(seat)
    assert "see again in 2 days · u undo\n\nFront of two?" in screen(press(seat, "u"))


def test_the_source_is_shown_once_the_back_is_seen(progress):
    seat = press(studying(progress, CARDS), "v")
    assert "PyTorch docs" not in screen(seat)
    assert "PyTorch docs" in screen(press(seat, "space", "v"))


@pytest.mark.parametrize("graded", [[], ["space", "3"]])
def test_quitting_needs_no_second_key_whatever_was_graded(progress, graded):
    assert press(studying(progress, CARDS), *graded, "q").left


def test_quitting_does_not_mention_the_limit(progress):
    assert "Left for" not in screen(press(studying(progress, CARDS, limit=3), "space", "3", "q"))


def test_quitting_among_more_new_cards_names_the_limit_that_deals_the_rest(progress):
    many = tuple(replace(CARDS[0], id=f"n{number}") for number in range(30))
    seat = studying(progress, many, new=9, a_day=9, go_on="ddpquiz study ring")
    seat = press(seat, *["space", "3"] * 9, "n", "space", "3")
    assert "Left: 9 cards; to continue: `ddpquiz study ring --new 19` (new cards done" in screen(press(seat, "q"))


def test_a_card_that_a_wrong_answer_made_due_says_so_until_it_was_seen(progress):
    seat = studying(progress, CARDS, memories={"ring/one": Memory(study_day(START))})
    assert "Card 1/6 · due after a missed question · The ring" in screen(seat)
    assert "wrong answer" not in screen(press(seat, "space", "3"))
    assert "Done: 1 card.\n" in screen(press(seat, "q"))


def test_the_forecast_names_the_days():
    assert study_screen.forecast([13, 5, 0, 0, 0, 0, 1], date(2026, 3, 2)) == "19 cards (13 Tue, 5 Wed, 1 Mon)"
    assert study_screen.forecast([0] * 7, date(2026, 3, 2)) == "none"


def test_study_and_home_count_alike_what_is_due(progress, monkeypatch):
    memories = {card.key: Memory(study_day(START) + timedelta(ahead)) for ahead, card in enumerate(RING_CARDS, -1)}
    seat = press(studying(progress, CARDS, memories=memories), "q")
    assert "Due now: 2. In the next seven days: 2 cards (1 Tue, 1 Wed).\n" in screen(seat)
    monkeypatch.setattr(progress, "memories", lambda: memories)
    now = standing.count_standing(progress, [RING, DDP], study_day(START))
    assert (now.due, study_screen.forecast(now.soon, now.day)) == (2, "2 cards (1 Tue, 1 Wed)")


def test_content_is_never_treated_as_markup_or_control_codes(progress):
    card = replace(RING_CARDS[0], front="[red]x[/red] \x1b[31m`dist.recv()`", back="[link=http://a]b[/link]")
    shown = screen(press(studying(progress, (card,)), "space"))
    assert "[red]x[/red] [31m`dist.recv()`" in shown
    assert "[link=http://a]b[/link]" in shown


@pytest.mark.parametrize("width", [40, 80, 200])
def test_every_line_fits_the_terminal(progress, width):
    seat = press(studying(progress, CARDS), "space", "1", "space")
    assert max(map(len, screen(seat, width).split("\n"))) <= width
    assert screen(seat, width).endswith("? help · q quit")


@pytest.mark.parametrize("last", [live_view.STOP, replay.TO_END, replay.LEAVE])
def test_the_way_out_of_a_run_is_named_where_not_all_keys_fit(last):
    keys = [*replay.KEYS, last, Hotkey("v", "source"), HELP]
    leave = f"{last.key} {last.does}"
    assert key_line(keys, 60).plain == f"← → call · n N operation · a play all · {leave} · ? help"
    assert key_line(keys, 40).plain == f"← → call · {leave} · ? help"
    assert key_line(keys, 16).plain == f"{leave} · ? help"


def test_at_60_columns_the_back_of_a_card_names_what_runs_it(progress):
    seat = press(studying(progress, (CARDS[1], replace(CARDS[0], proof="bytes"))), "space", "3", "space")
    assert screen(seat, width=60).endswith("\nspace good · u undo · d demo · p proof · ? help · q quit")
    assert "b hide" not in screen(seat, width=60)
    assert re.search("\nb +hide this card until tomorrow\n", screen(press(seat, "?"), width=60))


@pytest.mark.parametrize(
    ("days", "words"),
    [(0, "now"), (1, "1 day"), (30, "30 days"), (31, "1 month"), (200, "7 months"), (365, "1.0 years")],
)
def test_intervals_are_short(days, words):
    assert study_screen.interval(days) == words


def test_a_hard_card_says_that_it_comes_once_more(progress):
    seat = press(studying(progress, CARDS), "space", "2")
    assert "comes back once more in this sitting, then in 1 day · u undo" in screen(seat)


def test_a_card_is_hidden_for_a_day_or_for_good_with_one_key_and_undo_takes_that_back(progress):
    seat = press(studying(progress, CARDS), "x")
    assert "hidden · u undo\n\nFront of two?" in screen(seat)
    assert progress.hidden(study_day(START)) == {"ring/one"}
    assert "hidden until tomorrow · u undo\n\nFront of three?" in screen(press(seat, "b"))
    assert progress.hidden(study_day(START)) == {"ring/one", "ring/two"}
    press(seat, "u", "u")
    assert seat.sitting.card.key == "ring/one"
    assert progress.hidden(study_day(START)) == frozenset()


def test_cramming_writes_no_grade_and_says_so(progress):
    memories = {card.key: Memory(study_day(START), 10.0, 5.0, study_day(START), study_day(START), 2) for card in CARDS}
    seat = press(studying(progress, CARDS, memories=memories, cram=True), "space")
    assert "Card 1/6 · cram: the schedule does not change · The ring" in screen(seat)
    assert "1 forgot   2 hard but right   3 good   4 easy\n" in screen(seat)
    press(seat, "1", "space", "4", "x", "u", "u", "space", "4", "f")
    assert [row.kind for row in progress.log()] == ["suspend", "undo", "flag"]


def test_what_the_limit_of_a_cram_left_out_does_not_wait_for_the_next_one(progress):
    memories = {card.key: Memory(study_day(START), 10.0, 5.0, study_day(START), study_day(START), 2) for card in CARDS}
    for _ in range(2):  # the same cards again
        seat = press(studying(progress, CARDS, memories=memories, cram=True, limit=2), *["space", "3"] * 2)
        assert [review.card.id for review in seat.sitting.reviews] == ["one", "two"]
        assert "Left out: 4 of the cards that you have seen (`--count` shows more).\n" in screen(seat)
        assert "next sitting" not in screen(seat)


def test_what_was_set_is_said_before_the_first_card(progress):
    seat = studying(progress, CARDS, opening=["From now on you aim at recalling 85%."])
    assert screen(seat).startswith("From now on you aim at recalling 85%.\n\n────────── Card 1/6")
    assert "From now on" not in screen(press(seat, "space", "3"))
    said = spoken(studying(progress, CARDS[2:3], opening=["From now on."]), "", "3")
    assert said.startswith("From now on.\n")
    assert said.count("From now on.") == 1


def test_new_cards_left_out_for_strength_are_counted_in_the_end(progress):
    seat = press(studying(progress, CARDS, proven={"ring"}), "space", "3", "space", "3")
    assert "Left out: 4 new cards of concepts that you know well (`--all` shows them)." in screen(seat)


def test_a_resumed_sitting_knows_which_cards_come_again(progress):
    press(studying(progress, CARDS[:3]), "space", "1", "space", "2", "q")
    seat = studying(progress, CARDS[:3])
    assert "Card 1/1 · 2 to repeat · The ring" in screen(seat)
    assert "Front of three?" in screen(seat)
    assert "Due now: 0, and 2 to repeat." in screen(press(seat, "q"))
    seat = press(studying(progress, CARDS[:3]), "space", "3")
    assert "Card 1/1 · once more · 1 to repeat · The ring" in screen(seat)
    press(seat, "space", "3", "q")
    seat = studying(progress, CARDS[:3])
    assert screen(seat).startswith("────────── once more · The ring\n")
    assert "Done: 1 card." in screen(press(seat, "space", "3"))


def test_lines_of_a_pipe_do_what_keys_do(progress):
    seat = studying(progress, CARDS[:3])
    assert spoken(seat, "", "3", "space", "1", "u", "4") == (
        snapshot("""\

────────── Card 1/3 · The ring
Front of one?
│ Back of one.
1 forgot: now   2 hard but right: later   3 good: 2 days   4 easy: 6 days
see again in 2 days · u undo

━━━─────── Card 2/3 · The ring
Front of two?
│ Back of two.
1 forgot: now   2 hard but right: later   3 good: 2 days   4 easy: 9 days
comes again in this sitting · u undo

━━━─────── Card 3/3 · 1 to repeat · The ring
Front of three?
undone
│ Back of two.
1 forgot: now   2 hard but right: later   3 good: 2 days   4 easy: 9 days
see again in 9 days · u undo

━━━━━━━─── Card 3/3 · The ring
Front of three?
""")
    )
    assert [row.grade for row in progress.entries("review")] == [Grade.GOOD, Grade.EASY]
