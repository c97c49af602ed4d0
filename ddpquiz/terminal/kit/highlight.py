"""Python code in the colors of the other text.

Python's own tokenizer reads it. The lexer of a library would take 17 ms to start, for which the first step waits.
"""

import builtins
import contextlib
import io
import keyword
import tokenize
from itertools import accumulate

from rich.text import Text

from ddpquiz.terminal.kit.line_wrap import Code
from ddpquiz.terminal.kit.style import plain

_NAMES = dict.fromkeys((*dir(builtins), *keyword.kwlist), "accent")
_KINDS = {tokenize.COMMENT: "quiet", tokenize.STRING: "good", tokenize.NUMBER: "warn"} | {
    getattr(tokenize, name): "good"
    for name in ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")  # since Python 3.12
    if hasattr(tokenize, name)
}


def python_lines(text: str) -> list[Text]:
    """Draw lines of Python, one by one."""
    lines = python(text).split("\n", allow_blank=True)
    return [Code(line.plain, spans=line.spans) for line in lines]


def python(text: str) -> Text:
    """Draw lines of Python; what follows a place that is no Python has no colors."""
    text = plain(text).expandtabs(4).rstrip("\n")
    drawn, before = Code(text), ""
    starts = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
    with contextlib.suppress(tokenize.TokenError, SyntaxError):  # an example may be a fragment
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            is_name = token.type == tokenize.NAME and before != "."
            style = _NAMES.get(token.string) if is_name else _KINDS.get(token.type)
            before = token.string
            if style:
                (row, column), (last, end) = token.start, token.end
                drawn.stylize(style, starts[row - 1] + column, starts[last - 1] + end)
    return drawn
