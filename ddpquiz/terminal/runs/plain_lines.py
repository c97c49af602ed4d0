"""A run as lines that come one after the other: text for a pipe or a dumb terminal, or events as JSON."""

import contextlib
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from ddpquiz.events.event import Began, Claimed, End, Event, Note, Output, Started, encode
from ddpquiz.events.run_frame import describe_frame
from ddpquiz.events.run_state import RunState
from ddpquiz.ranks.run import Run
from ddpquiz.terminal.kit.layout import shown_path
from ddpquiz.terminal.kit.style import complaints, plain
from ddpquiz.terminal.runs.frame import INTERRUPTED, TERMINATED, claims, failure, header, remarks, result

_PATIENCE = 0.1  # seconds to wait for more events


def print_run(run: Run, console: Console, *, summary: bool = False) -> RunState:
    """Print a run as it goes on; what ranks write to standard error goes there. A `summary` will follow, or not."""
    with stopped_by(run, signal.SIGINT, INTERRUPTED), stopped_by(run, signal.SIGTERM, TERMINATED):
        while not run.over:
            print_events(run.read(_PATIENCE), run.seen, console, complaints(), summary=summary)
    return run.seen


def print_saved(events: Sequence[Event], console: Console) -> RunState:
    """Print a saved run."""
    state = RunState.after(events)
    print_events(events, state, console, complaints())
    return state


def print_json(run: Run) -> RunState:
    """Print every event of a run as a line of JSON."""
    with stopped_by(run, signal.SIGINT, INTERRUPTED), stopped_by(run, signal.SIGTERM, TERMINATED):
        while not run.over:
            if events := run.read(_PATIENCE):
                sys.stdout.write("".join(f"{encode(event)}\n" for event in events))
                sys.stdout.flush()
    return run.seen


def print_events(
    events: Iterable[Event], state: RunState, console: Console, errors: Console, *, summary: bool = False
) -> None:
    """Print events, those that go to the same stream in one write: a script may print a million lines."""
    texts: list[str] = []
    to = console
    for event in events:
        stream = errors if isinstance(event, Output) and event.stream == "stderr" else console
        if stream is not to:
            _write(to, texts)
            to = stream
        if isinstance(event, Output):
            texts.append(f"rank {event.rank}  {plain(event.text)}\n")
        elif parts := _parts(event, state, summary=summary):
            _write(to, texts)
            for part in parts:
                to.print(part, soft_wrap=True)
    _write(to, texts)


def _write(console: Console, texts: list[str]) -> None:
    if texts:
        console.file.write("".join(texts))
        console.file.flush()
        texts.clear()


def _parts(event: Event, state: RunState, *, summary: bool) -> Sequence[RenderableType]:
    match event:
        case Began():
            return header(event)
        case Note():
            return [Text(plain(event.text))]
        case Started(restart=restart) if restart:
            return [Text(f"rank {event.rank}  starts again as process {event.pid} · restart {restart}")]
        case Claimed(held=False):
            return [Text(f"rank {event.rank}  breaks the claim in line {event.line}")]
        case End():
            shown = describe_frame(state, shown_path, lanes=False)
            lines = [Text.assemble(verdict, text) for verdict, text in claims(shown)]
            return [*lines, *failure(shown), result(shown), *remarks(state, keys=False, summary=summary)]
    return []


@contextlib.contextmanager
def stopped_by(run: Run, number: signal.Signals, why: str) -> Iterator[None]:
    """Let a signal end the run and not the report, so that what happened is still printed and saved."""
    before = signal.signal(number, lambda *_: run.stop(why))
    try:
        yield
    finally:
        signal.signal(number, before)
