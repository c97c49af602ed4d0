"""Which line of the learner's own files a program is at: not of torch, installed packages or ddpquiz."""

import os
import sys
import sysconfig
import threading
from collections.abc import Iterator
from functools import cache
from types import CodeType, FrameType

from ddpquiz.ranks.inside import BETWEEN

_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep  # noqa: PTH120  # compared with the text of co_filename
_PACKAGES = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})
# An environment may have another one below it, which holds torch
_INSTALLED = tuple(f"{os.sep}{name}-packages{os.sep}" for name in ("site", "dist"))
_LIBRARY = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_OWN, _FOREIGN, _HIDDEN = range(3)
_MOST_PLACES = 10_000  # whose lines are remembered
_BETWEEN_FILES = frozenset(f"{os.path.dirname(__file__)}{os.sep}{name}.py" for name in BETWEEN)  # noqa: PTH120


def locate(frame: FrameType | None = None) -> tuple[str, int]:
    """The file and line that the program is at, searching outward from `frame`, or from the caller.

    This is the innermost line of the learner's own files, or else that of the nearest package that is not torch. A
    thread that runs no such line, such as one of autograd's, works for the main thread and has its location.
    """
    if frame is None:
        frame = sys._getframe(1)  # noqa: SLF001  # what inspect.currentframe() returns
    place = find_place(frame)
    if not place[1] and threading.current_thread() is not threading.main_thread():
        place = find_place(sys._current_frames().get(threading.main_thread().ident or 0))  # noqa: SLF001
    return place


def find_place(frame: FrameType | None) -> tuple[str, int]:
    """What `locate` returns, but only of these frames; ("", 0) if they have no such line."""
    foreign = ("", 0)
    while frame is not None:
        kind = _kind(frame.f_code.co_filename)
        if kind == _OWN:
            return _place(frame)
        if kind == _FOREIGN and not foreign[1]:
            foreign = _place(frame)
        frame = frame.f_back
    return foreign


_places: dict[tuple[int, int], tuple[CodeType, tuple[str, int]]] = {}  # by a code's identity and the instruction in it


def _place(frame: FrameType) -> tuple[str, int]:
    """The file and line of a frame; f_lineno reads the line table of the whole function up to there."""
    code = frame.f_code
    key = id(code), frame.f_lasti
    known = _places.get(key)
    if known is None or known[0] is not code:
        if len(_places) >= _MOST_PLACES:
            _places.clear()
        known = _places[key] = code, (code.co_filename, frame.f_lineno)
    return known[1]


def outward(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame, its caller, and so on."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def line_in(script: str) -> int:
    """The innermost line of the script that the caller runs in, or 0 if it runs in none."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # the same
    while frame is not None and frame.f_code.co_filename != script:
        frame = frame.f_back
    return frame.f_lineno if frame else 0


def is_ours(file: str) -> bool:
    """Whether a file belongs to ddpquiz.ranks."""
    return file.startswith(_OURS)


def is_between(file: str) -> bool:
    """Whether a file is one of ours that calls torch in the place of the script."""
    return file in _BETWEEN_FILES


def is_own(file: str) -> bool:
    """Whether a file is the learner's: not of torch, installed packages, Python or ddpquiz."""
    return _kind(file) == _OWN


def is_torchs(file: str) -> bool:
    """Whether a file belongs to torch."""
    return _is_installed(file) and f"{os.sep}torch{os.sep}" in file


def _is_installed(file: str) -> bool:
    return file.startswith(_PACKAGES) or any(folder in file for folder in _INSTALLED)


@cache
def _kind(file: str) -> int:
    if is_ours(file) or file.startswith("<"):
        return _HIDDEN
    if _is_installed(file):
        return _HIDDEN if is_torchs(file) else _FOREIGN
    return _HIDDEN if file.startswith(_LIBRARY) else _OWN
