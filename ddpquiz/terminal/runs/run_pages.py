"""What of a run is looked at: its picture, a log, the script, or a page of help; and the keys that change that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rich.console import Group
from rich.text import Text

from ddpquiz.terminal.kit.grid import MARK, TextLines, folded
from ddpquiz.terminal.kit.hotkeys import HELP, Hotkey, help_page, key_line
from ddpquiz.terminal.kit.layout import columns, section
from ddpquiz.terminal.runs.claims import MARKS
from ddpquiz.terminal.runs.curves import BARS
from ddpquiz.terminal.runs.gantt import BRIEF, GLYPHS
from ddpquiz.terminal.runs.source import GONE, INSIDE, LAST, LEGEND, source
from ddpquiz.terminal.runs.suggestions import to_try, tries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import RenderableType

    from ddpquiz.analysis.events import Output
    from ddpquiz.analysis.run_state import RunState
    from ddpquiz.terminal.kit.grid import Piece
    from ddpquiz.terminal.kit.screen import Screen
    from ddpquiz.terminal.runs.suggestions import Try


Page = Literal["source", "tries", "legend"]
PAGES: dict[str, Page] = {"v": "source", "t": "tries", "?": "legend"}
LEAVE = ("escape", "q", "backspace")
URGENT = ("ctrl+c", "ctrl+d", "eof")  # end the run, whatever is looked at
DIGITS = "0123456789"


class RunPages:
    """The view of a run on a screen: `take` gets each key first, and `paint` draws what it led to."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self._view: Literal["picture"] | Page | int = "picture"  # or the rank whose log is shown
        self._tries: tuple[Try, ...] | None = None  # what the script names to try, once it is known which one runs
        self._follows = True  # the end of a log, or the line where the ranks are, until the learner scrolls

    @property
    def is_away(self) -> bool:
        """Whether something else than the picture is on the screen."""
        return self._view != "picture"

    def handle_key(self, key: str, seen: RunState) -> bool:
        """Obey a key, if it says what to look at or scrolls; away from the picture, its keys do nothing."""
        if key in DIGITS and int(key) in seen.here:
            self._show("picture" if self._view == int(key) else int(key))
        elif key == "tab" and isinstance(self._view, int):
            self._show(seen.here[(seen.here.index(self._view) + 1) % len(seen.here)])
        elif key in PAGES:
            self._show("picture" if self._view == PAGES[key] else PAGES[key])
        elif key in LEAVE and self.is_away:
            self._show("picture")
        elif self.screen.scroll(key):
            self._follows = isinstance(self._view, int) and self.screen.at_end
        else:
            return self.is_away and key not in URGENT
        return True

    def paint(
        self,
        seen: RunState,
        picture: Callable[[], tuple[RenderableType, Sequence[RenderableType]]],
        keys: Sequence[Hotkey],
        notice: str = "",
        rest: Sequence[Hotkey] = (),
    ) -> None:
        """Draw the picture with what stays below it, or what is looked at instead.

        Below all that are a notice, and the keys that work, those of `rest` last: they are named where there is room.
        """
        width = self.screen.console.width
        keys = [*keys, *self._keys(seen), *rest, HELP]
        body: RenderableType
        below: Sequence[RenderableType] = ()
        match self._view:
            case "picture":
                body, below = picture()
            case "source":
                body, line = source(seen, width)
                below = [Text(LEGEND, style="quiet")]
                if self._follows:
                    self.screen.to_line(line)
            case "tries":
                body = Group(*tries(self._to_try(seen)))
            case "legend":
                body = legend(keys)
            case rank:
                body, below = log(seen, rank, width), [Text(f"rank {rank}", style="head")]
                if self._follows:
                    self.screen.to_end()
        said = f"{notice} · " if notice else ""
        foot = Text.assemble(
            (said, "warn"), key_line(self._keys_away(seen) if self.is_away else keys, width - len(said))
        )
        self.screen.paint(body, Group(*below, foot))

    def _show(self, view: Literal["picture"] | Page | int) -> None:
        self._view, self._follows = view, True
        self.screen.to_top()

    def _keys(self, seen: RunState) -> list[Hotkey]:
        first, last = min(seen.here, default=0), min(max(seen.here, default=0), 9)
        name = f"{first}-{last}" if last > first else f"{first}"
        logs = [Hotkey(name, "log", "all that this rank has printed")] if first <= last else []
        trying = [Hotkey("t", "try", "what to try with this demo, as commands")] if self._to_try(seen) else []
        return [
            *logs,
            Hotkey("v", "source", "the script with a mark for each rank; its explanation is at the top"),
            *trying,
        ]

    def _to_try(self, seen: RunState) -> tuple[Try, ...]:
        """Return what to try; the script is read once a run, and not for every frame."""
        if self._tries is None and seen.began:
            self._tries = to_try(seen.began)
        return self._tries or ()

    def _keys_away(self, seen: RunState) -> list[Hotkey]:
        here = next((key for key, page in PAGES.items() if page == self._view), str(self._view))
        others = [key for key in [*self._keys(seen), HELP] if key.key != here]
        following = [Hotkey("tab", "next rank")] if isinstance(self._view, int) and len(seen.here) > 1 else []
        return [
            Hotkey("esc", "back"),
            *following,
            Hotkey("↑ ↓", "scroll"),
            Hotkey("home", "top"),
            Hotkey("end", "bottom"),
            *others,
        ]


ERR = ("err ", "warn")  # stands before a line of standard error where any was written


def log(seen: RunState, rank: int, width: int) -> TextLines:
    """Draw the lines of a rank, each with the second in which it came."""
    said = seen.log.get(rank, ())
    if not said:
        return TextLines([[(f"Rank {rank} has printed nothing.", "quiet")]])
    has_errors = any(line.stream == "stderr" for line in said)
    return TextLines(part for line in said for part in _folded(line, width, has_errors=has_errors))


def _folded(line: Output, width: int, *, has_errors: bool) -> list[list[Piece]]:
    margin: list[Piece] = [(f"{line.time:7.2f}  ", "quiet")]
    if has_errors:
        margin.append(ERR if line.stream == "stderr" else (" " * len(ERR[0]), ""))
    indent = sum(len(text) for text, _ in margin)
    parts = folded(line.text, width - indent)
    below: list[Piece] = [(" " * indent, "")]
    return [[*(below if number else margin), (part, "")] for number, part in enumerate(parts)]


VALUES = {
    (MARK, "accent"): "has changed just now, or since the step before",
    ("-", "quiet"): "nothing yet",
    ("..", ""): "more than fits here",
    (
        BARS[0] + BARS[3] + BARS[7],
        "accent",
    ): "what a rank said under a label, oldest first; all ranks on one scale, from 0; ! is inf or nan",
    ("doing", "quiet"): "the operation that a rank is in, or computing",
    ("brings", "head"): "what a rank gives to its last operation: values, or the shape of a tensor that is larger",
    ("gets", "head"): "what that operation left on the rank; done: it is over, and what it left cannot be shown",
    ("arrived", "accent"): "ranks that have called the operation that is under way",
    ("awaiting", "warn"): "ranks that have not, and for which the others wait",
    ("under way", "quiet"): "other operations that have begun and not ended; a rank may compute beside them",
}
LANES = {
    GLYPHS["compute"]: "the rank runs its script: all that is no communication",
    GLYPHS["communication"]: "all have come to the operation, and it is at work",
    GLYPHS["waiting"]: "the rank is in an operation to which somebody has not come yet",
    BRIEF: "computing, with an operation that is too short for a column of its own",
    ("0 s", "quiet"): "when the first rank communicated or printed",
}
CLAIMS = {
    MARKS["proven"]: "the claim held on these ranks",
    MARKS["broken"]: "it did not hold there",
    MARKS["not reached"]: "not this run: it is about other arguments",
}
SOURCE = {
    (INSIDE, "warn"): "these ranks wait in this line",
    (LAST, "warn"): "they were last seen here",
    (GONE, "warn"): "they have ended",
}


def legend(keys: Iterable[Hotkey]) -> RenderableType:
    """Draw it, the keys first."""
    parts: list[RenderableType] = [help_page(keys)]
    for title, signs in (
        ("What ranks hold", VALUES),
        ("Ranks over time", LANES),
        ("Claims", CLAIMS),
        ("Source", SOURCE),
    ):
        parts += section(title, columns((Text(sign, style), Text(means)) for (sign, style), means in signs.items()))
    return Group(*parts)
