"""Python code in the colours of the other text; loaded when the first item with code is drawn."""

from pygments.token import Comment, Keyword, Name, Number, Operator, String
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.text import Text

from ddpquiz.terminal.kit.line_wrap import Code
from ddpquiz.terminal.kit.style import THEME, plain

_COLOURS = ANSISyntaxTheme(
    {
        Comment: THEME.styles["quiet"],
        Keyword: THEME.styles["accent"],
        Operator.Word: THEME.styles["accent"],
        Name.Builtin: THEME.styles["accent"],
        String: THEME.styles["good"],
        Number: THEME.styles["warn"],
    }
)


def python_lines(text: str) -> list[Text]:
    """Draw lines of Python, one by one."""
    lines = python(text).split("\n", allow_blank=True)
    return [Code(line.plain, spans=line.spans) for line in lines]


def python(text: str) -> Text:
    """Draw lines of Python."""
    text = plain(text).expandtabs(4).rstrip("\n")
    drawn = Syntax(text, "python", theme=_COLOURS, background_color="default").highlight(text)
    drawn.rstrip()
    return Code(drawn.plain, spans=drawn.spans)
