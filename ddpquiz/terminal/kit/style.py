"""The few colors that have a meaning, and text from content files made safe to show."""

import os
import re
import sys
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text
from rich.theme import Theme

from ddpquiz.safe_text import plain as plain  # noqa: PLC0414  # it belongs to what this module offers
from ddpquiz.terminal.kit.line_wrap import Code, Prose

# Fixed colors halfway between black and white, readable on dark and on light terminals.
# No information is conveyed by color alone: with NO_COLOR the words remain.
THEME = Theme(
    {
        "good": "color(28)",  # green
        "bad": "color(160)",  # red
        "warn": "color(130)",  # amber
        "accent": "color(32)",  # blue
        "title": "bold color(32)",  # of a section
        "code": "color(30)",  # teal
        "quiet": "color(243)",  # gray: can be skipped
        "key": "bold",  # a key to press
        "head": "bold",
        # names that rich.markdown uses
        "markdown.code": "color(30)",
        "markdown.code_block": "none",
        "markdown.h1": "bold",
        "markdown.h2": "bold color(32)",
        "markdown.h3": "bold",
        "markdown.block_quote": "color(243)",
        "markdown.link": "underline",
        "markdown.link_url": "underline",
        "markdown.item.bullet": "color(243)",
        "markdown.item.number": "color(243)",
        "markdown.table.header": "bold",
        "markdown.table.border": "color(243)",
    }
)

_SPAN = re.compile(
    r"`(?P<code>[^`\n]+)`|\*\*(?P<bold>[^*\n]+)\*\*|(?<![\w*])\*(?P<italic>[^\s*][^*\n]*)(?<!\s)\*(?![\w*])"
)
_ITEM = re.compile(r"([-*•]|\d+[.)]) ")  # how the line of a list starts

_SIZE = re.compile("0*[1-9][0-9]{0,3}")  # of a terminal, in columns or lines


class _PlainConsole(Console):
    """A console that removes control characters from all text, wherever it comes from."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            if control is not None or text.isprintable():
                yield segment
            else:
                yield Segment(plain(text), style)


def console(file: IO[str] | None = None, *, width: int | None = None, **how: Any) -> Console:
    """A console that prints text unchanged: no markup, no emoji names, no highlighting, no escapes."""
    return _PlainConsole(
        file=file, width=width, theme=THEME, markup=False, emoji=False, highlight=False, _environ=_environment(), **how
    )


def _environment() -> Mapping[str, str]:
    """The environment without a size that no terminal has: rich would draw nothing in 0 columns."""
    wrong = [name for name in ("COLUMNS", "LINES") if not _SIZE.fullmatch(os.environ.get(name, "1"))]
    return {name: value for name, value in os.environ.items() if name not in wrong} if wrong else os.environ


def complaints() -> Console:
    """Such a console for standard error."""
    return console(sys.stderr)


def prose(text: str, style: str = "") -> Text:
    """Draw a paragraph of content: `code`, **strong** and *stressed* are styled, everything else is plain text.

    Without colors, code stays in backticks, so that sentences remain readable. Line breaks of the file inside a
    paragraph are joined; lists, indented lines and empty lines stay.
    """
    text = _unwrapped(plain(text).strip("\n"))
    shown, at = Prose(style=style), 0
    for span in _SPAN.finditer(text):
        shown.append(text[at : span.start()])
        words = span[0] if span["code"] else span[span.lastgroup or 0]
        shown.append(words, style=span.lastgroup)
        at = span.end()
    return shown.append(text[at:])


def labeled(label: str, style: str, text: str) -> Text:
    """Draw a paragraph of content after a label with this style."""
    return Prose().append(label, style).append_text(prose(text))


def _unwrapped(text: str) -> str:
    lines = text.split("\n")
    out = lines[:1]
    for before, line in pairwise(lines):
        if before and line and not before[0].isspace() and not line[0].isspace() and not _ITEM.match(line):
            out[-1] += " " + line
        else:
            out.append(line)
    return "\n".join(out)


def numbered_code(text: str) -> Text:
    """Draw lines of code with their numbers."""
    return code("\n".join(f"{number:>2}  {line}" for number, line in enumerate(text.splitlines(), 1)))


def code(text: str, style: str = "code") -> Text:
    """Draw lines of code or output as they are."""
    return Code(plain(text).expandtabs(4).rstrip("\n"), style=style)
