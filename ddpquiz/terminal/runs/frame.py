"""A run on the screen: what each rank holds, the claims, the ranks over time, and what went wrong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.analysis.events import Began, Claimed, End, Hung, Nodes, Note, Output, Started
from ddpquiz.ranks.machines.jobs import JobFile
from ddpquiz.terminal.kit.grid import TextLines, folded
from ddpquiz.terminal.kit.layout import shown_path
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.runs.claims import claims, counted_claims, folded_claims
from ddpquiz.terminal.runs.current_operation import running
from ddpquiz.terminal.runs.failure import ending, failure, matters
from ddpquiz.terminal.runs.gantt import AROUND, gantt
from ddpquiz.terminal.runs.values import charts, tables, to_plot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console, ConsoleDimensions, RenderableType

    from ddpquiz.analysis.events import Event
    from ddpquiz.analysis.run_state import RunState

TAIL = range(1, 13)  # lines without a label that a live frame shows: at least, and fewer than
FEWEST_ROWS = 4  # labels that a live frame shows, however low the screen is
_MARKS = {"✓": "good", "✗": "bad"}  # at the start of a prediction
FRESH = 0.5  # seconds for which a live frame marks what a rank said


def frame(
    state: RunState, width: int, *, tensors: bool = False, look: str = "", verdict: bool = True
) -> RenderableType:
    """Return the picture of a whole run.

    With `tensors` it shows what each rank brought to its last operation, and what that left there. `look` says what to
    look at, and on a second line what was predicted. Without `verdict`, what the run came to is left out, for a screen
    that shows that elsewhere.
    """
    parts = _top(state, look)
    parts += _values(state, width, live=False, tensors=tensors, since=math.inf)
    parts += [_line(line) for line in state.lines if matters(line, state)]
    if any(span.kind != "compute" for rank in state.timeline.ranks for span in state.timeline.spans(rank, state.time)):
        parts += [Text(), gantt(state, width, state.time, live=False)]
    parts += _proven(state, width)
    if state.end:
        parts += [Text(), *failure(state), *([summary(state)] if verdict else [])]
    return Group(*parts)


def on_screen(
    state: RunState,
    size: ConsoleDimensions,
    now: float,
    *,
    tensors: bool = False,
    look: str = "",
    since: float | None = None,
    until: float | None = None,
) -> tuple[RenderableType, list[RenderableType]]:
    """Return the picture of a run that goes on, for a screen of this size, and what stays at its bottom.

    What a rank said after `since` is marked; `until` is the end of a run that is known already.
    """
    lanes = gantt(state, size.width, now, live=True, until=until)
    stays = 2 * (len(state.here) + AROUND) <= size.height
    now_running = [running(state, now, size.width)] if state.began else []
    below: list[RenderableType] = [*([lanes] if stays else []), *now_running]
    top, proven = _top(state, look), _proven(state, size.width)
    room = size.height - 1 - TAIL.start * bool(state.lines) - _height([*below, *top], size.width)  # one for the keys
    since = now - FRESH if since is None else since
    values, fit = _values_in(room - _height(proven, size.width), state, size.width, tensors=tensors, since=since)
    if proven and not fit:
        proven = [Text(), counted_claims(state)]
        values, _ = _values_in(room - len(proven), state, size.width, tensors=tensors, since=since)
    room += TAIL.start * bool(state.lines) - _height(proven, size.width)
    left = min(max(room - _height(values, size.width), TAIL.start), TAIL.stop - 1)
    lines = [_line(line) for line in state.lines[-left:]]
    body: list[RenderableType] = [*top, *values, *proven, *lines]
    return Group(*body) if stays else Group(*body, Text(), lanes), below


def _top(state: RunState, look: str) -> list[RenderableType]:
    parts: list[RenderableType] = [header(state)]
    hint, _, prediction = look.partition("\n")
    parts += [Text.assemble(("look at  ", "quiet"), prose(hint))] if hint else []
    parts += [prose(prediction, _MARKS.get(prediction[0], ""))] if prediction else []
    parts += elastic(state)
    return [*parts, *(Text(plain(note), style="warn") for note in state.notes)]


def header(state: RunState) -> Text:
    """Say what this is, what runs on what, and why there."""
    if state.began is None:
        return Text("Loading torch ...", style="accent")
    title = plain(state.began.title) + "\n" if state.began.title else ""
    return Text.assemble((title, "head"), (state.began.reason, "accent"))


def elastic(state: RunState) -> list[Text]:
    """Say how many nodes have come, and how often torchrun's agent has started the ranks again."""
    parts = []
    if state.nodes:
        missing = state.nodes.joined < state.nodes.needed
        parts.append(Text(_nodes(state.nodes), style="warn" if missing else "quiet"))
    if state.restart:
        processes = " ".join(str(pid) for _, pid in sorted(state.pids.items()))
        of = f" of {state.began.restarts}" if state.began else ""
        parts.append(
            Text(
                f"restart {state.restart}{of} · now processes {processes}",
                style="warn",
                no_wrap=True,
                overflow="ellipsis",
            )
        )
    return parts


def _nodes(nodes: Nodes) -> str:
    waiting = "; waiting for the others" if nodes.joined < nodes.needed else ""
    return f"{nodes.joined} of {nodes.needed} nodes joined{waiting}"


def torchrun(began: Began) -> str:
    """Return the command line that runs the same without us."""
    here = len(began.here) or began.ranks
    job = JobFile(
        Path(shown_path(began.script)),
        began.args,
        here,
        began.ranks // here,
        restarts=began.restarts,
        module=began.module,
    )
    return job.command('"$HEAD:29400"' if job.nodes > 1 else "")


def _values(
    state: RunState, width: int, *, live: bool, tensors: bool, since: float, rows: int | None = None, plot: bool = True
) -> list[RenderableType]:
    if not (state.rows or live):
        return []
    plotted = to_plot(state, width) if plot else {}
    drawn = tables(state, width, live=live, tensors=tensors, since=since, rows=rows, plotted=plotted)
    if plotted:
        drawn.append(charts(state, plotted, width))
    return [part for table in drawn for part in (Text(), table)]


def _values_in(
    room: int, state: RunState, width: int, *, tensors: bool, since: float
) -> tuple[list[RenderableType], bool]:
    """Draw values so that they fit: without charts, and without the oldest labels, where there is little room.

    Say also whether all labels are shown.
    """

    def drawn(rows: int | None = None, *, plot: bool = False) -> tuple[list[RenderableType], int]:
        shown = _values(state, width, live=True, tensors=tensors, since=since, rows=rows, plot=plot)
        return shown, _height(shown, width)

    for plot in (True, False):
        shown, lines = drawn(plot=plot)
        if lines <= room:
            return shown, True
    count, heads = len(state.rows), drawn(0)[1]
    rows = min(count, max(FEWEST_ROWS, count * (room - heads - 1) // max(1, lines - heads)))  # if all were as high
    while rows < count and drawn(rows + 1)[1] < room:
        rows += 1
    while rows > FEWEST_ROWS and drawn(rows)[1] >= room:
        rows -= 1
    if rows >= count:
        return shown, False
    hidden = Text(f"{count - rows} older label{'s' * (count - rows != 1)} not shown now", style="quiet")
    return [*drawn(rows)[0], hidden], False


def _proven(state: RunState, width: int) -> list[RenderableType]:
    verdicts = folded_claims(state, width)
    return [Text(), verdicts] if verdicts.lines else []


def _height(parts: Iterable[RenderableType], width: int) -> int:
    """Return how many lines parts take."""
    return sum(len(part) if isinstance(part, TextLines) else _lines(part, width) for part in parts)


def _lines(part: RenderableType, width: int) -> int:
    return 1 if isinstance(part, Text) and part.no_wrap else len(folded(str(part), width))


def _line(line: Output) -> Text:
    return Text.assemble((f"rank {line.rank}  ", "quiet"), plain(line.text))


def summary(state: RunState) -> Text:
    """Return the last line of a run."""
    end = state.end
    if end is None:
        return Text()
    claims = f" · {end.proven} of {end.claims} claims proven" if end.claims else ""
    if end.ok and end.proven < end.claims:
        others = end.claims - end.proven
        claims = f" · {end.proven} claim{'s' * (end.proven != 1)} proven; {others} {'is' if others == 1 else 'are'}"
        claims += " about other arguments"
    seconds = f"{end.time:.2f} s"
    if end.ok:
        return Text.assemble(("done", "good"), f" in {seconds}{claims}")
    return Text.assemble(ending(state), f"\nended after {seconds}{claims}")


def say(event: Event, state: RunState, console: Console, complaints: Console) -> None:
    """Print an event as plain lines, for a pipe or a dumb terminal; what ranks wrote to standard error goes there."""
    match event:
        case Began():
            console.print(header(state), soft_wrap=True)
        case Output(stream=stream):
            to = complaints if stream == "stderr" else console
            to.print(Text(f"rank {event.rank}  {plain(event.text)}"), soft_wrap=True)
        case Note():
            console.print(Text(plain(event.text)), soft_wrap=True)
        case Nodes():
            console.print(Text(_nodes(event)), soft_wrap=True)
        case Started(restart=restart) if restart:
            again = f"rank {event.rank}  starts again as process {event.pid} · restart {restart}"
            console.print(Text(again), soft_wrap=True)
        case Claimed(held=False):
            console.print(Text(f"rank {event.rank}  breaks the claim in line {event.line}"), soft_wrap=True)
        case Hung() | End():
            if isinstance(event, Hung):
                return
            for line in claims(state):
                console.print(Text.assemble(*line), soft_wrap=True)
            for part in failure(state):
                console.print(part, soft_wrap=True)
            console.print(summary(state), soft_wrap=True)
