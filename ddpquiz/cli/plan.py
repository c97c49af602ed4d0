"""`ddpquiz plan`: memory, traffic and time of a training job on any number of GPUs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.cli import plan_views
from ddpquiz.cli.plan_options import PlanOptions
from ddpquiz.cli.typer_options import with_options
from ddpquiz.planning.plan import as_json as plain
from ddpquiz.planning.plan import make_plan


@with_options(PlanOptions)
def plan(
    search: Annotated[
        bool, typer.Option("--search", help="List the best layouts; without --gpus, on the fewest GPUs that work.")
    ] = False,
    scale: Annotated[
        str, typer.Option("--scale", help="FIRST..LAST: throughput on FIRST GPUs, twice as many, and so on.")
    ] = "",
    schedule: Annotated[bool, typer.Option("--schedule", help="Show the pipeline rank by rank, as a run.")] = False,
    compare: Annotated[
        str, typer.Option("--compare", help="What another layout changes, such as tp=4,pp=8,zero=3,pipeline=1f1b.")
    ] = "",
    explain: Annotated[str, typer.Option("--explain", help="A line of the plan: its formula, numbers, source.")] = "",
    save: Annotated[Path | None, typer.Option("--save", help="With --schedule: save it (.json, .svg, ...).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    *,
    options: PlanOptions,
) -> None:
    """Predict memory, traffic and time of training a model on GPUs that you do not have.

    ddpquiz plan --model llama-3-70b --gpu h100 --gpus 256 --layout tp=8,pp=4

    ddpquiz plan --model llama-3-70b --gpu h100 --seq 8192 --search
    """
    schedule = schedule or save is not None
    one_page({"search": search, "scale": scale, "schedule": schedule, "compare": compare, "explain": explain})
    if search:
        plan_views.search(options, as_json=as_json)
    elif scale:
        plan_views.scale(options, scale, as_json=as_json)
    else:
        gpus = options.gpus or plan_views.named_gpus(options)
        made = make_plan(options.job(gpus), options.machine(), gpus)
        if schedule:
            from ddpquiz.cli.plan_schedule import show_schedule  # noqa: PLC0415  # no page of a plan needs a view of runs

            show_schedule(made, save, as_json=as_json)
        elif compare:
            plan_views.compare(made, options.with_layout(compare), gpus, as_json=as_json)
        elif explain:
            plan_views.explain(made, explain, options.tokens * 1e12, as_json=as_json)
        elif as_json:
            typer.echo(json.dumps(plain(made, options.tokens * 1e12)))
        else:
            plan_views.show(made, options.tokens * 1e12)


def one_page(pages: Mapping[str, object]) -> None:
    """Raise BadParameter if more than one of the options is given that each show a page of their own."""
    given = [name for name, value in pages.items() if value]
    if len(given) > 1:
        raise typer.BadParameter(f"it cannot be combined with --{given[0]}.", param_hint=f"--{given[1]}")
