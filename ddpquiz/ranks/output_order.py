"""What a rank prints, in order with what else it does: it tells of each write on another pipe, once it has made it.

A line is held back, therefore, until it was told of: what the rank does next is told after that. Who writes and never
tells, such as a program that the script starts, is found out by what the rank tells later, or after a while.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ddpquiz.analysis.event_codec import LineBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 0.1  # seconds in which a write is told of, if it ever is


class OutputOrder:
    """One of the streams of a rank: what has been read of it, and the writes that were told of."""

    def __init__(self) -> None:
        self._lines = LineBuffer()
        self._held: deque[tuple[int, int, bytes, float]] = deque()  # a line, where it ends, its size, when it was read
        self._writes: deque[tuple[int, float]] = deque()  # where in what was told each one ends, and when it was made
        self._read = self._told = self._untold = 0  # bytes; the last are those that nobody told of
        self._let_go: list[tuple[int, float]] = []  # of these, what was let go since the last write

    def tell(self, time: float, count: int) -> None:
        """Take note that `count` bytes were written; that began at a time."""
        self._told += count
        self._writes.append((self._told, time))
        early = sum(size for size, read_at in self._let_go if read_at > time)  # it took long to write them all
        self._untold -= min(early, count)
        self._let_go.clear()

    def take(self, data: bytes, now: float) -> None:
        """Take what came through the pipe; nothing at all completes the last line."""
        for line in self._lines.feed(data):
            size = len(line) + bool(data)  # with what ends it
            self._read += size
            self._held.append((self._read, size, line, now))

    def lines(self, before: float) -> Iterator[tuple[bytes, float]]:
        """Yield each line that was told of, with its time, and any other one that was read before a time."""
        while self._held:
            end, size, line, read_at = self._held[0]
            end -= self._untold
            if end <= self._told:
                while self._writes[0][0] < end:
                    self._writes.popleft()
                time = self._writes[0][1]
            elif read_at < before:
                time = read_at
                self._untold += size
                self._let_go.append((size, read_at))
            else:
                return
            self._held.popleft()
            yield line, time
