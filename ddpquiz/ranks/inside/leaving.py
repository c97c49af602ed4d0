"""How a rank ends: it reports an exception and what it used (usage.py), and ends as Python does.

Torch is not torn down.
"""

import atexit
import ctypes
import errno
import gc
import io
import os
import re
import signal
import sys
import threading
import traceback
import types
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from ddpquiz.events.event import UNUSED, Raised, ScriptFinished
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.source_location import is_between, is_ours, is_own, is_torchs
from ddpquiz.ranks.inside.usage import report_missed_cores, report_peak_memory

_WITHOUT_GRADIENT = re.compile(r"did not receive grad for rank \d+: (\d[\d ]*)")
_MOST_NAMES = 5  # of parameters that a message lists
reduced_names: weakref.WeakKeyDictionary[Any, tuple[str, ...]] = weakref.WeakKeyDictionary()  # see replica_drift
_STREAMS = ("stdout", "stderr", "__stdout__", "__stderr__")  # of sys; a script may set them to None, or delete them


def silence_children() -> Callable[..., Any] | None:
    """Replace the script's handler of SIGCHLD by one that does nothing, and return the script's; None if it has none.

    Torch's handler raises in the midst of any code, also of ours, when a worker of a DataLoader has died. If the signal
    has come already, the handler runs as soon as this function is called, and raises: so call it once more then.
    """
    handler = signal.getsignal(signal.SIGCHLD)
    if not callable(handler):
        return None
    signal.signal(signal.SIGCHLD, _ignore)
    return handler


def _ignore(*_: object) -> None:
    pass


def leave(status: int, writer: EventWriter) -> NoReturn:
    """End this process; tearing torch down could hang or abort (pytorch 190489).

    A negative status is a signal, which ends the process in the end, as SIGINT does after a KeyboardInterrupt.
    On a busy machine this takes a while, in which the others must not think that the rank is late.
    """
    gc.disable()
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  # joins the threads that are not daemons
    report_peak_memory(writer)
    report_missed_cores(writer)
    if status == 0:
        writer.send(ScriptFinished(writer.now(), writer.rank, 0))
    atexit._run_exitfuncs()  # noqa: SLF001
    everything = [*vars(sys.modules["__main__"]).values(), *gc.get_objects()]
    _finalize(everything)
    _write_buffers(everything)
    for name in _STREAMS:
        stream = getattr(sys, name, None)
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except Exception:  # noqa: BLE001  # nobody reads it any more, or it is a stream of the script's own
            status = status or 120
    ctypes.CDLL(None).fflush(None)  # the streams of C
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def skip_present_finalizers() -> None:
    """Skip at the end what `weakref.finalize` holds now: torch's would undo thousands of registrations, in 40 ms."""
    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        finalizer.atexit = False


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
    streams = [getattr(sys, name, None) for name in _STREAMS]
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
    """Call a finalizer. As in Python, its exception is printed, and changes nothing.

    Python's own finalizers may run into what another thread closes meanwhile, such as a worker's pipe: that says
    nothing of the script.
    """
    try:
        work(of)
    except BaseException as error:  # noqa: BLE001  # whatever the script's code does there
        if sys.unraisablehook is not sys.__unraisablehook__:
            said = {"exc_type": type(error), "exc_value": error, "exc_traceback": error.__traceback__}
            sys.unraisablehook(types.SimpleNamespace(**said, err_msg=None, object=of))
            return
        hide_our_frames(error)
        shown = traceback.TracebackException.from_exception(error)
        is_closed = isinstance(error, ValueError) or getattr(error, "errno", 0) in (errno.EBADF, errno.EPIPE)
        if is_closed and not any(is_own(frame.filename) for frame in shown.stack):
            return
        print(f"Exception ignored at the end of {type(of).__qualname__}:", file=sys.__stderr__)
        print("".join(shown.format()), end="", file=sys.__stderr__)


def status_of(end: SystemExit, writer: EventWriter) -> int:
    """Return the exit status of `sys.exit(...)`, and report it if it is not 0; a text goes to standard error."""
    status = exit_status(end.code)
    if status:
        if isinstance(end.code, int):
            end.args = (status,)
        send_error(end, writer)
        if not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    return status


def exit_status(code: object) -> int:
    """The exit status for the code of a SystemExit; the system makes 255 of -1, and 1 of True."""
    number = code if isinstance(code, int) else 0 if code is None else 1
    return number & 0xFF if -sys.maxsize <= number <= sys.maxsize else 0xFF


def send_error(error: BaseException, writer: EventWriter) -> None:
    """Send an exception with its traceback, without our own frames."""
    hide_our_frames(error)
    shown = traceback.TracebackException.from_exception(error)
    name = type(error).__qualname__
    if type(error).__module__ not in ("builtins", "__main__"):
        name = f"{type(error).__module__}.{name}"
    message = _message(error)
    if names := _unused_parameters(error, message):
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        message += f"\n{UNUSED}{', '.join(names[:_MOST_NAMES])}{more}"
    writer.send(Raised(writer.now(), writer.rank, name, message, "".join(shown.format())))


def call_excepthook(error: BaseException, writer: EventWriter, status: int) -> int:
    """Call the script's sys.excepthook as Python would, and return the exit status: `status`, unless the hook exits."""
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit as end:
        return status_of(end, writer)
    except BaseException as wrong:  # noqa: BLE001  # whatever the script's code does there
        hide_our_frames(wrong)
        shown = traceback.TracebackException.from_exception(wrong)
        original = traceback.format_exception(error)
        said = ["Error in sys.excepthook:\n", *shown.format(), "\nOriginal exception was:\n", *original]
        print("".join(said), end="", file=sys.stderr)
    return status


def _unused_parameters(error: BaseException, message: str) -> list[str]:
    """The names of the parameters that DDP complains about by their indices; none for any other error.

    The indices count what needed a gradient when the model was wrapped, whatever has been frozen since.
    """
    found, at = _WITHOUT_GRADIENT.search(message), error.__traceback__
    while found and at:
        owner: Any = at.tb_frame.f_locals.get("self")
        if type(owner).__name__ == "DistributedDataParallel":
            known = reduced_names.get(owner, ())
            indices = [int(index) for index in found[1].split()]
            return [known[index] for index in indices] if max(indices) < len(known) else []
        at = at.tb_next
    return []


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # whatever the script's class does there
        return "<exception str() failed>"  # as Python prints it


def hide_our_frames(error: BaseException) -> None:
    """Remove our frames from the traceback of an exception, and of those that led to it, unless the bug is ours.

    They leave the exception itself: hooks that the script or torch has set print that.
    """
    last = error.__traceback__
    while last and last.tb_next:
        last = last.tb_next
    if last and is_ours(file := last.tb_frame.f_code.co_filename) and not is_between(file):
        return
    left, seen = [error], set[int]()
    while left:
        each = left.pop()
        seen.add(id(each))
        each.__traceback__ = _of_others(each.__traceback__)
        causes = (each.__cause__, each.__context__)
        left += [cause for cause in causes if cause is not None and id(cause) not in seen]


def _of_others(trace: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback without our frames."""
    frames = []
    while trace:
        if not is_ours(trace.tb_frame.f_code.co_filename):
            frames.append(trace)
        trace = trace.tb_next
    for frame in reversed(frames):
        trace = types.TracebackType(trace, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return trace
