"""The operation that is under way, in a line: which ranks have arrived, and which are awaited."""

import math
from collections.abc import Collection, Iterable

from rich.cells import cell_len
from rich.text import Text

from ddpquiz.analysis.collective import Collective
from ddpquiz.analysis.formatting import format_ranks, format_seconds, list_ranks, plural
from ddpquiz.analysis.operation import ANYBODY, POINT_TO_POINT
from ddpquiz.analysis.run_state import RunState

LONG = 0.001  # seconds; a rank that comes last by less is not mentioned


def running(state: RunState, now: float, width: int) -> Text:
    """Draw what runs at `now`, or what ran last, in a line of at most `width` columns."""
    line = _running(state, now, width)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _running(state: RunState, now: float, width: int) -> Text:
    joining = [rank for rank in state.all_ranks if state.waits_in(rank) == "init_process_group"]
    if joining:
        late = [rank for rank in state.all_ranks if rank not in joining and rank not in state.joined]
        return _line(["init_process_group"], joining, late, state).append("" if late else ", making the group")
    if current := state.timeline.current():
        shown = max(current, key=lambda each: (len(each.awaited) > 0, len(each.arrived), -_since(each)))
        if shown.differs:
            return _different(shown, now)
        others = [f"{len(current) - 1} more under way"] if len(current) > 1 else []
        what = [shown.op, *_between(shown, state.ranks)]
        line = _line(what, shown.arrived, shown.awaited, state, now - _since(shown))
        return _appended(line, [*_about(shown), *others], width)
    last = next((each for each in reversed(state.timeline.collectives) if each.ended is not None), None)
    if last is None:
        none = "no communication yet"
        return Text(f"the group is made, {none}" if state.joined else none, style="quiet")
    parts = [*_between(last, state.ranks), *_outcome(last), *_about(last)]
    return _appended(Text(f"last: {last.op}", style="quiet"), parts, width)


def _appended(line: Text, parts: Iterable[str], width: int) -> Text:
    """Return a line with the parts that fit; the others are left out, not cut."""
    for part in parts:
        if line.cell_len + cell_len(part) + 3 <= width:
            line.append(f" · {part}", style="quiet")
    return line


def _between(collective: Collective, of: int) -> list[str]:
    """Return between which ranks an operation is, if not all `of` ranks take part."""
    if collective.op in POINT_TO_POINT:
        source, to = ("any rank" if rank == ANYBODY else str(rank) for rank in collective.members)
        return [f"{source} → {to}"]
    if len(collective.members) == of:
        return []
    return [format_ranks(collective.members) + (" alone" if len(collective.members) == 1 else "")]


def _about(collective: Collective) -> list[str]:
    operation = collective.operation
    shapes = operation.shapes[:1] if collective.op == "scatter" else operation.shapes  # the root brings every part
    numbers = plural(sum(map(math.prod, shapes)), "number") if operation.dtype else ""
    what = f"{operation.reduce} of {numbers}" if operation.reduce and numbers else numbers
    bucket = "" if operation.bucket is None else f"bucket {operation.bucket}"
    peer = operation.peer
    direction = "to" if collective.op.startswith(("reduce", "gather")) else "from"
    root = "" if peer is None or collective.op in POINT_TO_POINT else f"{direction} {peer}"
    return [part for part in (root, bucket, what) if part]


def _line(
    what: list[str], arrived: Collection[int], awaited: Collection[int], state: RunState, for_seconds: float = 0.0
) -> Text:
    op, *between = what
    line = Text.assemble((op, "accent"), *(f" · {part}" for part in between))
    lasting = f" for {for_seconds:.1f} s" if for_seconds >= 0.1 else ""
    if not awaited:
        return line.append(f" · all arrived{lasting}")
    line.append(f" · arrived {list_ranks(arrived)} · ")
    gone = [rank for rank in awaited if rank in state.exited]
    ended = f" ({'it has' if len(gone) == 1 else f'{list_ranks(gone)} have'} ended)" if gone else ""
    return line.append(f"awaiting {list_ranks(awaited)}{ended}{lasting}", style="warn")


def _different(collective: Collective, now: float) -> Text:
    """Return that members are in different operations, none of which can go on; the fewest ranks come first."""
    ranks: dict[str, list[int]] = {}
    for rank in collective.arrived:
        ranks.setdefault(collective.calls[rank].operation.op, []).append(rank)
    sides = sorted(ranks.items(), key=lambda side: len(side[1]))
    line = Text("calls differ", style="warn")
    for op, callers in sides:
        line.append(f" · {op}: {format_ranks(callers)}")
    return line.append(f" for {now - _since(collective):.1f} s")


def _since(collective: Collective) -> float:
    return min(call.issued for call in collective.calls.values())


def _outcome(collective: Collective) -> list[str]:
    """Return which rank came late, and how long the operation lasted."""
    waited = max(collective.waits.values(), default=0.0)
    late = waited >= LONG and collective.entered_last is not None
    came = [f"rank {collective.entered_last} came {format_seconds(waited)} late"] if late else []
    if collective.seconds is None:
        return came
    return [*came, f"took {format_seconds(collective.seconds)}{' from then' if late else ''}"]
