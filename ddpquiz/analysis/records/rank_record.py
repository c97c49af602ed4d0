"""What `ddpquiz.record` wrote of one rank, read from its file and from the older one that the file continues."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from pathlib import Path

from ddpquiz.analysis.event_codec import check_ranks, decode
from ddpquiz.analysis.events import VERSION, Began, Dropped, Event, Forming, Issued, Joining, Recorded, Started
from ddpquiz.analysis.operation import Operation
from ddpquiz.analysis.records.clock_alignment import Clock
from ddpquiz.analysis.saved_run import MAX_LINE
from ddpquiz.errors import UserError

_ISSUED = re.compile(
    rb'\{"event": "issued", "time": (\d{1,8}\.\d+(?:e-\d+)?), "rank": (\d{1,4}), "number": (\d{1,15}), '
)


@dataclass(slots=True)
class Life:
    """What one process recorded, on its own clock."""

    started: Started
    recorded: Recorded
    dropped: list[Dropped] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def clock(self) -> Clock:
        return Clock(self.recorded.host, self.recorded.boot)

    @property
    def repeated(self) -> list[Event]:
        """The joinings and formings that begin a file which continues another one; those are of earlier times."""
        if not self.recorded.number:
            return []
        return list(takewhile(lambda each: isinstance(each, Joining | Forming), self.events))


@dataclass(slots=True)
class RankRecord:
    """The lives of one rank, the earliest first. The first one lacks its beginning if its file was a continuation."""

    rank: int
    began: list[Began] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    _started: Started | None = None  # of the life whose Recorded comes next

    def add(self, event: Event) -> None:
        """Append an event; ValueError if it does not fit there."""
        if isinstance(event, Began):
            if event.version != VERSION:
                raise ValueError(f"its version is {event.version}, and ddpquiz reads only version {VERSION}")
            self.began.append(event)
            return
        if not self.began:
            raise ValueError("the first event must be a `run` event")
        check_ranks(event, self.began[-1])
        if getattr(event, "rank", self.rank) != self.rank:
            raise ValueError(f"it is of another rank than {self.rank}")
        if isinstance(event, Started):
            self._started = event
        elif isinstance(event, Recorded) and self._started:
            self.lives.append(Life(self._started, event))
        elif not self.lives:
            raise ValueError("a `start` and a `record` event must come before it")
        elif isinstance(event, Dropped):
            self.lives[-1].dropped.append(event)
        else:
            self.lives[-1].events.append(event)


class RankReader:
    """Reads the files of ranks; equal operations share memory."""

    def __init__(self) -> None:
        self._operations: dict[bytes, Operation] = {}

    def read(self, rank: int, folder: Path) -> RankRecord | None:
        """Return what the files of a rank hold, or None if that is nothing; UserError for a line that does not fit.

        The newer file is read first: if the rank writes meanwhile, no line is missed or read twice.
        """
        record = self._read_file(rank, folder / f"rank-{rank}.jsonl")
        before = self._read_file(rank, folder / f"rank-{rank}.old.jsonl")
        if record is None or before is None:
            return record or before
        if record.lives[0].recorded.number != before.lives[-1].recorded.number + 1:
            return record
        continued = record.lives[0]
        before.lives[-1].events += continued.events[len(continued.repeated) :]
        return RankRecord(rank, before.began + record.began, before.lives + record.lives[1:])

    def _read_file(self, rank: int, path: Path) -> RankRecord | None:
        record = RankRecord(rank)
        for number, line in enumerate(_lines(path), 1):
            try:
                record.add(self._decode(line))
            except ValueError as wrong:
                raise UserError(f"{path}:{number}: invalid event: {wrong}.") from None
        return record if record.lives else None

    def _decode(self, line: bytes) -> Event:
        """Decode a line. What is issued is checked once; most lines then differ in time and number only."""
        match = _ISSUED.match(line)
        if match is None:
            return decode(line)
        time, rank, number, rest = float(match[1]), int(match[2]), int(match[3]), line[match.end() :]
        operation = self._operations.get(rest)
        if operation is not None and rank in operation.members:
            return Issued(time, rank, number, operation)
        event = decode(line)
        if isinstance(event, Issued) and event == Issued(time, rank, number, event.operation):  # it has no values
            self._operations[rest] = event.operation
        return event


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the complete lines of a file, if it exists; UserError if it cannot be read."""
    try:
        with path.open("rb") as file:
            for line in iter(partial(file.readline, MAX_LINE), b""):
                if line.endswith(b"\n") or len(line) == MAX_LINE:
                    yield line.removesuffix(b"\n")
    except FileNotFoundError:
        return
    except OSError as wrong:
        raise UserError(f"{path} cannot be read: {wrong.strerror}.") from None
