"""`ddpquiz plan --schedule`: the pipeline of a plan as a run that can be replayed, drawn, printed and saved."""

from __future__ import annotations

import gc
from pathlib import Path

import typer

from ddpquiz.cli import saving
from ddpquiz.errors import UserError
from ddpquiz.events.event import Event, encode
from ddpquiz.events.run_state import RunState
from ddpquiz.plan.page import schedule_page
from ddpquiz.plan.plan import Plan
from ddpquiz.plan.schedule import Durations, PipelineRun, schedule_events, simulate
from ddpquiz.plan.step_time import usual_stage
from ddpquiz.plan.traffic import cut_bytes
from ddpquiz.terminal.kit import layout, screen, style
from ddpquiz.terminal.runs.replay import replay

_REPLAYED = 3_000  # tasks of a schedule in a replay; of a longer one, fewer micro-batches are shown


def show_schedule(plan: Plan, save: Path | None, *, as_json: bool) -> None:
    """Show the pipeline of a plan: in a terminal as a replay, elsewhere as a picture; save it if a file is named."""
    if plan.job.layout.pp == 1:
        raise UserError("There is no pipeline in this layout; add pp=2 or more to --layout.")
    gc.disable()
    run = _simulated(plan, plan.job.micro_batches)
    if save:
        _save(plan, run, save)
    elif as_json:
        for event in _events(plan, run):
            typer.echo(encode(event))
    else:
        out, shown = style.console(), run
        if screen.is_interactive():
            shown = _shorter(plan, run)
            replay(_events(plan, shown), out)
        layout.show(out, schedule_page(shown, min(out.width, layout.MEASURE), run.micro_batches))


def _simulated(plan: Plan, micro_batches: int) -> PipelineRun:
    """Simulate the pipeline of a plan with the durations of its stages."""
    layout = plan.job.layout
    times = Durations(*usual_stage(plan.job, plan.machine))
    return simulate(layout.schedule, layout.pp, micro_batches, times, layout.chunks)


def _shorter(plan: Plan, run: PipelineRun) -> PipelineRun:
    """Return a run with fewer micro-batches if a replay of all would be too long to step through."""
    pp = plan.job.layout.pp
    if sum(map(len, run.ranks)) <= _REPLAYED:
        return run
    return _simulated(plan, min(run.micro_batches, max(2 * pp, _REPLAYED // (3 * pp * pp) * pp)))


def _events(plan: Plan, run: PipelineRun) -> list[Event]:
    layout, every = plan.job.layout, plan.job.micro_batches
    part = "" if run.micro_batches == every else f", the first {run.micro_batches} of {every:,} micro-batches"
    title = f"{plan.job.model.name}: {layout.schedule} on {layout.pp} stages{part}"
    return schedule_events(run, title, int(cut_bytes(plan.job)))


def _save(plan: Plan, run: PipelineRun, path: Path) -> None:
    saving.format_of(path)
    events, state = _events(plan, _shorter(plan, run)), RunState()
    for event in events:
        state.add(event)
    saving.save(events, state, path)
