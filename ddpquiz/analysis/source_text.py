"""The source lines that events and tracebacks name: in a saved run a path may name anything."""

import io
import os
import re
import stat
import tokenize
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

MAX_BYTES = 1 << 20
_FRAME = re.compile(r'File "([^"\n]+)", line (\d{1,9})(?:,? in (.+))?')
# Not a file of the user
_LIBRARY = re.compile(r"site-packages|dist-packages|lib/python3|<frozen|<string>|ddpquiz/ranks/")


def read_source(path: str | Path) -> str | None:
    """Return the text of a Python file; None unless it is a regular file of at most MAX_BYTES that can be decoded."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            return None
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123  # a path may change meanwhile
            data = file.read(MAX_BYTES + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
        if not data or len(data) > MAX_BYTES:
            return None
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return io.TextIOWrapper(io.BytesIO(data), encoding).read()
    except (OSError, ValueError, SyntaxError, LookupError):
        return None


def source_line(path: str, line: int) -> str:
    """Return a line of a file, counted from 1, or an empty text."""
    try:
        changed = Path(path).stat().st_mtime_ns
    except (OSError, ValueError):
        return ""
    lines = _lines(path, changed)
    return lines[line - 1] if 0 < line <= len(lines) else ""


@lru_cache(64)
def _lines(path: str, changed: int) -> list[str]:
    del changed  # a user may edit a script, and run it again from the same screen
    return (read_source(path) or "").splitlines()


class Frame(NamedTuple):
    """One call: where it stands, and in which function."""

    file: str
    line: int
    name: str


def frames_in(text: str) -> list[Frame]:
    """Return the frames in the order in which a text lists them."""
    return [Frame(file, int(line), name) for file, line, name in _FRAME.findall(text)]


def own_frame(text: str, script: str, *, newest_first: bool = False) -> tuple[str, int]:
    """Return the innermost place outside libraries; the script counts as the user's wherever it is installed."""
    frames = [(frame.file, frame.line) for frame in frames_in(text)]
    if newest_first:
        frames.reverse()
    path = str(Path(script).absolute())
    own = [frame for frame in frames if frame[0] == path or not _LIBRARY.search(frame[0])] or frames
    return own[-1] if own else ("", 0)


def code_at(text: str, file: str, line: int) -> str:
    """Return the line of code that a traceback shows for one of its frames."""
    _, _, rest = text.rpartition(f'File "{file}", line {line}')
    return rest.partition("\n")[2].partition("\n")[0].strip()
