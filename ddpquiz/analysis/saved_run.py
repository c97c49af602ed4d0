"""A run that was kept: its events in a file, one JSON object a line, to be played again without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from ddpquiz.analysis.collective import Call, Collective, What
from ddpquiz.analysis.events import (
    VERSION,
    Began,
    End,
    Ended,
    Event,
    Issued,
    Joining,
    Result,
    Started,
    Waited,
    Waiting,
    decode,
    encode,
)
from ddpquiz.analysis.matching import Matching
from ddpquiz.atomic_file import replacing
from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

OF_A_CALL = (Issued, Ended, Waiting, Waited, Result)  # what is told of a single one
RECENT = 20_000  # events of a run that is not saved that are kept, to step back through


def save(events: Iterable[Event], path: Path) -> None:
    """Write a run to a file, whole or not at all; raises UserError when the file cannot be written."""
    write(path, lambda file: file.writelines(f"{encode(event)}\n" for event in events))


def write(path: Path, fill: Callable[[TextIO], object]) -> None:
    """Let `fill` write a file, and put it into place whole or not at all; UserError when it cannot be written."""
    try:
        with replacing(path) as fresh, fresh.open("w", encoding="utf-8") as file:
            fill(file)
    except OSError as wrong:
        raise UserError(f"{path} cannot be written ({wrong.strerror}); the run was not saved.") from None


class Recent:
    """The first event of a run and the last ones, so that a run of any length takes bounded room."""

    def __init__(self, most: int = RECENT) -> None:
        self.events: list[Event] = []
        self._most = most

    def add(self, event: Event) -> None:
        """Keep one more event."""
        self.events.append(event)
        if len(self.events) > 2 * self._most:
            self._cut()

    def _cut(self) -> None:
        """Let go of the older events, and of calls whose partners are among them.

        Else the k-th call of a rank would be taken for the one that another rank called before or after it.
        """
        cut, gone = len(self.events) - self._most, set[tuple[int, int]]()
        kept = self.events[:1]
        met = self._met()
        for number, event in enumerate(self.events):
            if isinstance(event, Issued):  # of ranks that start again it may have the number of an old one
                whose = gone.add if min(met[number]) < cut else gone.discard
                whose((event.rank, event.number))
            if number >= cut and not (isinstance(event, OF_A_CALL) and (event.rank, event.number) in gone):
                kept.append(event)
        self.events[:] = kept

    def _met(self) -> dict[int, list[int]]:
        """Return where each call stands among the events, and where those stand that are the same operation."""
        matching, places = Matching(), dict[Call, int]()
        calls: dict[tuple[int, int], tuple[Collective, Call]] = {}
        found: list[tuple[int, Collective]] = []
        for number, event in enumerate(self.events):
            match event:
                case Began(here=here):
                    matching.here = frozenset(here)
                case Joining(rank=rank, done=False):
                    matching.join(rank)
                case Started(rank=rank, restart=restart) if restart:
                    matching.join(rank)
                case Issued(rank=rank):
                    call = Call(What.of(event), event.number, event.time)
                    collective, _ = matching.place(event, call)
                    calls[rank, event.number], places[call] = (collective, call), number
                    found.append((number, collective))
                case Ended(rank=rank, source=int(source)) if (rank, event.number) in calls:
                    collective, call = calls[rank, event.number]
                    matching.resolve(collective, rank, call, source)
        return {number: [places[call] for call in collective.calls.values()] for number, collective in found}


def read(path: Path) -> tuple[Event, ...]:
    """Return the events of a saved run in the order in which they happened; raises UserError when it is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"There is no saved run {path}; `ddpquiz demo NAME --save FILE` makes one.") from None
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{path} cannot be read as a saved run; `ddpquiz demo NAME --save FILE` makes one.") from None
    lines = text.removesuffix("\n").split("\n") if text else []  # JSON may hold other characters that end a line
    events = [_event(line, path, number) for number, line in enumerate(lines, 1)]
    first, last = (events[0], events[-1]) if events else (None, None)
    if not isinstance(first, Began) or not isinstance(last, End):
        raise UserError(f"{path} is not a whole run: it must begin with a `run` event and finish with an `end` event.")
    if first.version != VERSION:
        raise UserError(f"{path} holds events of version {first.version}, and this ddpquiz knows version {VERSION}.")
    between = sorted((event for event in events[1:-1] if not isinstance(event, Began)), key=lambda event: event.time)
    return (first, *between, last)


def _event(line: str, path: Path, number: int) -> Event:
    try:
        return decode(line)
    except (ValueError, KeyError, TypeError, AttributeError):  # the last when it is a number or a text
        raise UserError(f"{path}:{number}: this line is no event; a saved run holds one event a line.") from None
