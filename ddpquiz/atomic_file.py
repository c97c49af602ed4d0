"""Files that are written whole or not at all, and files that are opened without waiting."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def open_at_once(path: Path) -> IO[bytes]:
    """Open a file or pipe for reading; a pipe to which nobody writes is empty. OSError as `Path.open` raises it."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(opened, True)
    return os.fdopen(opened, "rb")


def is_pipe_or_device(path: Path) -> bool:
    """Whether a path is neither a file nor a folder, so that to open it may wait forever, and reading never ends."""
    try:
        mode = path.stat().st_mode  # asked once: another process may remove a file between two questions
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield the path of a new, empty file, and move it to `path` if the block succeeds. OSError if that fails.

    The old file stays in place until the new one is complete.
    Links are followed, and a path that is not a regular file, such as /dev/stdout, is yielded itself and written in
    place. A private file, which only its owner can read, replaces whatever was there.
    """
    if not private:
        if path.exists() and not path.is_file():
            yield path
            return
        try:
            path = path.resolve()
        except RuntimeError:  # raised for a loop of links before Python 3.13
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
    fresh = path.with_name(f".{path.name}.{os.urandom(8).hex()}")  # a file moves in one step only within its folder
    opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if private else 0o666)
    try:
        yield fresh
        os.fsync(opened)  # otherwise a power failure could leave an empty file in the place of the old one
        fresh.replace(path)
    finally:
        os.close(opened)
        fresh.unlink(missing_ok=True)
