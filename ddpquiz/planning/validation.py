"""Published runs beside predictions, and the constants of each GPU that are fitted to some of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ddpquiz.planning.memory import STATE_BYTES, fullest, stage_activations, zero_bytes
from ddpquiz.planning.model import attention_matrices, mlp_matrices
from ddpquiz.planning.plan import predict, utilization
from ddpquiz.planning.stage_time import Accelerator
from ddpquiz.planning.stages import rank_stages
from ddpquiz.planning.step_traffic import Job

GIB = 2.0**30
BARS = {"step": 0.05, "rate": 0.05, "tflops": 0.05, "memory": 0.05, "activations": 0.05, "states": 0.005, "mfu": 1.0}
UNITS = {
    "step": "s",
    "rate": "tokens/s",
    "tflops": "TFLOP/s",
    "memory": "GiB",
    "activations": "GiB",
    "states": "GiB",
    "mfu": "%",
}


TIMED = ("step", "rate", "tflops")  # kinds that depend on the fitted constants


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """A measured run: its job, what was measured, and the value.

    `what` is `step` (seconds), `rate` (tokens/s/GPU), `tflops` (model TFLOP/s of a GPU), `mfu` (percent, computed from
    the published `seconds`), `memory` (held: states and activations), `activations`, or `states` of the matrices alone.
    `parameters` replaces the model where only its size is published; then `decimal` says that GB are 10^9 bytes.
    Constants of its GPU were fitted to it if `fit` is set. `software` names older software, with an efficiency of its
    own on the same GPU.
    """

    name: str
    what: str
    published: float
    source: str
    job: Job
    machine: Accelerator
    seconds: float = 0.0
    parameters: float = 0.0
    decimal: bool = False
    fit: bool = False
    software: str = ""
    miss: str = ""

    @property
    def fitted_to(self) -> tuple[str, str]:
        """The runs that share constants: those of one GPU and one software."""
        return self.machine.hardware.name, self.software

    @property
    def unit(self) -> str:
        return "GB" if self.decimal else UNITS[self.what]


@dataclass(frozen=True, slots=True)
class RunComparison:
    """A published run with its prediction."""

    run: PublishedRun
    predicted: float

    @property
    def error(self) -> float:
        """The difference: in points for MFU, otherwise relative."""
        difference = self.predicted - self.run.published
        return difference if self.run.what == "mfu" else difference / self.run.published

    @property
    def error_text(self) -> str:
        return f"{self.error:+.1f} points" if self.run.what == "mfu" else f"{self.error:+.1%}"

    def as_json(self) -> dict[str, Any]:
        run = self.run
        texts = {"name": run.name, "what": run.what, "unit": run.unit, "source": run.source, "software": run.software}
        numbers = {"published": run.published, "predicted": self.predicted, "error": self.error}
        return {**texts, **numbers, "fitted": run.fit, "misses": fails(self), "reason": run.miss}


def judge(run: PublishedRun) -> RunComparison:
    """Predict a published run."""
    return RunComparison(run, _predicted(run, run.machine))


def fails(verdict: RunComparison) -> bool:
    """Return True if a prediction misses the bar of its kind."""
    return abs(verdict.error) > BARS[verdict.run.what]


def _predicted(run: PublishedRun, machine: Accelerator) -> float:
    job = run.job
    match run.what:
        case "step":
            return predict(job, machine).time.total
        case "rate":
            return predict(job, machine).tokens_per_second
        case "tflops":
            plan = predict(job, machine)
            return plan.model_flops * plan.tokens_per_second / 1e12
        case "mfu":
            plan = predict(job, machine)
            rate = plan.step_tokens / run.seconds / job.layout.gpus
            return 100 * utilization(plan.model_flops, rate, machine.peak)
        case "states":
            return _states(run) / (1e9 if run.decimal else GIB)
        case "activations":
            (held,) = rank_stages(job.model, job.layout, 0)
            stored, _ = stage_activations(job.model, job.layout, held, job.sizes)
            return (fullest(job.model, job.layout, job.sizes).activations if job.layout.pp > 1 else stored) / GIB
    memory = fullest(job.model, job.layout, job.sizes)
    return memory.total / (1e9 if run.decimal else GIB)


def _states(run: PublishedRun) -> float:
    """Return the bytes of states: of the published size, or of the matrices of a stage's layers alone."""
    layout, model = run.job.layout, run.job.model
    matrices = model.layers * (attention_matrices(model) + mlp_matrices(model)) / (layout.tp * layout.pp)
    each = STATE_BYTES[run.job.sizes.states]
    return sum(zero_bytes(run.parameters or matrices, layout.sharded_over, layout.zero, each))


def mean_errors(verdicts: Sequence[RunComparison]) -> dict[str, float]:
    """Return, for each kind of GPU, the mean absolute error of the step times that the fit did not see."""
    errors: dict[str, list[float]] = {}
    for each in verdicts:
        if each.run.what in TIMED and not each.run.fit:
            errors.setdefault(each.run.machine.hardware.name, []).append(abs(each.error))
    return {name: sum(found) / len(found) for name, found in errors.items()}


CONSTANTS = {  # of hardware: the values among which a fit chooses
    "efficiency": [step / 1000 for step in range(200, 1000)],
    "memory_reached": [step / 100 for step in range(30, 101)],
    "launch": [step * 1e-5 for step in range(201)],
}


def fit_constant(runs: Sequence[PublishedRun], name: str) -> float:
    """Return the value of a constant with the least squared relative error of the step times of some runs.

    The other constants stay as they are, so all of them are fitted when this changes none of them any more.
    """

    def loss(value: float) -> float:
        changed: dict[str, Any] = {name: value}
        if name == "efficiency":
            machines = [replace(run.machine, measured=value) for run in runs]
        else:
            machines = [replace(run.machine, hardware=replace(run.machine.hardware, **changed)) for run in runs]
        predictions = [_predicted(run, machine) for run, machine in zip(runs, machines, strict=True)]
        pairs = zip(predictions, runs, strict=True)
        return sum((predicted / run.published - 1) ** 2 for predicted, run in pairs)

    return min(CONSTANTS[name], key=loss)
