"""Where the main thread stands: sampled while it computes, and what it waits in where it stands still.

A thread that waits for a lock, another thread or a process uses no processor. Which expression it does not get out of
is in its frame: Python knows the columns of each instruction.
"""

import _thread  # a thread of `threading` would be in the script's threading.enumerate()
import ast
import contextlib
import faulthandler
import itertools
import linecache
import multiprocessing.process
import os
import signal
import sys
import threading
import time
from pathlib import Path
from time import monotonic  # which a script that replaces time.monotonic does not change
from types import FrameType
from typing import NamedTuple

from ddpquiz.events.event import Alive
from ddpquiz.ranks.forks import STACK_SIGNAL
from ddpquiz.ranks.inside.event_writer import EventWriter, printable
from ddpquiz.ranks.inside.source_location import find_place, is_between, is_own, outward

_PACE = 0.05  # seconds between two looks
_PATIENT = 4  # a line that has lasted for a second is reported again after a fourth of that
_STILL = 0.2  # seconds after which a thread that uses no processor stands still
_BUSY = 0.1  # of a core, from which on a thread computes
_DEEPEST = 100  # frames of a stack that are written, as by faulthandler
_LONGEST = 80  # characters of an expression that are reported


class MainThreadPosition(NamedTuple):
    """A line of the script, the expression that the main thread waits in there, and what for; see Alive."""

    file: str = ""
    line: int = 0
    stands_in: str = ""
    waits_for: str = ""


class MainThread:
    """Looks at the main thread, now and then."""

    def __init__(self) -> None:
        self._identity = threading.main_thread().ident or 0
        self._clock = _clock_of(self._identity)
        # line, instruction, time, its processor time
        self._seen: tuple[tuple[str, int], int, float, float] | None = None

    def frame(self) -> FrameType | None:
        return sys._current_frames().get(self._identity)  # noqa: SLF001  # documented; no other way

    def look(self, frame: FrameType | None) -> MainThreadPosition:
        """Where it stands, by its innermost frame now; it stands still if it has not moved since an earlier look."""
        place = find_place(frame)
        if not place[1] or frame is None:
            self._seen = None
            return MainThreadPosition()
        own = next((each for each in outward(frame) if is_own(each.f_code.co_filename)), frame)
        now, used = time.monotonic(), self._processor_time()
        if self._seen is None or self._seen[:2] != (place, own.f_lasti):
            self._seen = place, own.f_lasti, now, used
        _, _, since, before = self._seen
        if now - since < _STILL or used - before > _BUSY * (now - since) or not _sleeps():
            return MainThreadPosition(*place)
        expression = _expression(own)
        return MainThreadPosition(*place, expression, _waits_for(frame, own) if expression else "")

    def _processor_time(self) -> float:
        """Seconds; those since the start where threads have no clock of their own, so that none stands still."""
        return time.monotonic() if self._clock is None else time.clock_gettime(self._clock)


def _clock_of(identity: int) -> int | None:
    find = getattr(time, "pthread_getcpuclockid", None)  # not on macOS
    return find(identity) if find else None


def _sleeps() -> bool:
    """Whether the main thread is not about to run, as it is where other processes use all cores; else it is unknown."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/stat", "rb") as file:  # noqa: PTH123  # read often
            return file.read().rpartition(b")")[2].split(None, 1)[0] == b"S"
    except OSError:
        return True


def _expression(frame: FrameType) -> str:
    """The text of the expression that a frame is at; nothing for a sleep or an import, which end by themselves."""
    at = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    line, end, begin, until = at
    if line is None or end is None or begin is None or until is None:
        return ""
    source = linecache.getline(frame.f_code.co_filename, line).encode()  # columns count bytes
    text = source[begin : until if end == line else None].decode(errors="replace").strip()
    is_whole = end == line
    if text.startswith("with ") and text.endswith(":"):  # up to Python 3.12 the whole statement is what enters
        text, is_whole = text[:-1], True
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:  # the first of several lines
        node = None
    is_sleep = isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "sleep"
    if is_sleep or text.startswith(("import ", "from ")):
        return ""
    if source[:begin].rstrip().endswith(b"with"):
        text = f"with {text}"
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= _LONGEST and is_whole else f"{text[: _LONGEST - 4]} ..."


def _waits_for(frame: FrameType, own: FrameType) -> str:
    """The thread or process for whose end a frame of the script waits, in words; nothing if it is neither."""
    for each in itertools.takewhile(lambda inner: inner is not own, outward(frame)):
        waited = each.f_locals.get("self") if each.f_code.co_name == "join" else None
        if isinstance(waited, threading.Thread):
            inner = sys._current_frames().get(waited.ident or 0)  # noqa: SLF001  # the same
            file, line = find_place(inner)
            where = f", which is at {Path(file).name}:{line}" if line else ""
            return printable(f"thread {waited.name}{where}")
        if isinstance(waited, multiprocessing.process.BaseProcess):
            return printable(f"process {waited.name} (PID {waited.pid})")
    return ""


def sample_lines(writer: EventWriter) -> None:
    """Report from now on where the main thread is, unless it waits for other ranks."""
    _thread.start_new_thread(_look_for_ever, (writer,))


def _look_for_ever(writer: EventWriter) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the script's threads
    pause, main = _thread.allocate_lock(), MainThread()
    pause.acquire()
    before, since, reported = MainThreadPosition(), 0.0, 0.0
    while writer.fd != -1:
        pause.acquire(timeout=_PACE)  # nobody releases it; unlike time.sleep, no script replaces it
        now = monotonic()
        try:
            place = _look(main)
        except AttributeError:  # seen while torch.compile was making a frame
            continue
        if place != before:
            before, since = place, now
        elif now - reported < (reported - since) / _PATIENT:
            continue
        if place.line:
            reported = now
            writer.send(Alive(writer.now(), writer.rank, *place))


def _look(main: MainThread) -> MainThreadPosition:
    """Look once; a frame that was kept until the next look would keep the tensors of its function alive."""
    frame = main.frame()
    waits_for_ranks = any(is_between(each.f_code.co_filename) for each in outward(frame))
    return main.look(None if waits_for_ranks else frame)


def answer_signals(files: dict[int, int]) -> None:
    """Write, whenever one of these signals comes, the stacks that it asks for into its file, from a thread.

    A thread that has Python's lock can read the stacks of the others. The C handler of faulthandler reads that of the
    thread that it interrupts, at any instruction: that crashes a process which is just calling or leaving a function.
    So the other threads block the signals. In a forked child this thread is missing, and the handler must do.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, files)
    os.register_at_fork(after_in_child=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, files))
    _thread.start_new_thread(_answer_for_ever, (files,))


def _answer_for_ever(files: dict[int, int]) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the others are for the script's threads
    main = MainThread()
    while True:
        number = signal.sigwait(files)
        with contextlib.suppress(OSError, AttributeError):  # the script has closed it; torch.compile is making a frame
            if number == STACK_SIGNAL:
                os.write(files[number], _stack(main.frame()))
            else:
                faulthandler.dump_traceback(files[number])


def _stack(frame: FrameType | None) -> bytes:
    """A stack in the words of faulthandler."""
    stack = "Stack (most recent call first):\n"
    for each in itertools.islice(outward(frame), _DEEPEST):
        stack += f'  File "{each.f_code.co_filename}", line {each.f_lineno or 0} in {each.f_code.co_name}\n'
    return stack.encode(errors="replace")
