"""Line breaks at the edge of the screen: prose between words, code after a backslash, so that it can be copied."""

import re
from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.containers import Lines
from rich.text import Text

_INLINE = re.compile(r"`([^`\n]+)`")
_NO_BREAK = "\ue000"  # replaces a blank at which prose must not break
_AROUND = 6  # room for quotes, brackets and a full stop next to code

_HANG = 4
_NARROW = 16  # too few columns for folding
_MARK = " \\"
_PIECE = re.compile(r"(?<!\w)[frbFRB]{0,2}(?:\"[^\"]*\"|'[^']*')|(?P<comment>(?:^|(?<=\s))#(?= ))")


class Prose(Text):
    """A paragraph with code in backticks; with colors, the backticks are not shown."""

    def wrap(self, console: Console, width: int, **how: Any) -> Lines:
        """Break the text into lines; code stays on one line where it fits on one."""
        colored = console.color_system is not None and not console.no_color
        code = _INLINE.finditer(self.plain)
        pieces = self.divide([at for part in code for at in (part.start(), part.start(1), part.end(1), part.end())])
        shown = self.blank_copy()
        for number, piece in enumerate(pieces):
            is_code, is_tick = number % 4 == 2, number % 2 == 1
            if is_code and piece.cell_len + _AROUND <= width:
                piece.plain = piece.plain.replace(" ", _NO_BREAK)
            if not (is_tick and colored):
                shown.append_text(piece)
        lines = shown.wrap(console, width, **how)
        for line in lines:
            line.plain = line.plain.replace(_NO_BREAK, " ")
        return lines


class Code(Text):
    """Lines of code. A long line continues, indented, after a backslash, as Python and shells allow."""

    def wrap(self, console: Console, width: int, **how: Any) -> Lines:
        if how.get("no_wrap") or self.no_wrap or width < _NARROW:
            return super().wrap(console, width, **how)
        return Lines(piece for line in self.split(allow_blank=True) for piece in _folded(line, width))


def _folded(line: Text, width: int) -> Iterator[Text]:
    text = line.plain
    further = 0 if text.lstrip().startswith("# ") else _HANG
    hang = " " * min(len(text) - len(text.lstrip()) + further, width // 3)
    spans = [(found.span(), found["comment"]) for found in _PIECE.finditer(text)]
    comment = next((start for (start, _), is_comment in spans if is_comment), len(text))
    quoted = [span for span, is_comment in spans if not is_comment and span[0] < comment]
    while line.cell_len > width:
        cut, mark = _cut(line.plain, width, comment, quoted)
        head, line = line.divide([cut])
        head.rstrip()
        yield head.append(mark)
        lead = f"{hang}# " if cut > comment else hang
        blanks = len(line.plain) - len(line.plain.lstrip())
        line = Text(lead, style=line.style).append_text(line[blanks:])
        moved = cut + blanks - len(lead)
        comment, quoted = comment - moved, [(start - moved, end - moved) for start, end in quoted]
        if lead.endswith("# "):
            comment = len(hang)
    yield line


def _cut(text: str, width: int, comment: int, quoted: list[tuple[int, int]]) -> tuple[int, str]:
    """Where to break a long line and what to put there: preferably a blank outside of quotes."""
    first = len(text) - len(text.lstrip()) + 1
    places: dict[int, tuple[int, str]] = {}  # the last place of each kind, the best kind first
    for at in range(first, len(text)):
        if at == comment + 1:
            continue  # a line with only a # would be useless
        inside = any(start < at < end for start, end in quoted)
        if not text[at].isspace() and (inside or at > comment or text[at - 1] not in "([{,"):
            continue
        mark = "" if at > comment or text[at:comment].isspace() else _MARK
        if cell_len(text[:at].rstrip() + mark) <= width:
            places[2 if inside else 0 if text[at].isspace() else 1] = (at, mark)
    for _, place in sorted(places.items()):
        if place[0] > width // 3:
            return place
    if places:
        return max(places.values())
    mark = "" if comment < width // 2 else _MARK.strip()
    return next(at for at in range(len(text) - 1, 0, -1) if cell_len(text[:at] + mark) <= width), mark
