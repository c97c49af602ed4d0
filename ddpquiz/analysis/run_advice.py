"""What a run could do better in its communication: rules that read its timeline, and say it with numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from ddpquiz.analysis.formatting import count, size, time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ddpquiz.analysis.timeline import Cost, Timeline

SMALL = 64 * 1024  # bytes; below, an operation costs its latency and not its size
BUCKET = 25 * 1024 * 1024  # bytes; what DDP puts into one all-reduce
OFTEN = 20  # calls of a rank that make a loop
WORTH = 0.02  # of the ranks' time that something must cost to be told
MEETINGS = 10  # collectives from which on a rank can be called late


def findings(timeline: Timeline, now: float) -> list[str]:
    """Return what the rules have to say of a run up to now, the costliest mistakes first."""
    rules: tuple[Callable[[Timeline, float], Iterator[str]], ...] = (
        synchronised_inside_no_sync,
        synchronised_in_accumulation,
        one_rank_late,
        many_small_reductions,
        single_numbers,
        objects_in_a_loop,
        barriers_in_a_loop,
    )
    lifetime = sum(totals.lifetime for totals in timeline.totals(now).values())
    return [said for rule in rules for said in rule(timeline, lifetime)] if lifetime else []


def synchronised_inside_no_sync(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """DDP decides in the forward pass; a forward pass outside no_sync makes a backward pass inside it synchronise."""
    del lifetime
    seen = [rank for rank in timeline.gradients.ranks.values() if rank.inside]
    if seen:
        each = max(seen, key=lambda rank: rank.inside)
        yield (
            f"{_place(each.inside_place)}: {count(each.inside, 'backward pass', 'backward passes')} inside no_sync() "
            f"all-reduced gradients all the same. DDP decides that in the forward pass: put it inside no_sync() too."
        )


def synchronised_in_accumulation(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """Several synchronised backward passes before one step send sums of which only the last is needed."""
    del lifetime
    seen = [rank for rank in timeline.gradients.ranks.values() if rank.steps > 1 and rank.early >= rank.steps]
    if seen:
        each = max(seen, key=lambda rank: rank.early)
        passes = (each.early + each.steps) / each.steps
        yield (
            f"{_place(each.early_place)}: gradients were all-reduced in {passes:.3g} backward passes for each "
            f"optimizer step, {size(each.early_bytes)} on each rank before the last one of its step. Put all but the "
            f"last forward and backward of a step inside no_sync(): the sum is the same."
        )


def one_rank_late(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """A rank that comes last most of the time, while the others wait."""
    ranks = len(timeline.ranks)
    for rank, late in sorted(timeline.late.items()):
        usual = max(0.5, 1.5 / ranks)
        if timeline.met >= MEETINGS and late.count >= usual * timeline.met and late.lost > WORTH * lifetime:
            yield (
                f"Rank {rank} came last to {late.count} of {timeline.met} collectives, and the others waited for it "
                f"for {_share(late.lost, lifetime)}. Look for what it does besides, or give it less to do: "
                f"all go at the pace of the slowest."
            )


def many_small_reductions(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """All-reduces of small tensors one after the other, which one of a flat tensor could replace."""
    for place, cost, calls in _loops(timeline, lifetime, "all_reduce"):
        mean, rounds = cost.bytes / cost.calls, cost.rounds // len(cost.ranks)
        if cost.in_a_row > cost.calls / 2 and mean <= SMALL:
            joined = max(rounds, math.ceil(cost.bytes / len(cost.ranks) / BUCKET))
            saved = cost.seconds * (1 - joined / calls)
            yield (
                f"{place}: {count(calls, 'all_reduce')} on each rank, of {size(mean)} on average and right after each "
                f"other. Joined into one flat tensor, as DDP joins gradients into buckets, they would be {joined:,}, "
                f"which would save up to {_share(saved, lifetime)}."
            )


def single_numbers(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """A number that is all-reduced in every step, mostly to be printed."""
    for place, cost, calls in _loops(timeline, lifetime, "all_reduce"):
        if cost.bytes <= 8 * cost.calls and cost.in_a_row <= cost.calls / 2:
            yield (
                f"{place}: a single number was all-reduced {count(calls, 'time')} on each rank, for "
                f"{_share(cost.seconds, lifetime)}. If it is a loss to print, add it up on each rank and "
                f"all-reduce it every so many steps."
            )


def objects_in_a_loop(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """Object collectives pickle, and send sizes before bytes."""
    for op in ("all_gather", "broadcast", "gather", "scatter"):
        for place, cost, calls in _loops(timeline, lifetime, op):
            if cost.dtypes == {"int64", "uint8"}:
                yield (
                    f"{place}: {count(calls // 2, 'object')} went through {op} as pickles on each rank, for "
                    f"{_share(cost.seconds, lifetime)}. Send tensors instead, or all the objects at once."
                )


def barriers_in_a_loop(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """A barrier in every step lets everybody wait for the slowest, though collectives keep ranks in step themselves."""
    for place, cost, calls in _loops(timeline, lifetime, "barrier"):
        yield (
            f"{place}: {count(calls, 'barrier')} on each rank took {_share(cost.seconds, lifetime)}. Collectives keep "
            f"ranks in step by themselves: keep a barrier only for what happens outside of torch, such as files."
        )


def _loops(timeline: Timeline, lifetime: float, op: str) -> Iterator[tuple[str, Cost, int]]:
    """Yield where ranks call an operator often and at a price, what it cost, and how often each rank called it."""
    for (file, line, named), cost in timeline.costs.items():
        calls = cost.calls // len(cost.ranks)
        if named == op and calls >= OFTEN and cost.seconds > WORTH * lifetime and not cost.is_ddp:
            yield _place((file, line)), cost, calls


def _place(place: tuple[str, int]) -> str:
    return f"{Path(place[0]).name}:{place[1]}"


def _share(seconds: float, lifetime: float) -> str:
    return f"{time(seconds)} in all, {seconds / lifetime:.0%} of the ranks' time"
