"""Where the main thread of this rank is while it computes: seen now and then by a thread of ours."""

import _thread  # a thread of `threading` would be in the script's threading.enumerate()
import signal
import sys
import threading
from time import monotonic
from types import FrameType

from ddpquiz.analysis.events import Alive
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.source_location import find_place, is_between

PACE = 0.05  # seconds between two looks
PATIENT = 4  # a line that has lasted for a second is reported again after a fourth of that


def start(writer: EventWriter) -> None:
    """Report from now on where the main thread is, unless it waits for other ranks."""
    _thread.start_new_thread(_look_for_ever, (writer,))


def _look_for_ever(writer: EventWriter) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the script's threads
    pause, main = _thread.allocate_lock(), threading.main_thread().ident or 0
    pause.acquire()
    before, since, reported = ("", 0), 0.0, 0.0
    while writer.fd != -1:
        pause.acquire(timeout=PACE)  # nobody releases it; unlike time.sleep, no script replaces it
        now = monotonic()
        try:
            place = _place(sys._current_frames().get(main))  # noqa: SLF001
        except AttributeError:  # seen while torch.compile was making a frame
            continue
        if place != before:
            before, since = place, now
        elif now - reported < (reported - since) / PATIENT:
            continue
        if place[1]:
            reported = now
            writer.send(Alive(writer.now(), writer.rank, *place))


def _place(frame: FrameType | None) -> tuple[str, int]:
    """Return the line of the script at which a thread computes; ("", 0) where it waits for other ranks."""
    each = frame
    while each is not None:
        if is_between(each.f_code.co_filename):
            return "", 0
        each = each.f_back
    return find_place(frame)
