"""Text of others that may be shown: it cannot control a terminal, or look like other text than it is."""

import json
import re
from typing import Any

# C0 except tab and line feed, DEL, C1, line separators, the marks that reverse the direction of writing, and what XML
# does not allow
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_NOT_ASCII = re.compile("[^\n -~]")


def plain(text: str) -> str:
    """Remove control characters, which would control the terminal."""
    return _CONTROL.sub("", text)


def one_line(text: str) -> str:
    r"""Make a name or a sentence safe to show in one line: a newline in it, as names of files may have, is \n."""
    return plain(text.replace("\n", r"\n"))


def to_json(data: Any, *, indent: int | None = None) -> str:
    """JSON that is safe to show: every character that cannot be printed is an escape, and nothing is lost."""
    return escape_controls(json.dumps(data, ensure_ascii=False, indent=indent))


def escape_controls(text: str) -> str:
    """Make JSON safe to show."""
    if text.isprintable():
        return text
    whole = text.encode(errors="replace").decode()  # without halves of characters
    return _NOT_ASCII.sub(lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1], whole)
