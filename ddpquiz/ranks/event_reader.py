"""Turns what is read from the pipes of ranks into events, those of each rank in their order.

Lines and events come through different pipes. After each write to a stream the rank reports the write on the event
pipe, so a line is held back until its write was reported: whatever the rank does next is reported after that. Programs
that the script starts write without a report; their lines are recognized by a later report, or after a while.
"""

import math
import re
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from ddpquiz.events.event import Event, Note, Output, Started, when
from ddpquiz.events.printed_values import label_and_value
from ddpquiz.ranks.messages import PipeData, StreamWrite, decode_line

# Lines of torch itself that say nothing of the script: a warning in each rank, since a rank joins without name lookups
# (store.py), and what Gloo of torch 2.9 prints on standard output whenever a group forms
_FROM_TORCH = re.compile(
    rb"\[W.*\[c10d\] The hostname of the client socket cannot be retrieved. err=-?\d+"
    rb"|\[Gloo\] Rank \d+ is connected to \d+ peer ranks\. Expected number of connected peer ranks is : \d+"
)
_PATIENCE = 0.5  # seconds after which a line counts as unreported


class EventReader:
    """Reads the outputs and the event pipes of all ranks of a run, which print in `encoding`."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding
        self._buffers: defaultdict[int, LineBuffer] = defaultdict(LineBuffer)
        self._streams: defaultdict[tuple[int, str], OutputOrder] = defaultdict(OutputOrder)
        self._notes: set[str] = set()

    def read(self, piece: PipeData, now: float) -> list[Event]:
        """The events that a piece of stdout, stderr or the event pipe completes."""
        if piece.pipe == "events":
            lines = self._buffers[piece.rank].feed(piece.data)
            return [event for line in lines for event in self._of_line(piece.rank, line, now)]
        self._streams[piece.rank, piece.pipe].add_data(piece.data, now)
        return self._outputs(piece.rank)

    def rest(self, rank: int) -> list[Event]:
        """All lines that are left of a rank that has ended."""
        return self._outputs(rank, math.inf)

    def overdue(self, now: float) -> list[Event]:
        """The lines that no rank has reported for a while."""
        ranks = {rank for rank, _ in self._streams}
        return [line for rank in ranks for line in self._outputs(rank, now - _PATIENCE)]

    def _of_line(self, rank: int, line: bytes, now: float) -> Iterator[Event]:
        match decode_line(line):
            case None:
                return
            case StreamWrite(stream, time, count):
                self._streams[rank, stream].add_report(time, count)
                yield from self._outputs(rank)
            case event if getattr(event, "rank", rank) == rank:
                if isinstance(event, Started) and event.restart:  # no more comes from the process before it
                    for name in ("stdout", "stderr"):
                        self._streams[rank, name].add_data(b"", now)  # the last line may have no newline
                    yield from self.rest(rank)
                yield from self._outputs(rank, when(event))
                if isinstance(event, Note):
                    if event.text in self._notes:  # another rank has sent the same
                        return
                    self._notes.add(event.text)
                yield event

    def _outputs(self, rank: int, before: float = 0.0) -> list[Event]:
        """The lines of a rank that were reported, and the others that were read before a time."""
        outputs = list[Event]()
        for name in ("stdout", "stderr"):
            for line, time in self._streams[rank, name].lines(before):
                # A terminal shows only the end of a line that is written again and again, such as a progress bar
                text = line.decode(self._encoding, "replace").rstrip("\r").rpartition("\r")[2]
                label = label_and_value(text) if name == "stdout" else None
                outputs.append(Output(time, rank, name, text, *(label or ())))
        return outputs


class OutputOrder:
    """One output stream of a rank: the lines that were read, and the writes that were reported."""

    def __init__(self) -> None:
        self._buffer = LineBuffer()
        self._held: deque[tuple[int, int, bytes, float]] = deque()  # end of a line in the stream, its size, it, read at
        self._writes: deque[tuple[int, float]] = deque()  # end of a write among the reported bytes, its time
        self._read = self._reported = self._unreported = 0  # bytes
        self._released: list[tuple[int, float]] = []  # size and time of unreported lines since the last report

    def add_report(self, time: float, count: int) -> None:
        """Add a report: a write of `count` bytes that began at `time`."""
        self._reported += count
        self._writes.append((self._reported, time))
        early = sum(size for size, read_at in self._released if read_at > time)  # part of this write, a slow one
        self._unreported -= min(early, count)
        self._released.clear()

    def add_data(self, data: bytes, now: float) -> None:
        """Add bytes that were read; no bytes complete the last line."""
        for line in self._buffer.feed(data):
            if _FROM_TORCH.fullmatch(line):  # which C++ wrote, so that no report counts these bytes
                continue
            size = len(line) + bool(data)  # with its newline
            self._read += size
            self._held.append((self._read, size, line, now))

    def lines(self, before: float) -> Iterator[tuple[bytes, float]]:
        """Yield, with its time, each line that was reported, and each other line that was read before `before`."""
        while self._held:
            end, size, line, read_at = self._held[0]
            end -= self._unreported
            if end <= self._reported:
                while self._writes[0][0] < end:
                    self._writes.popleft()
                time = self._writes[0][1]
            elif read_at < before:
                time = read_at
                self._unreported += size
                self._released.append((size, read_at))
            else:
                return
            self._held.popleft()
            yield line, time


@dataclass
class LineBuffer:
    """Cuts the bytes of a pipe into whole lines."""

    _rest: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes; empty data completes the last one."""
        if not data:
            last, self._rest = bytes(self._rest), bytearray()
            return [last] if last else []
        self._rest += data
        if b"\n" not in data:
            return []
        *whole, self._rest = self._rest.split(b"\n")
        return list(map(bytes, whole))
