"""What a run has cost: time by rank, the costliest lines of the script, bytes by group, mismatches and advice.

Advice comes from rules that read the timeline of a run; each says in numbers what its communication could do better.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ddpquiz.analysis.costliest_line import CostliestLine, find_costliest_line
from ddpquiz.analysis.costs import Cost
from ddpquiz.analysis.formatting import format_bytes, format_place, format_seconds, plural
from ddpquiz.analysis.rank_timeline import RankTime
from ddpquiz.analysis.timeline import Timeline
from ddpquiz.analysis.training_advice import (
    equal_gradients,
    equal_random_numbers,
    never_synchronised,
    read_in_each_step,
    same_order_each_epoch,
    sharded_as_a_whole,
)  # fmt: skip

LINES = 10  # lines of the script that a summary lists
SMALL = 64 * 1024  # bytes; below, an operation costs its latency and not its size
BUCKET = 25 * 1024 * 1024  # bytes that DDP puts into one all-reduce
OFTEN = 20  # calls of a rank that make a loop
WORTH = 0.02  # of the ranks' time that something must cost to be worth advice
MOSTLY = 0.3  # of the ranks' time that small calls must cost
MEETINGS = 10  # collectives from which on a rank can be called late


@dataclass(frozen=True, slots=True)
class LineCost:
    """What an operator in a line of the script has cost: calls, bytes and seconds of all `ranks` together."""

    file: str
    line: int
    op: str
    ranks: int
    calls: int
    bytes: int
    seconds: float
    waiting: float
    is_ddp: bool  # the buckets that DDP reduces beside the backward pass


@dataclass(frozen=True, slots=True)
class GroupTraffic:
    """Bytes that the members of a group have sent if the usual algorithms were used."""

    group: str
    members: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """The most bytes that the process of a rank held, and its tensors on GPUs (0 without a GPU)."""

    rank: int
    process: int
    gpu: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The cost of a whole run."""

    costliest: CostliestLine | None
    ranks: tuple[RankTime, ...]
    lines: tuple[LineCost, ...]  # the costliest first
    other_lines: int
    groups: tuple[GroupTraffic, ...]
    memory: tuple[PeakMemory, ...]  # of the ranks that reached their end
    mismatches: tuple[str, ...]
    advice: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {"event": "summary"} | asdict(self)


def summarize(timeline: Timeline, now: float, script: str = "") -> RunSummary:
    """Return what a run of a script has cost up to `now`."""
    lines = sorted(
        (
            LineCost(file, line, op, len(cost.ranks), cost.calls, cost.bytes, cost.seconds, cost.waiting, cost.is_ddp)
            for (file, line, op), cost in timeline.costs.lines.items()
        ),
        key=lambda cost: (-cost.seconds, -cost.bytes, cost.file, cost.line),
    )
    groups = tuple(
        GroupTraffic(group, members, sent)
        for (group, members), sent in sorted(timeline.costs.traffic.items(), key=lambda item: -item[1])
    )
    memory = tuple(
        PeakMemory(rank, *timeline.gradients[rank].memory)
        for rank in timeline.ranks
        if any(timeline.gradients[rank].memory)
    )
    return RunSummary(
        costliest=find_costliest_line(timeline, now),
        ranks=tuple(timeline.totals(now).values()), lines=tuple(lines[:LINES]), other_lines=len(lines[LINES:]),
        groups=groups, memory=memory,
        mismatches=tuple(map(str, timeline.mismatches)), advice=tuple(advice(timeline, now, script)),
    )  # fmt: skip


def advice(timeline: Timeline, now: float, script: str = "") -> list[str]:
    """Return the advice of all rules for a run up to now, the costliest mistakes first; none for a failed run."""
    lifetime = sum(totals.lifetime for totals in timeline.totals(now).values())
    if timeline.failed or not lifetime:
        return []
    return [
        *never_synchronised(timeline, script), *same_order_each_epoch(timeline, script),
        *sharded_as_a_whole(timeline, script), *synchronised_inside_no_sync(timeline),
        *synchronised_in_accumulation(timeline), *equal_gradients(timeline, len(timeline.ranks)),
        *equal_random_numbers(timeline, len(timeline.ranks)),
        *one_rank_late(timeline, lifetime), *many_small_reductions(timeline, lifetime),
        *single_numbers(timeline, lifetime), *small_all_reduces(timeline, lifetime),
        *objects_in_a_loop(timeline, lifetime), *barriers_in_a_loop(timeline, lifetime),
        *read_in_each_step(timeline),
    ]  # fmt: skip


def synchronised_inside_no_sync(timeline: Timeline) -> Iterator[str]:
    """DDP decides in the forward pass; a forward pass outside no_sync makes a backward pass inside it synchronise."""
    found = [rank for rank in timeline.gradients.values() if rank.inside]
    if found:
        worst = max(found, key=lambda rank: rank.inside)
        yield (
            f"{format_place(*worst.inside_place)}: "
            f"{plural(worst.inside, 'backward pass', 'backward passes')} inside no_sync() all-reduced gradients "
            f"nevertheless. DDP decides in the forward pass whether to synchronise: put it inside no_sync() too."
        )


def synchronised_in_accumulation(timeline: Timeline) -> Iterator[str]:
    """Of several synchronised backward passes before one step, only the sums of the last one are needed."""
    found = [rank for rank in timeline.gradients.values() if rank.steps > 1 and rank.early >= rank.steps]
    if found:
        worst = max(found, key=lambda rank: rank.early)
        passes = (worst.early + worst.steps) / worst.steps
        yield (
            f"{format_place(*worst.early_place)}: gradients were all-reduced in {passes:.3g} backward passes per "
            f"optimizer step. All but the last pass of a step reduced {format_bytes(worst.early_bytes)} of gradients "
            f"on each rank for nothing. Put all but the last forward and backward pass of a step inside no_sync(); the "
            f"result is the same."
        )


def one_rank_late(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """A rank arrives last most of the time, while the others wait: for a GPU, where no line can be charged with it."""
    if timeline.delays.is_on:
        return
    ranks, met = len(timeline.ranks), timeline.costs.met
    for rank, late in sorted(timeline.costs.late.items()):
        usual = max(0.5, 1.5 / ranks)
        if met >= MEETINGS and late.count >= usual * met and late.lost > WORTH * lifetime:
            yield (
                f"Rank {rank} arrived last at {late.count:,} of {met:,} collectives, and the other ranks waited for it "
                f"for {_share(late.lost, lifetime)}. Find out what else it does, or give it less work: the slowest "
                f"rank sets the pace."
            )


def many_small_reductions(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """All-reduces of small tensors one after the other could be one all-reduce of a flat tensor."""
    for place, cost, calls in _loops(timeline, lifetime, "all_reduce"):
        mean, rounds = cost.bytes / cost.calls, cost.rounds // len(cost.ranks)
        if cost.in_a_row > cost.calls / 2 and mean <= SMALL:
            joined = max(rounds, math.ceil(cost.bytes / len(cost.ranks) / BUCKET))
            saved = cost.seconds * (1 - joined / calls)
            yield (
                f"{place}: each rank made {plural(calls, 'all_reduce')} one after the other, of {format_bytes(mean)} "
                f"on average. Joined into flat tensors, as DDP joins gradients into buckets, they would be {joined:,} "
                f"and save up to {_share(saved, lifetime)}."
            )


def single_numbers(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """A single number is all-reduced in every step, often only to be printed."""
    for place, cost, calls in _loops(timeline, lifetime, "all_reduce"):
        if cost.bytes <= 8 * cost.calls and cost.in_a_row <= cost.calls / 2:
            yield (
                f"{place}: each rank all-reduced a single number {plural(calls, 'time')}, which cost "
                f"{_share(cost.seconds, lifetime)}. If it is a loss to print, add it up on each rank and all-reduce "
                f"the sum once every few steps."
            )


def small_all_reduces(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """Most of the time goes into all-reduces of a small tensor, and not into waiting for a slower rank."""
    for place, cost, calls in _loops(timeline, lifetime, "all_reduce"):
        mean = cost.bytes / cost.calls
        busy = cost.seconds - cost.waiting > MOSTLY * lifetime
        if 8 < mean <= SMALL and cost.in_a_row <= cost.calls / 2 and busy:
            yield (
                f"{place}: each rank all-reduced {format_bytes(mean)} {plural(calls, 'time')}, which cost "
                f"{_share(cost.seconds, lifetime)}. Calls this small cost their latency, whatever they send: "
                f"communicate more at once, and less often."
            )


def objects_in_a_loop(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """Object collectives pickle, and send sizes before bytes; torch 2.15 gathers them with another operator."""
    for op in ("all_gather", "all_gather_into_tensor", "broadcast", "gather", "scatter"):
        for place, cost, calls in _loops(timeline, lifetime, op):
            if cost.dtypes == {"int64", "uint8"}:
                yield (
                    f"{place}: each rank sent {plural(calls // 2, 'object')} through {op} as pickles, which cost "
                    f"{_share(cost.seconds, lifetime)}. Send tensors instead, or all objects at once."
                )


def barriers_in_a_loop(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """A barrier in every step makes all ranks wait for the slowest, although collectives synchronise ranks anyway."""
    for place, cost, calls in _loops(timeline, lifetime, "barrier"):
        yield (
            f"{place}: {plural(calls, 'barrier')} on each rank cost {_share(cost.seconds, lifetime)}. Collectives "
            f"synchronise ranks already: a barrier is needed only for what happens outside torch, such as files."
        )


def _loops(timeline: Timeline, lifetime: float, op: str) -> Iterator[tuple[str, Cost, int]]:
    """Yield the lines where ranks call an operator often and at a price: place, cost, and calls of each rank."""
    for (file, line, operator), cost in timeline.costs.lines.items():
        calls = cost.calls // len(cost.ranks)
        if operator == op and calls >= OFTEN and cost.seconds > WORTH * lifetime and not cost.is_ddp:
            yield format_place(file, line), cost, calls


def _share(seconds: float, lifetime: float) -> str:
    return f"{format_seconds(seconds)} in all, {seconds / lifetime:.0%} of the ranks' time"
