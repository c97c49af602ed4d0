"""How a rank of a job that another launcher started reports what happens: in its file, which is continued in a new one.

`rank-N.jsonl` is the newest file of rank N and `rank-N.old.jsonl` the one before it. Files of an earlier job in the
same folder are renamed: `rank-N.jsonl.1`, then `.2` and so on. Each event is written at once, by the thread that calls
the operation: what is written stays, whatever ends the process.
"""

import _thread  # a thread of `threading` would be in the script's threading.enumerate()
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from time import monotonic, sleep

from ddpquiz.events.event import (
    Alive,
    Began,
    Dropped,
    Event,
    Forming,
    Issued,
    Joining,
    RankEvent,
    Recorded,
    Started,
    decode,
    encode,
)
from ddpquiz.events.operation import POINT_TO_POINT, Operation
from ddpquiz.jobs.rank_process import ProcessSpace
from ddpquiz.ranks.inside.event_writer import UNCHECKED, EventWriter, Line, PreparedCall, identity, move_up
from ddpquiz.ranks.inside.main_thread import MainThread

_QUIET = 1.0  # seconds without an event after which the file shows that the process is alive
_MOMENT = 0.25  # seconds between two looks at the main thread, which show whether it stands still
_UNCHECKED_FOLDER = 1.0  # seconds after which it is checked that the folder still holds the file
_MOST_GROUPS = 2_000  # joinings, and begins and ends of formings, that each file of a rank repeats
UNKNOWN = -1  # the rank, until a process group says it
_NOBODY = f'"rank": {UNKNOWN}, '
_ISSUED = f'{{"event": "{Issued.event}"'.encode()
_RECORDED = f'{{"event": "{Recorded.event}"'.encode()

_Channel = tuple[str, tuple[int, ...], str, int | None]  # group, its members; for point-to-point "send" or "recv", peer


class _RankFile:
    """An open file that only grows; every method raises OSError if the file cannot be written.

    `number` says how often a file of this rank was continued in a new one, `held` how many operations this one holds,
    `wrote_at` when it grew last.
    """

    def __init__(self, folder: Path, rank: int, *, restarted: bool) -> None:
        self.path, self.older = folder / f"rank-{rank}.jsonl", folder / f"rank-{rank}.old.jsonl"
        self.number = self.held = 0
        self.wrote_at = self._checked_at = self._folder_checked_at = monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        if restarted:
            self._read_what_it_holds()
        else:
            self._move_earlier_job_away()
        self._open()

    def write(self, text: str) -> None:
        """Append whole lines."""
        data = text.encode(errors="replace")  # a text may hold half of a surrogate pair
        self.wrote_at = now = monotonic()
        if now - self._checked_at > UNCHECKED:
            self._checked_at = now
            self._check(now)
        written = os.write(self._fd, data)
        while written < len(data):
            written += os.write(self._fd, data[written:])

    def continue_in_a_new_one(self) -> None:
        """Rename this file to the older one, and open a new one."""
        self.path.rename(self.older)
        os.close(self._fd)
        self.number, self.held = self.number + 1, 0
        self._open()

    def _open(self) -> None:
        self._fd = move_up(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644))
        self._identity = identity(self._fd)

    def _check(self, now: float) -> None:
        """Raise OSError if what is written would not reach the file."""
        if identity(self._fd) != self._identity:
            raise OSError("the script has closed its descriptor")
        if now - self._folder_checked_at > _UNCHECKED_FOLDER:
            self._folder_checked_at = now
            with os.scandir(self.path.parent):  # FileNotFoundError if the folder was deleted
                pass
            status = self.path.stat()
            if (status.st_dev, status.st_ino) != self._identity:
                raise OSError("another process has replaced the file")

    def _read_what_it_holds(self) -> None:
        """Count what the process before the restart wrote, and cut off the half of a line that it may have left."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        lines = data[: data.rfind(b"\n") + 1].splitlines()
        os.truncate(self.path, data.rfind(b"\n") + 1)
        self.held = sum(line.startswith(_ISSUED) for line in lines)
        header = next((line for line in lines if line.startswith(_RECORDED)), b"")
        with suppress(ValueError):
            recorded = decode(header)
            self.number = recorded.number if isinstance(recorded, Recorded) else 0

    def _move_earlier_job_away(self) -> None:
        earlier = [path for path in (self.path, self.older) if path.exists()]
        if earlier:
            number = next(n for n in count(1) if not any(Path(f"{path}.{n}").exists() for path in earlier))
            for path in earlier:
                path.rename(f"{path}.{number}")


class _CountedCall(PreparedCall):
    """A prepared call, and where such calls are counted; nowhere if it receives from a rank that is not known yet."""

    __slots__ = ("count",)

    def __init__(self, operation: Operation, count: list[int] | None) -> None:
        super().__init__(operation)
        self.count = count


class RankWriter(EventWriter):
    """Writes events to the file of its rank in a folder, at least the newest `most` operations.

    What comes before the rank is known waits for `open`. `began` describes the job.
    """

    def __init__(self, folder: Path, most: int, began: Began, restart: int) -> None:
        super().__init__(-1, UNKNOWN, monotonic())
        self.folder, self.most, self.began = folder, most, began
        self._started = Started(0.0, UNKNOWN, os.getpid(), restart)
        self._wall = time.time()
        self._is_on, self._is_writing = True, False
        self._pending: list[Line] = []
        self._file: _RankFile | None = None
        self._issued: dict[_Channel, list[int]] = {}  # how many since the last joining, in all files of this rank
        self._from_any_source: dict[int, tuple[str, tuple[int, ...]]] = {}  # receives with an unknown source, by number
        self._in_background: set[int] = set()  # numbers of operations for which the script has not waited yet
        self._groups: list[Joining | Forming] = []  # begun and formed so far; each file of this rank has them
        _thread.start_new_thread(self._show_that_it_lives, ())

    def open(self, rank: int) -> None:
        """Write the file of this rank from now on."""
        self.rank = rank
        try:
            file = _RankFile(self.folder, rank, restarted=self._started.restart > 0)
            file.write(self._header(file))
        except OSError as wrong:
            self.stop(f"{self.folder}: {wrong.strerror or wrong}")
        else:
            self._file = file
            self.write()

    def write(self, *lines: Line) -> None:
        """Write lines: an event, text, or text with what the header of the next file must know of it."""
        if not self._is_on:
            return
        with self.lock:
            file = self._file
            if file is None or self._is_writing:  # a signal handler of the script may communicate meanwhile
                self._pending += lines
                return
            try:
                self._is_writing = True
                if self._pending:
                    lines, self._pending = (*self._pending, *lines), []
                while lines:
                    for line in lines:
                        if line:
                            text = line if type(line) is str else self._text_of(line, file)
                            if _NOBODY in text:
                                text = text.replace(_NOBODY, f'"rank": {self.rank}, ', 1)
                            file.write(text)
                    lines, self._pending = tuple(self._pending), []
            except OSError as wrong:
                self.stop(f"{self.folder}: {wrong.strerror or wrong}")
            except Exception as fault:  # noqa: BLE001  # a fault of the recorder must never reach the script
                self.stop(repr(fault))
            finally:
                self._is_writing = False

    def send(self, event: Event) -> None:
        self.write(event)

    def issued(self, time: float, number: int, before: tuple[str, ...], call: PreparedCall) -> Line:
        if call.in_background:
            self._in_background.add(number)
        return super().issued(time, number, before, call), number, call

    def ended(
        self, time: float, number: int, started: float | None = None, source: int | None = None, *, failed: bool = False
    ) -> Line:
        text = super().ended(time, number, started, source, failed=failed)
        return text if source is None else (text, number, source)

    def waited(self, time: float, number: int, since: float) -> Line:
        """The line of a Waited; a synchronous operation blocks until it ends, so that says nothing new."""
        if number not in self._in_background:
            return ""
        self._in_background.discard(number)
        return super().waited(time, number, since)

    def disable(self) -> None:
        """Record nothing from now on."""
        super().disable()
        self._is_on = False
        self._pending.clear()

    def stop(self, why: object) -> None:
        """Record nothing from now on, and say why on standard error; the job goes on."""
        if self._is_on:
            self.disable()
            who = f"rank {self.rank}" if self.rank != UNKNOWN else f"process {os.getpid()}"
            with suppress(Exception):  # the script may have closed it, or replaced it
                print(f"ddpquiz.record: {who} is no longer recorded: {why}", file=sys.__stderr__, flush=True)

    def close(self) -> None:
        """Record nothing from now on."""
        self._is_on = False

    def _show_that_it_lives(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the script's threads
        quiet_since, main = monotonic(), MainThread()
        while self._is_on:
            if self._file:
                quiet_since = max(quiet_since, self._file.wrote_at)
            if (left := quiet_since + _QUIET - monotonic()) > 0:
                sleep(left)
                continue
            quiet_since = monotonic()
            main.look(main.frame())
            sleep(_MOMENT)
            standing = main.look(main.frame())
            if standing.line and self._file:  # without a line, the script has ended, or not begun
                self.send(Alive(self.now(), self.rank, *standing))

    def _text_of(self, line: Line, file: _RankFile) -> str:
        """The text of a line; continues the file in a new one if it is long enough."""
        if type(line) is not tuple:
            return self._format_event(line)
        text, number, what = line
        if type(what) is _CountedCall:
            if file.held >= self.most:
                file.continue_in_a_new_one()
                file.write(self._header(file))
            file.held += 1
            if what.count is None:
                self._from_any_source[number] = what.operation.group, what.operation.members
            else:
                what.count[0] += 1
        elif group := self._from_any_source.pop(number, None):
            self._count_of((*group, "recv", what))[0] += 1
        return text  # type: ignore[no-any-return]

    def _header(self, file: _RankFile) -> str:
        """What a file begins with: what must be known of all that came before it."""
        here = ProcessSpace.here()
        recorded = Recorded(
            0.0, self.rank, here.host, here.boot, clock=self.epoch, wall=self._wall, number=file.number, pids=here.pids
        )
        now = self.now()
        dropped = [
            Dropped(now, self.rank, group, members, op, peer, issued)
            for (group, members, op, peer), [issued] in self._issued.items()
            if issued
        ]
        return "".join(map(self._format_event, [self.began, self._started, recorded, *self._groups, *dropped]))

    def _format_event(self, event: Event) -> str:
        if isinstance(event, Forming) and len(self._groups) >= _MOST_GROUPS and event not in self._groups:
            event = replace(event, members=())  # so that it does not count: later files do not hold it
        elif isinstance(event, Joining | Forming) and event not in self._groups:
            self._groups.append(event)
            if isinstance(event, Joining) and not event.done:
                for count in self._issued.values():
                    count[0] = 0
        if isinstance(event, RankEvent):
            event = replace(event, rank=self.rank, time=round(event.time, 6))
        return encode(event) + "\n"

    def _new_call(self, operation: Operation) -> PreparedCall:
        group = operation.group, operation.members
        if operation.op not in POINT_TO_POINT:
            return _CountedCall(operation, self._count_of((*group, "", None)))
        if operation.peer is not None:
            return _CountedCall(operation, self._count_of((*group, operation.op, operation.peer)))
        return _CountedCall(operation, None)

    def _count_of(self, channel: _Channel) -> list[int]:
        return self._issued.setdefault(channel, [0])
