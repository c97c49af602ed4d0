"""How a rank says what happens there: events as lines, written at once, so that nothing is lost when it is killed.

An operation is told in two or three lines on the thread of the script, so these are put together by hand from pieces
that are kept; they are what `encode` would write.
"""

from __future__ import annotations

import io
import os
import threading
from time import monotonic  # of this one, since a script's may stand still
from typing import TYPE_CHECKING, Any

from ddpquiz.analysis.event_codec import encode
from ddpquiz.analysis.events import Issued, Note
from ddpquiz.analysis.operation import Operation

if TYPE_CHECKING:
    from ddpquiz.analysis.events import Event

MOST_FORMS = 10_000  # different calls of one rank whose text is kept


class EventWriter:
    """Writes events to the launcher; a fault of the pipe never reaches the script."""

    def __init__(self, fd: int, rank: int, epoch: float) -> None:
        self.fd, self.rank, self.epoch = fd, rank, epoch
        self.lock = threading.Lock()
        self._forms: dict[tuple[object, ...], str] = {}

    def now(self) -> float:
        """Return the seconds since the run was asked for; all processes of a machine share this clock."""
        return round(monotonic() - self.epoch, 6)

    def tell(self, event: Event) -> None:
        """Send one event."""
        self.write(encode(event) + "\n")

    def note(self, text: str) -> None:
        """Send something that the learner should know, in a sentence."""
        self.tell(Note(self.now(), self.rank, text))

    def hush(self) -> None:
        """Say nothing from now on."""
        self.fd, self.lock = -1, threading.Lock()

    def write(self, lines: str) -> None:
        """Send whole lines."""
        data = lines.encode(errors="replace")  # a text may hold half of a character that is no UTF-8
        with self.lock:
            try:
                while data:
                    data = data[os.write(self.fd, data) :]
            except OSError:
                return

    def issued(
        self, time: float, number: int, before: tuple[str, ...], bucket: int | None,
        op: str, members: tuple[int, ...], peer: int | None, shapes: tuple[tuple[int, ...], ...], dtype: str,
        size: int, file: str, line: int, group: str, reduce: str, asynchronous: bool,
    ) -> str:  # fmt: skip
        """Return the line of an Issued."""
        call = (op, members, peer, shapes, dtype, size, file, line, group, reduce, asynchronous)
        form = self._forms.get(call)
        if form is None:
            if len(self._forms) >= MOST_FORMS:
                self._forms.clear()
            whole = encode(Issued(0.0, self.rank, 0, Operation(*call)))
            form = whole.partition('"op": ')[2].removesuffix('null, "before": []}')
            self._forms[call] = form
        return (
            f'{{"event": "issued", "time": {time!r}, "rank": {self.rank}, "number": {number}, "op": {form}'
            f'{"null" if bucket is None else bucket}, "before": {_texts(before)}}}\n'
        )

    def ended(
        self, time: float, number: int, started: float | None = None, source: int | None = None, *, failed: bool = False
    ) -> str:
        """Return the line of an Ended."""
        began, sent = ("null" if each is None else repr(each) for each in (started, source))
        return (
            f'{{"event": "ended", "time": {time!r}, "rank": {self.rank}, "number": {number}, '
            f'"started": {began}, "source": {sent}, "failed": {"true" if failed else "false"}}}\n'
        )

    def waiting(self, time: float, number: int) -> str:
        """Return the line of a Waiting."""
        return f'{{"event": "waiting", "time": {time!r}, "rank": {self.rank}, "number": {number}}}\n'

    def waited(self, time: float, number: int, since: float) -> str:
        """Return the line of a Waited."""
        return f'{{"event": "waited", "time": {time!r}, "rank": {self.rank}, "number": {number}, "since": {since!r}}}\n'

    def result(self, time: float, number: int, after: tuple[str, ...]) -> str:
        """Return the line of a Result."""
        return (
            f'{{"event": "result", "time": {time!r}, "rank": {self.rank}, "number": {number}, '
            f'"after": {_texts(after)}}}\n'
        )


class ToldFile(io.FileIO):
    """A standard stream of the script; each write to it is told, with its time."""

    def __init__(self, fd: int, stream: str, teller: EventWriter) -> None:
        super().__init__(fd, "w", closefd=False)
        self.stream, self.teller = stream, teller

    def write(self, data: Any, /) -> int:
        """Write, and tell how much."""
        now, count = self.teller.now(), super().write(data)
        if count:
            self.teller.write(f"{self.stream} {now!r} {count}\n")
        return count


def _texts(texts: tuple[str, ...]) -> str:
    """Return values of tensors, which hold nothing that JSON escapes, as a list of JSON."""
    return '["' + '", "'.join(texts) + '"]' if texts else "[]"
