"""`ddpquiz run`: run and watch the learner's own script."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.cli.run_options import RunOptions
from ddpquiz.cli.run_session import exit_with_status, print_job, show_run
from ddpquiz.cli.script_command import RunCommand
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
    """Run any torchrun-compatible script on ranks of this machine, and watch it.

    Options of ddpquiz go before SCRIPT. Everything after SCRIPT goes to the script, as with torchrun.
    """
    words, name = tuple(args or ()), str(script) if module else ""
    if module:
        script = of_module(name)
    if options.emit is not None:
        print_job(options, options.emit, script, words, name)
    else:
        request = replace(options.request(script, words, name), diagnose=True)
        exit_with_status(show_run(options, request, claims=False))
