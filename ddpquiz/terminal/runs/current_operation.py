"""The operation that is under way, drawn in a line."""

from rich.cells import cell_len
from rich.text import Text

from ddpquiz.analysis.frames.operation_line import describe_current
from ddpquiz.analysis.run_state import RunState


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
