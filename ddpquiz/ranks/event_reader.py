"""Turns what is read from the pipes of ranks into events, those of each rank in their order."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from ddpquiz.analysis.event_codec import LineBuffer, labelled
from ddpquiz.analysis.events import Event, Note, Output, Started, when
from ddpquiz.ranks.messages import StreamWrite, decode_line
from ddpquiz.ranks.output_order import PATIENCE, OutputOrder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddpquiz.ranks.messages import PipeData

# torch logs this once in each rank, since a rank joins without name lookups (resolver.py)
NO_HOST_NAME = re.compile(r"\[W.*\[c10d\] The hostname of the client socket cannot be retrieved. err=-?\d+")


class EventReader:
    """Reads the outputs and the event pipes of all ranks of a run."""

    def __init__(self) -> None:
        self._buffers: dict[int, LineBuffer] = {}
        self._streams: dict[tuple[int, str], OutputOrder] = {}
        self._notes: set[str] = set()

    def read(self, piece: PipeData, now: float) -> list[Event]:
        """Return the events that a piece of stdout, stderr or the event pipe completes."""
        if piece.pipe == "events":
            buffer = self._buffers.setdefault(piece.rank, LineBuffer())
            return [event for line in buffer.feed(piece.data) for event in self._of_line(piece.rank, line, now)]
        self._stream(piece.rank, piece.pipe).add_data(piece.data, now)
        return self._outputs(piece.rank)

    def rest(self, rank: int) -> list[Event]:
        """Return all lines that are left of a rank that has ended."""
        return self._outputs(rank, math.inf)

    def overdue(self, now: float) -> list[Event]:
        """Return the lines that no rank has reported for a while."""
        ranks = {rank for rank, _ in self._streams}
        return [line for rank in ranks for line in self._outputs(rank, now - PATIENCE)]

    def _stream(self, rank: int, name: str) -> OutputOrder:
        return self._streams.setdefault((rank, name), OutputOrder())

    def _of_line(self, rank: int, line: bytes, now: float) -> Iterator[Event]:
        match decode_line(line):
            case None:
                return
            case StreamWrite(stream, time, count):
                self._stream(rank, stream).add_report(time, count)
                yield from self._outputs(rank)
            case event if getattr(event, "rank", rank) == rank:
                if isinstance(event, Started) and event.restart:  # no more comes from the process before it
                    yield from self._last_lines(rank, now)
                yield from self._outputs(rank, when(event))
                if not self._is_repeated(event):
                    yield event

    def _outputs(self, rank: int, before: float = 0.0) -> list[Event]:
        """Return the lines of a rank that were reported, and the others that were read before a time."""
        outputs = list[Event]()
        for name in ("stdout", "stderr"):
            stream = self._streams.get((rank, name))
            for line, time in stream.lines(before) if stream else ():
                text = _as_shown(line.decode(errors="replace"))
                label = labelled(text) if name == "stdout" else None
                if not NO_HOST_NAME.fullmatch(text):
                    outputs.append(Output(time, rank, name, text, *(label or ())))
        return outputs

    def _last_lines(self, rank: int, now: float) -> list[Event]:
        """Return the lines that a process of a rank has left, also one without a newline at its end."""
        for name in ("stdout", "stderr"):
            self._stream(rank, name).add_data(b"", now)
        return self.rest(rank)

    def _is_repeated(self, event: Event) -> bool:
        """Return whether another rank has sent the same note."""
        if not isinstance(event, Note):
            return False
        repeated = event.text in self._notes
        self._notes.add(event.text)
        return repeated


def _as_shown(line: str) -> str:
    """Return what a terminal shows in the end of a line that is written again and again, such as a progress bar."""
    return line.rstrip("\r").rpartition("\r")[2]
