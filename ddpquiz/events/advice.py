"""What could be better in a run: the rules of advice, after its silent faults (silent_faults.py).

Each rule speaks only where it is certain, about something that the script forgot or that costs time.
"""

import math
from collections.abc import Iterator

from ddpquiz.events.costs import Cost, Growth
from ddpquiz.events.formatting import format_bytes, format_place, format_seconds
from ddpquiz.events.silent_faults import EQUAL_STEPS, at, equal_gradients, parts_apart, silent_faults
from ddpquiz.events.timeline import PICKLING, Timeline
from ddpquiz.plural import plural


def advice(timeline: Timeline, now: float, script: str = "") -> list[str]:
    """The advice of all rules for a run up to `now`, the costliest mistakes first; none for a failed run."""
    lifetime = sum(totals.lifetime for totals in timeline.totals(now).values())
    if timeline.failed or not lifetime:
        return []
    return [
        *(silent_faults(timeline, script) or parts_apart(timeline, script)),
        *_sharded_as_a_whole(timeline, script),
        *_synchronised_inside_no_sync(timeline),
        *_synchronised_in_accumulation(timeline),
        *_equal_random_numbers(timeline, len(timeline.ranks)),
        *_gathered_without_gradient(timeline),
        *_more_threads_than_cores(timeline, script),
        *_one_rank_late(timeline, lifetime),
        *_tiny_buckets(timeline, lifetime),
        *_nothing_unused(timeline, script),
        *_many_small_reductions(timeline, lifetime),
        *_single_numbers(timeline, lifetime),
        *_small_all_reduces(timeline, lifetime),
        *_objects_in_a_loop(timeline, lifetime),
        *_growing(timeline, lifetime),
        *_barriers_in_a_loop(timeline, lifetime),
        *_read_in_each_step(timeline),
    ]


# The rules of advice

_SMALL = 64 * 1024  # bytes; below, an operation costs its latency and not its size
_BUCKET = 25 * 1024 * 1024  # bytes that DDP puts into one all-reduce
_OFTEN = 20  # calls of a rank that make a loop
_WORTH = 0.02  # of the ranks' time that something must cost to be worth advice
_MOSTLY = 0.3  # of the ranks' time that small calls must cost
_REPEATS, _NEARLY, _TIMES = 8, 0.8, 3  # calls of a rank that grow, the share of them, and how much at least
_COLLECTIVES = 10  # from which on a rank can be called late


def _gathered_without_gradient(timeline: Timeline) -> Iterator[str]:
    """Features of all ranks are gathered while gradients flow, and autograd does not follow a collective."""
    marks = {(each.file, each.line, each.op) for rank in timeline.training.values() for each in rank.gathered}
    for file, line, op in sorted(marks):
        yield (
            f"{format_place(file, line)}: {op} gathers a tensor that needs a gradient, and passes none back: to "
            "autograd, its results are constants. If the loss uses them, put this rank's own tensor back among them, "
            f"or use torch.distributed.nn.functional.{'all_gather' if op == 'all_gather' else op}. If not, pass "
            "x.detach()."
        )


def _more_threads_than_cores(timeline: Timeline, script: str) -> Iterator[str]:
    """The threads of all ranks of a machine take turns on its cores."""
    marks = [rank.threads for rank in timeline.training.values() if rank.threads]
    crowded = [mark for mark in marks if mark.threads * mark.ranks > mark.cores and mark.ranks > 1]
    if crowded and len(marks) == len(timeline.ranks):
        mark = max(crowded, key=lambda mark: mark.threads)
        fit = max(1, mark.cores // mark.ranks)
        yield (
            f"{at(script, mark.line)}each of {mark.ranks} ranks computes with {plural(mark.threads, 'thread')}, which "
            f"is {mark.threads * mark.ranks:,} threads on {plural(mark.cores, 'core')}: they take turns. Use "
            f"{plural(fit, 'thread')} per rank ({'torch.set_num_threads' if mark.line else 'OMP_NUM_THREADS'})."
        )


def _tiny_buckets(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """DDP reduces gradients in many small buckets, each of which costs the latency of an all-reduce."""
    ranks = [rank for rank in timeline.training.values() if rank.passes >= EQUAL_STEPS]
    for (file, line, _), cost in timeline.costs.lines.items():
        if not ranks or not cost.is_ddp or cost.seconds < _WORTH * lifetime:
            continue
        rank = max(ranks, key=lambda rank: rank.buckets)
        buckets, mean = rank.buckets / rank.passes, rank.bucket_bytes / rank.buckets
        if buckets >= _OFTEN and mean <= _SMALL:
            fewer = max(1, math.ceil(rank.bucket_bytes / rank.passes / _BUCKET))
            yield (
                f"{format_place(file, line)}: DDP reduced the gradients of each backward pass in {buckets:.0f} buckets "
                f"of {format_bytes(mean)} on average, which cost {_share(cost.seconds, lifetime)}. With the default "
                f"bucket_cap_mb of 25, there would be about {fewer:,}."
            )
            return


def _nothing_unused(timeline: Timeline, script: str) -> Iterator[str]:
    """Yield advice if DDP searches for unused parameters in each pass and never finds one."""
    marks = {rank: timeline.training[rank].searched for rank in timeline.ranks}
    found = [mark for mark in marks.values() if mark and mark.passes >= EQUAL_STEPS]
    if found and len(found) == len(marks) and not any(mark.found for mark in found):
        wrapped_at = max(rank.wrapped_at or 0 for rank in timeline.training.values())
        yield (
            f"{at(script, wrapped_at)}find_unused_parameters is on, and all parameters got a gradient in each of "
            f"{plural(found[0].passes, 'backward pass', 'backward passes')}. The search walks the graph and "
            "all-reduces a map of the parameters in each pass, and DDP keeps its first order of buckets: leave the "
            "option out."
        )


def _sharded_as_a_whole(timeline: Timeline, script: str) -> Iterator[str]:
    """A model of several layers is sharded by a single call, so all of its parameters are gathered at once."""
    ranks = [rank for rank in timeline.training.values() if rank.sharded_at is not None]
    if ranks and all(rank.sharded == 1 for rank in ranks) and any(rank.all_steps for rank in ranks):
        place = f"{format_place(script, ranks[0].sharded_at)}: " if ranks[0].sharded_at else ""
        yield (
            f"{place}the model is sharded only as a whole, so each step gathers all parameters at once: memory has to "
            "hold the full model, and nothing overlaps. Call fully_shard on each block first, then on the model, or "
            "give FSDP an auto_wrap_policy."
        )


def _read_in_each_step(timeline: Timeline) -> Iterator[str]:
    """A line of the training loop reads a tensor in each step: on a GPU the CPU waits there for the GPU."""
    reads = [rank.read for rank in timeline.training.values() if rank.read]
    for on_gpu, call, place in sorted({(read.on_gpu, read.call, format_place(read.file, read.line)) for read in reads}):
        if on_gpu:
            yield (
                f"{place}: {call} copies a value from the GPU in each step. The CPU waits there until the GPU is done, "
                "and meanwhile queues nothing for the next step. Read such values once every few steps."
            )
        else:
            yield (
                f"{place}: {call} reads a result of the model in each step. That is cheap on the CPU; on a GPU, the "
                "CPU would wait there in each step until the GPU is done. There, read such values once every few steps."
            )


def _equal_random_numbers(timeline: Timeline, world: int) -> Iterator[str]:
    """The replicas of a DDP model draw the same random numbers in each step, so they drop the same units."""
    if any(equal_gradients(timeline, world)):
        return  # it has the same cause
    ranks = [rank for rank in timeline.training.values() if rank.wrapped_at is not None]
    draws = {tuple(rank.draws) for rank in ranks}
    if len(ranks) == world > 1 and len(draws) == 1 and len(draws.pop()) >= EQUAL_STEPS:
        yield (
            f"All {world} ranks drew the same random numbers in each step, so what they draw is equal: dropout masks, "
            "noise, random batches. Once the model is built, call torch.manual_seed(seed + rank)."
        )


def _synchronised_inside_no_sync(timeline: Timeline) -> Iterator[str]:
    """DDP decides in the forward pass; a forward pass outside no_sync makes a backward pass inside it synchronize."""
    worst = max(timeline.training.values(), key=lambda rank: rank.inside, default=None)
    if worst is not None and worst.inside:
        yield (
            f"{format_place(*worst.inside_place)}: "
            f"{plural(worst.inside, 'backward pass', 'backward passes')} inside no_sync() all-reduced gradients "
            f"nevertheless. DDP decides in the forward pass whether to synchronize: put that inside no_sync(), too."
        )


def _synchronised_in_accumulation(timeline: Timeline) -> Iterator[str]:
    """Of several synchronized backward passes before one step, only the sums of the last one are needed."""
    ranks = [rank for rank in timeline.training.values() if rank.steps > 1 and rank.early >= rank.steps]
    if ranks:
        worst = max(ranks, key=lambda rank: rank.early)
        passes = (worst.early + worst.steps) / worst.steps
        yield (
            f"{format_place(*worst.early_place)}: gradients were all-reduced in {passes:.3g} backward passes per "
            f"optimizer step. All but the last pass of a step reduced {format_bytes(worst.early_bytes)} of gradients "
            f"on each rank for nothing. Put all but the last forward and backward pass of a step inside no_sync(); the "
            f"result is the same."
        )


def _one_rank_late(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """A rank arrives last most of the time, while the others wait: for a GPU, where no line can be charged with it."""
    if timeline.delays.is_on:
        return
    ranks, collectives = len(timeline.ranks), timeline.costs.collectives
    for rank, late in sorted(timeline.costs.late.items()):
        usual = max(0.5, 1.5 / ranks)
        if collectives >= _COLLECTIVES and late.count >= usual * collectives and late.lost > _WORTH * lifetime:
            yield (
                f"Rank {rank} arrived last at {late.count:,} of {collectives:,} collectives, and the other ranks "
                f"waited for it for {_share(late.lost, lifetime)}. Find out what else it does, or give it less work: "
                f"the slowest rank sets the pace."
            )


def _many_small_reductions(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """All-reduces of small tensors one after the other could be one all-reduce of a flat tensor."""
    for place, cost, calls in _loops(timeline, lifetime, "all_reduce"):
        mean, rounds = cost.bytes / cost.calls, cost.rounds // len(cost.ranks)
        if cost.in_a_row > cost.calls / 2 and mean <= _SMALL:
            joined = max(rounds, math.ceil(cost.bytes / len(cost.ranks) / _BUCKET))
            saved = cost.seconds * (1 - joined / calls)
            yield (
                f"{place}: each rank made {plural(calls, 'all_reduce')} one after the other, of {format_bytes(mean)} "
                f"on average. Joined into flat tensors, as DDP joins gradients into buckets, there would "
                f"be {joined:,}, which would save up to {_share(saved, lifetime)}."
            )


def _single_numbers(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """A single number is all-reduced in every step, often only to be printed."""
    for place, cost, calls in _loops(timeline, lifetime, "all_reduce"):
        if cost.bytes <= 8 * cost.calls and cost.in_a_row <= cost.calls / 2:
            yield (
                f"{place}: each rank all-reduced a single number {plural(calls, 'time')}, which cost "
                f"{_share(cost.seconds, lifetime)}. If it is a loss to print, add it up on each rank and all-reduce "
                f"the sum once every few steps."
            )


def _small_all_reduces(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """Most of the time goes into all-reduces of a small tensor, and not into waiting for a slower rank."""
    for place, cost, calls in _loops(timeline, lifetime, "all_reduce"):
        mean = cost.bytes / cost.calls
        busy = cost.seconds - cost.waiting > _MOSTLY * lifetime
        if 8 < mean <= _SMALL and cost.in_a_row <= cost.calls / 2 and busy:
            yield (
                f"{place}: each rank all-reduced {format_bytes(mean)} {plural(calls, 'time')}, which cost "
                f"{_share(cost.seconds, lifetime)}. A call this small costs its latency, however little it sends: "
                f"communicate more at once, and less often."
            )


def _objects_in_a_loop(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """Object collectives pickle, and send sizes before bytes; torch 2.15 gathers them with another operator."""
    for op in ("all_gather", "all_gather_into_tensor", "broadcast", "gather", "scatter"):
        for place, cost, calls in _loops(timeline, lifetime, op):
            if cost.dtypes == {"int64", "uint8"}:
                seconds = cost.seconds + _pickling(timeline, cost)
                yield (
                    f"{place}: each rank sent {plural(calls // 2, 'object')} through {op} as pickles, which cost "
                    f"{_share(seconds, lifetime)}. Send tensors instead, or all objects at once."
                )


def _pickling(timeline: Timeline, cost: Cost) -> float:
    """The seconds that calls in a line pickled, besides what their collectives cost."""
    if cost.first is None or (place := (cost.first.file, cost.first.line, PICKLING)) not in timeline.costs.lines:
        return 0.0
    return timeline.costs.lines[place].seconds


def _growing(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """Calls in a line bring more and more, as they do where everything so far is sent again each time."""
    for (file, line, op), cost in timeline.costs.lines.items():
        grows = [each for each in cost.growth.values() if _grows(each, len(cost.ranks))]
        if grows and cost.seconds + _pickling(timeline, cost) > _WORTH * lifetime:
            worst = max(grows, key=lambda each: each.largest)
            yield (
                f"{format_place(file, line)}: nearly every {op} was larger than the one before, from "
                f"{format_bytes(worst.smallest)} at first to {format_bytes(worst.largest)} on each rank: what was sent "
                f"before is sent again. Send only what is new, and let the receivers keep the rest."
            )


def _grows(growth: Growth, ranks: int) -> bool:
    often = growth.compared >= _REPEATS * ranks and growth.grew >= _NEARLY * growth.compared
    return often and not growth.shrank and growth.largest >= max(_SMALL, _TIMES * growth.smallest)


def _barriers_in_a_loop(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """A barrier in every step makes all ranks wait for the slowest, although collectives synchronize ranks anyway."""
    for place, cost, calls in _loops(timeline, lifetime, "barrier"):
        yield (
            f"{place}: {plural(calls, 'barrier')} on each rank cost {_share(cost.seconds, lifetime)}. Collectives "
            f"synchronize ranks already: a barrier is needed only for what happens outside torch, such as files."
        )


def _loops(timeline: Timeline, lifetime: float, op: str) -> Iterator[tuple[str, Cost, int]]:
    """Yield the lines where ranks call an operator often and at a price: place, cost, and calls of each rank."""
    for (file, line, operator), cost in timeline.costs.lines.items():
        calls = cost.calls // len(cost.ranks)
        if operator == op and calls >= _OFTEN and cost.seconds > _WORTH * lifetime and not cost.is_ddp:
            yield format_place(file, line), cost, calls


def _share(seconds: float, lifetime: float) -> str:
    return f"{format_seconds(seconds)} in all, {seconds / lifetime:.0%} of the ranks' time"
