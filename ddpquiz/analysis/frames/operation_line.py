"""The operation that is under way, in a line: which ranks have arrived, and which are awaited."""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass

from ddpquiz.analysis.collective import Collective
from ddpquiz.analysis.formatting import format_ranks, format_seconds, list_ranks, plural
from ddpquiz.analysis.frames.piece import Piece
from ddpquiz.analysis.operation import ANYBODY, JOIN, POINT_TO_POINT
from ddpquiz.analysis.run_state import RunState
from ddpquiz.analysis.source_text import source_line

_WRAPS_MODEL = re.compile(r"\b(DistributedDataParallel|DDP)\(")
_VARIANT = re.compile(r"_(into_)?(tensor|single)$")  # names of one operator in different versions of torch
_OF_LIBRARY = "called by a library"
_PURPOSES = {"all_gather": "DDP compares the models", "broadcast": "DDP copies rank 0's model"}
LONG = 0.001  # seconds; a rank that comes last by less is not mentioned


@dataclass(frozen=True, slots=True)
class OperationLine:
    """What runs, and after it what may be left out where there is no room."""

    pieces: tuple[Piece, ...]
    more: tuple[str, ...] = ()


def describe_current(state: RunState, now: float, *, newest: bool = False) -> OperationLine:
    """Return what runs at `now`, or what ran last.

    Of several operations that run, that is the one which most ranks have called and others have not, or with `newest`
    the one that was called last.
    """
    joining = [rank for rank in state.all_ranks if state.waits_in(rank) == JOIN]
    if joining:
        late = [rank for rank in state.all_ranks if rank not in joining and rank not in state.joined]
        pieces = _pieces([JOIN], joining, late, state)
        return OperationLine(pieces if late else (*pieces, (", making the group", "")))
    if current := state.timeline.current():
        shown = max(current, key=_called_last if newest else _called_by_most)
        if shown.differs:
            return OperationLine(_different(shown, now))
        others = [f"{len(current) - 1} more under way"] if len(current) > 1 else []
        called = {call.operation.op for call in shown.calls.values()}  # a send, its receive, or both
        what = [shown.op if len(called) > 1 else called.pop(), *between(shown, state.ranks)]
        pieces = _pieces(what, shown.arrived, shown.awaited, state, now - _since(shown))
        return OperationLine(pieces, (*purpose(shown), *about(shown), *others))
    last = next((each for each in reversed(state.timeline.collectives) if each.ended is not None), None)
    if last is None:
        none = "no communication yet"
        return OperationLine(((f"the group is made, {none}" if state.joined else none, "quiet"),))
    more = (*between(last, state.ranks), *outcome(last), *purpose(last), *about(last))
    return OperationLine(((f"last: {last.op}", "quiet"),), more)


def between(collective: Collective, of: int) -> list[str]:
    """Return between which ranks an operation is, if not all `of` ranks take part."""
    if collective.op in POINT_TO_POINT:
        source, to = ("any rank" if rank == ANYBODY else str(rank) for rank in collective.members)
        return [f"{source} → {to}"]
    if len(collective.members) == of:
        return []
    return [format_ranks(collective.members) + (" alone" if len(collective.members) == 1 else "")]


def purpose(collective: Collective) -> list[str]:
    """Return that a library makes this call, and what for if that is known; nothing if the script makes it itself."""
    operation = collective.operation
    line = source_line(operation.file, operation.line)
    if not line or operation.bucket is not None or _VARIANT.sub("", operation.op) in line:
        return []
    return [_PURPOSES.get(operation.op, _OF_LIBRARY) if _WRAPS_MODEL.search(line) else _OF_LIBRARY]


def about(collective: Collective) -> list[str]:
    """Return the root, the bucket and the size of an operation, as far as it has them."""
    operation = collective.operation
    shapes = operation.shapes[:1] if collective.op == "scatter" else operation.shapes  # the root brings every part
    numbers = plural(sum(map(math.prod, shapes)), "number") if operation.dtype else ""
    what = f"{operation.reduce} of {numbers}" if operation.reduce and numbers else numbers
    bucket = "" if operation.bucket is None else f"bucket {operation.bucket}"
    peer = operation.peer
    direction = "to" if collective.op.startswith(("reduce", "gather")) else "from"
    root = "" if peer is None or collective.op in POINT_TO_POINT else f"{direction} {peer}"
    return [part for part in (root, bucket, what) if part]


def outcome(collective: Collective) -> list[str]:
    """Return which rank came late, and how long the operation lasted."""
    waited = max(collective.waits.values(), default=0.0)
    late = waited >= LONG and collective.entered_last is not None
    came = [f"rank {collective.entered_last} came {format_seconds(waited)} late"] if late else []
    if collective.seconds is None:
        return came
    return [*came, f"{'then ' if late else ''}took {format_seconds(collective.seconds)}"]


def _pieces(
    what: list[str], arrived: Collection[int], awaited: Collection[int], state: RunState, for_seconds: float = 0.0
) -> tuple[Piece, ...]:
    op, *between = what
    head: list[Piece] = [(op, "accent"), *((f" · {part}", "") for part in between)]
    lasting = f" {for_seconds:.1f} s" if for_seconds >= 0.1 else ""
    if not awaited:
        return (*head, (f" · all arrived{' for' * bool(lasting)}{lasting}", ""))
    gone = [rank for rank in awaited if rank in state.exited]
    ended = f" ({'it has' if len(gone) == 1 else f'{list_ranks(gone)} have'} ended)" if gone else ""
    return (
        *head,
        (f" · {_named(arrived)} arrived, ", ""),
        (f"waiting{lasting} for {_named(awaited)}{ended}", "warn"),
    )


def _named(ranks: Collection[int]) -> str:
    return "any rank" if ANYBODY in ranks else format_ranks(ranks)


def _different(collective: Collective, now: float) -> tuple[Piece, ...]:
    """Return that members are in different operations, none of which can go on; the fewest ranks come first."""
    ranks: dict[str, list[int]] = {}
    for rank in collective.arrived:
        ranks.setdefault(collective.calls[rank].operation.op, []).append(rank)
    sides = sorted(ranks.items(), key=lambda side: len(side[1]))
    calls = "".join(f" · {op}: {format_ranks(callers)}" for op, callers in sides)
    return ("calls differ", "warn"), (f"{calls} for {now - _since(collective):.1f} s", "")


def _called_by_most(collective: Collective) -> tuple[bool, int, float]:
    return len(collective.awaited) > 0, len(collective.arrived), -_since(collective)


def _called_last(collective: Collective) -> float:
    return max(call.issued for call in collective.calls.values())


def _since(collective: Collective) -> float:
    return min(call.issued for call in collective.calls.values())
