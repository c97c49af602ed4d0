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
            "hold the full model, and nothing overlaps. Call fully_shard on each block first, then on the model."
        )


def equal_random_numbers(timeline: Timeline, world: int) -> Iterator[str]:
    """The replicas of a DDP model draw the same random numbers in each step, so they drop the same units."""
    ranks = [rank for rank in timeline.gradients.values() if rank.wrapped_at is not None]
    draws = {tuple(rank.draws) for rank in ranks}
    if len(ranks) == world > 1 and len(draws) == 1 and len(draws.pop()) >= DRAWS:
        yield (
            f"All {world} ranks drew the same random numbers in each step: their dropout masks and their noise are "
            "equal. Once the model is built, call torch.manual_seed(seed + rank)."
        )
