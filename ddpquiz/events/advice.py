"""What could be better in a run: the rules of advice, and the silent faults that make its result wrong.

Each rule speaks only where it is certain, about something that the script forgot or that costs time.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping

from ddpquiz.events.costs import Cost, Growth
from ddpquiz.events.event import NeverAwaited
from ddpquiz.events.formatting import format_bytes, format_place, format_ranks, format_seconds
from ddpquiz.events.timeline import PICKLING, Timeline
from ddpquiz.plural import plural


def advice(timeline: Timeline, now: float, script: str = "") -> list[str]:
    """The advice of all rules for a run up to `now`, the costliest mistakes first; none for a failed run."""
    lifetime = sum(totals.lifetime for totals in timeline.totals(now).values())
    if timeline.failed or not lifetime:
        return []
    return [
        *silent_faults(timeline, script),
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


def silent_faults(timeline: Timeline, script: str = "") -> list[str]:
    """What makes the result of a run wrong although no rank failed, with what to do; none for a failed run."""
    if timeline.failed:
        return []
    drift = [
        *_never_synchronised(timeline, script),
        *_stepped_unsynchronised(timeline, script),
        *_unreduced_gradients(timeline, script),
        *_unlike_optimizers(timeline, script),
    ]
    return [
        *_never_awaited(timeline),
        *(drift or _replicas_differ(timeline, script)),
        *_replicas_without_ddp_differ(timeline, script),
        *_same_order_each_epoch(timeline, script),
        *_equal_gradients(timeline, len(timeline.ranks)),
    ]


# The rules of advice

_STEPS = 2  # of an optimizer, after which gradients must have been synchronised
_EQUAL_STEPS = 3  # that must draw equal random numbers, or bring equal gradients, on all ranks
_REDUCTIONS = ("all_reduce", "reduce_scatter", "reduce", "all_gather", "broadcast")  # that synchronise by hand
_SMALL = 64 * 1024  # bytes; below, an operation costs its latency and not its size
_BUCKET = 25 * 1024 * 1024  # bytes that DDP puts into one all-reduce
_OFTEN = 20  # calls of a rank that make a loop
_WORTH = 0.02  # of the ranks' time that something must cost to be worth advice
_MOSTLY = 0.3  # of the ranks' time that small calls must cost
_REPEATS, _NEARLY, _TIMES = 8, 0.8, 3  # calls of a rank that grow, the share of them, and how much at least
_MOST_SETTINGS = 100  # of an optimizer that a rank reports
_COLLECTIVES = 10  # from which on a rank can be called late


def _never_synchronised(timeline: Timeline, script: str) -> Iterator[str]:
    """A DDP model exists, optimizers step, and nothing but single numbers is ever reduced after that."""
    trained = [rank for rank in timeline.training.values() if rank.wrapped_at is not None and rank.all_steps >= _STEPS]
    if not trained or any(rank.passes or rank.unsynced for rank in timeline.training.values()):
        return
    wrapped_at = {rank.wrapped_at for rank in trained}
    by_hand = (
        cost for (_, line, op), cost in timeline.costs.lines.items()
        if op.startswith(_REDUCTIONS) and line not in wrapped_at and cost.bytes > 8 * cost.calls
    )  # fmt: skip
    if not any(by_hand):
        first = trained[0]
        place = f"{format_place(script, first.wrapped_at)}: " if first.wrapped_at else ""
        yield (
            f"{place}the optimizer made {plural(first.all_steps, 'step')}, but DDP never all-reduced a gradient: "
            "the replicas drift apart. Call the DDP model in the forward pass, as in ddp(x), not the model inside it."
        )


def _averages_by_hand(timeline: Timeline) -> bool:
    """True if a line of the script reduces or gathers about as much as a model in one go, beside what DDP does."""
    ranks = timeline.training.values()
    model = max((rank.bucket_bytes / rank.passes for rank in ranks if rank.passes), default=0.0)
    wrapped_at = {rank.wrapped_at for rank in ranks}
    for (_, line, op), cost in timeline.costs.lines.items():
        if line in wrapped_at and op == "broadcast" and not model:
            model = cost.bytes / len(cost.ranks)
    return any(
        op.startswith(_REDUCTIONS) and op != "broadcast" and line not in wrapped_at and not cost.is_ddp
        and any("float" in dtype for dtype in cost.dtypes) and cost.bytes / cost.rounds > model / 2
        for (_, line, op), cost in timeline.costs.lines.items()
    )  # fmt: skip


def _at(script: str, line: int) -> str:
    """How a sentence begins that is about a line of the script; nothing outside the script."""
    return f"{format_place(script, line)}: " if line else ""


def _stepped_unsynchronised(timeline: Timeline, script: str) -> Iterator[str]:
    """An optimizer steps with gradients that each rank has accumulated for itself, inside no_sync."""
    worst = max(timeline.training.values(), key=lambda rank: len(rank.unsynced), default=None)
    if worst is None or not worst.unsynced or _averages_by_hand(timeline):
        return
    count, off_at = len(worst.unsynced), worst.switched_off_at
    line = worst.unsynced[0][0] if off_at is None else off_at
    after = ", after the last pass that DDP synchronised" if any(synced for _, synced in worst.unsynced) else ""
    of = f"{count:,} of {plural(worst.all_steps, 'step')}" if count < worst.all_steps else plural(count, "step")
    if off_at is None:
        yield (
            f"{_at(script, line)}{of} of the optimizer used gradients that each rank had accumulated for itself inside "
            f"no_sync(){after}: the replicas drift apart. The last forward and backward pass before each step must be "
            "outside no_sync()."
        )
        return
    yield (
        f"{_at(script, line)}{of} of the optimizer used gradients that each rank had accumulated for itself, because "
        f"require_backward_grad_sync was off in the forward pass{after}: the replicas drift apart. DDP reads it in the "
        "forward pass: set it before the last forward pass of each step, not between forward and backward."
    )


def _unreduced_gradients(timeline: Timeline, script: str) -> Iterator[str]:
    """A parameter was unfrozen, or added to the model, after DDP had wrapped it."""
    found = [(rank.unreduced, rank.wrapped_at or 0) for rank in timeline.training.values() if rank.unreduced]
    if not found or _averages_by_hand(timeline):
        return
    mark, wrapped_at = found[0]
    when = f" at {format_place(script, wrapped_at)}" if wrapped_at else ""
    names = mark.name if mark.count == 1 else f"{plural(mark.count, 'parameter')} ({mark.name} is the first)"
    they = "it" if mark.count == 1 else "they"
    why = f"{they} needed no gradient when DDP wrapped the model{when}"
    if not mark.was_frozen:
        why = f"{they} came into the model after DDP had wrapped it{when}"
    yield (
        f"{_at(script, mark.line)}DDP does not reduce the gradient of {names}: {why}, so each rank trains its own "
        "values. Unfreeze and add parameters before DDP wraps the model, or wrap it anew after that."
    )


def _unlike_optimizers(timeline: Timeline, script: str) -> Iterator[str]:
    """The optimizers of the ranks began with different states, or stepped with different settings."""
    ranks = {rank: timeline.training[rank] for rank in timeline.ranks if timeline.training[rank].settings}
    if len(ranks) < len(timeline.ranks) or len(ranks) < 2 or _averages_by_hand(timeline):
        return
    firsts = {rank: training.settings[min(training.settings)] for rank, training in ranks.items()}
    began = {rank: _state_in_words(mark.state, mark.made) for rank, mark in firsts.items() if mark.step == 1}
    if len(began) == len(ranks) and len({*began.values()}) > 1:
        yield (
            f"{_at(script, firsts[min(firsts)].line)}the optimizers began the training of the DDP model with different "
            f"states, so the replicas drift apart: {_by_rank(began)}. DDP copies weights only: load the optimizer's "
            "state, too, on every rank."
        )
        return
    last = min(
        max(training.settings) if len(training.settings) >= _MOST_SETTINGS else training.model_steps
        for training in ranks.values()
    )
    for step in sorted({step for training in ranks.values() for step in training.settings if step <= last}):
        used = {rank: training.settings[max(at for at in training.settings if at <= step)]
                for rank, training in ranks.items()
                if min(training.settings) <= step}  # fmt: skip
        if len({mark.settings for mark in used.values()}) > 1:
            common = set.intersection(*({*mark.settings.split(", ")} for mark in used.values()))
            differ = {
                rank: ", ".join(each for each in mark.settings.split(", ") if each not in common) or "nothing of that"
                for rank, mark in used.items()
            }
            yield (
                f"{_at(script, used[min(used)].line)}in step {step:,} the optimizers of the ranks have different "
                f"settings, so the replicas drift apart: {_by_rank(differ)}. Set them, and step schedulers, alike on "
                "every rank."
            )
            return


def _state_in_words(state: int | None, made: int | None) -> str:
    if not state:
        return "no state"
    after = f" after {plural(made, 'step')}" if made else ""
    return f"a state of {plural(state, 'parameter')}{after}"


def _by_rank(said: Mapping[int, str]) -> str:
    """Write what is said of each rank, ranks of which the same is said together."""
    ranks: defaultdict[str, list[int]] = defaultdict(list)
    for rank, text in said.items():
        ranks[text].append(rank)
    return "; ".join(f"{format_ranks(those)} {text}" for text, those in ranks.items())


def _replicas_differ(timeline: Timeline, script: str) -> Iterator[str]:
    """The weights of the replicas were equal once, or were to be, and no longer are."""
    ranks = {rank: timeline.training[rank].weights for rank in timeline.ranks if timeline.training[rank].weights}
    if len(ranks) < len(timeline.ranks) or len(ranks) < 2 or _averages_by_hand(timeline):
        return
    common = sorted(set.intersection(*({*samples} for samples in ranks.values())))
    differ = [step for step in common if len({samples[step].checksum for samples in ranks.values()}) > 1]
    if not differ or differ[-1] != common[-1]:
        return
    step = differ[0]
    who = _other_weights({rank: samples[step].checksum for rank, samples in ranks.items()})
    before = [each for each in common if each < step]
    since = f"; after step {before[-1]:,} they were equal" if before else ""
    yield (
        f"{_at(script, ranks[min(ranks)][step].line)}after step {step:,} of the optimizer the replicas of the DDP "
        f"model differ: {who}{since}. Look for what ranks do differently to weights or gradients between DDP() and "
        "that step: loading, clipping, skipping. Run with --check-replicas to see the first step and the parameters."
    )


def _replicas_without_ddp_differ(timeline: Timeline, script: str) -> Iterator[str]:
    """Gradients are brought together without DDP, or in a group of one rank, and the replicas are not equal."""
    ranks = {rank: timeline.training[rank].samples for rank in timeline.ranks}
    common = sorted(set.intersection(*({*samples} for samples in ranks.values()))) if ranks else []
    if len(ranks) < 2 or not common:
        return
    for optimizer in dict.fromkeys(optimizer for optimizer, _ in common):
        steps = [step for number, step in common if number == optimizer]
        sums = {step: {rank: ranks[rank][optimizer, step].checksum for rank in ranks} for step in steps}
        differ = [step for step in steps if len({*sums[step].values()}) > 1]
        mark = ranks[min(ranks)][optimizer, steps[0]]
        if not differ or differ[-1] != steps[-1] or (not mark.op and differ[0] == 1):  # other models, maybe
            continue
        who = _other_weights(sums[differ[0]])
        equal = [step for step in steps if step < differ[0]]
        since = f"; before step {equal[-1]:,} they were equal" if equal else ""
        found = f"before step {differ[0]:,} of the optimizer the replicas differ: {who}{since}."
        wrapped_at = timeline.training[min(ranks)].wrapped_at or 0
        if not mark.op:
            yield (
                f"{_at(script, wrapped_at)}DDP got a process group in which each rank is alone, so it averages no "
                f"gradients, and {found} Pass the group of the ranks that hold replicas, or none for all ranks."
            )
        elif mark.op == "reduce":
            yield (
                f"{format_place(mark.file, mark.line)}: reduce collects the gradients on one rank, and every "
                f"rank makes a step: {found} Use all_reduce, or let only that rank make the step, and send its weights "
                "to the others."
            )
        else:
            yield (
                f"{format_place(mark.file, mark.line)}: the script averages gradients itself, and {found} Equal "
                "gradients keep only equal weights equal: send all weights of rank 0 to the others before the first "
                "step, and let all ranks change them alike."
            )
        return


def _other_weights(sums: Mapping[int, str]) -> str:
    """Which ranks hold other weights than most."""
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for rank, checksum in sums.items():
        alike[checksum].append(rank)
    usual = max(alike.values(), key=len)
    odd = [rank for rank in sums if rank not in usual]
    if len(usual) == 1 and len(sums) > 2:
        return "each rank holds other weights"
    return f"{format_ranks(odd)} {'holds' if len(odd) == 1 else 'hold'} other weights than {format_ranks(usual)}"


def _never_awaited(timeline: Timeline) -> Iterator[str]:
    """An operation runs in the background, and the script goes on without ever waiting for it."""
    marks: defaultdict[tuple[str, int, str], list[NeverAwaited]] = defaultdict(list)
    for rank in timeline.training.values():
        for mark in rank.unawaited:
            marks[mark.file, mark.line, mark.op].append(mark)
    for (file, line, op), of_ranks in sorted(marks.items()):
        count = max(mark.count for mark in of_ranks)
        yield (
            f"{format_place(file, line)}: the script began {op} {plural(count, 'time')} with async_op=True and never "
            "waited for it, so what comes next may read or change the tensor while it is still being sent. Keep what "
            "the call returns, and call its wait() before the tensor is used."
        )


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
            f"{_at(script, mark.line)}each of {mark.ranks} ranks computes with {plural(mark.threads, 'thread')}, which "
            f"is {mark.threads * mark.ranks:,} threads on {plural(mark.cores, 'core')}: they take turns. Use "
            f"{plural(fit, 'thread')} a rank ({'torch.set_num_threads' if mark.line else 'OMP_NUM_THREADS'})."
        )


def _tiny_buckets(timeline: Timeline, lifetime: float) -> Iterator[str]:
    """DDP reduces gradients in many small buckets, each of which costs the latency of an all-reduce."""
    ranks = [rank for rank in timeline.training.values() if rank.passes >= _EQUAL_STEPS]
    for (file, line, _), cost in timeline.costs.lines.items():
        if not ranks or not cost.is_ddp or cost.seconds < _WORTH * lifetime:
            continue
        rank = max(ranks, key=lambda rank: rank.buckets)
        buckets, mean = rank.buckets / rank.passes, rank.bucket_bytes / rank.buckets
        if buckets >= _OFTEN and mean <= _SMALL:
            fewer = max(1, math.ceil(rank.bucket_bytes / rank.passes / _BUCKET))
            yield (
                f"{format_place(file, line)}: DDP reduced the gradients of each backward pass in {buckets:.0f} buckets "
                f"of {format_bytes(mean)} on average, which cost {_share(cost.seconds, lifetime)}. With its usual "
                f"bucket_cap_mb of 25 there would be {fewer:,} or a few more."
            )
            return


def _nothing_unused(timeline: Timeline, script: str) -> Iterator[str]:
    """Yield advice if DDP searches for unused parameters in each pass and never finds one."""
    marks = {rank: timeline.training[rank].searched for rank in timeline.ranks}
    found = [mark for mark in marks.values() if mark and mark.passes >= _EQUAL_STEPS]
    if found and len(found) == len(marks) and not any(mark.found for mark in found):
        wrapped_at = max(rank.wrapped_at or 0 for rank in timeline.training.values())
        yield (
            f"{_at(script, wrapped_at)}find_unused_parameters is on, and all parameters got a gradient in each of "
            f"{plural(found[0].passes, 'backward pass', 'backward passes')}. The search walks the graph and "
            "all-reduces a map of the parameters in each pass, and DDP keeps its first order of buckets: leave it out."
        )


def _same_order_each_epoch(timeline: Timeline, script: str) -> Iterator[str]:
    """A DistributedSampler gives the same order again, because nobody told it the epoch."""
    worst = max(timeline.training.values(), key=lambda rank: rank.same_order, default=None)
    if worst is not None and worst.same_order:
        place = f"{format_place(script, worst.same_order_at)}: " if worst.same_order_at else ""
        yield (
            f"{place}{plural(worst.same_order, 'epoch')} began with the same order of samples as the one before. Call "
            "sampler.set_epoch(epoch) before each epoch; without it, the sampler shuffles only once."
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


def _equal_gradients(timeline: Timeline, world: int) -> Iterator[str]:
    """All ranks compute the same gradients: they read the same batches, and do the work of one."""
    sums = [tuple(rank.gradient_sums) for rank in timeline.training.values()]
    if len(sums) == world > 1 and len({*sums}) == 1 and len({*sums[0]}) >= _EQUAL_STEPS:
        place = next(iter(timeline.training.values())).pass_place
        yield (
            f"{format_place(*place)}: all {world} ranks computed the same gradients in each of the first "
            f"{len(sums[0])} backward passes, so they do the work of one: they read the same batches. Use a "
            "DistributedSampler with each rank's own number, or let the seed that chooses the data depend on the rank."
        )


def _read_in_each_step(timeline: Timeline) -> Iterator[str]:
    """A line of the training loop reads a tensor in each step: on a GPU the CPU waits there for the GPU."""
    reads = [rank.read for rank in timeline.training.values() if rank.read]
    for on_gpu, call, place in sorted({(read.on_gpu, read.call, format_place(read.file, read.line)) for read in reads}):
        if on_gpu:
            yield (
                f"{place}: {call} reads a tensor of the GPU in each step. The CPU waits there until the GPU is done, "
                "and queues nothing for the next step meanwhile. Read such values once every few steps."
            )
        else:
            yield (
                f"{place}: {call} reads a result of the model in each step. That is cheap on the CPU; on a GPU, the "
                "CPU would wait there in each step until the GPU is done. There, read such values once every few steps."
            )


def _equal_random_numbers(timeline: Timeline, world: int) -> Iterator[str]:
    """The replicas of a DDP model draw the same random numbers in each step, so they drop the same units."""
    if any(_equal_gradients(timeline, world)):
        return  # it has the same cause
    ranks = [rank for rank in timeline.training.values() if rank.wrapped_at is not None]
    draws = {tuple(rank.draws) for rank in ranks}
    if len(ranks) == world > 1 and len(draws) == 1 and len(draws.pop()) >= _EQUAL_STEPS:
        yield (
            f"All {world} ranks drew the same random numbers in each step, so what they draw is equal: dropout masks, "
            "noise, random batches. Once the model is built, call torch.manual_seed(seed + rank)."
        )


def _synchronised_inside_no_sync(timeline: Timeline) -> Iterator[str]:
    """DDP decides in the forward pass; a forward pass outside no_sync makes a backward pass inside it synchronise."""
    worst = max(timeline.training.values(), key=lambda rank: rank.inside, default=None)
    if worst is not None and worst.inside:
        yield (
            f"{format_place(*worst.inside_place)}: "
            f"{plural(worst.inside, 'backward pass', 'backward passes')} inside no_sync() all-reduced gradients "
            f"nevertheless. DDP decides in the forward pass whether to synchronise: put it inside no_sync() too."
        )


def _synchronised_in_accumulation(timeline: Timeline) -> Iterator[str]:
    """Of several synchronised backward passes before one step, only the sums of the last one are needed."""
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
                f"on average. Joined into flat tensors, as DDP joins gradients into buckets, they would be {joined:,} "
                f"and save up to {_share(saved, lifetime)}."
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
                f"{_share(cost.seconds, lifetime)}. Calls this small cost their latency, whatever they send: "
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
                f"once is sent again. Send only what is new, and let the receivers keep the rest."
            )


def _grows(growth: Growth, ranks: int) -> bool:
    often = growth.compared >= _REPEATS * ranks and growth.grew >= _NEARLY * growth.compared
    return often and not growth.shrank and growth.largest >= max(_SMALL, _TIMES * growth.smallest)


def _barriers_in_a_loop(timeline: Timeline, lifetime: float) -> Iterator[str]:
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
        if operator == op and calls >= _OFTEN and cost.seconds > _WORTH * lifetime and not cost.is_ddp:
            yield format_place(file, line), cost, calls


def _share(seconds: float, lifetime: float) -> str:
    return f"{format_seconds(seconds)} in all, {seconds / lifetime:.0%} of the ranks' time"
