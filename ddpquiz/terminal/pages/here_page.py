"""The page of `ddpquiz plan --here`: the prediction of a small run, and what was measured."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ddpquiz.analysis.formatting import format_bytes, format_seconds
from ddpquiz.planning.run_prediction import RunPrediction
from ddpquiz.terminal.kit.layout import counted
from ddpquiz.terminal.kit.style import plain


def here_page(name: str, predicted: RunPrediction) -> Group:
    """Draw the prediction, which is shown before the run is measured."""
    title = f"a step, over {counted(predicted.steps, 'step')}" if predicted.by_steps else "all of the run"
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="quiet")
    for number, head in enumerate(("", "calls", "bytes", "predicted")):
        table.add_column(head, justify="right" if number else "left", no_wrap=True)
    table.add_row("computing (measured in the warm-up)", "", "", format_seconds(predicted.computing))
    for each in predicted.operations:
        size = format_bytes(each.bytes) if each.bytes else "-"
        table.add_row(plain(each.op), f"{each.calls:.3g}", size, format_seconds(each.seconds))
    waiting = predicted.waiting
    if abs(waiting) >= predicted.seconds / 100:
        what, sign = ("waiting for other ranks", "") if waiting > 0 else ("hidden by overlap", "-")
        table.add_row(what, "", "", sign + format_seconds(abs(waiting)))
    total = Text(f"{word(predicted)} on the slowest rank", style="head")
    table.add_row(total, "", "", Text(format_seconds(predicted.seconds), style="head"))
    note = "Computing and calls are means over the ranks."
    return Group(Text(plain(f"{name}: {title}"), style="title"), table, Text(note, style="quiet"))


def word(predicted: RunPrediction) -> str:
    """Return what is predicted."""
    return "Step" if predicted.by_steps else "Run"


def outcome_line(predicted: RunPrediction, seconds: float, error: float) -> Text:
    """Say what was measured beside what was predicted."""
    said = f"predicted {format_seconds(predicted.seconds)}, measured {format_seconds(seconds)}"
    amiss = "too high" if error > 0 else "too low"
    return Text(f"{word(predicted)}: {said}: the prediction is {abs(error):.0%} {amiss}.", style="head")
