"""Which layouts of a number of GPUs fit, best first, and why the others do not."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from ddpquiz.plan.activations import Loss
from ddpquiz.plan.layout import Layout, PipelineSchedule, Recompute, refusal, splits_layers
from ddpquiz.plan.memory import fullest, outer_peaks
from ddpquiz.plan.model import Transformer, parameters
from ddpquiz.plan.plan import Fit, Plan, margin_of, predict, safe_bytes
from ddpquiz.plan.step_time import Accelerator, Works, stage_works, step_time
from ddpquiz.plan.traffic import Job

BEST = 6  # ways to split the GPUs of which a search returns a plan, besides data parallelism alone
MOST_GPUS = 4096  # of a search for the smallest number
_MICRO_BATCHES = (1, 2, 4, 8)
_CHUNKS = (2, 3, 4, 5, 6, 8)
_SMALL = (1, 2, 4)


@dataclass(slots=True)
class SearchResult:
    """What a search found: how many layouts it tried, the best plans, and why others were refused.

    `plans` are the fastest ones, each the best of its way to split the GPUs. The one for data parallelism alone is
    always among them if it fits, because it is the layout that people compare the others with.
    """

    tried: int = 0
    fitting: int = 0
    ways: int = 0  # to split the GPUs with which a layout fits
    plans: list[Plan] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    smallest: tuple[float, Layout] | None = None  # bytes of the layout that needs least

    def refuse(self, reason: str, layout: Layout, count: int, example: str) -> None:
        self.refused[reason] += count
        self.examples.setdefault(reason, example or str(layout))


def _divisors(number: int, most: int) -> list[int]:
    """The divisors of a number up to a bound."""
    return [size for size in range(1, min(number, most) + 1) if number % size == 0]


def layouts(model: Transformer, gpus: int, machine: Accelerator, base: Layout, *, flash: bool) -> Iterator[Layout]:
    """Yield a layout for each way to split the GPUs, with ZeRO-3; a search varies the stage of ZeRO itself.

    Tensor and context parallelism stay within a machine, where their traffic belongs. `base` has what is not varied.
    """
    near = machine.hardware.near.ranks
    kinds = [each for each in Recompute if not flash or each is not Recompute.SELECTIVE]  # it stores no scores
    for tp in _divisors(gpus, near):
        if model.heads % tp:
            continue
        for cp in _divisors(gpus // tp, max(near // tp, 1)):
            for pp in _divisors(gpus // tp // cp, model.layers):
                dp = gpus // tp // cp // pp
                experts = _divisors(dp * cp, model.experts.count) if model.experts else [1]
                for ep in experts:
                    if model.experts and model.experts.count % ep:
                        continue
                    axes = partial(replace, base, dp=dp, tp=tp, pp=pp, cp=cp, ep=ep, zero=3)
                    for schedule, chunks in _pipelines(model, pp):
                        for recompute in kinds:
                            for size in _MICRO_BATCHES:
                                yield axes(schedule=schedule, chunks=chunks, recompute=recompute, micro_batch=size)


def _pipelines(model: Transformer, pp: int) -> list[tuple[PipelineSchedule, int]]:
    """The schedules, with their numbers of chunks, that a pipeline of this length could use."""
    if pp == 1:
        return [(PipelineSchedule.ONE_F_ONE_B, 1)]
    chunked = [(PipelineSchedule.INTERLEAVED, chunks) for chunks in _CHUNKS if splits_layers(model.layers, pp * chunks)]
    return [(PipelineSchedule.ONE_F_ONE_B, 1), *chunked, (PipelineSchedule.ZERO_BUBBLE, 1)]


def search(job: Job, machine: Accelerator, gpus: int) -> SearchResult:
    """Try all layouts; the plans are the fastest for each way to split the GPUs, sorted by the time of a step."""
    found = SearchResult()
    best: list[tuple[float, int, int, Layout]] = []
    model, sizes = job.model, job.sizes
    limits = [safe_bytes(machine.hardware.memory, margin_of(sizes, zero)) for zero in range(4)]
    cautious = sizes.cautious  # a layout fits if it does with any software, unless it is stated
    for layout in layouts(model, gpus, machine, job.layout, flash=sizes.flash):
        found.tried += 4
        if why := refusal(model, layout, gpus=gpus, batch=sizes.batch, sequence=sizes.sequence):
            found.refuse(why.kind, layout, 4, why.sentence)
            continue
        works: Works | None = None
        peaks = outer_peaks(model, layout, cautious)
        for zero in (3, 2, 1, 0):
            tried = layout if zero == layout.zero else replace(layout, zero=zero)
            need = fullest(model, tried, cautious, peaks).total
            if found.smallest is None or need < found.smallest[0]:
                found.smallest = need, tried
            if need > limits[zero]:
                if tried.keeps_gathered or need <= max(limits):  # a lower stage may need less, or have a smaller margin
                    found.refuse("may not fit", tried, 1, "")
                    continue
                found.refuse("may not fit", tried, zero + 1, "")  # nor do the lower stages, which shard less
                break
            found.fitting += 1
            candidate = Job(model, tried, sizes)
            works = works or stage_works(candidate, machine)
            best.append((step_time(candidate, machine, works).total, zero, len(best), tried))
    fastest: dict[tuple[int, ...], Layout] = {}
    for *_, layout in sorted(best):
        fastest.setdefault(_split(layout), layout)
    found.ways = len(fastest)
    kept = [layout for at, layout in enumerate(fastest.values()) if at < BEST or _only_dp(layout)]
    found.plans = [predict(Job(model, layout, sizes), machine) for layout in kept]
    return found


def _split(layout: Layout) -> tuple[int, ...]:
    """How a layout splits the GPUs; dp has the rest of them."""
    return layout.tp, layout.cp, layout.pp, layout.ep


def _only_dp(layout: Layout) -> bool:
    """Whether a layout splits the batch among the GPUs, and neither the model nor the sequences."""
    return _split(layout) == (1, 1, 1, 1)


def fewest_gpus(job: Job, machine: Accelerator, most: int = MOST_GPUS) -> tuple[int, int, SearchResult] | None:
    """The smallest number of GPUs on which any layout fits, the number before it, and the search there.

    Up to a machine these are 1, 2, 4, ..., beyond it whole machines.
    """
    near = machine.hardware.near.ranks
    sizes = sorted({size for size in _SMALL if size < near} | set(range(near, most + 1, near)))
    before = 0
    for gpus in sizes:
        if least_state_bytes(job, gpus) <= safe_bytes(machine.hardware.memory):
            found = search(job, machine, gpus)
            if found.plans:
                return gpus, before, found
        before = gpus
    return None


def least_state_bytes(job: Job, gpus: int) -> float:
    """The bytes of states on each GPU if they were spread evenly: no layout needs less.

    They are those of the software that needs most, unless it is stated, because a layout has to fit with any.
    """
    return parameters(job.model) * job.sizes.cautious.state_bytes.total / gpus


def plans_by_gpus(job: Job, machine: Accelerator, first: int, last: int) -> list[Plan | tuple[int, str]]:
    """A plan for each doubling of GPUs, which lengthens dp while the batch stays, or why there is no plan."""
    found: list[Plan | tuple[int, str]] = []
    layout, gpus = job.layout, first
    inner = layout.tp * layout.pp * layout.cp
    while gpus <= last:
        if gpus % inner:
            fits = max(gpus // inner, 1) * inner
            found.append((gpus, f"{gpus:,} is no multiple of tp x cp x pp = {inner}; {fits:,} would do."))
        else:
            wider = replace(layout, dp=gpus // inner)
            why = refusal(job.model, wider, gpus=gpus, batch=job.sizes.batch, sequence=job.sizes.sequence)
            if why:
                found.append((gpus, why.sentence))
            else:
                found.append(predict(_replace_layout(job, wider), machine))
        gpus *= 2
    return found


def _replace_layout(job: Job, layout: Layout) -> Job:
    """The job on another layout."""
    return Job(job.model, layout, job.sizes)


def ways_to_fit(plan: Plan) -> list[tuple[str, Plan]]:
    """The single changes of a layout after which a plan fits for sure, each with its plan, the fastest first."""
    job, layout, sizes = plan.job, plan.job.layout, plan.job.sizes
    changed = [
        (f"--micro-batch {size}", replace(layout, micro_batch=size), sizes)
        for size in sorted({layout.micro_batch // 2, layout.micro_batch // 4, 1})
        if 0 < size < layout.micro_batch
    ]
    order = list(Recompute)
    stronger = order[order.index(layout.recompute) + 1 :]
    kinds = [each for each in stronger if not (sizes.flash and each is Recompute.SELECTIVE)]
    changed += [(f"--recompute {each}", replace(layout, recompute=each), sizes) for each in kinds]
    if layout.replicas > 1:
        changed += [(f"--zero {zero}", replace(layout, zero=zero), sizes) for zero in range(layout.zero + 1, 4)]
    if sizes.open_options:
        stated = replace(sizes, states=sizes.state_kind, loss=sizes.loss_kind)
        named = {"--states": stated.states, "--loss": stated.loss}
        changed.append((" ".join(f"{option} {named[option]}" for option in sizes.open_options), layout, stated))
    if sizes.loss_kind in (Loss.EAGER, Loss.GATHERED, Loss.IN_PLACE):
        changed.append(("--loss fused", layout, replace(sizes, loss=Loss.FUSED)))
    found = []
    for option, other, conventions in changed:
        if not refusal(job.model, other, gpus=layout.gpus, batch=sizes.batch, sequence=sizes.sequence):
            candidate = predict(Job(job.model, other, conventions), plan.machine)
            if candidate.fit is Fit.YES:
                found.append((option, candidate))
    return sorted(found, key=lambda way: way[1].time.total)
