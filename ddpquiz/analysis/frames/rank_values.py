"""What each rank holds: what it does, what it brought to its last operation and got from it, and labelled values."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from ddpquiz.analysis.formatting import format_shapes
from ddpquiz.analysis.run_state import RunState

DIGITS = (4, 3, 2)  # digits of a number in a tensor: fewer where there is no room
DONE = "done"  # an operation is over, and its result is not known
_NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+e[-+]?\d+")  # with a point or an exponent; others are whole
_BETWEEN = re.compile(r"\]+, \[+")


class LabelledValue(NamedTuple):
    """The last value of a label on a rank, and whether it is new."""

    text: str
    is_new: bool


@dataclass(frozen=True, slots=True)
class RankColumn:
    """What a rank does, and the values or shapes of its last operation; None where there is nothing to show."""

    rank: int
    doing: str
    brings: str | None
    gets: str | None


def describe_rank(state: RunState, rank: int) -> RankColumn:
    """Return what a rank does, and what its last operation was about."""
    return RankColumn(rank, state.doing(rank), brings(state, rank), gets(state, rank))


def describe_label(state: RunState, label: str, since: float) -> dict[int, LabelledValue]:
    """Return the last value of each rank that has one; it is new if it came after `since` and differs."""
    values = state.rows[label]
    return {
        rank: LabelledValue(values[rank][-1], state.changed(label, rank, since))
        for rank in state.all_ranks
        if values.get(rank)
    }


def brings(state: RunState, rank: int) -> str | None:
    """Return what a rank gave to its last operation: numbers, or the shapes of larger tensors."""
    brought = state.brought.get(rank)
    if brought is None or not brought.operation.dtype:
        return None
    operation = brought.operation
    if operation.op in ("recv", "scatter") and operation.peer != rank and not brought.before:
        return None  # its shape is the room for what it receives
    return " | ".join(brought.before) or f"{format_shapes(operation.shapes)} {operation.dtype}"


def gets(state: RunState, rank: int) -> str | None:
    """Return what the last operation of a rank left there, or at least that it is over."""
    if got := state.got.get(rank):
        return " | ".join(got)
    brought = state.brought.get(rank)
    calls = (each.calls[rank] for each in reversed(state.timeline.collectives) if rank in each.calls)
    last = next((call for call in calls if brought and call.number == brought.number), None)
    return DONE if last and last.ended is not None and not last.failed else None


def has_numbers(text: str) -> bool:
    """Return True if a text holds numbers that can be shortened."""
    return _NUMBER.search(text) is not None


def shortened(tensor: str, digits: int = DIGITS[0]) -> str:
    """Return the text of tensors with at most `digits` digits a number, and a semicolon between rows."""
    text = _NUMBER.sub(lambda found: f"{float(found[0]):.{digits}g}", tensor)
    return _BETWEEN.sub("; ", text).replace(",", "").replace("[", "").replace("]", "")
