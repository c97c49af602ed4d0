"""Python code in the colours of everything else; loaded when the first item with code is drawn."""

from __future__ import annotations

from pygments.token import Comment, Keyword, Name, Number, Operator, String
from rich.syntax import ANSISyntaxTheme, Syntax

from ddpquiz.terminal.style import THEME, plain

_COLOURS = ANSISyntaxTheme(
    {
        Comment: THEME.styles["quiet"],
        Keyword: THEME.styles["accent"],
        Operator.Word: THEME.styles["accent"],
        Name.Builtin: THEME.styles["accent"],
        String: THEME.styles["good"],
        Number: THEME.styles["warn"],
    },
)


def python(text: str) -> Syntax:
    """Draw lines of Python."""
    text = plain(text).expandtabs(4).rstrip("\n")
    return Syntax(text, "python", theme=_COLOURS, background_color="default", word_wrap=True)
