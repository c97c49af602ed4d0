"""Looking something up in the middle of a card."""

import io

from sample import CARDS, RING_CARDS
from sample_sittings import press, screen, spoken, studying

from ddpquiz.curriculum import loading
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.sittings.lookup import Lookup


def test_something_can_be_looked_up_in_the_middle_of_a_card(progress):
    seat = press(studying(progress, CARDS), "/", *"chunk", "backspace", "backspace", *"bytes")
    assert "Nothing found." in screen(seat)
    press(seat, "ctrl+u", *"front our")
    assert screen(seat).startswith("> ring/four  card\n    Front of four?\n  ring/one  card\n")
    assert screen(seat).endswith("\n/front our_\nenter read · ↑↓ choose · esc back to the card")
    press(seat, "enter")
    assert "Back of four." in screen(seat)
    assert seat.turning == ("space", "enter")  # as on any page that one reads
    assert screen(seat).endswith("esc back to the list · ? help")
    assert "3 does nothing here; ? lists the keys.\n" in screen(press(seat, "3"))
    press(seat, "q")
    assert not seat.left
    assert "/front our_" in screen(seat)
    assert "Front of one?" in screen(press(seat, "escape"))
    assert not seat.sitting.shown


def test_the_marked_hit_is_the_one_that_opens_and_the_mark_stays_among_them(progress):
    seat = press(studying(progress, CARDS), "/", *"front", "up", *["down"] * 9)
    keys = [hit.key for hit in seat.lookup.hits]
    assert keys == [card.key for card in CARDS]
    assert f"> {keys[-1]}  card\n" in screen(seat)
    assert "Back of two." in screen(press(seat, "enter"))


def test_a_question_that_is_looked_up_comes_after_what_can_be_read_and_shows_its_answer_on_request(progress):
    seat = press(studying(progress, CARDS), "/", *"ring")
    found = [hit.key for hit in seat.lookup.hits if hit.kind != "demo"]
    assert found[:-2] == ["ring", *(card.key for card in RING_CARDS)]
    assert found[-2:] == ["ring/bytes", "ring/phases"]
    press(seat, "ctrl+u", *"moves", "enter")
    asked = "ring/steps  question\n\nA ring of 4 ranks moves 1,200 bytes. How many does each rank send?\n"
    assert screen(seat).startswith(asked)
    assert screen(seat).endswith("enter show the answer · esc back to the list · ? help")
    assert "1800" not in screen(seat)
    assert (seat.reading, seat.turning) == (True, ("space",))  # enter shows the answer
    assert "right  1,800 bytes" in screen(press(seat, "enter"))
    assert "right" not in screen(press(seat, "escape", "enter"))
    said = spoken(studying(progress, CARDS[:1]), "/moves rank", "/ring/steps")
    assert said.count("A ring of 4 ranks moves 1,200 bytes.") == 2
    assert said.count("right  1,800 bytes") == 1


def test_lines_of_a_pipe_look_something_up_and_come_back(progress):
    said = spoken(studying(progress, CARDS[:1]), "/front one", "", "/ring/four", "")
    assert "> ring/one  card\n    Front of one?\n  ddp/one" in said
    assert "Back of four." in said
    assert said.count("Card 1/1 · The ring\nFront of one?") == 3


def test_the_words_of_a_search_have_a_cursor_that_moves(progress):
    seat = press(studying(progress, CARDS), "/", *"fnt", "left", "left", *"ro")
    assert screen(seat).endswith("\n/front\nenter read · ↑↓ choose · esc back to the card")
    (field,) = seat.above_keys()
    assert [(field.plain[span.start : span.end], str(span.style)) for span in field.spans] == [("n", "reverse")]
    assert len(seat.lookup.hits) == len(CARDS)
    press(seat, "home", "delete", "end", *"s")
    (field,) = seat.above_keys()
    assert (field.plain, [str(span.style) for span in field.spans]) == ("/ronts_", ["accent"])
    assert seat._scrolling("home") == ""
    assert seat._scrolling("down") == "down"


def test_a_demo_that_is_looked_up_shows_a_command_for_each_thing_to_try():
    read = Lookup(loading.load()).opened("fsdp2_recipe")
    console = style.console(io.StringIO(), width=80)
    console.print(read.body())
    shown = "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())
    assert "  ddpquiz demo fsdp2_recipe --nproc 2\n      half as many shards, each twice as large\n" in shown
    assert "Try    --equal-tokens" not in shown
