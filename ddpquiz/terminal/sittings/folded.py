"""A question above its answer, with the answer in sight on any terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment, Segments
from rich.text import Text

from ddpquiz.terminal.kit.layout import section

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_LINES = 2  # of a question that stay where there is no room


class Folded:
    """A question and its answer. Where both do not fit, a line or two of the question stay, and it follows whole below.

    `around` draws, for a width, what else is on the screen; `above` are empty lines where there is room.
    """

    def __init__(
        self,
        question: Text,
        more: Sequence[RenderableType],
        answer: Sequence[RenderableType],
        *,
        title: str,
        around: Callable[[int], RenderableType],
        above: int = 0,
    ) -> None:
        self._question, self._more, self._answer = question, more, answer
        self._title, self._around, self._above = title, around, above

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        endless = options.update(height=None)
        whole = Group(*[Text()] * self._above, self._question, *self._more, *self._answer)
        parts = (whole, self._around(console.width))
        if sum(len(console.render_lines(part, endless, pad=False)) for part in parts) <= console.height:
            yield whole
            return
        lines = console.render_lines(self._question, endless.update(width=options.max_width - 2), pad=False)
        for number, line in enumerate(lines[:_LINES], 1):
            more = [Segment("…")] if number == _LINES < len(lines) else []
            yield Segments([*line, *more, Segment.line()])
        yield Group(*self._answer)
        if len(lines) > _LINES or len(self._more) > 1:
            yield Group(*section(self._title, self._question, *self._more))
