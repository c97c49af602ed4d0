"""Puts the lines that a rank prints in order with its events.

Lines and events come through different pipes. After each write to a stream the rank reports the write on the event
pipe, so a line is held back until its write was reported: whatever the rank does next is reported after that. Programs
that the script starts write without a report; their lines are recognised by a later report, or after a while.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ddpquiz.analysis.event_codec import LineBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 0.1  # seconds after which a line counts as unreported


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
