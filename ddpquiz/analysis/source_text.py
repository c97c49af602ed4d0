"""The text of a script that an event names: in a saved run that path may name anything."""

from __future__ import annotations

import io
import os
import stat
import tokenize
from functools import lru_cache
from pathlib import Path

MAX_BYTES = 1 << 20


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
    lines = _lines(path)
    return lines[line - 1] if 0 < line <= len(lines) else ""


@lru_cache(64)
def _lines(path: str) -> list[str]:
    return (read_source(path) or "").splitlines()
