"""Looking something up in the middle of a sitting."""

import io

import pytest
import run_program
from sample import CARDS, RING_CARDS
from sample_sittings import context, press, screen, spoken, studying

from ddpquiz.curriculum import loading
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.sittings.lookup import Lookup, SearchScreen


@pytest.fixture
def search(progress):
    """The screen of a search in the two concepts of the sample."""
    return SearchScreen(context(progress).catalog)


@pytest.mark.parametrize(
    ("words", "keys", "shown"),
    [
        (("study", "--all"), "", "space show the back"),
        (("study", "--all"), " ", "space good"),
        (("learn", "ring"), "\x1b", "Next is stage"),
        (("learn", "why-distribute"), "", "enter run it"),
    ],
    ids=["card", "back", "stages", "step"],
)
def test_something_can_be_looked_up_in_the_middle_of_a_sitting(home, words, keys, shown):
    is_shipped = "why-distribute" in words
    terminal = run_program.ddpquiz(*words, home=home) if is_shipped else run_program.sample(home, *words)
    terminal.wait(r"\? help")
    before = terminal.press(keys, shown)
    terminal.press("/", "Type words to search for")
    terminal.press("chunk\x7f\x7f", "/chu_")
    assert terminal.press("\x1b", shown) == before
    terminal.press("q")
    assert terminal.end() == 0


@pytest.mark.parametrize(("key", "shown"), [("", "a lessons"), ("a", "enter begin")], ids=["home", "lessons"])
def test_something_can_be_looked_up_from_home(home, key, shown):
    run_program.piped(home, "study", "ring", lines="\n3\nq\n")  # who has done nothing yet first meets four ranks
    terminal = run_program.sample(home)
    terminal.wait("a lessons")
    before = terminal.press(key, shown)
    terminal.press("/", "Type words to search for")
    terminal.press("front four\r", "Back of four")
    terminal.press("q", "> ring/four")
    assert terminal.press("\x04", shown) == before  # ctrl+d
    if key:
        terminal.press("q", "a lessons")
    terminal.press("q")
    assert terminal.end() == 0


def test_a_hit_is_read_and_closed(search):
    press(search, *"chunk", "backspace", "backspace", *"bytes")
    assert "Nothing found." in screen(search)
    press(search, "ctrl+u", *"front our")
    assert screen(search).startswith("> ring/four  card\n    Front of four?\n  ring/one  card\n")
    assert screen(search).endswith("\n/front our_\nenter read · ↑↓ choose · esc back")
    press(search, "enter")
    assert "Back of four." in screen(search)
    assert search.turning == ("space", "enter")  # as on any page that one reads
    assert screen(search).endswith("esc back to the list · ? help")
    assert "3 does nothing here; ? lists the keys.\n" in screen(press(search, "3"))
    press(search, "q")
    assert not search.left
    assert "/front our_" in screen(search)
    assert press(search, "escape").left


def test_the_marked_hit_is_the_one_that_opens_and_the_mark_stays_among_them(search):
    press(search, *"front", "up", *["down"] * 9)
    keys = [hit.key for hit in search.lookup.hits]
    assert keys == [card.key for card in CARDS]
    assert f"> {keys[-1]}  card\n" in screen(search)
    assert "Back of two." in screen(press(search, "enter"))


def test_a_question_that_is_looked_up_comes_after_what_can_be_read_and_shows_its_answer_on_request(search, progress):
    press(search, *"ring")
    found = [hit.key for hit in search.lookup.hits if hit.kind != "demo"]
    assert found[:-2] == ["ring", *(card.key for card in RING_CARDS)]
    assert found[-2:] == ["ring/bytes", "ring/phases"]
    press(search, "ctrl+u", *"moves", "enter")
    asked = "ring/steps  question\n\nA ring of 4 ranks moves 1,200 bytes. How many does each rank send?\n"
    assert screen(search).startswith(asked)
    assert screen(search).endswith("enter show the answer · esc back to the list · ? help")
    assert "1800" not in screen(search)
    assert (search.reading, search.turning) == (True, ("space",))  # enter shows the answer
    assert "right  1,800 bytes" in screen(press(search, "enter"))
    assert "right" not in screen(press(search, "escape", "enter"))
    said = spoken(studying(progress, CARDS[:1]), "/moves rank", "/ring/steps")
    assert said.count("A ring of 4 ranks moves 1,200 bytes.") == 2
    assert said.count("right  1,800 bytes") == 1


def test_lines_of_a_pipe_look_something_up_and_come_back(progress):
    said = spoken(studying(progress, CARDS[:1]), "/front one", "", "/ring/four", "")
    assert "> ring/one  card\n    Front of one?\n  ddp/one" in said
    assert "Back of four." in said
    assert said.count("Card 1/1 · The ring\nFront of one?") == 3


def test_the_words_of_a_search_have_a_cursor_that_moves(search):
    press(search, *"fnt", "left", "left", *"ro")
    assert screen(search).endswith("\n/front\nenter read · ↑↓ choose · esc back")
    (field,) = search.above_keys()
    assert [(field.plain[span.start : span.end], str(span.style)) for span in field.spans] == [("n", "reverse")]
    assert len(search.lookup.hits) == len(CARDS)
    press(search, "home", "delete", "end", *"s")
    (field,) = search.above_keys()
    assert (field.plain, [str(span.style) for span in field.spans]) == ("/ronts_", ["accent"])
    assert search._scrolling("home") == ""
    assert search._scrolling("down") == "down"


def read(words):
    """What is shown of the shipped item with this name."""
    console = style.console(io.StringIO(), width=80)
    console.print(Lookup(loading.load()).opened(words).body())
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def test_labs_are_found_and_show_their_command():
    assert {hit.kind for hit in loading.load().search("lab")[:20]} == {"lab"}
    shown = read("ring-all-reduce")
    assert "checked on real ranks: 30 minutes, after" in shown
    assert shown.endswith("\nddpquiz lab ring-all-reduce")


def test_a_demo_that_is_looked_up_shows_a_command_for_each_thing_to_try():
    shown = read("fsdp2_recipe")
    assert "  ddpquiz demo fsdp2_recipe --nproc 2\n      half as many shards, each twice as large\n" in shown
    assert "Try    --equal-tokens" not in shown
