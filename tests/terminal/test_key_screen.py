"""The loop that reads keys and paints, and the one rule for going back from a page."""

import io
import re

import pytest
from inline_snapshot import snapshot
from rich.text import Text

from ddpquiz.events.event import Began, End, Output
from ddpquiz.events.run_state import RunState
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.kit.key_screen import BACK, HELP, QUIT, Hotkey, KeyScreen
from ddpquiz.terminal.kit.screen import Screen
from ddpquiz.terminal.runs.replay import EndScreen
from ddpquiz.terminal.runs.script import Suggestion


class ScriptedKeys:
    """Keys that were pressed one after the other; each of `early` was there before anything was painted."""

    def __init__(self, *pressed, early=()):
        self.pressed, self.early = list(pressed), list(early)

    def get(self, timeout=None):
        del timeout
        return self.early.pop(0) if self.early else self.pressed.pop(0)

    def waiting(self):
        return bool(self.early)

    def discard(self, but=()):
        self.early = [key for key in self.early if key in but]

    def suspended(self):
        raise NotImplementedError


class Counter(KeyScreen):
    """Notes the keys that it obeys; `n` asks something new."""

    def __init__(self):
        super().__init__()
        self.obeyed, self.frames, self.asked = [], [], 0

    @property
    def scene(self):
        return self.asked

    def body(self):
        return Text("\n".join(f"line {number}" for number in range(30)))

    def keys(self):
        return [Hotkey("n", "next"), HELP, QUIT]

    def press(self, key):
        self.obeyed.append(key)
        self.asked += key == "n"
        self.left = key == "q"

    def paint(self, screen):
        before = screen.console.file.tell()
        super().paint(screen)
        self.frames.append(screen.console.file.getvalue()[before:])


def play(shown, keys):
    console = style.console(io.StringIO(), width=60)
    console.size = (60, 10)
    with Screen(console) as screen:
        shown.loop(screen, keys)
    return shown


def test_keys_that_were_typed_before_a_question_was_painted_do_not_answer_it():
    assert play(Counter(), ScriptedKeys("x", "q", early="abq")).obeyed == ["q"]
    assert play(Counter(), ScriptedKeys("n", "x", "q", early="ab")).obeyed == ["n", "x", "q"]


def test_a_note_about_a_key_is_gone_once_what_was_waited_for_is_there():
    class Waiting(Counter):
        def wait(self, keys):
            key = super().wait(keys)
            self.asked += key is None
            return key

    frames = play(Waiting(), ScriptedKeys("x", None, "q")).frames
    assert ["x does nothing here" in frame for frame in frames] == [False, True, False]


def test_a_key_that_scrolls_is_not_obeyed_and_a_new_question_is_shown_from_its_top():
    shown = play(Counter(), ScriptedKeys("down", "end", "n", "q"))
    assert shown.obeyed == ["n", "q"]
    assert ["line 0" in frame for frame in shown.frames] == [True, False, False, True]


def test_a_note_is_gone_once_the_page_is_turned():
    shown = play(Counter(), ScriptedKeys("x", "down", "q"))
    assert ["x does nothing here" in frame for frame in shown.frames] == [False, True, False]


def test_where_the_arrows_choose_nobody_is_told_to_scroll_with_them():
    class Choosing(Counter):
        def _scrolling(self, key):
            return "" if key in ("up", "down") else key

    assert "22 more below · page up, page down: scroll" in play(Choosing(), ScriptedKeys("q")).frames[0]


def test_escape_where_it_means_nothing_says_how_to_leave():
    assert play(Counter(), ScriptedKeys("escape", "ctrl+d")).note == snapshot(
        "Press q to leave; everything is saved already."
    )
    assert play(Counter(), ScriptedKeys("escape", "left", "ctrl+d")).note == ""


class Pages(Counter):
    """Enter shows the next page."""

    reading = True

    def keys(self):
        return [Hotkey("enter", "go on", also=("space",)), HELP, QUIT]


@pytest.mark.parametrize("key", ["enter", "space"])
def test_a_key_that_turns_pages_says_so_and_is_obeyed_only_at_the_end(key):
    shown = play(Pages(), ScriptedKeys(*[key] * 5, "q"))  # 30 lines, 8 at a time
    assert shown.obeyed == ["enter", "q"]
    assert ["enter next page" in frame for frame in shown.frames[:5]] == [*[True] * 4, False]
    assert "enter go on" in shown.frames[4]


class Typing(Counter):
    """Letters and blanks are text."""

    writing = True


def test_pages_are_counted_only_where_space_shows_the_next_one():
    def first_frame(shown):
        console = style.console(io.StringIO(), width=60)
        console.size = (60, 12)
        with Screen(console) as screen:
            shown.loop(screen, ScriptedKeys("ctrl+d"))
        return shown.frames[0]

    assert "page 1 of 4 · 20 more below" in first_frame(Counter())
    assert "page" not in first_frame(Typing())
    assert "20 more below" in first_frame(Typing())


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("d", "There is no demo here; ? lists the keys."),
        ("/", "A search opens from a card, a lesson or the home screen; ? lists the keys."),
        ("y", "y does nothing here; ? lists the keys."),
        ("enter", "Press space (turn over) instead."),
        ("n", ""),
        ("left", ""),
    ],
)
def test_a_key_that_is_not_offered_says_what_to_press_instead(key, instead):
    shown = Counter()
    shown.keys = lambda: [Hotkey("n", "next"), Hotkey("space", "turn over"), HELP, QUIT]
    shown.handle_key(key)
    assert shown.note == instead


def test_what_to_press_instead_has_the_name_that_the_screen_shows():
    shown = Counter()
    shown.keys = lambda: [Hotkey("esc", "back", also=("m", "enter")), HELP]
    shown.handle_key("space")
    assert shown.note == "Press esc (back) instead."


def test_enter_on_a_choice_says_which_keys_answer():
    shown = Counter()
    shown.keys = lambda: [Hotkey("1-4", "answer"), HELP, QUIT]
    shown.handle_key("enter")
    assert shown.note == "Press a key from 1 to 4 to answer."


def test_a_page_that_was_read_says_how_to_go_back():
    shown = Pages()
    shown.keys = lambda: [BACK, HELP]
    shown.handle_key("space")
    assert shown.note == "This is the end of the page; press esc to go back."


def test_escape_leads_back_to_the_screen_that_opened_this_one():
    class Inner(Counter):
        inside = True

    assert play(Inner(), ScriptedKeys("escape")).left


@pytest.mark.parametrize(
    ("named", "names"),
    [
        ("/", {"/"}),
        ("n N", {"n", "N"}),
        ("← →", {"left", "right"}),
        ("ctrl+d/enter", {"ctrl+d", "enter"}),
        ("0-3", {"0", "1", "2", "3"}),
        ("1-12", set("0123456789")),
        ("esc", {"escape"}),
    ],
)
def test_the_line_of_keys_and_the_keyboard_name_the_same_keys(named, names):
    assert Hotkey(named, "something").names == names


@pytest.mark.parametrize("back", ["escape", "q", "backspace", "?", "enter"])
def test_help_is_left_by_the_keys_that_go_back_and_by_no_other(back):
    shown = play(Counter(), ScriptedKeys("?", "x", "space", "n", back, "x", "q"))
    assert shown.obeyed == ["x", "q"]
    assert ["Keys of this screen" in frame for frame in shown.frames] == [False, *[True] * 4, False, False]


@pytest.mark.parametrize("key", ["ctrl+d", "eof"])
def test_a_terminal_that_is_gone_leaves_also_from_help(key):
    assert play(Counter(), ScriptedKeys("?", key)).obeyed == ["q"]


def test_ctrl_c_interrupts():
    with pytest.raises(KeyboardInterrupt):
        play(Counter(), ScriptedKeys("?", "ctrl+c"))


EVENTS = (
    Began("demo.py", (), 2, "cpu", "gloo", "2 ranks on CPU over Gloo"),
    *(Output(at / 100, at % 2, "stdout", f"line {at}") for at in range(100)),
    End(2.0, True, 0, 0),
)


@pytest.fixture
def ended():
    """The screen of a run that is over, with its first frame painted."""
    console = style.console(io.StringIO(), width=60)
    console.size = (60, 10)
    state = RunState.after(EVENTS)
    screen = Screen(console)
    shown = EndScreen(state, EVENTS, screen, ScriptedKeys(), "")
    shown.paint(screen)
    return shown


def test_a_page_of_suggestions_opens_only_if_the_script_has_some(ended):
    ended.handle_key("t")
    assert ended.on_picture
    ended._found = (Suggestion("ddpquiz run train.py --size 4", ("--size", "4"), 2, "larger"),)
    ended.handle_key("t")
    assert not ended.on_picture


@pytest.mark.parametrize("page", ["v", "0", "1", "?"])
def test_any_page_of_a_run_is_left_by_the_keys_that_go_back_and_the_one_that_opened_it(ended, page):
    for back in ("escape", "q", "backspace", page):
        ended.handle_key(page)
        assert not ended.on_picture
        for unknown in ("x", "r", "left", *["enter"] * (page != "?")):
            ended.handle_key(unknown)
        assert not ended.on_picture
        ended.handle_key(back)
        assert (ended.on_picture, ended.left, ended.again) == (True, False, False)


def test_a_page_of_a_run_leads_to_the_others_and_help_goes_back_to_where_it_was_opened(ended):
    ended.loop(ended.screen, ScriptedKeys("1", "tab", "?", "v", "?", "?", "ctrl+c"))
    frames = ended.screen.console.file.getvalue().split("\x1b[?2026h")[-7:]
    marks = ["2 ranks on", "line 99", "line 98", "Keys of this screen", "read here", "Keys of this", "read here"]
    assert all(mark in frame for mark, frame in zip(marks, frames, strict=True))


def test_a_log_stays_at_its_end_until_it_is_scrolled_and_again_from_its_end(ended):
    def lines():
        before = ended.screen.console.file.tell()
        ended.paint(ended.screen)
        return ended.screen.console.file.getvalue()[before:]

    def say(text):
        ended.state.add(Output(3.0, 0, "stdout", text))

    ended.handle_key("0")
    assert "line 98" in lines()
    say("more")
    assert "more\x1b" in lines()
    ended.screen.scroll("up")
    say("still more")
    assert "still more" not in lines()
    ended.screen.scroll("end")
    lines()
    say("the last")
    assert "the last" in lines()


def test_a_page_is_where_it_was_after_its_help_was_closed():
    shown = play(Counter(), ScriptedKeys("pagedown", "down", "?", "escape", "q"))
    top = [re.findall(r"line \d+|Keys of this screen", frame)[0] for frame in shown.frames]
    assert top == ["line 0", "line 7", "line 8", "Keys of this screen", "line 8"]
    assert "line 0" in play(Counter(), ScriptedKeys("end", "?", "escape", "n", "q")).frames[-1]
