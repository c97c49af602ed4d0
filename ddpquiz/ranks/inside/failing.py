"""How a rank reports that its script failed."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING

from ddpquiz.analysis.events import Raised
from ddpquiz.ranks.inside.source_location import is_ours

if TYPE_CHECKING:
    from ddpquiz.ranks.inside.event_writer import EventWriter


def status_of(end: SystemExit, writer: EventWriter) -> int:
    """Return the exit status of `sys.exit(...)`, and report it if it is not 0; a text goes to standard error."""
    status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    if status & 0xFF:
        if isinstance(end.code, int):
            end.args = (status & 0xFF,)  # what the system makes of -1 or True
        send_error(end, writer)
        if not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    return status & 0xFF


def send_error(error: BaseException, writer: EventWriter) -> None:
    """Send an exception with its traceback, without our own frames."""
    shown = traceback.TracebackException.from_exception(error)
    if not (shown.stack and is_ours(shown.stack[-1].filename)):  # or the bug is ours
        _remove_our_frames(shown)
    name = type(error).__qualname__
    if type(error).__module__ not in ("builtins", "__main__"):
        name = f"{type(error).__module__}.{name}"
    writer.send(Raised(writer.now(), writer.rank, name, _message(error), "".join(shown.format())))


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # whatever the script's class does there
        return "<exception str() failed>"  # as Python prints it


def _remove_our_frames(shown: traceback.TracebackException) -> None:
    """Remove our frames from a traceback, and from those of the exceptions that led to it."""
    left = [shown]
    while left:
        each = left.pop()
        each.stack[:] = [frame for frame in each.stack if not is_ours(frame.filename)]
        left += [cause for cause in (each.__cause__, each.__context__) if cause is not None]
