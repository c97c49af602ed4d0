"""What `ddpquiz plan` shows: a plan, a search, a curve over GPUs, a comparison, an explanation."""

from __future__ import annotations

import gc
import json
from dataclasses import asdict, replace
from typing import Any

import typer

from ddpquiz.cli.plan_options import PlanOptions, axis_sizes
from ddpquiz.errors import UserError
from ddpquiz.planning import explanation
from ddpquiz.planning import search as finder
from ddpquiz.planning.plan import Plan, make_plan
from ddpquiz.planning.plan import as_json as plain
from ddpquiz.terminal.kit import pager, style
from ddpquiz.terminal.pages.plan_page import explanation_page, plan_page
from ddpquiz.terminal.pages.plan_tables import comparison, found_page, scale_page

MOST_GPUS = 1 << 20


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
    out = style.console()
    pager.show(out, plan_page(plan, tokens, min(out.width, 100)))


def explain(plan: Plan, line: str, tokens: float, *, as_json: bool) -> None:
    """Print how a line comes about; UserError if there is no such line."""
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
    other = make_plan(options.job(gpus), options.machine(), gpus)
    if as_json:
        typer.echo(json.dumps([plain(each, options.tokens * 1e12) for each in (plan, other)]))
    else:
        pager.show(style.console(), comparison(plan, other))


def search(options: PlanOptions, *, as_json: bool) -> None:
    """Print the best layouts, on the named number of GPUs or on the fewest that fit."""
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
    counts = {"gpus": gpus, "tried": found.tried, "fitting": found.fitting, "refused": dict(found.refused)}
    return {**counts, "plans": [plain(each, tokens) for each in found.plans]}


def scale(options: PlanOptions, text: str, *, as_json: bool) -> None:
    """Print throughput and efficiency as the number of GPUs doubles."""
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
