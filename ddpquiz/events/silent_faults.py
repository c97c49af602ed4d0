"""Silent faults of a run: what makes its result wrong although no rank failed.

Each rule speaks only where it is certain.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from ddpquiz.events.event import NeverAwaited
from ddpquiz.events.formatting import format_place, format_ranks
from ddpquiz.events.timeline import Timeline
from ddpquiz.plural import plural

_STEPS = 2  # of an optimizer, after which gradients must have been synchronized
EQUAL_STEPS = 3  # that must draw equal random numbers, or bring equal gradients, on all ranks
_REDUCTIONS = ("all_reduce", "reduce_scatter", "reduce", "all_gather", "broadcast")  # that synchronize by hand
_NUMBER = 8  # bytes of a loss or a count
_BACKGROUND = {"send": "isend", "recv": "irecv"}  # by how the recorder names them
_MOST_SETTINGS = 100  # of an optimizer that a rank reports


def silent_faults(timeline: Timeline, script: str = "") -> list[str]:
    """What makes the result of a run wrong although no rank failed, with what to do; none for a failed run."""
    if timeline.failed:
        return []
    drift = [
        *_never_synchronized(timeline, script),
        *_stepped_unsynchronized(timeline, script),
        *_unreduced_gradients(timeline, script),
        *_unlike_optimizers(timeline, script),
    ]
    return [
        *_never_awaited(timeline),
        *_changed_before_wait(timeline),
        *(drift or _replicas_differ(timeline, script)),
        *_replicas_without_ddp_differ(timeline, script),
        *_shards_stepped_apart(timeline),
        *_same_order_each_epoch(timeline, script),
        *equal_gradients(timeline, len(timeline.ranks)),
    ]


def compares_weights(timeline: Timeline) -> bool:
    """Whether the weights of replicas were compared on all ranks, at some steps of their optimizers."""
    ranks = [timeline.training[rank] for rank in timeline.ranks]
    if len(ranks) < 2 or all(rank.weights for rank in ranks):
        return len(ranks) > 1
    common = set.intersection(*({*rank.samples} for rank in ranks))
    return any(len({rank.samples[each].calls for rank in ranks}) == 1 for each in common)


def _never_synchronized(timeline: Timeline, script: str) -> Iterator[str]:
    """A DDP model exists, optimizers step, and nothing but single numbers is ever reduced after that."""
    trained = [rank for rank in timeline.training.values() if rank.wrapped_at is not None and rank.all_steps >= _STEPS]
    if not trained or any(rank.passes or rank.unsynced for rank in timeline.training.values()):
        return
    wrapped_at = {rank.wrapped_at for rank in trained}
    by_hand = (
        cost for (_, line, op), cost in timeline.costs.lines.items()
        if op.startswith(_REDUCTIONS) and line not in wrapped_at and cost.bytes > _NUMBER * cost.calls
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


def at(script: str, line: int) -> str:
    """How a sentence begins that is about a line of the script; nothing outside the script."""
    return f"{format_place(script, line)}: " if line else ""


def _stepped_unsynchronized(timeline: Timeline, script: str) -> Iterator[str]:
    """An optimizer steps with gradients that each rank has accumulated for itself, inside no_sync."""
    worst = max(timeline.training.values(), key=lambda rank: len(rank.unsynced), default=None)
    if worst is None or not worst.unsynced or _averages_by_hand(timeline):
        return
    count, off_at = len(worst.unsynced), worst.switched_off_at
    line = worst.unsynced[0][0] if off_at is None else off_at
    after = ", after the last pass that DDP synchronized" if any(synced for _, synced in worst.unsynced) else ""
    of = f"{count:,} of {plural(worst.all_steps, 'step')}" if count < worst.all_steps else plural(count, "step")
    if off_at is None:
        yield (
            f"{at(script, line)}{of} of the optimizer used gradients that each rank had accumulated for itself inside "
            f"no_sync(){after}: the replicas drift apart. The last forward and backward pass before each step must be "
            "outside no_sync()."
        )
        return
    yield (
        f"{at(script, line)}{of} of the optimizer used gradients that each rank had accumulated for itself, because "
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
        f"{at(script, mark.line)}DDP does not reduce the gradient of {names}: {why}, so each rank trains its own "
        "values. Unfreeze and add parameters before DDP wraps the model, or wrap it again afterward."
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
            f"{at(script, firsts[min(firsts)].line)}the optimizers began the training of the DDP model with different "
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
                rank: ", ".join(each for each in mark.settings.split(", ") if each not in common) or "none of these"
                for rank, mark in used.items()
            }
            yield (
                f"{at(script, used[min(used)].line)}in step {step:,} the optimizers of the ranks have different "
                f"settings, so the replicas drift apart: {_by_rank(differ)}. Set them, and step "
                "schedulers, in the same way on every rank."
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
        f"{at(script, ranks[min(ranks)][step].line)}after step {step:,} of the optimizer the replicas of the DDP "
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
        samples = {step: [ranks[rank][optimizer, step] for rank in ranks] for step in steps}
        if any(len({each.calls for each in of_step}) > 1 for of_step in samples.values()):
            continue  # the optimizer of each rank updates parameters of its own, which were reduced in other calls
        mark = samples[steps[0]][0]
        if mark.op and (mixed := [step for step in steps if len({each.updated for each in samples[step]}) > 1]):
            yield (
                f"{format_place(mark.file, mark.line)}: in step {mixed[0]:,} the calls that reduce gradients combined "
                "those of different parameters, because some parameters had a gradient on a part of the ranks only and "
                "were skipped elsewhere. Reduce the gradients of the same parameters on every rank, with zeros where a "
                "rank has none."
            )
            return
        sums = {step: {rank: ranks[rank][optimizer, step].checksum for rank in ranks} for step in steps}
        differ = [step for step in steps if len({*sums[step].values()}) > 1]
        if not differ or differ[-1] != steps[-1] or (not mark.op and differ[0] == 1):  # other models, maybe
            continue
        who = _other_weights(sums[differ[0]])
        equal = [step for step in steps if step < differ[0]]
        since = f"; before step {equal[-1]:,} they were equal" if equal else ""
        found = f"before step {differ[0]:,} of the optimizer the replicas differ: {who}{since}."
        wrapped_at = timeline.training[min(ranks)].wrapped_at or 0
        if not mark.op:
            yield (
                f"{at(script, wrapped_at)}DDP got a process group in which each rank is alone, so it averages no "
                f"gradients, and {found} Pass the group of the ranks that hold replicas, or none for all ranks."
            )
        elif mark.op == "reduce":
            yield (
                f"{format_place(mark.file, mark.line)}: reduce collects the gradients on one rank, and every "
                f"rank takes a step: {found} Use all_reduce, or let only that rank make the step, and send its weights "
                "to the others."
            )
        else:
            advice = (
                "Look for what a rank does by itself to its gradients or weights: it divides by a number of its own, "
                "clips by its own norm, skips a step, or makes the step before the wait() of an asynchronous call."
                if equal
                else "Weights stay equal only if they start equal: send all weights of rank 0 to the others before the "
                "first step, and let all ranks change them alike."
            )
            yield f"{format_place(mark.file, mark.line)}: the script averages gradients itself, and {found} {advice}"
        return


def parts_apart(timeline: Timeline, script: str = "") -> list[str]:
    """What drifts apart because not all ranks bring its gradients together, which only the author can judge."""
    ranks = {rank: timeline.training[rank].parts for rank in timeline.ranks}
    common = sorted(set.intersection(*({*parts} for parts in ranks.values()))) if len(ranks) > 1 else []
    marks = [mark for parts in ranks.values() for mark in parts.values()]
    if (
        timeline.failed
        or not common
        or _exchanges_by_hand(timeline, {(each.reduced_in, each.reduced_at) for each in marks})
    ):
        return []
    found = []
    for optimizer in dict.fromkeys(optimizer for optimizer, _ in common):
        steps = [step for number, step in common if number == optimizer]
        first, last = (
            {rank: parts[optimizer, step] for rank, parts in ranks.items()} for step in (steps[0], steps[-1])
        )
        within = {mark.members or (rank,): mark.checksum for rank, mark in last.items()}
        if (
            steps[0] != 1
            or len({(mark.checksum, mark.count) for mark in first.values()}) > 1
            or len({mark.checksum for mark in last.values()}) < 2
            or any(
                mark.has_exchanged or within[mark.members or (rank,)] != mark.checksum for rank, mark in last.items()
            )
        ):
            continue
        mark, what = last[min(last)], plural(first[min(first)].count, "parameter")
        since = (
            f"the parameters were equal on all ranks before step 1 of the optimizer, and before step {steps[-1]:,} they"
        )
        if not mark.members:
            is_beside = any(rank.wrapped_at is not None or rank.sharded for rank in timeline.training.values())
            outside = " outside the model that the ranks train together" * is_beside
            found.append(
                f"{at(script, mark.line)}the optimizer updates {what}{outside}, and nothing reduces their gradients: "
                f"{since} differ. If all ranks are to hold the same values, "
                + (
                    "wrap the whole model in DDP, or call fully_shard on its root, too; "
                    if is_beside
                    else "wrap the model in DDP, as in DDP(model), and call that in the forward pass; "
                )
                + "if each rank is to train its own, this is right."
            )
            continue
        place = (
            f"{format_place(mark.reduced_in, mark.reduced_at)}: {mark.op}"
            if mark.op
            else (f"{at(script, timeline.training[min(ranks)].wrapped_at or 0)}DDP")
        )
        groups = " and ".join(f"({format_ranks(group)})" for group in sorted(within))
        found.append(
            f"{place} brings together the gradients of {what} within groups of ranks, {groups}: {since} differ between "
            "the groups. If all ranks train one model, use the group of all its replicas; if each group is to train "
            "its own, this is right."
        )
    return found


def _exchanges_by_hand(timeline: Timeline, reductions: set[tuple[str, int]]) -> bool:
    """Whether a line brings more than single numbers to other ranks, beside DDP, fully_shard and these reductions.

    Weights may be averaged there. A broadcast may be that of the first weights.
    """
    return any(
        not cost.is_ddp
        and (file, line) not in reductions
        and not op.startswith(("broadcast", "all_gather_into_tensor", "reduce_scatter_tensor"))
        and any("float" in dtype for dtype in cost.dtypes)
        and cost.bytes > _NUMBER * cost.calls
        for (file, line, op), cost in timeline.costs.lines.items()
    )


def _shards_stepped_apart(timeline: Timeline) -> Iterator[str]:
    """The ranks hold one model in shards, and have updated their shards a different number of times."""
    steps = {rank: timeline.training[rank].shard_steps for rank in timeline.ranks}
    if timeline.ended_well and all(steps.values()) and len({*steps.values()}) > 1:
        made = _by_rank({rank: f"made {plural(count, 'step')}" for rank, count in steps.items()})
        yield (
            f"each rank holds a shard of the same model, but their optimizers did not step alike: {made}. The shards "
            "no longer belong together. Let all ranks decide together whether to step: all-reduce the norm or the flag "
            "that decides."
        )


def _other_weights(sums: Mapping[int, str]) -> str:
    """Which ranks hold other weights than most."""
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for rank, checksum in sums.items():
        alike[checksum].append(rank)
    usual = max(alike.values(), key=len)
    odd = [rank for rank in sums if rank not in usual]
    if len(usual) == 1 and len(sums) > 2:
        return "each rank holds different weights"
    return f"{format_ranks(odd)} {'holds' if len(odd) == 1 else 'hold'} different weights from {format_ranks(usual)}"


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


def _changed_before_wait(timeline: Timeline) -> Iterator[str]:
    """An operation runs in the background, and the script changes its tensor before it has waited."""
    marks = {mark for rank in timeline.training.values() for mark in rank.changed}
    first = {(mark.file, mark.line, mark.op): mark for mark in sorted(marks, key=lambda mark: -mark.time)}
    for (file, line, op), mark in sorted(first.items()):
        began = _BACKGROUND.get(op, f"{op} with async_op=True")
        waits = f" at {format_place(mark.waited_in, mark.waited_at)}" if mark.waited_at else ""
        yield (
            f"{format_place(file, line)}: the script began {began}, and changed its tensor in place before it called "
            f"wait(){waits}: until then the call may still read the tensor or write to it, so the result depends on "
            "chance. Change the tensor only after wait(), or give the call a clone of it."
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


def equal_gradients(timeline: Timeline, world: int) -> Iterator[str]:
    """Ranks compute the same gradients: they read the same batches, and do the work of one."""
    alike: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for rank, training in sorted(timeline.training.items()):
        alike[tuple(training.gradient_sums)].append(rank)
    twins = [those for sums, those in alike.items() if len(those) > 1 and len({*sums}) >= EQUAL_STEPS]
    if len(timeline.training) != world or not twins:
        return
    if len(alike) > 1 and not _ddp_spans(timeline, world):  # ranks that hold parts of a layer may read the same batches
        return
    passes = min(len(sums) for sums, those in alike.items() if those in twins)
    who = f"all {world} ranks" if len(alike) == 1 else format_ranks(twins[0])
    others = "".join(f", and so did {format_ranks(those)}" for those in twins[1:])
    work = "they do the work of one" if len(alike) == 1 else f"the {world} ranks do the work of {len(alike)}"
    yield (
        f"{format_place(*timeline.training[twins[0][0]].pass_place)}: {who} computed the same gradients in each of the "
        f"first {passes} backward passes{others}, so {work}: they read the same batches. Use a "
        "DistributedSampler with each rank's own number, or let the seed that chooses the data depend on the rank."
    )


def _ddp_spans(timeline: Timeline, world: int) -> bool:
    """Whether DDP averages gradients over all ranks, each of which holds a whole model then."""
    buckets = [cost.first for cost in timeline.costs.lines.values() if cost.is_ddp and cost.first]
    return bool(buckets) and all(len(each.members) == world for each in buckets)
