"""A pipeline's timeline, rank by rank, as letters."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.planning.schedule import PipelineRun, Slot
from ddpquiz.terminal.pages.plan_page import amount

_STYLES = {"F": "accent", "B": "good", "W": "warn", "X": "good", ".": "quiet"}
_MOST_ROWS = 64


def schedule_page(run: PipelineRun, width: int, micro_batches: int) -> RenderableType:
    """Draw what each rank does over time: F forward, B backward, W weight gradients, X both, a dot is idle.

    `micro_batches` is how many the step has; `run` may show fewer.
    """
    names = len(f"rank {len(run.ranks) - 1}") + 1
    columns = max(20, width - names)
    title = f"{run.schedule}, {len(run.ranks)} ranks, {run.micro_batches:,} micro-batches: {amount(run.seconds)} s"
    title += f" (the first of {micro_batches:,})" if run.micro_batches < micro_batches else ""
    rows: list[RenderableType] = [Text(title, style="head")]
    for rank, slots in list(enumerate(run.ranks))[:_MOST_ROWS]:
        rows.append(Text(f"rank {rank}".ljust(names), "quiet").append_text(_lane(slots, run.seconds, columns)))
    rows.append(Text("F forward   B backward   W weight gradients   X forward beside backward   . idle", style="quiet"))
    stored = ", ".join(f"{count:g}" for count in run.stored[:8]) + (", ..." if len(run.stored) > 8 else "")
    rows.append(Text(f"Idle {run.bubble:.1%} of the time. Micro-batches stored at once, by rank: {stored}"))
    rows.append(Text("Sends between stages, data-parallel traffic and the optimizer are not in it.", style="quiet"))
    return Group(*rows)


def letter(slot: Slot) -> str:
    """Return the letter of a task."""
    kinds = {piece.kind for piece in slot.task}
    return "X" if {"F", "B"} <= kinds else "B" if "B" in kinds else slot.task[0].kind


def _lane(slots: Sequence[Slot], seconds: float, columns: int) -> Text:
    """Draw a rank: in each column what it does in the middle of it."""
    line, at = Text(), 0
    for column in range(columns):
        middle = (column + 0.5) * seconds / columns
        while at < len(slots) - 1 and slots[at].end <= middle:
            at += 1
        slot = slots[at]
        sign = letter(slot) if slot.start <= middle < slot.end else "."
        line.append(sign, style=_STYLES[sign])
    return line
