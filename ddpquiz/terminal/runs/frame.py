"""The picture of a run: what it is, what each rank holds, the claims, the ranks over time, and what went wrong.

It draws a `RunFrame`, whole (`frame`) or for a screen of some size (`on_screen`), and says nothing that is not in it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len
from rich.console import ConsoleDimensions, Group, RenderableType
from rich.text import Text

from ddpquiz.events.advice import advice
from ddpquiz.events.costliest_line import find_costliest_line
from ddpquiz.events.event import Began, Output
from ddpquiz.events.run_frame import Failure, RunFrame
from ddpquiz.events.run_state import RunState
from ddpquiz.events.silent_faults import parts_apart, silent_faults
from ddpquiz.plural import plural
from ddpquiz.ranks.launch_files import JobFile
from ddpquiz.terminal.kit.grid import GAP, StyledText, TextLines, folded
from ddpquiz.terminal.kit.layout import new_table, shown_path, shown_torchrun
from ddpquiz.terminal.kit.style import labeled, plain, prose
from ddpquiz.terminal.runs.gantt import AROUND, gantt
from ddpquiz.terminal.runs.values import ValueView, charts, tables, to_plot

_TAIL = range(1, 13)  # lines without a label that a live frame shows: at least, and fewer than
_FEWEST_ROWS = 4  # labels that a live frame shows when it hides others
_STEPPING = 4  # more lines that a screen needs for lanes at its bottom while a run is stepped through
_FAULTS = 3  # that are told below a run; the rest is in its summary
INTERRUPTED = "You stopped the run."
TERMINATED = "SIGTERM ended the run."  # from a scheduler, which expects that the report and the file are written
_MARKS = {"✓": "good", "✗": "bad"}  # at the start of a verdict


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


def frame(
    shown: RunFrame, width: int, *, tensors: bool = False, hint: Hint | None = None, verdict: bool = True
) -> Group:
    """Draw a whole run.

    With `tensors` it shows the input and the output of each rank's last operation. Without `verdict` the last line is
    left out, for a screen that shows it elsewhere.
    """
    parts = top(shown, hint)
    parts += _values(shown, ValueView(width=width, tensors=tensors))
    parts += [_line(line) for line in shown.lines]
    parts += _claims(shown, width)
    if shown.lanes and shown.lanes.communicate:
        parts += [Text(), gantt(shown, width, live=False)]
    if shown.ended_well is not None:
        parts += [Text(), *failure(shown), *([result(shown)] if verdict else [])]
    return Group(*parts)


def on_screen(
    shown: RunFrame,
    size: ConsoleDimensions,
    *,
    tensors: bool = False,
    hint: Hint | None = None,
    until: float | None = None,
) -> tuple[RenderableType, list[RenderableType]]:
    """Draw a run that goes on, for a screen of this size; return also what stays at its bottom.

    Where a run with `tensors`, which is stepped through, does not fit, its head is brief. `until` is the end of a run
    that is known already.
    """
    width = size.width
    lanes = gantt(shown, width, live=True, until=until)
    stays = 2 * (len(shown.columns) + AROUND) + _STEPPING * tensors <= size.height
    operation = [running(shown, width)] if shown.began else []
    below: list[RenderableType] = [*([lanes] if stays else []), *operation]
    room = size.height - 1 - _height(below, width)  # one line for the keys
    view = ValueView(width=width, live=True, tensors=tensors, look=hint.look if hint else "")
    body, fits = _body(shown, top(shown, hint), room, view)
    if tensors and not fits:
        body, _ = _body(shown, _brief_top(shown, hint), room, view)
    return Group(*body) if stays else Group(*body, Text(), lanes), below


def _body(
    shown: RunFrame, above: list[RenderableType], room: int, view: ValueView
) -> tuple[list[RenderableType], bool]:
    """Draw what stands above the ranks over time, in `room` lines; return also whether all labels fit."""
    width, claims = view.width, _claims(shown, view.width)
    room -= _height(above, width)
    tail = _TAIL.start * bool(shown.lines)
    values, fits = _values_in(room - tail - _height(claims, width), shown, view)
    if claims and not fits:
        claims = [Text(), Text.assemble(*shown.claims_counted)]
        values, fits = _values_in(room - tail - len(claims), shown, view)
    left = min(max(room - _height([*claims, *values], width), _TAIL.start), _TAIL.stop - 1)
    return [*above, *values, *claims, *(_line(line) for line in shown.lines[-left:])], fits


def _values(shown: RunFrame, view: ValueView, *, rows: int | None = None, plot: bool = True) -> list[RenderableType]:
    if not (shown.values or view.live):
        return []
    plotted = to_plot(shown, view.width) if plot else {}
    drawn = tables(shown, view, rows=rows, plotted=plotted)
    if plotted:
        drawn.append(charts(shown, plotted, view.width))
    return [part for table in drawn for part in (Text(), table)]


def _values_in(room: int, shown: RunFrame, view: ValueView) -> tuple[list[RenderableType], bool]:
    """Draw values so that they fit: without charts, and without the oldest labels, where there is little room.

    Return also whether all labels fit. Where even the fewest labels do not, none is hidden and the screen scrolls.
    """

    def drawn(rows: int | None = None, *, plot: bool = False) -> tuple[list[RenderableType], int]:
        parts = _values(shown, view, rows=rows, plot=plot)
        return parts, _height(parts, view.width)

    for plot in (True, False):
        every, lines = drawn(plot=plot)
        if lines <= room:
            return every, True
    count, heads = len(shown.values), drawn(0)[1]
    rows = min(count, max(_FEWEST_ROWS, count * (room - heads - 1) // max(1, lines - heads)))  # if all were as high
    while rows < count and drawn(rows + 1)[1] < room:
        rows += 1
    while rows > _FEWEST_ROWS and drawn(rows)[1] >= room:
        rows -= 1
    some, height = drawn(rows)
    if rows >= count or height >= room:
        return every, False
    hidden = Text(f"{plural(count - rows, 'older label')} not shown now", style="quiet")
    return [*some, hidden], False


def _claims(shown: RunFrame, width: int) -> list[RenderableType]:
    """Draw verdicts and claims, with a count of the claims that may still come."""
    lines: list[list[StyledText]] = []
    for verdict, text in claims(shown):
        indent = cell_len(verdict[0])
        for number, part in enumerate(folded(text, width - indent)):
            lines.append([(" " * indent, "") if number else verdict, (part, "")])
    if shown.claims_to_come:
        lines.append([(shown.claims_to_come, "quiet")])
    return [Text(), TextLines(lines)] if lines else []


def _height(parts: Iterable[RenderableType], width: int) -> int:
    height = 0
    for part in parts:
        is_line = isinstance(part, Text) and part.no_wrap
        height += len(part) if isinstance(part, TextLines) else 1 if is_line else len(folded(str(part), width))
    return height


def _line(line: Output) -> Text:
    return Text.assemble((f"rank {line.rank}  ", "quiet"), plain(line.text))


def top(shown: RunFrame, hint: Hint | None = None) -> list[RenderableType]:
    """Draw the lines above everything else."""
    what, *arguments = header(shown.began)
    parts: list[RenderableType] = [what, *map(_in_one_line, arguments)]
    if hint:
        prediction, why = (hint.verdict, hint.why) if shown.ended_well else (hint.prediction, "")
        if hint.place:
            parts.insert(0, Text(hint.place, style="accent"))
        parts.append(labeled("look at  ", "quiet", hint.look))
        said = prose(prediction, _MARKS.get(prediction[0], "")) if prediction else None
        parts += [*([Text()] if shown.ended_well else []), said] if said else []  # a result stands apart
        parts += [prose(why)] if why else []
    return [*parts, *_notes(shown)]


def _brief_top(shown: RunFrame, hint: Hint | None) -> list[RenderableType]:
    """Draw the same in as few lines as possible: the title, and what to look at, each cut to one line.

    The arguments stand before the title, which would leave no room for them.
    """
    place = hint.place if hint else ""
    title, arguments = (shown.began.title, _arguments(shown.began)) if shown.began else ("", "")
    said = [(place, "accent"), (arguments, ""), (plain(title), "head")]
    line = Text(" · ").join(Text(*each) for each in said if each[0])
    look = [labeled("look at  ", "quiet", hint.look)] if hint else []
    return [*(_in_one_line(part) for part in (line, *look) if part), *_notes(shown)]


def _in_one_line(text: Text) -> Text:
    """Cut a text where it would wrap."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _notes(shown: RunFrame) -> list[RenderableType]:
    restarts = [_in_one_line(Text(shown.restarts, style="warn"))] if shown.restarts else []
    return [*restarts, *(Text(plain(note), style="warn") for note in shown.notes)]


def header(began: Began | None) -> list[Text]:
    """Draw what the run is, what runs on what, and why there, and in a line of its own the arguments of the script."""
    if began is None:
        return [Text("Loading torch ...", style="accent")]
    title = plain(began.title) + "\n" if began.title else ""
    what = Text.assemble((title, "head"), (plain(began.reason), "accent"))
    arguments = _arguments(began)
    return [what, *([Text.assemble(("arguments  ", "quiet"), arguments)] if arguments else [])]


def _arguments(began: Began) -> str:
    """The arguments of the script as a shell reads them; empty if it has none."""
    return plain(shlex.join(began.args).replace("\n", " "))


def torchrun(began: Began) -> str:
    """The command line that runs the same without ddpquiz."""
    script = Path(shown_path(began.script))
    job = JobFile(script, began.args, began.ranks, restarts=began.restarts, module=began.module)
    return job.command(launcher=shown_torchrun())


def running(shown: RunFrame, width: int) -> Text:
    """Draw what runs, or what ran last, in `width` columns; parts that do not fit are left out, not cut."""
    line = Text.assemble(*shown.operation.pieces, no_wrap=True, overflow="ellipsis")
    for part in shown.operation.more:
        if line.cell_len + cell_len(part) + 3 <= width:
            line.append(f" · {part}", style="quiet")
    return line


def result(shown: RunFrame) -> Text:
    """Draw the last line of a run: whether it ended well, after how long, and with how many claims proven."""
    return Text.assemble(*((plain(text), tone) for text, tone in shown.result))


def remarks(state: RunState, *, keys: bool = True, summary: bool = False) -> list[Text]:
    """Draw what is wrong with the result of the user's own script, which line made ranks wait, and if there is advice.

    Without `keys`, as in a pipe, no key is named. A `summary` that follows says all of this itself.
    """
    if summary or not (state.only_broken_claims and state.end and state.end.ok):
        return []
    line = find_costliest_line(state.timeline, state.time)
    faults = silent_faults(state.timeline, state.script) or parts_apart(state.timeline, state.script)
    sentences = [*faults[:_FAULTS], *([str(line)] if line else [])]
    if count := len(advice(state.timeline, state.time, state.script)) - len(faults[:_FAULTS]):
        sentences.append(f"There is advice on this run ({count}): {'press s, or ' * keys}run it with --summary.")
    return [Text(plain(sentence), style="warn") for sentence in sentences]


def failure(shown: RunFrame) -> list[RenderableType]:
    """Draw what went wrong: the traceback of the rank that failed first, or which rank waits where."""
    failed = shown.failure
    if failed is None:
        return []
    if failed.hung_ranks:
        return _hang(failed)
    if failed.traceback:
        return [Text(f"rank {failed.rank}", style="bad"), Text(plain(failed.traceback))]
    return [Text.assemble((f"rank {rank}  ", "bad"), plain(path)) for rank, path in failed.paths]


def _hang(failed: Failure) -> list[RenderableType]:
    table = new_table(("", "waits in", "is at"), left=range(3), style="head")
    for each in failed.hung_ranks:
        table.add_row(f"rank {each.rank}", Text(*each.waits_in), each.place)
    parts: list[RenderableType] = [table, Text()]
    if failed.paths:
        parts += [Text(f"rank {rank}  {plain(path)}", style="quiet") for rank, path in failed.paths]
        parts.append(Text())
    return parts


def claims(shown: RunFrame) -> list[tuple[StyledText, str]]:
    """Line up verdicts and claims, without folding them."""
    width = max((cell_len(verdict) for (verdict, _), _ in shown.claims), default=0) + GAP
    return [((verdict.ljust(width), tone), plain(text)) for (verdict, tone), text in shown.claims]
