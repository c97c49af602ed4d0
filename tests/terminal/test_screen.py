"""The full screen, as a terminal shows it: pyte plays the terminal."""

import io

import pyte
import pytest
from inline_snapshot import snapshot
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from ddpquiz.terminal.kit import style
from ddpquiz.terminal.kit.screen import Screen, is_interactive


class Terminal:
    """A screen painted into a terminal that can be looked at."""

    def __init__(self, width=20, height=6, **options):
        self.file = io.StringIO()
        self.console = Console(
            file=self.file, width=width, height=height, force_terminal=True, theme=style.THEME, markup=False, **options
        )
        self.screen = Screen(self.console)
        self._seen = pyte.Screen(width, height)
        self._stream = pyte.Stream(self._seen)

    def lines(self):
        self._stream.feed(self.file.getvalue())
        self.file.seek(0)
        self.file.truncate()
        return [line.rstrip() for line in self._seen.display]


def numbers(count):
    return Text("\n".join(f"line {number}" for number in range(count)))


def test_a_frame_has_the_body_above_and_the_foot_at_the_bottom():
    terminal = Terminal()
    terminal.screen.paint(Text("one\ntwo"), Text("q quit"))
    assert terminal.lines() == ["one", "two", "", "", "", "q quit"]


def test_the_next_frame_leaves_nothing_of_the_one_before():
    terminal = Terminal()
    terminal.screen.paint(Text("a long line of text\n" * 4), Text("a long foot as well"))
    terminal.screen.paint(Text("short"), Text("foot"))
    assert terminal.lines() == ["short", "", "", "", "", "foot"]


def test_a_line_as_wide_as_the_terminal_keeps_its_last_letter():
    terminal = Terminal()
    full = "abcdefghijklmnopqrst"
    terminal.screen.paint(Text(f"{full}\nx"), Text(full))
    assert terminal.lines() == [full, "x", "", "", "", full]


def test_wide_letters_and_boxes_fit():
    terminal = Terminal(width=12)
    terminal.screen.paint(Panel(Text("字字")), Text("é"))
    assert terminal.lines() == ["╭──────────╮", "│ 字字     │", "╰──────────╯", "", "", "é"]


def test_a_long_body_says_which_page_of_how_many_is_shown_and_how_to_go_back():
    terminal = Terminal(width=80, height=12)
    seen = []
    for _ in range(4):
        terminal.screen.paint(numbers(30), Text("foot"))
        seen.append(terminal.lines()[-2])
        terminal.screen.scroll("pagedown")
    assert seen == snapshot(
        [
            "page 1 of 4 · 20 more below · ↑ ↓ scroll",
            "page 2 of 4 · 9 more above · 11 more below · ↑ ↓ scroll · page up: back",
            "page 3 of 4 · 18 more above · 2 more below · ↑ ↓ scroll · page up: back",
            "page 4 of 4 · 20 more above · ↑ ↓ scroll · page up: back",
        ]
    )


def test_a_body_that_is_too_tall_scrolls_and_says_so():
    terminal = Terminal(width=40)
    paint = lambda: terminal.screen.paint(numbers(10), Text("foot"))  # noqa: E731
    paint()
    assert terminal.lines() == ["line 0", "line 1", "line 2", "line 3", "6 more below · ↑ ↓ scroll", "foot"]
    assert terminal.screen.scroll("down")
    paint()
    assert terminal.lines()[0] == "line 1"
    assert terminal.screen.scroll("pagedown")
    paint()
    assert terminal.lines() == snapshot(
        [
            "line 4",
            "line 5",
            "line 6",
            "line 7",
            "4 more above · 2 more below · ↑ ↓ scroll",
            "foot",
        ]
    )
    assert terminal.screen.scroll("end")
    paint()
    assert terminal.lines()[3:5] == ["line 9", "6 more above · ↑ ↓ scroll"]
    terminal.screen.to_top()
    paint()
    assert terminal.lines()[0] == "line 0"


def test_the_end_of_a_body_stays_in_sight_above_a_foot_that_grows():
    terminal = Terminal(width=40)
    terminal.screen.paint(numbers(10), Text("foot"))
    terminal.screen.scroll("end")
    terminal.screen.paint(numbers(10), Text("a note\nfoot"))
    assert terminal.lines()[2:] == ["line 9", "7 more above · ↑ ↓ scroll", "a note", "foot"]
    assert terminal.screen.at_end


def test_other_keys_and_a_body_that_fits_do_not_scroll():
    terminal = Terminal()
    terminal.screen.paint(Text("short"))
    assert not terminal.screen.scroll("down")
    terminal.screen.paint(numbers(10))
    assert not terminal.screen.scroll("q")


def test_nobody_scrolls_to_empty_lines():
    terminal = Terminal()
    terminal.screen.paint(Text("one\ntwo\nthree\nfour\nfive\n\n \n"), Text("q quit"))
    assert terminal.lines() == ["one", "two", "three", "four", "five", "q quit"]
    assert not terminal.screen.scroll("down")


def test_a_shorter_body_is_not_left_scrolled_out_of_sight():
    terminal = Terminal()
    terminal.screen.paint(numbers(30))
    terminal.screen.scroll("end")
    terminal.screen.paint(Text("short"))
    assert terminal.lines()[0] == "short"


def test_a_foot_taller_than_the_terminal_is_cut():
    terminal = Terminal(height=3)
    terminal.screen.paint(Text("body"), numbers(5))
    assert terminal.lines() == ["body", "line 0", "line 1"]


def test_each_frame_is_one_write():
    writes = []

    class File(io.StringIO):
        def write(self, text):
            writes.extend([text] if text else [])
            return len(text)

    console = Console(file=File(), width=20, height=6, force_terminal=True)
    with Screen(console) as screen:
        screen.open()
        before = len(writes)
        screen.paint(numbers(40), Text("foot"))
        assert len(writes) == before + 1


def test_it_leaves_the_terminal_as_it_was():
    terminal = Terminal()
    terminal.screen.paint(Text("body"))
    with pytest.raises(ZeroDivisionError), terminal.screen:
        assert 1 / 0
    assert terminal.file.getvalue().startswith("\x1b[?1049h\x1b[?25l")
    assert terminal.file.getvalue().endswith("\x1b[?25h\x1b[?1049l")


def test_while_suspended_the_terminal_is_as_it_was():
    terminal = Terminal()
    with terminal.screen:
        terminal.screen.paint(Text("body"))
        with terminal.screen.suspended():
            assert terminal.file.getvalue().endswith("\x1b[?25h\x1b[?1049l")
    assert terminal.file.getvalue().count("\x1b[?1049h") == 2


def test_a_screen_on_which_nothing_was_painted_leaves_no_trace():
    terminal = Terminal()
    with terminal.screen, terminal.screen.suspended():
        pass
    assert terminal.file.getvalue() == ""


def test_text_cannot_steer_the_terminal():
    terminal = Terminal()
    terminal.screen.paint(Text("a\x1b]0;title\x07b\x1b[2Jc\x9b31m"))
    assert terminal.lines()[0] == "a]0;titleb[2Jc31m"


def test_no_color_leaves_no_color():
    terminal = Terminal(no_color=True)
    terminal.screen.paint(Text("good", style="good"), Text("foot", style="title"))
    frame = terminal.file.getvalue()
    assert "\x1b[1mfoot" in frame
    assert "38;5" not in frame


@pytest.mark.parametrize("term", ["dumb", "", "unknown"])
def test_a_dumb_terminal_is_not_painted(monkeypatch, term):
    monkeypatch.setattr("sys.stdin", _Tty())
    monkeypatch.setattr("sys.stdout", _Tty())
    monkeypatch.setenv("TERM", term)
    assert not is_interactive()
    monkeypatch.setenv("TERM", "xterm-256color")
    assert is_interactive()


class _Tty(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("text", "shown", "styles"),
    [
        ("plain", "plain", []),
        ("call `dist.all_reduce(x)` now", "call `dist.all_reduce(x)` now", ["code"]),
        ("a **strong** and *stressed* word", "a strong and stressed word", ["bold", "italic"]),
        ("2 * 3 * 4 and 2*n*3", "2 * 3 * 4 and 2*n*3", []),
        ("[red]no markup[/red] :smile: <b>", "[red]no markup[/red] :smile: <b>", []),
        ("an odd ` stays", "an odd ` stays", []),
        ("esc\x1b[31m bell\x07 cr\r\n", "esc[31m bell cr", []),
        ("abc\u202ecba", "abccba", []),
        ("one paragraph\nof two lines\n\nanother", "one paragraph of two lines\n\nanother", []),
        ("a list:\n- one\n- two\n1. three", "a list:\n- one\n- two\n1. three", []),
        ("a drawing:\n  a -> b\n  b -> c\nand on", "a drawing:\n  a -> b\n  b -> c\nand on", []),
    ],
)
def test_prose_is_shown_as_text(text, shown, styles):
    drawn = style.prose(text)
    assert drawn.plain == shown
    assert [span.style for span in drawn.spans] == styles
