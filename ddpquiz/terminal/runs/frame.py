"""How a run ended: its last line, its claims with their verdicts, and what went wrong with the ranks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len
from rich.console import ConsoleDimensions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ddpquiz.events import run_frame
from ddpquiz.events.event import Began, Output
from ddpquiz.events.run_frame import Failure, describe_current, describe_lanes, matters, restarts
from ddpquiz.events.run_state import RunState
from ddpquiz.events.run_summary import advice, find_costliest_line
from ddpquiz.ranks.job_files import JobFile
from ddpquiz.terminal.kit.grid import GAP, Piece, TextLines, folded
from ddpquiz.terminal.kit.layout import shown_path
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.runs.gantt import AROUND, gantt
from ddpquiz.terminal.runs.values import ValueView, charts, tables, to_plot

# How a run ended: its last line, its claims with their verdicts, and what went wrong with the ranks.

INTERRUPTED = "You stopped the run."
TERMINATED = "SIGTERM ended the run."  # from a scheduler, which expects that the report and the file are written


def result(state: RunState) -> Text:
    """Draw the last line of a run: whether it ended well, after how long, and with how many claims proven."""
    return Text.assemble(*((plain(text), tone) for text, tone in run_frame.result(state)))


def remarks(state: RunState, *, keys: bool = True) -> list[Text]:
    """Draw which line of the user's own script made the other ranks wait the longest, and whether there is advice.

    Without `keys`, as in a pipe, no key is named.
    """
    if not (state.only_broken_claims and state.end and state.end.ok):
        return []
    found = find_costliest_line(state.timeline, state.time)
    sentences = [str(found)] if found else []
    if count := len(advice(state.timeline, state.time, state.script)):
        sentences.append(f"There is advice on this run ({count}): {'press s, or ' * keys}run it with --summary.")
    return [Text(plain(each), style="warn") for each in sentences]


def failure(state: RunState) -> list[RenderableType]:
    """Draw what went wrong: the traceback of the rank that failed first, or which rank waits where."""
    found = run_frame.describe_failure(state, shown_path)
    if found is None:
        return []
    if found.hung_ranks:
        return _hang(found)
    if found.traceback:
        return [Text(f"rank {found.rank}", style="bad"), Text(plain(found.traceback))]
    return [Text.assemble((f"rank {rank}  ", "bad"), plain(path)) for rank, path in found.paths]


def _hang(found: Failure) -> list[RenderableType]:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("", "waits in", "stands at"):
        table.add_column(column)
    for each in found.hung_ranks:
        table.add_row(f"rank {each.rank}", Text(*each.waits_in), each.place)
    parts: list[RenderableType] = [table, Text()]
    if found.paths:
        parts += [Text(f"rank {rank}  {plain(path)}", style="quiet") for rank, path in found.paths]
        parts.append(Text())
    return parts


def claims(state: RunState) -> list[tuple[Piece, Piece]]:
    """Return verdicts and claims, lined up."""
    rows = run_frame.describe_claims(state)
    width = max((cell_len(verdict) for (verdict, _), _ in rows), default=0) + GAP
    return [((verdict.ljust(width), tone), (plain(text), of)) for (verdict, tone), (text, of) in rows]


def folded_claims(state: RunState, width: int) -> TextLines:
    """Draw verdicts and claims, with a count of the claims that may still come."""
    lines: list[list[Piece]] = []
    for verdict, (text, style) in claims(state):
        indent = cell_len(verdict[0])
        for number, part in enumerate(folded(text, width - indent)):
            lines.append([(" " * indent, "") if number else verdict, (part, style)])
    if left := run_frame.claims_to_come(state):
        lines.append([(left, "quiet")])
    return TextLines(lines)


def counted_claims(state: RunState) -> Text:
    """Draw in a line how many claims were proven and broken so far."""
    verdicts: list[str] = [verdict for _, verdict, _ in run_frame.shown_verdicts(state)]
    if set(verdicts) == {"not reached"} and not state.end:
        return Text(run_frame.to_come(len(verdicts)), style="quiet")
    line = Text(f"{verdicts.count('proven')} of {len(verdicts)} claims proven so far", style="quiet")
    broken = verdicts.count("broken")
    return line.append(f" · {broken} broken", style="bad") if broken else line


# The operation that is under way, drawn in a line.


def running(state: RunState, now: float, width: int, *, newest: bool = False) -> Text:
    """Draw what runs at `now`, or what ran last, in `width` columns; parts that do not fit are left out, not cut.

    For `newest` see `describe_current`.
    """
    described = describe_current(state, now, newest=newest)
    line = Text.assemble(*described.pieces, no_wrap=True, overflow="ellipsis")
    for part in described.more:
        if line.cell_len + cell_len(part) + 3 <= width:
            line.append(f" · {part}", style="quiet")
    return line


# The picture of a run: what it is, what each rank holds, the claims, the ranks over time, and what went wrong.

TAIL = range(1, 13)  # lines without a label that a live frame shows: at least, and fewer than
FEWEST_ROWS = 4  # labels that a live frame shows when it hides others
STEPPING = 4  # more lines that a screen needs for lanes at its bottom while a run is stepped through
FRESH = 0.5  # seconds for which a live frame marks a new value
_MARKS = {"✓": "good", "✗": "bad"}  # at the start of a verdict


def frame(
    state: RunState, width: int, *, tensors: bool = False, hint: Hint | None = None, verdict: bool = True
) -> Group:
    """Return the picture of a whole run.

    With `tensors` it shows what each rank brought to its last operation, and what that left there. Without
    `verdict` the last line is left out, for a screen that shows it elsewhere.
    """
    parts = top(state, hint)
    parts += _values(state, ValueView(width=width, tensors=tensors))
    parts += [_line(line) for line in state.lines if matters(line, state)]
    lanes = describe_lanes(state, state.time)
    if lanes and lanes.communicate:
        parts += [Text(), gantt(state, width, state.time, live=False)]
    parts += _claims(state, width)
    if state.end:
        parts += [Text(), *failure(state), *([result(state)] if verdict else [])]
    return Group(*parts)


@dataclass(frozen=True, slots=True)
class Moment:
    """When a run that goes on is drawn.

    Values that came after `since` are marked: those of the last `FRESH` seconds if it is None. `until` is the end of a
    run that is known already.
    """

    now: float
    since: float | None = None
    until: float | None = None


def on_screen(
    state: RunState, size: ConsoleDimensions, moment: Moment, *, tensors: bool = False, hint: Hint | None = None
) -> tuple[RenderableType, list[RenderableType]]:
    """Return the picture of a run that goes on, for a screen of this size, and what stays at its bottom.

    Where a run with `tensors`, which is stepped through, does not fit, its head is brief.
    """
    width, now = size.width, moment.now
    lanes = gantt(state, width, now, live=True, until=moment.until)
    stays = 2 * (len(state.all_ranks) + AROUND) + STEPPING * tensors <= size.height
    operation = [running(state, now, width, newest=tensors)] if state.began else []
    below: list[RenderableType] = [*([lanes] if stays else []), *operation]
    room = size.height - 1 - _height(below, width)  # one line for the keys
    since = now - FRESH if moment.since is None else moment.since
    view = ValueView(width=width, live=True, tensors=tensors, since=since)
    body, fits = _body(state, top(state, hint), room, view)
    if tensors and not fits:
        body, _ = _body(state, brief_top(state, hint), room, view)
    return Group(*body) if stays else Group(*body, Text(), lanes), below


def _body(
    state: RunState, above: list[RenderableType], room: int, view: ValueView
) -> tuple[list[RenderableType], bool]:
    """Draw what stands above the ranks over time, in `room` lines; return also whether all labels fit."""
    width, claims = view.width, _claims(state, view.width)
    lines = [line for line in state.lines[-2 * TAIL.stop :] if matters(line, state)]
    room -= _height(above, width)
    tail = TAIL.start * bool(lines)
    values, fit = _values_in(room - tail - _height(claims, width), state, view)
    fits = fit
    if claims and not fit:
        claims = [Text(), counted_claims(state)]
        values, fits = _values_in(room - tail - len(claims), state, view)
    left = min(max(room - _height([*claims, *values], width), TAIL.start), TAIL.stop - 1)
    return [*above, *values, *claims, *(_line(line) for line in lines[-left:])], fits


def _values(state: RunState, view: ValueView, *, rows: int | None = None, plot: bool = True) -> list[RenderableType]:
    if not (state.rows or view.live):
        return []
    plotted = to_plot(state, view.width) if plot else {}
    drawn = tables(state, view, rows=rows, plotted=plotted)
    if plotted:
        drawn.append(charts(state, plotted, view.width))
    return [part for table in drawn for part in (Text(), table)]


def _values_in(room: int, state: RunState, view: ValueView) -> tuple[list[RenderableType], bool]:
    """Draw values so that they fit: without charts, and without the oldest labels, where there is little room.

    Return also whether all labels fit. Where even the fewest labels do not, none is hidden and the screen scrolls.
    """

    def drawn(rows: int | None = None, *, plot: bool = False) -> tuple[list[RenderableType], int]:
        shown = _values(state, view, rows=rows, plot=plot)
        return shown, _height(shown, view.width)

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
    some, height = drawn(rows)
    if rows >= count or height >= room:
        return shown, False
    hidden = Text(f"{count - rows} older label{'s' * (count - rows != 1)} not shown now", style="quiet")
    return [*some, hidden], False


def _claims(state: RunState, width: int) -> list[RenderableType]:
    verdicts = folded_claims(state, width)
    return [Text(), verdicts] if verdicts.lines else []


def _height(parts: Iterable[RenderableType], width: int) -> int:
    height = 0
    for part in parts:
        is_line = isinstance(part, Text) and part.no_wrap
        height += len(part) if isinstance(part, TextLines) else 1 if is_line else len(folded(str(part), width))
    return height


def _line(line: Output) -> Text:
    return Text.assemble((f"rank {line.rank}  ", "quiet"), plain(line.text))


@dataclass(frozen=True, slots=True)
class Hint:
    """What to look at in a run, what was predicted, and the verdict on that once the run has ended well.

    `why` is the reason why a prediction was wrong, shown with the verdict; `place` is where a guided path stands.
    """

    look: str
    prediction: str = ""
    verdict: str = ""
    why: str = ""
    place: str = ""


def top(state: RunState, hint: Hint | None) -> list[RenderableType]:
    """Draw the lines above everything else."""
    parts: list[RenderableType] = [header(state)]
    if hint:
        ended = state.end is not None and state.end.ok
        prediction, why = (hint.verdict, hint.why) if ended else (hint.prediction, "")
        if hint.place:
            parts.insert(0, Text(hint.place, style="accent"))
        parts.append(Text.assemble(("look at  ", "quiet"), prose(hint.look)))
        parts += [prose(prediction, _MARKS.get(prediction[0], ""))] if prediction else []
        parts += [prose(why)] if why else []
    return [*parts, *_remarks(state)]


def brief_top(state: RunState, hint: Hint | None) -> list[RenderableType]:
    """Draw the same in as few lines as possible: the title, and what to look at, each cut to one line."""
    place = hint.place if hint else ""
    title = state.began.title if state.began else ""
    line = Text.assemble((place, "accent"), " · " if place and title else "", (plain(title), "head"))
    look = [Text.assemble(("look at  ", "quiet"), prose(hint.look))] if hint else []
    parts = [each for each in (line, *look) if each]
    for each in parts:
        each.no_wrap, each.overflow = True, "ellipsis"
    return [*parts, *_remarks(state)]


def _remarks(state: RunState) -> list[RenderableType]:
    restarted = [Text(restarts(state), style="warn", no_wrap=True, overflow="ellipsis")] if state.restart else []
    return [*restarted, *(Text(plain(note), style="warn") for note in state.notes)]


def header(state: RunState) -> Text:
    """Draw what the run is, what runs on what, and why there."""
    if state.began is None:
        return Text("Loading torch ...", style="accent")
    title = plain(state.began.title) + "\n" if state.began.title else ""
    return Text.assemble((title, "head"), (plain(state.began.reason), "accent"))


def torchrun(began: Began) -> str:
    """Return the command line that runs the same without ddpquiz."""
    script = Path(shown_path(began.script))
    return JobFile(script, began.args, began.ranks, restarts=began.restarts, module=began.module).command()
