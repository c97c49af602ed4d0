"""How a rank ends: as Python ends a process, except that torch is not torn down."""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import os
import sys
import threading
import traceback
import types
from typing import TYPE_CHECKING, Any, NoReturn

from ddpquiz.ranks.inside.source_location import is_ours, is_torchs

if TYPE_CHECKING:
    from collections.abc import Callable

STREAMS = ("stdout", "stderr", "__stdout__", "__stderr__")  # of sys; a script may set them to None, or delete them


def leave(status: int) -> NoReturn:
    """End this process; tearing torch down could hang or abort (pytorch 190489)."""
    gc.disable()
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  # joins the threads that are not daemons
    atexit._run_exitfuncs()  # noqa: SLF001
    everything = [*vars(sys.modules["__main__"]).values(), *gc.get_objects()]
    _finalize(everything)
    _write_buffers(everything)
    for name in STREAMS:
        stream = getattr(sys, name, None)
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except Exception:  # noqa: BLE001  # nobody reads it any more, or it is a stream of the script's own
            status = status or 120
    ctypes.CDLL(None).fflush(None)  # the streams of C
    os._exit(status)


def _finalize(everything: list[Any]) -> None:
    """Call each `__del__` that is written in Python, except those of torch, which may communicate."""
    done = set()
    for each in everything:
        finalizer = getattr(type(each), "__del__", None)
        if isinstance(finalizer, types.FunctionType) and id(each) not in done:
            done.add(id(each))
            file = finalizer.__code__.co_filename
            if not is_torchs(file) and not is_ours(file):
                _call(finalizer, each)


def _write_buffers(everything: list[Any]) -> None:
    """Write what open files hold in their buffers, outer layers first: text, compressed data, bytes."""
    streams = [getattr(sys, name, None) for name in STREAMS]
    files = [each for each in everything if issubclass(type(each), io.IOBase) and all(each is not s for s in streams)]
    native = io.BufferedWriter, io.BufferedRandom, io.BufferedReader, io.BufferedRWPair, io.BytesIO
    for each in files:
        if isinstance(each, io.TextIOWrapper):
            _call(_flush, each)
    for each in files:
        if isinstance(each, io.BufferedIOBase) and not isinstance(each, native):  # such as GzipFile
            _call(type(each).close, each)
    for each in files:
        if isinstance(each, io.BufferedWriter | io.BufferedRandom):
            _call(_flush, each)


def _flush(file: io.TextIOWrapper | io.BufferedWriter | io.BufferedRandom) -> None:
    if not file.closed:
        file.flush()


def _call(work: Callable[[Any], object], of: object) -> None:
    """Call a finalizer. As in Python, its exception is printed, and changes nothing."""
    try:
        work(of)
    except BaseException:  # noqa: BLE001  # whatever the script's code does there
        print(f"Exception ignored at the end of {type(of).__qualname__}:", file=sys.__stderr__)
        traceback.print_exc(file=sys.__stderr__)
