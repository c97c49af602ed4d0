"""`ddpquiz demo`: run a demo on real ranks, or list the demos."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddpquiz.cli import completion
from ddpquiz.cli.run_options import RunOptions
from ddpquiz.cli.run_session import exit_with_status, print_summary, show_run
from ddpquiz.cli.script_command import DemoCommand
from ddpquiz.cli.typer_options import with_options
from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from ddpquiz.analysis.run_state import RunState
    from ddpquiz.cli.prediction import PredictedRun

COMMAND_CLASS = DemoCommand
PATIENCE = 10.0  # seconds without progress that count as a hang


@with_options(RunOptions, timeout=PATIENCE)
def demo(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="The demo. Without a name, list the demos.", autocompletion=completion.demos)
    ] = None,
    args: Annotated[list[str] | None, typer.Argument(help="After --: options of the demo.")] = None,
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

    Options of ddpquiz go before --, options of the demo after it:

    ddpquiz demo allreduce --nproc 2 -- --size 300
    """
    words = tuple(args or ())
    if about and name is None:
        typer.echo(context.get_help())
    elif replay and not about:
        if name is None or words:
            raise typer.BadParameter("Name one demo or file: `ddpquiz demo --replay allreduce`.", param_hint="--replay")
        play_again(name, options)
    elif name is None:
        list_demos()
    elif copy is not None:
        copy_script(script_of(name), copy)
    elif about or {"-h", "--help"} & set(words):
        explain(script_of(name))
    else:
        run_demo(script_of(name), words, options, predict=predict)


def run_demo(script: Path, args: tuple[str, ...], options: RunOptions, *, predict: bool) -> None:
    """Run a demo, after a prediction if one is wanted, save how long it took, and end with its status."""
    from ddpquiz.curriculum.demo_scripts import read_demo

    predict = predict and not (options.max_restarts or options.plain or options.json or options.emit)
    options = replace(options, max_restarts=options.max_restarts or read_demo(script).restarts)
    if options.emit is not None:
        options.print_job(options.emit, script, args)
        return
    request = options.request(script, args)
    prediction = predicted(script, args, options.nproc) if predict else None
    if prediction:
        request = replace(request, ranks=prediction.link.ranks)
    shown = show_run(options, request, prediction.hint if prediction else None)
    save_time(script, args, shown.asked)
    exit_with_status(shown, prediction)


def list_demos() -> None:
    """Print the demos by track, and how long each took on this machine."""
    from ddpquiz.curriculum import loading
    from ddpquiz.curriculum.demo_scripts import demos
    from ddpquiz.curriculum.packs import pack_demos
    from ddpquiz.learning.side_files import load_timings
    from ddpquiz.paths import data_dir, demos_dir
    from ddpquiz.terminal.kit import pager, style
    from ddpquiz.terminal.pages import listing

    known = (*demos(demos_dir()), *pack_demos())
    pager.show(style.console(), listing.demos(loading.load(), known, load_timings(data_dir())))


def save_time(script: Path, args: tuple[str, ...], seen: RunState) -> None:
    """Save how long a demo took, if it succeeded."""
    from ddpquiz.learning.side_files import Timing, save_timing
    from ddpquiz.paths import data_dir, demo_name

    if seen.end and seen.end.ok:
        save_timing(data_dir(), demo_name(script), Timing(round(seen.end.time, 2), seen.ranks, args))


def explain(script: Path) -> None:
    """Print what a demo shows and its options, from its docstring and its --help. UserError if that fails."""
    from rich.console import Group
    from rich.text import Text

    from ddpquiz.curriculum.demo_scripts import read_demo
    from ddpquiz.ranks.proof_runner import follow
    from ddpquiz.ranks.request import Request
    from ddpquiz.terminal.kit import pager, style
    from ddpquiz.terminal.runs.script import of_script, tries

    about, _, _ = read_demo(script).about.partition("\n\nTry ")
    page = [style.prose(about), Text(), *tries(of_script(str(script)))]
    _, seen = follow(Request(script, args=("--help",), ranks=1, device="cpu"))
    why = seen.raised or seen.failed
    if not why:
        options = "".join(seen.printed[0].partition("options:")[1:])
        where = "These options go after --. The options in `ddpquiz demo --help` go before it."
        page += [Text(), Text(options), Text(where)]
    pager.show(style.console(), Group(*page))
    if why:
        raise UserError(f"{script.name} cannot print its options: {why}")


def predicted(script: Path, args: tuple[str, ...], nproc: int | None) -> PredictedRun | None:
    """Ask for a prediction, if this is a terminal, while torch is imported in the server."""
    from ddpquiz.cli import prediction
    from ddpquiz.errors import ContentError
    from ddpquiz.paths import demo_name
    from ddpquiz.terminal.kit import screen, style
    from ddpquiz.terminal.sittings.prediction import NoRun

    if not screen.is_interactive():
        return None
    try:
        return prediction.ask(demo_name(script), args, nproc, style.console())
    except ContentError:  # demos also run while content is being edited
        return None
    except NoRun:
        raise typer.Exit from None


def script_of(name: str) -> Path:
    """Return the script of a demo. UserError if no demo has that name."""
    from ddpquiz.curriculum.pack_consent import allowed_pack
    from ddpquiz.paths import demo_file

    pack, slash, demo = name.rpartition("/")
    path = demo_file(f"{pack}{slash}{demo.replace('-', '_').removesuffix('.py')}")
    if path.is_file():
        allowed_pack(pack)
    else:
        near = demo_meant(name)
        hint = f"Did you mean '{near}'?" if near else "`ddpquiz demo` lists them."
        raise UserError(f"No demo named '{name}'. {hint}")
    return path


def demo_meant(name: str) -> str:
    """Return the demo that is probably meant, otherwise "".

    That is one of a pack with this name, one with nearly the same name, the first one of a concept with that name, or
    one with a similar name.
    """
    import difflib

    from ddpquiz.curriculum import loading
    from ddpquiz.errors import ContentError

    demos = completion.demos("")
    same = [demo for demo in demos if demo.rpartition("/")[2] == name]
    same += difflib.get_close_matches(name, demos, 1, cutoff=0.8)
    try:
        concepts = loading.load().concepts
    except ContentError:  # demos are also found while content is being edited
        concepts = ()
    about = [one.demos[0].run for one in concepts if one.demos and name.lower() in f"{one.id} {one.title}".lower()]
    return next(iter([*same, *about, *difflib.get_close_matches(name, demos, 1)]), "")


def copy_script(script: Path, folder: Path) -> None:
    """Copy a script into a folder. UserError if the file exists or cannot be written."""
    from ddpquiz.curriculum.pack_consent import allowed_pack
    from ddpquiz.paths import pack_of

    target, pack = folder / script.name, allowed_pack(pack_of(script))
    if target.exists():
        raise UserError(f"{target} already exists; move it, or name another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        target.write_bytes(pack.read(script) if pack else script.read_bytes())
    except OSError as wrong:
        raise UserError(f"{target} cannot be written: {wrong.strerror}.") from None
    typer.echo(f"{target}\nChange it, and run it with: ddpquiz run {target}")


def play_again(what: str, options: RunOptions) -> None:
    """Replay, summarize or convert a saved run: the recording of a shipped demo, or a file."""
    from ddpquiz.analysis import saved_run
    from ddpquiz.analysis.event_codec import encode
    from ddpquiz.analysis.run_state import RunState
    from ddpquiz.cli.saving import save
    from ddpquiz.paths import recordings_dir
    from ddpquiz.terminal.kit import screen, style
    from ddpquiz.terminal.runs import plain_lines, replay

    shipped = recordings_dir() / f"{what.replace('-', '_')}.json"
    events = saved_run.read(shipped if shipped.is_file() else Path(what))
    if options.save or options.summary:
        seen = RunState()
        for event in events:
            seen.add(event)
        if options.save:
            save(events, seen, options.save)
        if options.summary:
            print_summary(seen, json=options.json)
    elif options.json:
        for event in events:
            typer.echo(encode(event))
    elif options.plain or not screen.is_interactive():
        plain_lines.print_saved(events, style.console())
    else:
        replay.replay(events, style.console())
