"""A plan: what a layout needs of memory, network and time, whether it fits, and what comes out of it."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from ddpquiz.plan.hardware import Hardware
from ddpquiz.plan.layer_work import repeated_flops
from ddpquiz.plan.layout import Recompute, check
from ddpquiz.plan.memory import RankMemory, Sizes, fullest
from ddpquiz.plan.model import attention_flops, forward_flops, head_flops, training_flops
from ddpquiz.plan.step_time import Accelerator, StepTime, group_path, seconds, slowest_stage, stage_works, step_time
from ddpquiz.plan.traffic import Job, Traffic, step_traffic

DAY = 86_400.0
HEADROOM = 0.94  # share of a GPU's memory that a plan may fill; CUDA, NCCL and fragments need the rest
MARGIN = 0.15  # share by which a prediction may be wrong; nine in ten of docs/published-runs.md miss by less
# The same for the memory of a job with ZeRO-1 or 2 of DeepSpeed, which makes copies that are not counted: a published
# run of it that is predicted to need 61 GiB ran out of 80.
DEEPSPEED_MARGIN = 0.25


class Fit(StrEnum):
    """Whether a plan fits into the memory of a GPU, as far as a prediction can say."""

    YES = "fits"
    CLOSE = "too close to call"
    NO = "does not fit"


def margin_of(sizes: Sizes, zero: int) -> float:
    """The share by which the memory that is predicted for a stage of ZeRO may be too low."""
    return DEEPSPEED_MARGIN if sizes.uses_deepspeed(zero) else MARGIN


def safe_bytes(memory: float, margin: float = MARGIN) -> float:
    """The largest prediction that fits into this much memory even if it is too low by the margin."""
    return HEADROOM * memory / (1 + margin)


def memory_fit(needed: float, most: float, memory: float, margin: float = MARGIN) -> Fit:
    """Whether a rank that needs so many bytes, and `most` with other software, fits even if a prediction misses.

    It may be too low by `margin`, or too high by MARGIN.
    """
    if most <= safe_bytes(memory, margin):
        return Fit.YES
    return Fit.NO if needed * (1 - MARGIN) > HEADROOM * memory else Fit.CLOSE


@dataclass(frozen=True, slots=True)
class Plan:
    """The prediction for a job on a machine. `traffic` is that of the fullest rank."""

    job: Job
    machine: Accelerator
    memory: RankMemory
    time: StepTime
    traffic: tuple[Traffic, ...]

    @property
    def hardware(self) -> Hardware:
        return self.machine.hardware

    @property
    def capacity(self) -> float:
        """Bytes that a plan may fill."""
        return HEADROOM * self.hardware.memory

    @property
    def fit(self) -> Fit:
        """Whether it fits into the memory of the GPU, with any states and loss where none are stated."""
        return memory_fit(self.memory.total, self.most, self.hardware.memory, self.margin)

    @property
    def margin(self) -> float:
        """The share by which its memory may be predicted too low."""
        return margin_of(self.job.sizes, self.job.layout.zero)

    @property
    def safe_bytes(self) -> float:
        """The largest prediction of memory with which it fits for sure."""
        return safe_bytes(self.hardware.memory, self.margin)

    @property
    def most(self) -> float:
        """Bytes on the fullest rank with the states and the loss that need most memory, unless they are stated."""
        return fullest(self.job.model, self.job.layout, self.job.sizes.cautious).total

    @property
    def step_tokens(self) -> int:
        return self.job.sizes.batch * self.job.sizes.sequence

    @property
    def tokens_per_second(self) -> float:
        """Tokens a second of one GPU."""
        return self.step_tokens / self.time.total / self.job.layout.gpus

    @property
    def mfu(self) -> float:
        return utilization(self.model_flops, self.tokens_per_second, self.machine.peak)

    @property
    def hfu(self) -> float:
        return utilization(self.hardware_flops, self.tokens_per_second, self.machine.peak)

    @property
    def model_flops(self) -> float:
        """Model FLOP of one token."""
        return training_flops(self.job.model, self.job.sizes.sequence, causal=self.machine.causal)

    @property
    def hardware_flops(self) -> float:
        """FLOP of one token with those that recomputation repeats."""
        return self.model_flops + _repeated_flops(self.job, causal=self.machine.causal)

    def days(self, tokens: float) -> float:
        """The days that a number of tokens takes."""
        return tokens / (self.tokens_per_second * self.job.layout.gpus) / DAY

    @property
    def slowest(self) -> int:
        """The stage with most to do."""
        return slowest_stage(stage_works(self.job, self.machine))

    @property
    def limit(self) -> str:
        """What takes most of a step after computing, by name: the column `overhead` of `--search`."""
        costs = {name: getattr(self.time, name) for name in ("tp", "cp", "ep", "pp", "dp", "bubble", "optimizer")}
        return max(costs, key=lambda name: costs[name])

    def wire_seconds(self, part: Traffic) -> float:
        """The seconds that a part of the traffic takes, if nothing hides it."""
        return seconds(self.machine, self.job.layout, [part])

    def in_machine(self, part: Traffic) -> bool:
        """True if a part of the traffic stays inside a machine."""
        return group_path(self.machine, self.job.layout, part).in_machine


def utilization(flops: float, tokens_per_second: float, peak: float) -> float:
    """Return MFU, or HFU, from the FLOP per token and the tokens per second and GPU (arXiv 2204.02311, appendix B)."""
    return flops * tokens_per_second / peak


def _repeated_flops(job: Job, *, causal: bool) -> float:
    """The FLOP of a token that recomputation repeats.

    Full: the forward of all layers. Selective-op: the products that are not kept. Selective: attention's scores and
    their product with the values, which FlashAttention's own backward is not counted for (arXiv 2205.05198, appendix
    A).
    """
    model, sequence = job.model, job.sizes.sequence
    match job.layout.recompute:
        case Recompute.FULL:
            return forward_flops(model, sequence, causal=causal) - head_flops(model)
        case Recompute.SELECTIVE_OP:
            moe = model.moe_layers * repeated_flops(model, moe=True) if model.moe_layers else 0
            return (model.layers - model.moe_layers) * repeated_flops(model, moe=False) + moe
        case Recompute.SELECTIVE if not job.sizes.flash:
            return model.layers * attention_flops(model, sequence, causal=causal)
    return 0.0


def make_plan(job: Job, machine: Accelerator, gpus: int) -> Plan:
    """Predict a job; UserError if the layout cannot run, with the nearest that would."""
    sizes, layout = job.sizes, job.layout
    check(job.model, layout, gpus=gpus, batch=sizes.batch, sequence=sizes.sequence)
    return predict(job, machine)


def predict(job: Job, machine: Accelerator) -> Plan:
    """Predict a job whose layout is known to be possible."""
    memory = fullest(job.model, job.layout, job.sizes)
    traffic = tuple(step_traffic(job, memory.stage))
    return Plan(job, machine, memory, step_time(job, machine), traffic)


def plan_as_json(plan: Plan, tokens: float) -> dict[str, Any]:
    """A plan as plain data; docs/plan.md explains the keys."""
    job, layout = plan.job, plan.job.layout
    return {
        "model": job.model.name,
        "model_read": job.model.origin,
        "gpu": plan.hardware.name,
        "gpus": layout.gpus,
        "layout": {**asdict(layout), "shard": layout.sharded_over},
        "batch": job.sizes.batch,
        "sequence": job.sizes.sequence,
        "micro_batches": job.micro_batches,
        "conventions": {
            "states": job.sizes.state_kind,
            "flash": job.sizes.flash,
            "loss": job.sizes.loss_kind,
            "precision": plan.machine.precision,
            "causal_flops": plan.machine.causal,
            "efficiency": plan.machine.efficiency,
        },
        "fit": plan.fit,
        "margin": plan.margin,
        "memory_bytes": {
            **asdict(plan.memory),
            "total": plan.memory.total,
            "most": plan.most,
            "gpu": plan.hardware.memory,
        },
        "step_seconds": {**asdict(plan.time), "total": plan.time.total},
        "traffic": [
            {
                **asdict(part),
                "sent": part.sent,
                "seconds": plan.wire_seconds(part),
                "in_machine": plan.in_machine(part),
            }
            for part in plan.traffic
        ],
        "tokens_per_second_per_gpu": plan.tokens_per_second,
        "mfu": plan.mfu,
        "hfu": plan.hfu,
        "model_flops_per_token": plan.model_flops,
        "days": plan.days(tokens),
        "limit": plan.limit,
    }
