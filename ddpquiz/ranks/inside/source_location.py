"""Where a program stands, in files of its own: not in torch, not in an installed package, not in ours."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep  # noqa: PTH120  # compared with the text of co_filename
_PACKAGES = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})
_LIBRARY = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_OWN, _FOREIGN, _HIDDEN = range(3)


def standing(script: str = "", frame: FrameType | None = None) -> tuple[str, int]:
    """Return the file and line where the program stands, looking outward from `frame`, or from the caller.

    That is the innermost line of the script; but a script whose body only calls into modules beside it stands where
    they do, and a program that is all packages in the nearest one that is not torch. A thread in which no line of
    theirs runs, such as one of autograd's, works for the main thread, and stands where that does.
    """
    if frame is None:
        frame = sys._getframe(1)  # noqa: SLF001  # what inspect.currentframe() returns
    place = _place(script, frame)
    if not place[1] and threading.current_thread() is not threading.main_thread():
        place = _place(script, sys._current_frames().get(threading.main_thread().ident or 0))  # noqa: SLF001
    return place


def _place(script: str, frame: FrameType | None) -> tuple[str, int]:
    own = foreign = ("", 0)
    while frame is not None:
        code = frame.f_code
        kind = _kind(code.co_filename)
        if kind == _OWN:
            if code.co_filename == script:
                in_a_function = code.co_name != "<module>"
                return (script, frame.f_lineno) if in_a_function or not own[1] else own
            if not own[1]:
                own = (code.co_filename, frame.f_lineno)
                if not script:
                    break
        elif kind == _FOREIGN and not foreign[1]:
            foreign = (code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return own if own[1] else foreign


def line_in(script: str) -> int:
    """Return the line of the script where the program stands, or 0 when that is in another file."""
    file, line = standing(script, sys._getframe(1))  # noqa: SLF001  # the same
    return line if file == script else 0


def is_ours(file: str) -> bool:
    """Whether a file is one of those that run ranks, and not of theirs."""
    return file.startswith(_OURS)


@cache
def _kind(file: str) -> int:
    if is_ours(file) or file.startswith("<"):
        return _HIDDEN
    if file.startswith(_PACKAGES):
        return _HIDDEN if f"{os.sep}torch{os.sep}" in file else _FOREIGN
    return _HIDDEN if file.startswith(_LIBRARY) else _OWN
