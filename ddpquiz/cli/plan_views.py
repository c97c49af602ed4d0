"""What `ddpquiz plan` shows: a plan, a search, a curve over GPUs, a schedule, a comparison, an explanation."""

from __future__ import annotations

import gc
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ddpquiz.cli.plan_options import PlanOptions, axis_sizes
from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from ddpquiz.planning.plan import Plan
    from ddpquiz.planning.schedule import PipelineRun

MOST_GPUS = 1 << 20
REPLAYED = 3_000  # tasks of a schedule in a replay; of a longer one, fewer micro-batches are shown


def named_gpus(options: PlanOptions) -> int:
    """Return the number of GPUs that the layout names; UserError if it does not say."""
    sizes = axis_sizes(options.layout)
    if not sizes:
        options.job(1)  # reports an unknown model first
        options.machine()  # and an unknown GPU
        raise UserError(
            "How many GPUs? Add --gpus, as in `ddpquiz plan --model llama-3-70b --gpus 256 --search`;"
            " --search without --gpus finds the fewest that fit."
        )
    return sizes.get("tp", 1) * sizes.get("pp", 1) * sizes.get("cp", 1) * sizes.get("dp", 1)


def show(plan: Plan, tokens: float) -> None:
    """Print the page of a plan."""
    from ddpquiz.terminal.kit import pager, style
    from ddpquiz.terminal.pages.plan_page import plan_page

    out = style.console()
    pager.show(out, plan_page(plan, tokens, min(out.width, 100)))


def explain(plan: Plan, line: str, tokens: float, *, as_json: bool) -> None:
    """Print how a line comes about; UserError if there is no such line."""
    from ddpquiz.planning import explanation
    from ddpquiz.terminal.kit import pager, style
    from ddpquiz.terminal.pages.plan_page import explanation_page

    known = explanation.lines()
    if line not in known:
        raise UserError(f"A plan has no line '{line}'; its lines are {', '.join(known)}.")
    found = explanation.explain(plan, line, tokens)
    if as_json:
        typer.echo(json.dumps(asdict(found)))
    else:
        pager.show(style.console(), explanation_page(found))


def compare(plan: Plan, options: PlanOptions, gpus: int, *, as_json: bool) -> None:
    """Print two layouts side by side."""
    from ddpquiz.planning.plan import as_json as plain
    from ddpquiz.planning.plan import make_plan
    from ddpquiz.terminal.kit import pager, style
    from ddpquiz.terminal.pages.plan_tables import comparison

    other = make_plan(options.job(gpus), options.machine(), gpus)
    if as_json:
        typer.echo(json.dumps([plain(each, options.tokens * 1e12) for each in (plan, other)]))
    else:
        pager.show(style.console(), comparison(plan, other))


def search(options: PlanOptions, *, as_json: bool) -> None:
    """Print the best layouts, on the named number of GPUs or on the fewest that fit."""
    from ddpquiz.planning import search as finder
    from ddpquiz.terminal.kit import pager, style
    from ddpquiz.terminal.pages.plan_tables import found_page

    options.check_search()
    job, machine = options.job(options.gpus or 1), options.machine()
    gc.disable()  # hundreds of thousands of objects that all stay alive or are freed at once
    gpus, before = options.gpus, None
    if gpus is None:
        enough = finder.fewest_gpus(job, machine)
        if enough is None:
            raise UserError(
                f"{job.model.name} with {job.sizes.batch:,} x {job.sizes.sequence:,} tokens fits on no number of"
                f" {machine.hardware.name} up to {finder.MOST_GPUS:,}; try --states zero, or fewer tokens."
            )
        gpus, before, found = enough
    else:
        found = finder.search(job, machine, gpus)
    if as_json:
        typer.echo(json.dumps(_found_json(found, gpus, options.tokens * 1e12)))
    else:
        pager.show(style.console(), found_page(found, gpus, options.start, before))


def _found_json(found: Any, gpus: int, tokens: float) -> dict[str, Any]:
    from ddpquiz.planning.plan import as_json as plain

    counts = {"gpus": gpus, "tried": found.tried, "fitting": found.fitting, "refused": dict(found.refused)}
    return {**counts, "plans": [plain(each, tokens) for each in found.plans]}


def scale(options: PlanOptions, text: str, *, as_json: bool) -> None:
    """Print throughput and efficiency as the number of GPUs doubles."""
    from ddpquiz.planning import search as finder
    from ddpquiz.planning.plan import Plan
    from ddpquiz.planning.plan import as_json as plain
    from ddpquiz.terminal.kit import pager, style
    from ddpquiz.terminal.pages.plan_tables import scale_page

    first, _, last = text.partition("..")
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) <= MOST_GPUS):
        raise typer.BadParameter("expected two numbers of GPUs, as in 64..16384.", param_hint="--scale")
    job = options.job(int(first))
    if options.batch is None:  # enough for the largest number
        inner = job.layout.tp * job.layout.pp * job.layout.cp
        least = max(1, int(last) // inner) * job.layout.micro_batch
        job = replace(job, sizes=replace(job.sizes, batch=max(job.sizes.batch, least)))
    plans = finder.scale(job, options.machine(), int(first), int(last))
    if as_json:
        tokens = options.tokens * 1e12
        rows = [plain(one, tokens) if isinstance(one, Plan) else {"gpus": one[0], "refused": one[1]} for one in plans]
        typer.echo(json.dumps(rows))
    else:
        pager.show(style.console(), scale_page(plans, job, options.machine()))


def show_schedule(plan: Plan, save: Path | None, *, as_json: bool) -> None:
    """Show the pipeline of a plan: in a terminal as a replay, elsewhere as a picture; save it if a file is named."""
    from ddpquiz.analysis.event_codec import encode
    from ddpquiz.terminal.kit import layout, screen, style
    from ddpquiz.terminal.pages.schedule_page import schedule_page

    if plan.job.layout.pp == 1:
        raise UserError("There is no pipeline in this layout; add pp=2 or more to --layout.")
    gc.disable()
    run = simulated(plan, plan.job.micro_batches)
    if save:
        _save(plan, run, save)
    elif as_json:
        for event in _events(plan, run):
            typer.echo(encode(event))
    else:
        out, shown = style.console(), run
        if screen.is_interactive():
            from ddpquiz.terminal.runs.replay import replay

            shown = _shorter(plan, run)
            replay(_events(plan, shown), out)
        layout.show(out, schedule_page(shown, min(out.width, layout.MEASURE), run.micro_batches))


def simulated(plan: Plan, micro_batches: int) -> PipelineRun:
    """Simulate the pipeline of a plan with the durations of its stages."""
    from ddpquiz.planning.schedule import Durations, simulate
    from ddpquiz.planning.step_time import usual_stage

    layout = plan.job.layout
    times = Durations(*usual_stage(plan.job, plan.machine))
    return simulate(layout.schedule, layout.pp, micro_batches, times, layout.chunks)


def _shorter(plan: Plan, run: PipelineRun) -> PipelineRun:
    """Return a run with fewer micro-batches if a replay of all would be too long to step through."""
    pp = plan.job.layout.pp
    if sum(map(len, run.ranks)) <= REPLAYED:
        return run
    return simulated(plan, min(run.micro_batches, max(2 * pp, REPLAYED // (3 * pp * pp) * pp)))


def _events(plan: Plan, run: PipelineRun) -> list[Any]:
    from ddpquiz.planning.schedule_events import schedule_events
    from ddpquiz.planning.step_traffic import cut_bytes

    layout, every = plan.job.layout, plan.job.micro_batches
    part = "" if run.micro_batches == every else f", the first {run.micro_batches} of {every:,} micro-batches"
    title = f"{plan.job.model.name}: {layout.schedule} on {layout.pp} stages{part}"
    return schedule_events(run, title, int(cut_bytes(plan.job)))


def _save(plan: Plan, run: PipelineRun, path: Path) -> None:
    from ddpquiz.analysis.run_state import RunState
    from ddpquiz.cli import saving

    saving.format_of(path)
    events, state = _events(plan, _shorter(plan, run)), RunState()
    for event in events:
        state.add(event)
    saving.save(events, state, path)
