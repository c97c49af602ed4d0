"""A pipeline's timeline, rank by rank, as letters."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.planning.schedule import PipelineRun, Slot
from ddpquiz.terminal.pages.plan_page import amount

_STYLES = {"F": "accent", "B": "good", "W": "warn", "X": "good", ".": "quiet"}
_MOST_ROWS = 64
_CUT = " ... "


def schedule_page(run: PipelineRun, width: int, micro_batches: int) -> RenderableType:
    """Draw what each rank does over time: F forward, B backward, W weight gradients, X both, a dot is idle.

    `micro_batches` is how many the step has; `run` may show fewer. Where a task would be narrower than a column, the
    middle of the run is left out.
    """
    names = len(f"rank {len(run.ranks) - 1}") + 1
    columns = max(20, width - names)
    title = f"{run.schedule}, {len(run.ranks)} ranks, {run.micro_batches:,} micro-batches: {amount(run.seconds)} s"
    title += f" (the first of {micro_batches:,})" if run.micro_batches < micro_batches else ""
    parts = _parts(run, columns)
    title += "; its middle is left out" if len(parts) > 1 else ""
    rows: list[RenderableType] = [Text(title, style="head")]
    for rank, slots in list(enumerate(run.ranks))[:_MOST_ROWS]:
        lanes = [_lane(slots, part) for part in parts]
        rows.append(Text(f"rank {rank}".ljust(names), "quiet").append_text(Text(_CUT, "quiet").join(lanes)))
    rows.append(Text("F forward   B backward   W weight gradients   X forward beside backward   . idle", style="quiet"))
    stored = ", ".join(f"{count:g}" for count in run.stored[:8]) + (", ..." if len(run.stored) > 8 else "")
    rows.append(Text(f"Idle {run.bubble:.1%} of the time. Micro-batches stored at once, by rank: {stored}"))
    rows.append(Text("Sends between stages, data-parallel traffic and the optimizer are not in it.", style="quiet"))
    return Group(*rows)


def letter(slot: Slot) -> str:
    """Return the letter of a task."""
    kinds = {piece.kind for piece in slot.task}
    return "X" if {"F", "B"} <= kinds else "B" if "B" in kinds else slot.task[0].kind


def _parts(run: PipelineRun, columns: int) -> list[list[float]]:
    """Return the times that are drawn, those in the middles of columns: of the whole run, or of its start and end."""
    shortest = min((slot.end - slot.start for slots in run.ranks for slot in slots), default=run.seconds)
    if run.seconds <= columns * shortest:
        return [[(column + 0.5) * run.seconds / columns for column in range(columns)]]
    half = (columns - len(_CUT)) // 2
    start = [(column + 0.5) * shortest for column in range(half)]
    return [start, [run.seconds - time for time in reversed(start)]]


def _lane(slots: Sequence[Slot], times: Sequence[float]) -> Text:
    """Draw what a rank does at some times."""
    line, at = Text(), 0
    for middle in times:
        while at < len(slots) - 1 and slots[at].end <= middle:
            at += 1
        slot = slots[at]
        sign = letter(slot) if slot.start <= middle < slot.end else "."
        line.append(sign, style=_STYLES[sign])
    return line
