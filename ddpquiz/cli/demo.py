"""`ddpquiz demo`: run a demo on real ranks, or list the demos."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.cli import completion
from ddpquiz.cli.output import say
from ddpquiz.cli.run_options import DemoCommand, RunOptions
from ddpquiz.cli.typer_options import with_options
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.demo_scripts import DEMO_PATIENCE, demos
from ddpquiz.curriculum.packs import pack_demos
from ddpquiz.learning.side_files import load_timings
from ddpquiz.paths import data_dir, demos_dir
from ddpquiz.terminal.kit import pager, style
from ddpquiz.terminal.pages import lists
from ddpquiz.terminal.sittings.rank_runner import script_of

COMMAND_CLASS = DemoCommand


@with_options(RunOptions, timeout=DEMO_PATIENCE)
def demo(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="The demo. Without a name, list the demos.", autocompletion=completion.demos)
    ] = None,
    args: Annotated[list[str] | None, typer.Argument(help="After --: options for the demo.")] = None,
    predict: Annotated[bool, typer.Option(help="Ask for a prediction before the run.")] = True,
    replay: Annotated[bool, typer.Option("--replay", help="Replay a saved run; NAME is a demo or a file.")] = False,
    copy: Annotated[Path | None, typer.Option(help="Copy the script into this folder, to read and change.")] = None,
    about: Annotated[
        bool, typer.Option("--help", "-h", help="Explain a demo and its options; without NAME, show this page.")
    ] = False,
    *,
    options: RunOptions,
) -> None:
    """Run a demo on real ranks, live.

    Options of ddpquiz go before --, options for the demo after it:

    ddpquiz demo allreduce --nproc 2 -- --size 300
    """
    words = tuple(args or ())
    if about and name is None:
        say(context.get_help())
        return
    if replay and not about and (name is None or words):
        raise typer.BadParameter("Name one demo or file: `ddpquiz demo --replay allreduce`.", param_hint="--replay")
    if name is None:
        _list_demos()
        return
    from ddpquiz.cli import demo_run  # noqa: PLC0415  # the list and the help need nothing that runs ranks

    if replay and not about:
        demo_run.play_again(name, options)
    elif copy is not None:
        demo_run.copy_script(script_of(name), copy)
    elif about or {"-h", "--help"} & set(words):
        demo_run.explain(script_of(name))
    else:
        demo_run.run_demo(script_of(name), words, options, predict=predict)


def _list_demos() -> None:
    """Print the demos by track, and how long each took on this machine."""
    known = (*demos(demos_dir()), *pack_demos())
    pager.show_paged(style.console(), lists.demos(loading.load(), known, load_timings(data_dir())))
