"""A run on a screen that keys control: its picture, or instead a log, the script, what to try next, or the legend."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.events.event import SIMULATED, Output
from ddpquiz.events.run_frame import GONE, INSIDE, LAST, LEGEND, MARKS, describe_frame
from ddpquiz.events.run_state import RunState
from ddpquiz.events.run_summary import summarize
from ddpquiz.terminal.kit.grid import MARK, StyledText, TextLines, folded
from ddpquiz.terminal.kit.key_screen import BACK, GOES_BACK, HELP, Hotkey, KeyScreen, help_page, key_line
from ddpquiz.terminal.kit.layout import columns, section, shown_path
from ddpquiz.terminal.kit.screen import Screen
from ddpquiz.terminal.runs.gantt import BRIEF, GLYPHS
from ddpquiz.terminal.runs.script import Suggestion, source, suggestions, tries
from ddpquiz.terminal.runs.summary import summary_page

Lesson = Callable[[str], RenderableType]  # draws the lesson of a concept
_Page = Literal["picture", "source", "tries", "summary", "lesson"]
_PAGES: dict[str, _Page] = {"v": "source", "t": "tries", "s": "summary", "l": "lesson"}
_DIGITS = "0123456789"
_SCROLLING = (Hotkey("↑ ↓", "scroll"), Hotkey("home", "top"), Hotkey("end", "bottom"))
LESSON = Hotkey("l", "lesson", "read the lesson that explains what happened")
_ERR = ("err ", "warn")  # stands before a line of standard error where any was written


class RunScreen(KeyScreen):
    """The picture of a run, and pages that keys open instead. Subclasses say what the picture is."""

    can_start = False  # whether a suggestion can be started from here
    lesson: Lesson | None = None  # set where a run that failed offers the lesson that explains it
    seldom_keys: tuple[Hotkey, ...] = ()  # named after all others, where there is room

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self.screen = screen
        self.chosen: Suggestion | None = None  # the run to start next
        self._page: _Page | int = "picture"  # or the rank whose log is shown
        self._found: tuple[Suggestion, ...] | None = None  # what the script suggests, once the script is known

    @property
    @abstractmethod
    def state(self) -> RunState:
        """The state of the run that is shown."""

    @abstractmethod
    def picture(self) -> tuple[RenderableType, Sequence[RenderableType]]:
        """Draw the run, and lines that stay below it."""

    @abstractmethod
    def picture_keys(self) -> list[Hotkey]:
        """The keys that work on the picture only, the most needed first."""

    def interrupt(self) -> None:
        self.press("q")

    @property
    def status(self) -> str:
        """What the screen says of the run beside its keys, while there is no note."""
        return ""

    @property
    def on_picture(self) -> bool:
        return self._page == "picture" and not self.helping

    @property
    def reading(self) -> bool:
        return not self.on_picture

    def body(self) -> RenderableType:
        """Draw what scrolls; `paint` draws it together with what stays below."""
        return self._parts()[0]

    def keys(self) -> list[Hotkey]:
        return [*self.picture_keys(), *self._page_keys(), *self.seldom_keys, HELP]

    def help(self) -> RenderableType:
        return _legend(self.keys() if self._page == "picture" else self._keys_of_page())

    def handle_key(self, key: str) -> None:
        """Obey a key: those that open a page work everywhere, those of the picture only there.

        Digits open logs, except where suggestions are listed: there they start the suggestion of that number.
        """
        here = self.state.all_ranks
        if not self.on_picture:
            self.note = ""
        if key in _DIGITS and self._page == "tries" and self.can_start and not self.helping:
            self.chosen = dict(enumerate(self._suggestions(), 1)).get(int(key))
            if self.chosen:
                self.interrupt()
        elif key in _DIGITS and int(key) in here:
            self._open(int(key))
        elif key == "tab" and isinstance(self._page, int):
            self._open(here[(here.index(self._page) + 1) % len(here)])
        elif key in {each.key for each in self._page_keys()} & _PAGES.keys():
            self._open(_PAGES[key])
        elif self.on_picture or self.helping or key == HELP.key:
            super().handle_key(key)
        elif key in GOES_BACK:
            self._open("picture")
        else:
            self.note = self.missing(key, self._keys_of_page())

    def paint(self, screen: Screen) -> None:
        body, below = self._parts()
        shown = self.note or self.status
        remark = f"{shown} · " if shown else ""
        keys = self.keys() if self.on_picture else self._keys_of_help() if self.helping else self._keys_of_page()
        foot = Text.assemble((remark, "warn"), key_line(keys, screen.console.width - len(remark)))
        screen.paint(body, Group(*below, foot), turns=bool(self.turning))

    def _parts(self) -> tuple[RenderableType, Sequence[RenderableType]]:
        width = self.screen.console.width
        if self.helping:
            return self.help(), ()
        match self._page:
            case "picture":
                return self.picture()
            case "source":
                text, line = source(describe_frame(self.state, shown_path, lanes=False), width)
                if not self.screen.scrolled:  # else it would follow the ranks
                    self.screen.to_line(line)
                return text, [Text(LEGEND, style="quiet")]
            case "tries":
                return Group(*tries(self._suggestions(), numbered=self.can_start)), ()
            case "summary":
                return summary_page(summarize(self.state.timeline, self.state.time, self.state.script)), ()
            case "lesson" if self.lesson and self.state.end:
                return self.lesson(self.state.end.concept), ()
            case int(rank):
                if not self.screen.scrolled or self.screen.at_end:
                    self.screen.to_end()
                return log(self.state, rank, width), [Text(f"rank {rank}", style="head")]
            case _:  # a step of the run before its end
                return self.picture()

    def _open(self, page: _Page | int) -> None:
        """Open a page, or go back from it with the key that opened it."""
        self._page = "picture" if page == self._page and not self.helping else page
        self.helping = False
        self.screen.to_top()

    def _page_keys(self) -> list[Hotkey]:
        here = [rank for rank in self.state.all_ranks if rank < len(_DIGITS)]
        name = f"{here[0]}-{here[-1]}" if len(here) > 1 else "".join(map(str, here))
        logs = [Hotkey(name, "log", "everything that the rank with this number printed")] if here else []
        trying = [Hotkey("t", "try", "commands that change the run, to try next")] if self._suggestions() else []
        has_script = self.state.began is not None and self.state.began.backend != SIMULATED
        source = Hotkey("v", "source", "the script, with a mark where each rank is; its explanation is at the top")
        account = [Hotkey("s", "summary", "where time and bytes went, and advice")] if self.state.end else []
        is_explained = self.lesson and self.state.end and self.state.end.concept
        return [*([LESSON] if is_explained else []), *logs, *trying, *account, *([source] if has_script else [])]

    def _keys_of_help(self) -> list[Hotkey]:
        return [BACK, *_SCROLLING, *self._page_keys()]

    def _keys_of_page(self) -> list[Hotkey]:
        opened_by = next((key for key, page in _PAGES.items() if page == self._page), "")
        pages = [key for key in [*self._page_keys(), HELP] if key.key != opened_by]
        if self._page == "tries" and self.can_start:
            last = min(len(self._suggestions()), 9)
            start = Hotkey(f"1-{last}" if last > 1 else "1", "start", "run the suggestion with this number")
            return [start, BACK, *_SCROLLING, *(key for key in pages if key.does != "log")]
        is_log = isinstance(self._page, int) and len(self.state.all_ranks) > 1
        return [BACK, *([Hotkey("tab", "next rank")] if is_log else []), *_SCROLLING, *pages]

    def _suggestions(self) -> tuple[Suggestion, ...]:
        """What the script suggests; it is read once a run, and not for every frame."""
        if self._found is None and self.state.began:
            self._found = suggestions(self.state.began)
        return self._found or ()


def log(state: RunState, rank: int, width: int) -> TextLines:
    """Draw the lines of a rank, each with its time in seconds."""
    lines = state.log.get(rank, ())
    if not lines:
        nothing = f"No output of rank {rank} was recorded." if state.end else f"Rank {rank} has printed nothing so far."
        return TextLines([[(nothing, "quiet")]])
    has_errors = any(line.stream == "stderr" for line in lines)
    return TextLines(part for line in lines for part in _folded(line, width, has_errors=has_errors))


def _folded(line: Output, width: int, *, has_errors: bool) -> list[list[StyledText]]:
    margin: list[StyledText] = [(f"{line.time:7.2f}  ", "quiet")]
    if has_errors:
        margin.append(_ERR if line.stream == "stderr" else (" " * len(_ERR[0]), ""))
    indent = sum(len(text) for text, _ in margin)
    parts = folded(line.text, width - indent)
    below: list[StyledText] = [(" " * indent, "")]
    return [[*(below if number else margin), (part, "")] for number, part in enumerate(parts)]


_VALUES: dict[StyledText, str] = {
    (MARK, "accent"): "new: it changed in the last half second, or since the previous call",
    ("-", "quiet"): "nothing yet",
    ("..", ""): "cut off; the log of the rank (its number key) shows all of it",
    ("▁▄█", "accent"): "the values of a label, oldest first; all ranks share one scale from 0; ! is inf or nan",
    ("doing", "quiet"): 'the operation that the rank waits in, or "computing"; a rank computes while its isend runs',
    ("input", "head"): "what the rank gave to its last operation: values, or the shape of a larger tensor",
    ("output", "head"): 'what that operation left on the rank; "done" if it is over but its result is not shown',
    ("arrived", "accent"): "these ranks have called the current operation",
    ("waiting", "warn"): "ranks that have not called it yet; the others wait for them",
    ("under way", "quiet"): "other operations that have begun and not ended; a rank may compute meanwhile",
}
_LANES: dict[StyledText, str] = {
    GLYPHS["compute"]: "the rank runs its script and does not communicate",
    GLYPHS["communication"]: "all ranks have called the operation, and it runs",
    GLYPHS["waiting"]: "the rank is in an operation that another rank has not called yet",
    ("blank", "quiet"): "the rank has not started yet, or its script has ended",
    BRIEF: "the rank computes, but also made a call too short to fill a column",
    ("╵0.5 s", "quiet"): "seconds since the run was asked for, as in the log of a rank",
}
_CLAIMS: dict[StyledText, str] = {
    MARKS["proven"]: "the claim held on these ranks",
    MARKS["broken"]: "it did not hold on these ranks",
}
_SOURCE: dict[StyledText, str] = {
    (INSIDE, "warn"): "these ranks wait in this line",
    (LAST, "warn"): "these ranks were last seen here",
    (GONE, "warn"): "these ranks have ended; those that ddpquiz stopped keep their mark",
}


def _legend(keys: Iterable[Hotkey]) -> RenderableType:
    """Draw the page of help: the keys, then what each sign means."""
    parts: list[RenderableType] = [help_page(keys)]
    pages = {"What ranks hold": _VALUES, "Ranks over time": _LANES, "Claims": _CLAIMS, "Source": _SOURCE}
    for title, signs in pages.items():
        parts += section(title, columns((Text(sign, style), Text(means)) for (sign, style), means in signs.items()))
    return Group(*parts)
