"""`--save FILE`: save a run in the format that the end of the file name selects."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

import typer

from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ddpquiz.analysis.events import Event
    from ddpquiz.analysis.run_state import RunState

FORMATS = (".trace.json", ".json", ".svg", ".html")
PICTURES = (".svg", ".html")


def format_of(path: Path) -> str:
    """Return the format of a file by the end of its name; BadParameter if that is not a known one."""
    found = next((end for end in FORMATS if path.name.endswith(end)), None)
    if found is None:
        raise typer.BadParameter(
            f"{path.name} must end with .json (events), .trace.json (for Perfetto), .svg or .html (pictures).",
            param_hint="--save",
        )
    return found


class Saving:
    """Writes the events of a run to disk as they arrive, because a long run has many, and makes the file at its end."""

    def __init__(self, path: Path) -> None:
        self._path, self._format = path, format_of(path)
        self._events: IO[str] | None = None

    def begin(self) -> None:
        """Begin to save a run, and discard the events of an earlier one; UserError if the folder does not exist."""
        if not self._path.absolute().parent.is_dir():
            raise UserError(f"The folder {self._path.parent} does not exist, so the run cannot be saved in it.")
        self._close()
        if self._format not in PICTURES:
            self._events = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  # closed when the run is over

    def add(self, event: Event) -> None:
        """Write one event to disk."""
        from ddpquiz.analysis.event_codec import encode

        if self._events is not None:
            self._events.write(encode(event) + "\n")

    def finish(self, state: RunState) -> None:
        """Make the file when the run is over."""
        from ddpquiz.analysis import saved_run
        from ddpquiz.analysis.event_codec import decode

        events = self._events
        if events is None:
            save((), state, self._path)
            return
        events.seek(0)
        if self._format == ".json":
            saved_run.write(self._path, lambda file: shutil.copyfileobj(events, file))
        else:
            save(map(decode, events), state, self._path)
        self._close()

    def _close(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None


def save(events: Iterable[Event], state: RunState, path: Path) -> None:
    """Write a run that is over to a file; a picture needs only its last `state`."""
    from ddpquiz.analysis import saved_run, trace
    from ddpquiz.terminal.runs import picture

    match format_of(path):
        case ".trace.json":
            saved_run.write(path, lambda file: trace.write(events, file))
        case ".svg":
            saved_run.write(path, lambda file: file.write(picture.svg(state)))
        case ".html":
            saved_run.write(path, lambda file: file.write(picture.html(state)))
        case _:
            saved_run.save(events, path)
