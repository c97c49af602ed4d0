"""A saved run: its events in a file, to be replayed without torch; of a long run, the last ones are kept.

`RecentEvents` holds what a run of any length needs for that: its first event and the last ones.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TextIO

from ddpquiz.atomic_file import open_at_once, replacing
from ddpquiz.errors import UserError
from ddpquiz.events.collective import Call, Collective, Matching
from ddpquiz.events.event import (
    VERSION,
    Began,
    End,
    Ended,
    Event,
    Issued,
    Joining,
    OperationEvent,
    Started,
    check_ranks,
    decode,
    encode,
    when,
)

MAX_LINE = 1 << 26  # bytes
_HOW = "`ddpquiz demo NAME --save FILE` writes one."
_RECENT = 20_000  # events that can be stepped back through


def save(events: Iterable[Event], path: Path) -> None:
    """Write a run to a file, whole or not at all; UserError if the file cannot be written."""
    write(path, lambda file: file.writelines(f"{encode(event)}\n" for event in events))


def write(path: Path, fill: Callable[[TextIO], object]) -> None:
    """Let `fill` write a file, and put it into place whole or not at all; UserError if it cannot be written."""
    try:
        with replacing(path) as fresh, fresh.open("w", encoding="utf-8") as file:
            fill(file)
    except OSError as wrong:
        raise UserError(f"{path} cannot be written ({wrong.strerror}); the run was not saved.") from None


def read(path: Path) -> tuple[Event, ...]:
    """The events of a saved run in the order in which they happened.

    A saved run is foreign data: UserError names the line of the first value that an event cannot have.
    """
    try:
        with open_at_once(path) as file:
            events = list(_decoded(file, path))
    except FileNotFoundError:
        raise UserError(f"There is no saved run {path}; {_HOW}") from None
    except (OSError, ValueError):  # the latter for a path that holds a NUL
        raise UserError(f"{path} cannot be read as a saved run; {_HOW}") from None
    if not events or not isinstance(events[-1], End):
        raise UserError(
            f"{path} is incomplete: a saved run begins with a `run` event and finishes with an `end` event."
        )
    first, *between, last = events
    return (first, *sorted(between, key=when), last)


def _decoded(file: IO[bytes], path: Path) -> Iterator[Event]:
    """Yield the events of a file; UserError names the first line that does not fit."""
    began: Began | None = None
    over = False
    for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), 1):
        try:
            event = decode(line)
            began = _checked(event, began, over=over)
        except ValueError as wrong:
            raise UserError(f"{path}:{number}: invalid event: {wrong}.") from None
        if began.version != VERSION:
            raise UserError(f"{path} holds events of version {began.version}; ddpquiz reads versions up to {VERSION}.")
        over = isinstance(event, End)
        yield event


def _checked(event: Event, began: Began | None, *, over: bool) -> Began:
    """How the run began; ValueError if an event does not fit there, or not at this place of the file."""
    if isinstance(event, Began):
        if began is not None:
            raise ValueError("it is a second `run` event")
        began = event
    if began is None:
        raise ValueError("the first event must be a `run` event")
    if over:
        raise ValueError("it stands after the `end` event")
    check_ranks(event, began)
    return began


class RecentEvents:
    """The first event of a run and the last ones, in bounded memory."""

    def __init__(self, limit: int = _RECENT) -> None:
        self.events: list[Event] = []
        self._limit = limit

    def add(self, event: Event) -> None:
        self.events.append(event)
        if len(self.events) > 2 * self._limit:
            self._cut()

    def _cut(self) -> None:
        """Drop the older events, and calls whose partners are among them.

        Otherwise the k-th call of a rank would be matched with an earlier or later call of another rank.
        """
        cut, dropped = len(self.events) - self._limit, set[tuple[int, int]]()
        left = self.events[:1]
        partners = self._partners()
        for number, event in enumerate(self.events):
            if isinstance(event, Issued):  # a restarted rank may use the number of an old call again
                change = dropped.add if min(partners[number]) < cut else dropped.discard
                change((event.rank, event.number))
            if number >= cut and not (isinstance(event, OperationEvent) and (event.rank, event.number) in dropped):
                left.append(event)
        self.events[:] = left

    def _partners(self) -> dict[int, list[int]]:
        """For each call, by its place among the events, the places of all calls of the same operation."""
        matching, places = Matching(), dict[Call, int]()
        calls: dict[tuple[int, int], tuple[Collective, Call]] = {}
        collectives: list[tuple[int, Collective]] = []  # of each call
        for number, event in enumerate(self.events):
            match event:
                case Joining(rank=rank, done=False):
                    matching.join(rank)
                case Started(rank=rank, restart=restart) if restart:
                    matching.join(rank)
                case Issued(rank=rank):
                    call = Call(event.operation, event.number, event.time)
                    collective, _ = matching.place(rank, call)
                    calls[rank, event.number], places[call] = (collective, call), number
                    collectives.append((number, collective))
                case Ended(rank=rank, source=int(source)) if (rank, event.number) in calls:
                    collective, call = calls[rank, event.number]
                    matching.resolve(collective, rank, call, source)
        return {number: [places[call] for call in collective.calls.values()] for number, collective in collectives}
