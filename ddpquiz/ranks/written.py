"""When a rank wrote what comes through its pipe; it tells that on another one, since the launcher may read late."""

from __future__ import annotations

from collections import deque


class Written:
    """The writes of a rank to one of its streams, and how much of that has been read."""

    def __init__(self) -> None:
        self._writes: deque[tuple[int, float]] = deque()  # where in the stream each one ended, and when it was made
        self._told = self._read = 0

    def tell(self, time: float, count: int) -> None:
        """Take note that `count` bytes were written at a time."""
        self._told += count
        self._writes.append((self._told, time))

    def read(self, count: int) -> float | None:
        """Return when the last of the next `count` bytes was written; None if that was not told."""
        self._read += count
        while self._writes and self._writes[0][0] < self._read:
            self._writes.popleft()
        return self._writes[0][1] if self._writes else None
