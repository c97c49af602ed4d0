"""The operation that is under way, in a line: who has arrived and who is awaited."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.text import Text

from ddpquiz.ranks.history.collective import PAIRED
from ddpquiz.ranks.history.matching import ANYBODY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ddpquiz.ranks.history.collective import Collective
    from ddpquiz.ranks.history.seen import Seen

LONG = 0.001  # seconds; that somebody came last by less is no news


def running(seen: Seen, now: float) -> Text:
    """Say what runs at `now`, or what ran last."""
    line = _running(seen, now)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _running(seen: Seen, now: float) -> Text:
    joining = [rank for rank in seen.here if seen.waits_in(rank) == "init_process_group"]
    if joining:
        late = [rank for rank in seen.here if rank not in joining and rank not in seen.joined]
        return _line("init_process_group", [], joining, late, seen)
    current = seen.timeline.current()
    if current:
        shown = max(current, key=lambda each: (len(each.awaited) > 0, -_since(each)))
        more = f" · {len(current) - 1} more" if len(current) > 1 else ""
        line = _line(shown.op, about(shown, seen.ranks), shown.arrived, shown.awaited, seen, now - _since(shown))
        return line.append(more, style="quiet")
    last = next((each for each in reversed(seen.timeline.collectives) if each.ended is not None), None)
    if last is None:
        return Text("no communication yet", style="quiet")
    return Text(" · ".join([f"last: {last.op}", *about(last, seen.ranks), *_outcome(last)]), style="quiet")


def about(collective: Collective, of: int) -> list[str]:
    """Say what an operation does, with what, and between whom if not all `of` ranks take part."""
    count = sum(math.prod(shape) for shape in collective.shapes)
    numbers = f"{count:,} number{'s' * (count != 1)}" if collective.dtype else ""
    what = f"{collective.reduce} of {numbers}" if collective.reduce and numbers else numbers
    bucket = "" if collective.sample.bucket is None else f"bucket {collective.sample.bucket}"
    peer = collective.sample.peer
    if collective.op in PAIRED:
        source, to = ("anybody" if rank == ANYBODY else str(rank) for rank in collective.members)
        between = f"{source} → {to}"
    elif len(collective.members) < of:
        between = f"among {few(collective.members)}"
    else:
        between = ""
    root = "" if peer is None or collective.op in PAIRED else f"{_towards(collective.op)} {peer}"
    return [part for part in (between, root, bucket, what) if part]


def few(ranks: Iterable[int]) -> str:
    """Name ranks as shortly as can be: `0 2 3`, or `0-7 9`."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else " ".join(map(str, run)) for run in runs)


def seconds(count: float) -> str:
    """Write a duration: `0.8 s`, `12 ms`."""
    return f"{count:.1f} s" if count >= 0.1 else f"{1000 * count:.1f} ms" if count < 0.01 else f"{1000 * count:.0f} ms"


def _line(
    op: str, details: list[str], arrived: Iterable[int], awaited: Iterable[int], seen: Seen, for_seconds: float = 0.0
) -> Text:
    line = Text.assemble((op, "accent"), *(f" · {part}" for part in details))
    lasting = f" for {for_seconds:.1f} s" if for_seconds >= 0.1 else ""
    if not awaited:
        return line.append(f" · all arrived{lasting}")
    line.append(f" · arrived {few(arrived)} · ")
    gone = [rank for rank in awaited if rank in seen.exited]
    ended = f" ({'it has' if len(gone) == 1 else f'{few(gone)} have'} ended)" if gone else ""
    return line.append(f"awaiting {few(awaited)}{ended}{lasting}", style="warn")


def _since(collective: Collective) -> float:
    return min(call.issued for call in collective.calls.values())


def _towards(op: str) -> str:
    return "to" if op.startswith(("reduce", "gather")) else "from"


def _outcome(collective: Collective) -> list[str]:
    took = [seconds(collective.seconds)] if collective.seconds is not None else []
    waited = max(collective.waits.values(), default=0.0)
    if waited < LONG or collective.entered_last is None:
        return took
    return [*took, f"rank {collective.entered_last} came last, by {seconds(waited)}"]
