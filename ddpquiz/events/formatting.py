"""How amounts, durations, ranks, shapes and places are written on every screen, and the source lines that events name.

A path in a saved run may name anything, so only regular files of a sane size are read.
"""

import io
import os
import re
import stat
import sys
import tokenize
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path, PurePath
from typing import NamedTuple

from ddpquiz.events.operation import ANY_SOURCE
from ddpquiz.plural import plural

MAX_BYTES = 1 << 20  # of a source file
_MOST_PARTS = 12  # of a list of ranks that is written out
_FRAME = re.compile(r'File "([^"\n]+)", line (\d{1,9})(?:,? in (.+))?')
# Not a file of the user
_LIBRARY = re.compile(r"site-packages|dist-packages|lib/python3|<frozen|<string>|ddpquiz/ranks/")


def format_bytes(amount: float) -> str:
    """Write a number of bytes: `96 bytes`, `1.2 KiB`, `25 MiB`."""
    if amount < 1024:
        return plural(round(amount), "byte")
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 999.5:
            return f"{_three_digits(amount)} {unit}"
    return f"{_three_digits(amount / 1024)} TiB"


def format_seconds(seconds: float) -> str:
    """Write a duration: `340 µs`, `1.2 ms`, `3.4 s`."""
    for unit, scale in (("µs", 1e6), ("ms", 1e3)):
        if 0 < seconds * scale < 999.5:
            return f"{_three_digits(seconds * scale)} {unit}"
    return f"{_three_digits(seconds)} s"


def _three_digits(number: float) -> str:
    """Write a number with three digits at least, and without zeros at the end of a fraction."""
    text = f"{number:,.{0 if number >= 99.95 else 1 if number >= 9.995 else 2}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def list_ranks(ranks: Collection[int]) -> str:
    """Write ranks without the word: `2`, `0-3`, `0 and 1`, `0, 2 and 5-7`."""
    if ANY_SOURCE in ranks:
        return "any rank"
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [part for run in runs for part in ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else map(str, run))]
    if len(parts) > _MOST_PARTS:
        return f"{', '.join(parts[:_MOST_PARTS])} and others, {len(ranks):,} in all"
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)


def format_ranks(ranks: Collection[int]) -> str:
    """Write ranks with the word: `rank 2`, `ranks 0-3`, `ranks 0, 2 and 5-7`, `no rank`."""
    return f"rank{'s' * (len(ranks) != 1)} {list_ranks(ranks)}" if ranks else "no rank"


def format_shapes(shapes: Iterable[tuple[int, ...]]) -> str:
    """Write the shapes of tensors: `2x3 4`; a scalar is `1`."""
    return " ".join("x".join(map(str, shape)) or "1" for shape in shapes)


def format_place(file: str, line: int) -> str:
    """Write a line of a file without its folder: `train.py:12`."""
    return f"{PurePath(file).name}:{line}"


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
    path = str(Path(script).absolute())
    own = [frame for frame in frames if frame[0] == path or not _LIBRARY.search(frame[0])] or frames
    return own[-1] if own else ("", 0)


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
