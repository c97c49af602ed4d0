"""The source lines that events and tracebacks name, and tracebacks as text.

A path in a saved run may name anything, so only regular files of a sane size are read.
"""

import io
import os
import re
import stat
import sys
import tokenize
from functools import lru_cache
from pathlib import Path, PurePath
from typing import NamedTuple

MAX_BYTES = 1 << 20  # of a source file
_FRAME = re.compile(r'File "([^"\n]+)", line (\d{1,9})(?:,? in (.+))?')
# Not a file of the user
_LIBRARY = re.compile(r"site-packages|dist-packages|lib/python3|<frozen|<string>|ddpquiz/ranks/")


def read_source(path: str | Path) -> str | None:
    """The text of a Python file; None unless it is a regular file of at most MAX_BYTES that can be decoded."""
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
    """A line of a file, counted from 1, or an empty text."""
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
    """The frames in the order in which a text lists them."""
    return [Frame(file, int(line), name) for file, line, name in _FRAME.findall(text)]


def own_frame(text: str, script: str, *, newest_first: bool = False) -> tuple[str, int]:
    """The innermost place outside libraries; the script counts as the user's wherever it is installed."""
    frames = [(frame.file, frame.line) for frame in frames_in(text)]
    if newest_first:
        frames.reverse()
    path = str(Path(script).absolute()) if script else ""
    own = [frame for frame in frames if frame[0] == path or not _LIBRARY.search(frame[0])] or frames
    return own[-1] if own else ("", 0)


@lru_cache(maxsize=1000)
def is_library(file: str) -> bool:
    """Whether the file of a frame belongs to a library or to Python.

    py-spy shortens files of libraries: `torch/cuda/graphs.py`.
    """
    if PurePath(file).is_absolute() or file.startswith("<"):
        return bool(_LIBRARY.search(file))
    top = PurePath(file).parts[0].removesuffix(".py") if file else ""
    return top == "torch" or top in sys.stdlib_module_names


def code_at(text: str, file: str, line: int) -> str:
    """The line of code that a traceback shows for one of its frames."""
    _, _, rest = text.rpartition(f'File "{file}", line {line}')
    return rest.partition("\n")[2].partition("\n")[0].strip()
