"""`ddpquiz run`: watch a script of the learner's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.cli.cluster_options import Emit, Machines, MaxRestarts, Nnodes, NodeRank, RdzvEndpoint
from ddpquiz.cli.run_session import (
    Args,
    Device,
    Json,
    Nproc,
    Options,
    Plain,
    Save,
    Step,
    Strict,
    Summary,
    Timeout,
    end_as,
    follow,
)


def run(
    script: Annotated[Path, typer.Argument(help="A script that torchrun could run; with -m, a module.")],
    args: Args = None,
    module: Annotated[bool, typer.Option("--module", "-m", help="SCRIPT is a module, as for `python -m`.")] = False,
    nproc: Nproc = None,
    device: Device = "auto",
    timeout: Timeout = None,
    plain: Plain = False,
    json: Json = False,
    step: Step = False,
    strict: Strict = False,
    save: Save = None,
    summary: Summary = False,
    nnodes: Nnodes = 1,
    node_rank: NodeRank = None,
    rdzv_endpoint: RdzvEndpoint = "",
    max_restarts: MaxRestarts = 0,
    emit: Emit = None,
) -> None:
    """Run any torchrun-compatible script on ranks of this machine, and watch it."""
    given, machines = tuple(args or ()), Machines(nnodes, node_rank, rdzv_endpoint, max_restarts)
    name = str(script) if module else ""
    if module:
        from ddpquiz.ranks.script import of_module

        script = of_module(name)
    cluster = machines.cluster() if emit is None else None
    options = Options(nproc, device, timeout, plain, json, save, cluster, name, strict, summary, step, claims=False)
    if emit is not None:
        machines.emit(emit, script, given, nproc, device, name)
    else:
        end_as(follow(script, given, options))
