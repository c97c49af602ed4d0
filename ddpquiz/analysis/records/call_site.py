"""Which line of a stack trace is the user's: the stack of a dump begins in torch and ends in what started Python."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

MAX_LINE = 10**7
_TORCH_OR_PYTHON = re.compile(  # torch installed or in its repository, the standard library, and C++
    r"/(?:site|dist)-packages/(?:torch|torchgen|functorch)/|/torch/(?:distributed|nn|autograd|utils|optim|_\w+)/"
    r"|/torch/multiprocessing/|/lib/python3\.\d+/(?!(?:site|dist)-packages/)|^<|^\?\?|\.(?:cpp|cc|c|h|hpp)$|^$"
)
_INSTALLED = re.compile("/(?:site|dist)-packages/")


class Owner(IntEnum):
    """Whose code a file is, in the order in which a line of it explains an operation to the user."""

    USER = 0
    LIBRARY = 1
    TORCH_OR_PYTHON = 2


def owner_of(file: str) -> Owner:
    """Return whose code a file is."""
    file = file.replace("\\", "/")
    if _TORCH_OR_PYTHON.search(file):
        return Owner.TORCH_OR_PYTHON
    return Owner.LIBRARY if _INSTALLED.search(file) else Owner.USER


@dataclass
class CallSites:
    """Finds the user's lines in stack traces; equal texts share memory."""

    _owners: dict[str, tuple[str, Owner]] = field(default_factory=dict)

    def innermost(self, frames: list[Any]) -> tuple[str, int]:
        """Return the file and line of the user's innermost frame, or else of a library's; or ("", 0)."""
        found, best = ("", 0), Owner.TORCH_OR_PYTHON
        for file, line in _places(frames):
            known, owner = self._owner(file)
            if owner < best:
                found, best = (known, line), owner
            if owner is Owner.USER:
                break
        return found

    def outermost(self, frames: list[Any]) -> str:
        """Return the file of the user's outermost frame, or an empty text."""
        for file, _ in _places(frames[::-1]):
            known, owner = self._owner(file)
            if owner is Owner.USER:
                return known
        return ""

    def _owner(self, file: str) -> tuple[str, Owner]:
        if file not in self._owners:
            self._owners[file] = file, owner_of(file)
        return self._owners[file]


def _places(frames: list[Any]) -> Iterator[tuple[str, int]]:
    for frame in frames:
        match frame:
            case {"filename": str(file), "line": int(line)} if 0 <= line <= MAX_LINE and len(file) <= 4096:
                yield file, line
            case _:
                raise ValueError("a frame of `frames` must have a `filename` and a `line`")
