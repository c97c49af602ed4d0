"""How a rank of a job that another launcher started reports what happens: in a file, through a buffer.

A thread of ours writes the buffer to the file every tenth of a second, so that the script makes no system call. What is
in the buffer is also in the tail of the rank, which outlives the process.
"""

import _thread  # a thread of `threading` would be in the script's threading.enumerate()
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic

from ddpquiz.analysis.event_codec import encode
from ddpquiz.analysis.events import Alive, Began, Dropped, Event, Forming, Joining, RankEvent, Recorded, Started
from ddpquiz.analysis.operation import POINT_TO_POINT, Operation
from ddpquiz.ranks.inside.event_writer import EventWriter, Line
from ddpquiz.ranks.inside.rank_file import RankFile
from ddpquiz.ranks.inside.rank_tail import RankTail
from ddpquiz.ranks.inside.source_location import find_place

PACE = 0.1  # seconds between two flushes
MANY = 5_000  # lines in the buffer after which it is flushed at once
TOO_MANY = 500_000  # lines in the buffer after which the folder counts as dead
SLICE = 500  # lines that are written before a thread of the script that waits for the GIL gets it
QUIET = 1.0  # seconds without an event after which the file shows that the process is alive
MOST_GROUPS = 2_000  # joinings, and begins and ends of formings, that each file of a rank repeats
PATIENCE = 5.0  # seconds that the end of the job waits for the thread of ours
UNKNOWN = -1  # the rank, until a process group says it
_NOBODY = f'"rank": {UNKNOWN}, '

Channel = tuple[str, tuple[int, ...], str, int | None]  # group, its members; for point-to-point "send" or "recv", peer


class RankWriter(EventWriter):
    """Writes events to the file of its rank in a folder, at least the newest `most` operations.

    Nothing is written before the rank is known. `began` describes the job.
    """

    def __init__(self, folder: Path, most: int, began: Began, restart: int) -> None:
        super().__init__(-1, UNKNOWN, monotonic())
        self.folder, self.most, self.began = folder, most, began
        self._started = Started(0.0, UNKNOWN, os.getpid(), restart)
        self._wall = time.time()
        self._items: list[Line] = []
        self._guard = _thread.RLock()  # of _items and _tail; a signal handler of the script may communicate, too
        self._is_on = True
        self._file: RankFile | None = None
        self._tail: RankTail | None = None
        self._issued: Counter[Channel] = Counter()  # since the last joining, in this file and those before it
        self._from_anybody: dict[int, tuple[str, tuple[int, ...]]] = {}  # receives with an unknown source, by number
        self._in_background: set[int] = set()  # numbers of operations for which the script has not waited yet
        self._groups: list[Joining | Forming] = []  # begun and formed so far; each file of this rank has them
        self._wake = _thread.allocate_lock()
        self._wake.acquire()
        _thread.start_new_thread(self._flush_for_ever, ())

    def write(self, *lines: Line) -> None:
        """Buffer lines: an event, text, or text with what the header of the next file must know of it."""
        if not self._is_on:
            return
        with self._guard:
            self._items += lines
            if self._tail:
                for line in lines:
                    text = line[0] if type(line) is tuple else line
                    if text:
                        text = text if type(text) is str else self._encode(text)
                        self._tail.append(text.encode(errors="replace"))
        if len(self._items) > MANY or (self._tail and self._tail.is_full):
            if len(self._items) > TOO_MANY:
                self.stop(f"{self.folder} does not accept data fast enough")
            with suppress(RuntimeError):  # it is awake already
                self._wake.release()

    def send(self, event: Event) -> None:
        self.write(event)
        if isinstance(event, Joining):
            self.flush(PATIENCE)

    def issued(self, time: float, number: int, before: tuple[str, ...], operation: Operation) -> Line:
        text = self._texts.get(operation)
        if text is None or before or operation.in_background:
            if operation.in_background:
                self._in_background.add(number)
            return super().issued(time, number, before, operation), number, operation
        line = f'{{"event": "issued", "time": {time}, "rank": {self.rank}, "number": {number}, "op": {text}[]}}\n'
        return line, number, operation

    def ended(
        self, time: float, number: int, started: float | None = None, source: int | None = None, *, failed: bool = False
    ) -> Line:
        if started is None and source is None and not failed:
            return (
                f'{{"event": "ended", "time": {time}, "rank": {self.rank}, "number": {number}, "started": null, '
                f'"source": null, "failed": false}}\n'
            )
        text = super().ended(time, number, started, source, failed=failed)
        return text if source is None else (text, number, source)

    def waited(self, time: float, number: int, since: float) -> Line:
        """Return the line of a Waited; a synchronous operation blocks until it ends, so that says nothing new."""
        if number not in self._in_background:
            return ""
        self._in_background.discard(number)
        return super().waited(time, number, since)

    def disable(self) -> None:
        """Record nothing from now on."""
        super().disable()
        self._is_on, self._guard, self._items = False, _thread.RLock(), []

    def stop(self, why: object) -> None:
        """Record nothing from now on, and say why on standard error; the job goes on."""
        if self._is_on:
            self.disable()
            if self._tail:
                self._tail.remove()
            who = f"rank {self.rank}" if self.rank != UNKNOWN else f"process {os.getpid()}"
            with suppress(Exception):  # the script may have closed it, or replaced it
                print(f"ddpquiz.record: {who} is no longer recorded: {why}", file=sys.__stderr__, flush=True)

    def close(self) -> None:
        """Write what is left, and end the thread."""
        self.flush(PATIENCE)
        self._is_on = False
        if self._tail and not self._items:
            self._tail.remove()

    def flush(self, patience: float = -1) -> None:
        """Write what is in the buffer if the rank is known; wait at most `patience` seconds for another flush."""
        lock = self.lock
        if self.rank == UNKNOWN or not lock.acquire(timeout=patience):
            return
        try:
            self._write_items()
        except OSError as wrong:
            self.stop(f"{self.folder}: {wrong.strerror or wrong}")
        except Exception as fault:  # noqa: BLE001  # a fault of the recorder must never reach the script
            self.stop(repr(fault))
        finally:
            lock.release()

    def _flush_for_ever(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the script's threads
        last = monotonic()  # when there was something to write
        while self._is_on:
            self._wake.acquire(timeout=PACE)
            if self._items:
                last = monotonic()
            elif monotonic() - last > QUIET:
                last = monotonic()
                self._show_that_it_lives()
            self.flush()

    def _show_that_it_lives(self) -> None:
        frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001
        file, line = find_place(frame)
        if line:  # else the script has ended, or not begun
            self.send(Alive(self.now(), self.rank, file, line))

    def _write_items(self) -> None:
        if self._file is None and self._is_on:
            self._open()
        while self._is_on and self._file and self._items:
            with self._guard:
                items, self._items = self._items, []
                half = self._tail.switch() if self._tail else 0
            for begin in range(0, len(items), SLICE):
                self._file.write(self._format(items[begin : begin + SLICE], self._file).encode(errors="replace"))
                time.sleep(0)  # let a thread of the script go on
            if self._tail:
                self._tail.clear(half)

    def _open(self) -> None:
        self._file = RankFile(self.folder, self.rank, restarted=self._started.restart > 0)
        self._file.write("".join(map(self._format_event, self._header(self._file))).encode(errors="replace"))
        with suppress(OSError), self._guard:
            self._tail = RankTail(self._file.tail)

    def _format(self, items: Sequence[Line], file: RankFile) -> str:
        """Return the lines of buffered items, and continue the file in a new one if it is long enough."""
        lines, who = list[str](), f'"rank": {self.rank}, '
        for item in items:
            text, number, what = item if type(item) is tuple else (item, 0, None)
            if isinstance(what, Operation):
                if file.held >= self.most:
                    file.write("".join(lines).encode(errors="replace"))
                    file.continue_in_a_new_one()
                    lines = [self._format_event(event) for event in self._header(file)]
                file.held += 1
                self._count(number, what)
            elif what is not None and (group := self._from_anybody.pop(number, None)):
                self._issued[*group, "recv", what] += 1
            lines.append(text.replace(_NOBODY, who, 1) if type(text) is str else self._format_event(text))
        return "".join(lines)

    def _header(self, file: RankFile) -> list[Event]:
        """Return what a file begins with: what must be known of all that came before it."""
        recorded = Recorded(
            0.0, self.rank, socket.gethostname()[:200], boot_id(), clock=self.epoch, wall=self._wall, number=file.number
        )
        now = self.now()
        dropped = [
            Dropped(now, self.rank, group, members, op, peer, issued)
            for (group, members, op, peer), issued in self._issued.items()
        ]
        return [self.began, self._started, recorded, *self._groups, *dropped]

    def _format_event(self, event: Event) -> str:
        if isinstance(event, Forming) and len(self._groups) >= MOST_GROUPS and event not in self._groups:
            event = replace(event, members=())  # so that it does not count: later files do not hold it
        elif isinstance(event, Joining | Forming) and event not in self._groups:
            self._groups.append(event)
            if isinstance(event, Joining) and not event.done:
                self._issued.clear()
        return self._encode(event)

    def _encode(self, event: Event) -> str:
        if isinstance(event, RankEvent):
            event = replace(event, rank=self.rank, time=round(event.time, 6))
        return encode(event) + "\n"

    def _count(self, number: int, operation: Operation) -> None:
        """Note that an operation was issued."""
        group = operation.group, operation.members
        if operation.op not in POINT_TO_POINT:
            self._issued[*group, "", None] += 1
        elif operation.peer is not None:
            self._issued[*group, operation.op, operation.peer] += 1
        else:
            self._from_anybody[number] = group


def boot_id() -> str:
    """Return what tells this boot of the machine from others; nothing where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
