"""`ddpquiz run`: run and watch the learner's own script, or print a job for another launcher."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.cli.run_display import exit_with_status, print_job, show_run
from ddpquiz.cli.run_options import RunCommand, RunOptions
from ddpquiz.cli.typer_options import with_options
from ddpquiz.ranks.script import of_module

COMMAND_CLASS = RunCommand


@with_options(RunOptions, stay=True)
def run(
    script: Annotated[Path, typer.Argument(help="A script that torchrun could run; with -m, a module.")],
    args: Annotated[list[str] | None, typer.Argument(help="Arguments of the script.")] = None,
    module: Annotated[bool, typer.Option("--module", "-m", help="SCRIPT is a module, as for `python -m`.")] = False,
    *,
    options: RunOptions,
) -> None:
    """Run any torchrun-compatible script on this machine, and watch its ranks.

    Options of ddpquiz go before SCRIPT. Everything after SCRIPT goes to the script, as with torchrun:

    ddpquiz run --nproc 2 train.py --epochs 3
    """
    words, name = tuple(args or ()), str(script) if module else ""
    if module:
        script = of_module(name)
    if options.emit is not None:
        print_job(options, options.emit, script, words, name)
    else:
        request = replace(options.request(script, words, name), diagnose=True, reads_input=True, may_share_gpus=True)
        exit_with_status(show_run(options, request, claims=False))
