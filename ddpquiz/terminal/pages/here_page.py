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
    what = f"a step, over {counted(predicted.steps, 'step')}" if predicted.by_steps else "all of the run"
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="quiet")
    for number, head in enumerate(("", "calls", "bytes", "predicted")):
        table.add_column(head, justify="right" if number else "left", no_wrap=True)
    table.add_row("computing (measured in the warm-up)", "", "", format_seconds(predicted.computing))
    for each in predicted.operations:
        table.add_row(plain(each.op), f"{each.calls:.3g}", format_bytes(each.bytes), format_seconds(each.seconds))
    total = Text(f"{word(predicted)} on the slowest rank", style="head")
    table.add_row(total, "", "", Text(format_seconds(predicted.seconds), style="head"))
    note = "The parts are means over the ranks; waiting for others adds to them, and overlap hides some."
    return Group(Text(plain(f"{name}: {what}"), style="title"), table, Text(note, style="quiet"))


def word(predicted: RunPrediction) -> str:
    """Return what is predicted."""
    return "Step" if predicted.by_steps else "Run"


def outcome_line(predicted: RunPrediction, seconds: float, error: float) -> Text:
    """Say what was measured beside what was predicted."""
    said = f"predicted {format_seconds(predicted.seconds)}, measured {format_seconds(seconds)}"
    return Text(f"{word(predicted)}: {said}: the prediction is {error:+.0%} off.", style="head")
