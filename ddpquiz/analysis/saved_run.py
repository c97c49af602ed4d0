"""A saved run: its events in a file, one JSON object a line, to be replayed without torch."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TextIO

from ddpquiz.analysis.event_codec import check_ranks, decode, encode
from ddpquiz.analysis.events import VERSION, Began, End, Event, when
from ddpquiz.atomic_file import replacing
from ddpquiz.errors import UserError

MAX_LINE = 1 << 26  # bytes
HOW = "`ddpquiz demo NAME --save FILE` writes one."


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
    """Return the events of a saved run in the order in which they happened.

    A saved run is foreign data: UserError names the line of the first value that an event cannot have.
    """
    try:
        with path.open("rb") as file:
            events = list(_decoded(file, path))
    except FileNotFoundError:
        raise UserError(f"There is no saved run {path}; {HOW}") from None
    except (OSError, ValueError):  # the latter for a path that holds a NUL
        raise UserError(f"{path} cannot be read as a saved run; {HOW}") from None
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
            raise UserError(f"{path} holds events of version {began.version}; ddpquiz reads only version {VERSION}.")
        over = isinstance(event, End)
        yield event


def _checked(event: Event, began: Began | None, *, over: bool) -> Began:
    """Return how the run began; ValueError if an event does not fit there, or not at this place of the file."""
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
