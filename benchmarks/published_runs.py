"""How far `ddpquiz plan` misses published runs: each prediction beside what was measured.

    python benchmarks/published_runs.py           print the table, and why rows miss their bar
    python benchmarks/published_runs.py --write   also put the tables into docs/published-runs.md and docs/plan.md
    python benchmarks/published_runs.py --fit     fit the constants of each GPU again, beside the shipped ones

The runs are those of content/published-runs.yaml.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from ddpquiz.curriculum.plan_files import UNITS, PublishedRun, load_runs
from ddpquiz.plan import step_time
from ddpquiz.plan.layout import rank_stages
from ddpquiz.plan.memory import fullest, stage_activations, zero_bytes
from ddpquiz.plan.model import attention_matrices, mlp_matrices
from ddpquiz.plan.plan import Fit, predict, utilization
from ddpquiz.plan.plan_page import amount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddpquiz.plan.step_time import Accelerator

_FOLDER = Path(__file__).parents[1] / "docs"
DOCS, PLAN = _FOLDER / "published-runs.md", _FOLDER / "plan.md"
GIB = 2.0**30
# The largest error of each kind that counts as right: relative, but for MFU in points. What ran out of memory counts as
# right if the planner does not say that it fits.
BARS = {"step": 0.2, "rate": 0.2, "tflops": 0.2, "memory": 0.15, "activations": 0.05, "states": 0.005, "mfu": 1.0}
TIMED = ("step", "rate", "tflops")  # kinds that depend on the fitted constants
CONSTANTS = {  # of hardware: the values among which a fit chooses
    "efficiency": [step / 1000 for step in range(200, 1000)],
    "memory_reached": [step / 100 for step in range(30, 101)],
    "launch": [step * 1e-5 for step in range(201)],
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A published run with its prediction."""

    run: PublishedRun
    predicted: float

    @property
    def error(self) -> float:
        """The difference: in points for MFU, otherwise relative."""
        difference = self.predicted - self.run.published
        return difference if self.run.what == "mfu" else difference / self.run.published

    @property
    def misses(self) -> bool:
        if self.run.what == "out-of-memory":
            return predict(self.run.job, self.run.machine).fit is Fit.YES
        return abs(self.error) > BARS[self.run.what]

    @property
    def row(self) -> str:
        """A line of the table, in Markdown."""
        run = self.run
        unit = "GB" if run.decimal else UNITS[run.what]
        error = f"{self.error:+.1f} points" if run.what == "mfu" else f"{self.error:+.1%}"
        cells = (
            run.name + (" (fitted)" if run.fit else ""), run.what, f"{run.published:,g} {unit}",
            f"{amount(self.predicted)} {unit}", f"**{error}**" if self.misses else error,
        )  # fmt: skip
        return f"| {' | '.join(cells)} |"


def compare(run: PublishedRun) -> Comparison:
    """Predict a published run."""
    return Comparison(run, predicted(run, run.machine))


def predicted(run: PublishedRun, machine: Accelerator) -> float:
    """What the planner computes for what was measured, in the unit of the publication."""
    job, byte = run.job, 1e9 if run.decimal else GIB
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
            return states(run) / byte
        case "activations" if job.layout.pp > 1:
            return fullest(job.model, job.layout, job.sizes).activations / byte
        case "activations":
            (held,) = rank_stages(job.model, job.layout, 0)
            return stage_activations(job.model, job.layout, held, job.sizes)[0] / byte
    return fullest(job.model, job.layout, job.sizes).total / byte


def states(run: PublishedRun) -> float:
    """The bytes of states: of the published size, or of the matrices of a stage's layers alone."""
    layout, model = run.job.layout, run.job.model
    matrices = model.layers * (attention_matrices(model) + mlp_matrices(model)) / (layout.tp * layout.pp)
    each = run.job.sizes.state_bytes
    return sum(zero_bytes(run.parameters or matrices, layout.sharded_over, layout.zero, each))


def table(comparisons: Sequence[Comparison]) -> str:
    """The table of all runs."""
    head = "| run | what | published | predicted | error |\n| --- | --- | ---: | ---: | ---: |"
    return "\n".join([head, *(each.row for each in comparisons)]) + "\n"


def unseen(comparisons: Sequence[Comparison], *kinds: str) -> list[Comparison]:
    """The runs of some kinds to which nothing was fitted."""
    return [each for each in comparisons if each.run.what in kinds and not each.run.fit]


def _errors(group: Sequence[Comparison]) -> str:
    """How far a group of predictions misses, as cells of a table."""
    errors = [abs(each.error) for each in group]
    bar = BARS[group[0].run.what]
    within = sum(error <= bar for error in errors) / len(errors)
    return f"{len(group)} | {median(errors):.1%} | {within:.0%} within {bar:.0%} | {max(errors):.1%}"


def summary(comparisons: Sequence[Comparison]) -> str:
    """The errors of the runs to which nothing was fitted: of memory, and of times and rates."""
    head = "| what | runs | median error | within | worst |\n| --- | ---: | ---: | ---: | ---: |"
    memory, time = unseen(comparisons, "memory"), unseen(comparisons, *TIMED)
    return f"{head}\n| memory | {_errors(memory)} |\n| time of a step, or rate | {_errors(time)} |\n"


def by_source(comparisons: Sequence[Comparison]) -> str:
    """The same for each source, GPU and number format."""
    groups: dict[tuple[str, ...], list[Comparison]] = {}
    for each in [*unseen(comparisons, "memory"), *unseen(comparisons, *TIMED)]:
        run = each.run
        what = "memory" if run.what == "memory" else "time or rate"
        groups.setdefault((what, run.source, run.machine.hardware.name, run.machine.precision), []).append(each)
    head = "| what | source | GPU | format | runs | median error | within | worst |"
    rows = [f"| {' | '.join(names)} | {_errors(group)} |" for names, group in groups.items()]
    return "\n".join([head, "| --- | --- | --- | --- | ---: | ---: | ---: | ---: |", *rows]) + "\n"


def said_not_to_fit(runs: Sequence[PublishedRun]) -> tuple[list[str], int]:
    """The runs that ran although the planner says that they do not fit, and how many ran."""
    ran = [run for run in runs if run.what in (*TIMED, "memory")]
    return list(dict.fromkeys(run.name for run in ran if predict(run.job, run.machine).fit is Fit.NO)), len(ran)


def with_table(page: str, rows: str) -> str:
    """A page of the docs with other rows in its table."""
    begin = page.index(rows[: rows.index("\n")])
    end = page.find("\n\n", begin)
    return page[:begin] + rows + (page[end + 1 :] if end >= 0 else "")


def pages(comparisons: Sequence[Comparison]) -> dict[Path, str]:
    """The pages of the docs as they should be."""
    runs = with_table(DOCS.read_text("utf-8"), table(comparisons))
    return {
        DOCS: with_table(runs, by_source(comparisons)),
        PLAN: with_table(PLAN.read_text("utf-8"), summary(comparisons)),
    }


def fitted_runs(runs: Sequence[PublishedRun], gpu: str, software: str = "") -> list[PublishedRun]:
    """The runs to which the constants of a GPU are fitted, or the efficiency of older software on it."""
    timed = [run for run in runs if run.fit and run.what in (*TIMED, "mfu")]
    return [run for run in timed if (run.machine.hardware.name, run.software) == (gpu, software)]


def fit_constant(runs: Sequence[PublishedRun], name: str) -> float:
    """The value of a constant with the least squared relative error of the step times of some runs.

    The other constants stay as they are, so all of them are fitted when this changes none of them any more.
    """

    def loss(value: float) -> float:
        changed: dict[str, Any] = {name: value}
        if name == "efficiency":
            machines = [replace(run.machine, measured=value) for run in runs]
        else:
            machines = [replace(run.machine, hardware=replace(run.machine.hardware, **changed)) for run in runs]
        pairs = zip(runs, machines, strict=True)
        return sum((predicted(run, machine) / run.published - 1) ** 2 for run, machine in pairs)

    return min(CONSTANTS[name], key=loss)


def fit_overlap(runs: Sequence[PublishedRun]) -> tuple[float, float]:
    """The share of attention's kernels, and OVERLAP_COST, with the least squared error of some runs."""

    def loss(pair: tuple[float, float]) -> float:
        attention, step_time.OVERLAP_COST = pair
        machines = [replace(run.machine, attention=attention) for run in runs]
        return sum((predicted(run, made) / run.published - 1) ** 2 for run, made in zip(runs, machines, strict=True))

    shipped = step_time.OVERLAP_COST
    try:
        return min(((a / 20, c / 20) for a in range(6, 21) for c in range(16)), key=loss)
    finally:
        step_time.OVERLAP_COST = shipped


def print_fit(runs: Sequence[PublishedRun]) -> None:
    """Print each constant as a fit finds it and as it is shipped."""
    for gpu, software in sorted({(run.machine.hardware.name, run.software) for run in runs if run.fit}):
        group = fitted_runs(runs, gpu, software)
        machine = group[0].machine
        shipped = {"efficiency": machine.efficiency}
        if len(group) >= 2 * len(CONSTANTS):  # fewer runs say too little of three constants
            shipped |= {name: getattr(machine.hardware, name) for name in ("memory_reached", "launch")}
        for name, value in shipped.items():
            print(f"{gpu}{software and f', {software}'}: {name} {fit_constant(group, name):g}, shipped {value:g}")


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--fit", action="store_true")
    args = parser.parse_args()
    runs = load_runs()
    comparisons = [compare(run) for run in runs]
    print(table(comparisons))
    print(by_source(comparisons))
    print(summary(comparisons))
    refused, ran = said_not_to_fit(runs)
    print(f"{len(refused)} of {ran} runs are said not to fit, but ran: {', '.join(refused)}\n")
    misses = [each for each in comparisons if each.misses]
    print(f"{len(misses)} of {len(comparisons)} rows miss their bar:")
    for reason in dict.fromkeys(each.run.miss for each in misses):
        names = [f"{each.run.name} ({each.run.what})" for each in misses if each.run.miss == reason]
        print(f"- {', '.join(names)}: {reason}")
    if args.fit:
        print_fit(runs)
    if args.write:
        for path, page in pages(comparisons).items():
            path.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
