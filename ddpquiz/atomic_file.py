"""A file that is written whole or not at all: what was there before stays until the new one is all there."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to, and put what is there at the end in the place of `path`; OSError when that fails.

    A link is followed, and what is no file, such as /dev/stdout, is written to as it is: nothing could take its place.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    try:
        path = path.resolve()
    except RuntimeError:  # before Python 3.13 that is what a circle of links is
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
    fresh = path.with_name(f".{path.name}.{os.getpid()}")  # in the same folder, since a file moves at once only there
    try:
        yield fresh
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
