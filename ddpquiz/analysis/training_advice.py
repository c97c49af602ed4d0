"""Rules of advice on what a training script forgot, each of which speaks only where it is certain."""

from collections.abc import Iterator

from ddpquiz.analysis.formatting import format_place, plural
from ddpquiz.analysis.timeline import Timeline

STEPS = 2  # of an optimizer, after which gradients must have been synchronised
DRAWS = 3  # steps that must draw equal random numbers on all ranks
SUMS = ("all_reduce", "reduce_scatter", "reduce", "all_gather", "broadcast")  # by which a script may do so itself


def never_synchronised(timeline: Timeline, script: str) -> Iterator[str]:
    """A DDP model exists, optimizers step, and nothing but single numbers is ever reduced after that."""
    found = [rank for rank in timeline.gradients.values() if rank.wrapped_at is not None and rank.all_steps >= STEPS]
    if not found or any(rank.passes for rank in timeline.gradients.values()):
        return
    at = {rank.wrapped_at for rank in found}
    by_hand = (
        cost for (_, line, op), cost in timeline.costs.lines.items()
        if op.startswith(SUMS) and line not in at and cost.bytes > 8 * cost.calls
    )  # fmt: skip
    if not any(by_hand):
        place = f"{format_place(script, found[0].wrapped_at)}: " if found[0].wrapped_at else ""
        yield (
            f"{place}the optimizer made {plural(found[0].all_steps, 'step')}, but DDP never all-reduced a gradient: "
            "the replicas drift apart. Call the DDP model in the forward pass, as in ddp(x), not the model inside it."
        )


def same_order_each_epoch(timeline: Timeline, script: str) -> Iterator[str]:
    """A DistributedSampler gives the same order again, because nobody told it the epoch."""
    worst = max(timeline.gradients.values(), key=lambda rank: rank.same_order, default=None)
    if worst is not None and worst.same_order:
        place = f"{format_place(script, worst.same_order_at)}: " if worst.same_order_at else ""
        yield (
            f"{place}{plural(worst.same_order, 'epoch')} began with the same order of samples as the one before. Call "
            "sampler.set_epoch(epoch) before each epoch; without it, the sampler shuffles only once."
        )


def sharded_as_a_whole(timeline: Timeline, script: str) -> Iterator[str]:
    """A model of several layers is sharded by a single call, so all of its parameters are gathered at once."""
    found = [rank for rank in timeline.gradients.values() if rank.sharded_at is not None]
    if found and all(rank.sharded == 1 for rank in found) and any(rank.all_steps for rank in found):
        place = f"{format_place(script, found[0].sharded_at)}: " if found[0].sharded_at else ""
        yield (
            f"{place}the model is sharded only as a whole, so each step gathers all parameters at once: memory has to "
            "hold the full model, and nothing overlaps. Call fully_shard on each block first, then on the model, or "
            "give FSDP an auto_wrap_policy."
        )


def equal_gradients(timeline: Timeline, world: int) -> Iterator[str]:
    """All ranks compute the same gradients: they read the same batches, and do the work of one."""
    brought = [tuple(rank.brought) for rank in timeline.gradients.values()]
    if len(brought) == world > 1 and len({*brought}) == 1 and len({*brought[0]}) >= DRAWS:
        yield (
            f"All {world} ranks computed the same gradients in each of the first {len(brought[0])} backward passes, so "
            "they do the work of one: they read the same batches. Use a DistributedSampler, or let the seed that "
            "chooses the data depend on the rank."
        )


def read_in_each_step(timeline: Timeline) -> Iterator[str]:
    """A line of the training loop reads a tensor in each step: on a GPU the CPU waits there for the GPU."""
    for text in sorted({rank.reads for rank in timeline.gradients.values() if rank.reads}):
        _, device, how, place = [*text.split(" ", 3), "", "", ""][:4]
        if device == "gpu":
            yield (
                f"{place}: {how} reads a tensor of the GPU in each step. The CPU waits there until the GPU is done, "
                "and queues nothing for the next step meanwhile. Read such values once every few steps."
            )
        else:
            yield (
                f"{place}: {how} reads a result of the model in each step. That is cheap on the CPU; on a GPU, the CPU "
                "would wait there in each step until the GPU is done. There, read such values once every few steps."
            )


def equal_random_numbers(timeline: Timeline, world: int) -> Iterator[str]:
    """The replicas of a DDP model draw the same random numbers in each step, so they drop the same units."""
    if any(equal_gradients(timeline, world)):
        return  # it has the same cause
    ranks = [rank for rank in timeline.gradients.values() if rank.wrapped_at is not None]
    draws = {tuple(rank.draws) for rank in ranks}
    if len(ranks) == world > 1 and len(draws) == 1 and len(draws.pop()) >= DRAWS:
        yield (
            f"All {world} ranks drew the same random numbers in each step, so what they draw is equal: dropout masks, "
            "noise, random batches. Once the model is built, call torch.manual_seed(seed + rank)."
        )
