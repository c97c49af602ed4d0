"""Writing a text on the screen, with a cursor and a few visible rows; editor.py opens the user's own editor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from ddpquiz.terminal.kit.layout import columns
from ddpquiz.terminal.kit.style import plain

if TYPE_CHECKING:
    from rich.table import Table

_ROWS = 6  # visible rows of the text
_ABOVE = 2  # visible rows above the cursor
_MARGIN = 3  # columns for the prompt, and for the cursor behind the last character


@dataclass(frozen=True, slots=True)
class TextArea:
    """A text and the position of the cursor; keys change both."""

    text: str = ""
    cursor: int = 0

    def insert(self, text: str) -> TextArea:
        return TextArea(self.text[: self.cursor] + text + self.text[self.cursor :], self.cursor + len(text))

    def key(self, key: str, width: int) -> TextArea:
        """The area after a key, for a screen of this width; unknown keys change nothing."""
        at = self.cursor
        line = self.text.rfind("\n", 0, at) + 1
        end = at + len(self.text[at:].partition("\n")[0])
        to_delete = {  # ctrl+u at the start of a line joins the line to the previous one
            "backspace": (at - 1, at),
            "delete": (at, at + 1),
            "ctrl+u": (line if line < at else at - 1, at),
        }
        moves = {"left": at - 1, "right": at + 1, "home": line, "ctrl+a": line, "end": end, "ctrl+e": end}
        if key in moves:
            return self._at(moves[key])
        if key in to_delete:
            return self._without(*to_delete[key])
        if key in ("up", "down"):
            return self._at_row(-1 if key == "up" else 1, width)
        text = {"enter": "\n", "tab": " ", "space": " "}.get(key, key)
        return self.insert(text) if len(text) == 1 else self

    @property
    def on_empty_last_line(self) -> bool:
        return not self.text[self.text.rfind("\n", 0, self.cursor) + 1 :].strip()

    def drawn(self, width: int) -> Table:
        """Draw the rows around the cursor, which is `_` at the end of a line and a reversed character elsewhere."""
        rows = _rows(self.text, width - _MARGIN)
        at = self._row(rows)
        top = max(0, min(len(rows) - _ROWS, at - _ABOVE))
        shown = [self._drawn(*row, here=top + n == at) for n, row in enumerate(rows[top : top + _ROWS])]
        return columns([(Text("" if number else ">", style="accent"), row) for number, row in enumerate(shown)], gap=1)

    def line(self) -> Text:
        """Draw a text of one line with its cursor."""
        return self._drawn(0, len(self.text), here=True)

    def _drawn(self, start: int, end: int, *, here: bool) -> Text:
        if not here:
            return Text(plain(self.text[start:end]).rstrip())
        row = Text(plain(self.text[start : self.cursor]))
        if self.cursor == end:
            return row.append("_", style="accent")
        row.append(plain(self.text[self.cursor]) or " ", style="reverse")
        return row.append(plain(self.text[self.cursor + 1 : end]).rstrip())

    def _at(self, cursor: int) -> TextArea:
        return TextArea(self.text, min(max(0, cursor), len(self.text)))

    def _at_row(self, step: int, width: int) -> TextArea:
        """Move to the row above or below, to the same column if that row is long enough."""
        rows = _rows(self.text, width - _MARGIN)
        row = self._row(rows)
        if not 0 <= row + step < len(rows):
            return self
        start, end = rows[row + step]
        folded = row + step + 1 < len(rows) and rows[row + step + 1][0] == end  # then its end is the next row's start
        return self._at(min(start + self.cursor - rows[row][0], end - folded))

    def _row(self, rows: list[tuple[int, int]]) -> int:
        return max(number for number, (start, _) in enumerate(rows) if start <= self.cursor)

    def _without(self, start: int, end: int) -> TextArea:
        start = max(0, start)
        return TextArea(self.text[:start] + self.text[end:], start)


def _rows(text: str, width: int) -> list[tuple[int, int]]:
    """Fold a text, at blanks where it can; return the start and the end of each row."""
    rows, line = [], 0
    for words in text.split("\n"):
        start, blank, used = line, -1, 0
        for at, character in enumerate(words, line):
            used += cell_len(character)
            if used > width and at > start and character != " ":
                cut = blank + 1 if blank >= start else at
                rows.append((start, cut))
                start, used = cut, cell_len(text[cut : at + 1])
            if character == " ":
                blank = at
        rows.append((start, line + len(words)))
        line += len(words) + 1
    return rows
