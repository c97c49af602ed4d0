"""The frames of a traceback, or of a stack that faulthandler wrote."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_FRAME = re.compile(r'File "([^"\n]+)", line (\d{1,9})(?:,? in (.+))?')
_LIBRARY = re.compile(r"site-packages|dist-packages|lib/python3|<frozen|<string>")  # not a file of the user


class Frame(NamedTuple):
    """One call: where it stands, and in which function."""

    file: str
    line: int
    name: str


def frames_in(text: str) -> list[Frame]:
    """Return the frames in the order in which a text lists them."""
    return [Frame(file, int(line), name) for file, line, name in _FRAME.findall(text)]


def own_frame(text: str, script: str, *, newest_first: bool = False) -> tuple[str, int]:
    """Return the place that the user knows: the innermost line of the script, or of another file outside libraries."""
    frames = [(frame.file, frame.line) for frame in frames_in(text)]
    if newest_first:
        frames.reverse()
    path = str(Path(script).absolute())
    own = [frame for frame in frames if frame[0] == path] or [f for f in frames if not _LIBRARY.search(f[0])] or frames
    return own[-1] if own else ("", 0)


def code_at(text: str, file: str, line: int) -> str:
    """Return the line of code that a traceback shows for one of its frames."""
    _, _, rest = text.rpartition(f'File "{file}", line {line}')
    return rest.partition("\n")[2].partition("\n")[0].strip()
