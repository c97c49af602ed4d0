"""How a rank reports what happens: each event is a line, written at once, so that nothing is lost if it is killed.

The thread of the script writes two or three lines for each operation, so these are joined from cached pieces of text.
They are equal to what `encode` returns.
"""

import contextlib
import fcntl
import io
import os
import threading
from time import monotonic  # our own reference: a script may replace time.monotonic
from typing import Any

from ddpquiz.events.event import Event, Issued, Note, encode
from ddpquiz.events.operation import Operation
from ddpquiz.ranks.messages import encode_write

UNCHECKED = 0.005  # seconds after which our descriptor is checked; fstat before each write would be felt
_MOST_CALLS = 10_000  # different calls of one rank whose text is cached
_LONGEST_NAME = 200  # characters
Line = Any  # what `write` accepts: here a line of text; a RankWriter formats it later


class PreparedCall:
    """What the lines of equal calls have in common: whoever makes a call often keeps it, and it is written faster."""

    __slots__ = ("in_background", "operation", "text")

    def __init__(self, operation: Operation) -> None:
        self.operation, self.in_background = operation, operation.in_background
        whole = encode(Issued(0.0, 0, 0, operation))
        self.text = whole.partition('"op": ')[2].removesuffix("[]}")


def printable(text: str) -> str:
    """What an event holds of a text of the script, such as a key or the name of a thread."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:_LONGEST_NAME]


class EventWriter:
    """Writes events to a pipe; its faults never reach the script."""

    def __init__(self, fd: int, rank: int, epoch: float) -> None:
        self.fd, self.rank, self.epoch = fd, rank, epoch
        self.lock = threading.RLock()  # a signal handler of the script may communicate, too
        self._pipe, self._checked_at = identity(fd), monotonic()
        self._prepared: dict[Operation, PreparedCall] = {}

    def now(self) -> float:
        """The seconds since the run was requested, on a clock that all processes of a machine share."""
        return int((monotonic() - self.epoch) * 1e6) / 1e6  # twice as fast as round

    def send(self, event: Event) -> None:
        self.write(encode(event) + "\n")

    def note(self, text: str) -> None:
        """Send a sentence that the learner should read."""
        self.send(Note(self.now(), self.rank, text))

    def disable(self) -> None:
        """Send nothing from now on."""
        self.fd, self.lock = -1, threading.RLock()

    def write(self, *lines: Line) -> None:
        """Write whole lines. If the script has closed our descriptor, write nothing any more: it may be a file now."""
        data = "".join(lines).encode(errors="replace")  # a text may hold half of a surrogate pair
        with self.lock:
            now = monotonic()
            if now - self._checked_at > UNCHECKED:
                self._checked_at = now
                if identity(self.fd) != self._pipe:
                    self.fd = -1
            try:
                while data:
                    data = data[os.write(self.fd, data) :]
            except OSError:
                self.fd = -1

    def prepare(self, operation: Operation) -> PreparedCall:
        """What `issued` needs of a call."""
        prepared = self._prepared.get(operation)
        if prepared is None:
            if len(self._prepared) >= _MOST_CALLS:
                self._prepared.clear()
            prepared = self._prepared[operation] = self._new_call(operation)
        return prepared

    def issued(self, time: float, number: int, before: tuple[str, ...], call: PreparedCall) -> Line:
        """The line of an Issued; the methods below return the lines of other events."""
        return (
            f'{{"event": "issued", "time": {time}, "rank": {self.rank}, "number": {number}, "op": {call.text}'
            f"{_list(before)}}}\n"
        )

    def ended(
        self, time: float, number: int, started: float | None = None, source: int | None = None, *, failed: bool = False
    ) -> Line:
        rest = '"started": null, "source": null, "failed": false}\n'  # nearly always
        if failed or started is not None or source is not None:
            began, sent = ("null" if value is None else value for value in (started, source))
            rest = f'"started": {began}, "source": {sent}, "failed": {"true" if failed else "false"}}}\n'
        return f'{{"event": "ended", "time": {time}, "rank": {self.rank}, "number": {number}, {rest}'

    def waiting(self, time: float, number: int) -> Line:
        return f'{{"event": "waiting", "time": {time}, "rank": {self.rank}, "number": {number}}}\n'

    def waited(self, time: float, number: int, since: float) -> Line:
        return f'{{"event": "waited", "time": {time}, "rank": {self.rank}, "number": {number}, "since": {since}}}\n'

    def result(self, time: float, number: int, after: tuple[str, ...]) -> Line:
        return (
            f'{{"event": "result", "time": {time}, "rank": {self.rank}, "number": {number}, "after": {_list(after)}}}\n'
        )

    def _new_call(self, operation: Operation) -> PreparedCall:
        return PreparedCall(operation)


class RecordedStream(io.FileIO):
    """A standard stream of the script that reports each write, with its time."""

    def __init__(self, fd: int, name: str, writer: EventWriter) -> None:
        super().__init__(fd, "w", closefd=False)
        self.stream, self.writer = name, writer

    def write(self, data: Any, /) -> int:
        """Write, and report how many bytes."""
        now, count = self.writer.now(), super().write(data)
        if count:
            self.writer.write(encode_write(self.stream, now, count))
        return count


def move_up(fd: int) -> int:
    """Move a descriptor to a number that scripts do not reach by closing those from 3 on; return the number."""
    moved = fd
    for number in (900, 200, 100):  # as far as the limit on open files allows
        with contextlib.suppress(OSError):
            moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, number)
            os.close(fd)
            break
    return moved


def identity(fd: int) -> tuple[int, int] | None:
    """What tells an open file from others; None when `fd` is not open."""
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _list(texts: tuple[str, ...]) -> str:
    """Values of tensors, in which JSON escapes nothing, as a JSON list."""
    return '["' + '", "'.join(texts) + '"]' if texts else "[]"
