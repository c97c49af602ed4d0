"""A sitting of explaining where whole lines are read: in a pipe, or on a terminal that cannot be painted."""

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.terminal.kit.hotkeys import Hotkey
from ddpquiz.terminal.kit.layout import indented
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.sittings import rubric_view
from ddpquiz.terminal.sittings.explain import FINISH, ExplainScreen
from ddpquiz.terminal.sittings.sitting import note_lines

_HOW = "in your own words, in one line or several; an empty line ends it"


class ExplainByLines(ExplainScreen):
    """A sitting that obeys lines as well as keys."""

    def new_lines(self) -> RenderableType:
        if explanation := self.state.explanation:
            return Group(*rubric_view.check(explanation))
        assert self.state.prompt is not None  # noqa: S101
        parts: list[RenderableType] = [Text(), self._where(), Text(), prose(self.state.prompt.ask, "bold")]
        parts.append(Text(_HOW, style="quiet"))
        if self.text:  # from before; lines are added to it
            parts += [Text(), indented(Text(plain(self.text), style="quiet")), Text()]
        return Group(*parts, *(note_lines(self.note) if self.state.previous is None else []))

    def line_keys(self) -> list[Hotkey]:
        """Return the keys that work now where whole lines are read: an empty one ends a text."""
        keys = [Hotkey("empty line", "check") if key is FINISH else key for key in super().line_keys()]
        return [] if self.writing and self.text else keys

    def handle_line(self, line: str) -> None:
        """Handle a line: a piece of the text, which an empty line ends, or the letter of a key, as in `:h`."""
        key = line.removeprefix(":")
        self.note = ""
        if self.writing and (key == line or len(key) != 1):
            if not line:
                self.finish()
            else:
                self.text = "\n".join((*filter(None, (self.text,)), line))
            return
        self.obey(key or "enter")
        if key == "h" and self.state.hinted and self.state.prompt:
            self.note = self.state.prompt.hint
        elif self.state.explanation and key.isdecimal():
            self.note = rubric_view.count(self.state.explanation)
