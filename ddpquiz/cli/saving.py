"""`--save FILE`: save a run in the format that the end of the file name selects."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import typer

from ddpquiz.cli.output import say
from ddpquiz.errors import UserError
from ddpquiz.events import saved_run, trace
from ddpquiz.events.event import Event, decode, encode
from ddpquiz.events.run_state import RunState
from ddpquiz.events.run_summary import summarize
from ddpquiz.events.saved_run import RecentEvents
from ddpquiz.events.summary_sections import Section, summary_sections
from ddpquiz.safe_text import one_line
from ddpquiz.terminal.kit.layout import shown_path
from ddpquiz.terminal.runs import run_svg
from ddpquiz.terminal.runs.script import script_text

if TYPE_CHECKING:
    from ddpquiz.ranks.run import Run

_FORMATS = (".trace.json", ".json", ".svg", ".html")
PAGE_EVENTS = 100_000  # of a longer run, a page holds about as many of the last events


def format_of(path: Path) -> str:
    """The format of a file by the end of its name; BadParameter if that is not a known one."""
    found = next((end for end in _FORMATS if path.name.endswith(end)), None)
    if found is None:
        raise typer.BadParameter(
            f"{path.name} must end with .html (page), .json (events), .trace.json (for Perfetto) or .svg (picture).",
            param_hint="--save",
        )
    return found


class Saving:
    """Writes the events of a run to disk as they arrive, because a long run has many, and makes the file at its end.

    `show_run` in `run_display.py` calls `record` when a run begins, and `finish` when it is over.
    """

    def __init__(self, path: Path) -> None:
        """UserError if the folder of the file does not exist."""
        if not path.absolute().parent.is_dir():
            raise UserError(f"The folder {path.parent} does not exist, so the run cannot be saved in it.")
        self._path, self._format = path, format_of(path)
        self._events: IO[str] | None = None

    def record(self, run: Run) -> None:
        """Write the events of a run that has just begun, and discard those of an earlier one."""
        self._close()
        if self._format != ".svg":
            self._events = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  # closed when the run is over
            run.listeners.append(self._add)

    def _add(self, event: Event) -> None:
        if self._events is not None:
            self._events.write(encode(event) + "\n")

    def finish(self, state: RunState) -> None:
        """Make the file when the run is over."""
        events = self._events
        if events is None:
            save((), state, self._path)
            return
        events.seek(0)
        if self._format == ".json":
            saved_run.write(self._path, lambda file: shutil.copyfileobj(events, file))
            _confirm(self._path)
        else:
            save(map(decode, events), state, self._path)
        self._close()

    def _close(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None


def save(events: Iterable[Event], state: RunState, path: Path, report: Sequence[Section] | None = None) -> None:
    """Write a run that is over to a file; a picture needs only its last `state`.

    A page begins with a report: with where the time went if none is given.
    """
    match format_of(path):
        case ".trace.json":
            saved_run.write(path, lambda file: trace.write(events, file))
        case ".svg":
            saved_run.write(path, lambda file: file.write(run_svg.svg(state)))
        case ".html":
            page = page_of(events, state, report)
            saved_run.write(path, lambda file: file.write(page))
        case _:
            saved_run.save(events, path)
    _confirm(path)


def _confirm(path: Path) -> None:
    say(one_line(f"Saved {path}."), err=True)  # what a command prints may be JSON


def page_of(events: Iterable[Event], state: RunState, report: Sequence[Section] | None, back: str = "") -> str:
    """The page of a run; `state` is its last one, `back` the address of a page that lists it."""
    from ddpquiz.web.run_page import PageInput, run_page  # noqa: PLC0415  # not every saved run is a page

    recent, count = RecentEvents(PAGE_EVENTS), 0
    for event in events:
        recent.add(event)
        count += 1
    found = script_text(state.script) if state.script.endswith(".py") else None  # a saved run may name any file
    account = report or summary_sections(summarize(state.timeline, state.time, state.script))
    given = PageInput(
        events=recent.events, report=account, judged=bool(report),
        script=found[1] if found else None, only_broken_claims=state.only_broken_claims,
        is_cut=count > len(recent.events), path=shown_path,
    )  # fmt: skip
    return run_page(given, back)
