"""`ddpquiz demo`: run a demo on real ranks, or list the demos."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddpquiz.cli import completion
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
    tell_summary,
)
from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from ddpquiz.analysis.run_state import RunState
    from ddpquiz.cli.prediction import PredictedRun
    from ddpquiz.curriculum.concept import DemoLink

PATIENCE = 10.0  # seconds without any movement that count as a hang


def demo(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="The demo; none lists them.", autocompletion=completion.demos)
    ] = None,
    args: Args = None,
    nproc: Nproc = None,
    device: Device = "auto",
    timeout: Timeout = PATIENCE,
    plain: Plain = False,
    json: Json = False,
    predict: Annotated[bool, typer.Option(help="Ask for a prediction before the run.")] = True,
    step: Step = False,
    strict: Strict = False,
    save: Save = None,
    summary: Summary = False,
    replay: Annotated[str | None, typer.Option(help="Play a saved run again: a file, or the name of a demo.")] = None,
    nnodes: Nnodes = 1,
    node_rank: NodeRank = None,
    rdzv_endpoint: RdzvEndpoint = "",
    max_restarts: MaxRestarts = 0,
    emit: Emit = None,
    copy: Annotated[Path | None, typer.Option(help="Put the script into this folder, to read and change.")] = None,
    about: Annotated[
        bool, typer.Option("--help", "-h", help="What a demo shows and its arguments, or this page.")
    ] = False,
) -> None:
    """Run a demo on real ranks, live."""
    if about and name is None:
        typer.echo(context.get_help())
        return
    if name is not None and args and take_ours(context, script_of(name), args):
        context.command.invoke(context)
        return
    if replay is not None:
        if name is not None:
            raise typer.BadParameter(f"it names the run itself: `ddpquiz demo --replay {name}`.", param_hint="--replay")
        play_again(replay, Options(plain=plain, json=json, save=save, summary=summary))
    elif name is None:
        list_demos()
    elif copy is not None:
        copy_script(script_of(name), copy)
    elif about or {"-h", "--help"} & set(args or ()):
        explain(script_of(name))
    else:
        from ddpquiz.curriculum.demo_scripts import read_demo

        script, given = script_of(name), tuple(args or ())
        asked = Machines(nnodes, node_rank, rdzv_endpoint, max_restarts)
        machines = replace(asked, max_restarts=max_restarts or read_demo(script).restarts)
        where = machines.cluster() if emit is None else None
        options = Options(nproc, device, timeout, plain, json, save, where, strict=strict, summary=summary, step=step)
        if emit is not None:
            machines.emit(emit, script, given, nproc, device)
            return
        run_demo(script, given, options, predict=predict and asked == Machines() and not (plain or json))


def run_demo(script: Path, args: tuple[str, ...], options: Options, *, predict: bool) -> None:
    """Run a demo, after a prediction if one is wanted, note how long it took, and end with its status."""
    prediction = predicted(script, args, options.ranks) if predict else None
    if prediction:
        options = replace(options, ranks=prediction.link.ranks)
    looks = (prediction.look, prediction.found) if prediction else ()
    seen = follow(script, args, options, *looks)
    alone = options.cluster is None or options.cluster.nodes == 1
    if alone:  # otherwise other machines were waited for
        keep_time(script, args, seen)
    end_as(seen, prediction)


def list_demos() -> None:
    """Print the demos, by track, and how long each took here."""
    from ddpquiz.curriculum import loading
    from ddpquiz.curriculum.demo_scripts import demos
    from ddpquiz.learning.side_files import load_timings
    from ddpquiz.paths import data_dir, demos_dir
    from ddpquiz.terminal.kit import layout, style
    from ddpquiz.terminal.pages import demos as drawing

    layout.show(style.console(), drawing.demos(loading.load(), demos(demos_dir()), load_timings(data_dir())))


def keep_time(script: Path, args: tuple[str, ...], seen: RunState) -> None:
    """Note how long a demo took, if it ended well."""
    from ddpquiz.learning.side_files import Timing, save_timing
    from ddpquiz.paths import data_dir

    if seen.end and seen.end.ok:
        save_timing(data_dir(), script.stem, Timing(round(seen.end.time, 2), seen.ranks, args))


def explain(script: Path) -> None:
    """Say what a demo shows and which arguments it takes, in its own words; UserError when it cannot."""
    import subprocess
    import sys

    from rich.console import Group
    from rich.text import Text

    from ddpquiz.curriculum.demo_scripts import read_demo
    from ddpquiz.terminal.kit import pager, style
    from ddpquiz.terminal.runs.suggestions import of_script, tries

    about, _, _ = read_demo(script).about.partition("\n\nTry ")
    page = [style.prose(about), Text(), *tries(of_script(str(script)))]
    asked = subprocess.run([sys.executable, str(script), "--help"], capture_output=True, text=True, check=False)
    if asked.returncode == 0:
        options = "".join(asked.stdout.partition("options:")[1:])
        where = "They go after --, and those that `ddpquiz demo --help` names go before it."
        page += [Text(), Text(options), Text(where)]
    pager.show(style.console(), Group(*page))
    if asked.returncode:
        why = asked.stderr.strip().splitlines()[-1:]
        raise UserError(f"{script.name} cannot say which arguments it takes: {''.join(why)}")


def take_ours(context: typer.Context, script: Path, words: list[str]) -> bool:
    """Take options of ours from among the words for a script that does not know them; return whether there were any."""
    from ddpquiz.curriculum.demo_scripts import read_demo

    known = read_demo(script).flags
    options = {name: each for each in context.command.params for name in (*each.opts, *each.secondary_opts)}
    theirs, ours, left = [], [], iter(words)
    for word in left:
        name, equals, _ = word.partition("=")
        if name not in options or name[0] != "-" or any(flag.startswith(name) for flag in known):
            theirs.append(word)
        else:
            ours += [word] if equals or getattr(options[name], "is_flag", False) else [word, *islice(left, 1)]
    meant = context.command.make_context(context.info_name, [script.stem, *ours], parent=context.parent)
    for name, value in meant.params.items():
        source = meant.get_parameter_source(name)
        if source and source.name == "COMMANDLINE":
            context.params[name] = value
    context.params["args"] = theirs
    return bool(ours)


def predicted(script: Path, args: tuple[str, ...], nproc: int | None) -> PredictedRun | None:
    """Ask for a prediction, in a terminal, while torch is being imported elsewhere."""
    from ddpquiz.cli import prediction
    from ddpquiz.errors import ContentError
    from ddpquiz.terminal.kit import screen, style

    if not screen.is_interactive():
        return None
    try:
        return prediction.ask(script.stem, args, nproc, style.console())
    except ContentError:  # a demo runs also while somebody writes content
        return None


def script_of(name: str) -> Path:
    """Return the script of a demo; UserError when there is none of that name."""
    from ddpquiz.paths import demos_dir

    path = demos_dir() / f"{name.replace('-', '_').removesuffix('.py')}.py"
    if not path.is_file():
        near = demo_meant(name)
        hint = f"did you mean {near}?" if near else "`ddpquiz demo` lists them."
        raise UserError(f"There is no demo {name}; {hint}")
    return path


def demo_meant(name: str) -> str:
    """Return the demo that is called nearly so, or that of the concept that is called so, if there is one."""
    import difflib

    from ddpquiz.curriculum import loading
    from ddpquiz.errors import ContentError

    near = difflib.get_close_matches(name, completion.demos(""), 1)
    if near:
        return near[0]
    try:
        concepts = loading.load().concepts
    except ContentError:  # a demo is looked for also while somebody writes content
        return ""
    about = (one for one in concepts if name.lower() in f"{one.id} {one.title}".lower())
    return next((one.demos[0].run for one in about if one.demos), "")


def copy_script(script: Path, folder: Path) -> None:
    """Put a script into a folder, without writing over anything."""
    import shutil

    target = folder / script.name
    if target.exists():
        raise UserError(f"{target} is there already; move it away or name another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(script, target)
    except OSError as wrong:
        raise UserError(f"{target} cannot be written: {wrong.strerror}.") from None
    typer.echo(f"{target}\nChange it, and run it with: ddpquiz run {target}")


def play_again(what: str, options: Options) -> None:
    """Play a saved run: one of a demo that is shipped, or one in a file; or save it otherwise, or sum it up."""
    from ddpquiz.analysis import saved_run
    from ddpquiz.analysis.events import encode
    from ddpquiz.analysis.run_state import RunState
    from ddpquiz.cli.saving import save
    from ddpquiz.paths import recordings_dir
    from ddpquiz.terminal.kit import screen, style
    from ddpquiz.terminal.runs import replay

    shipped = recordings_dir() / f"{what.replace('-', '_')}.json"
    events = saved_run.read(shipped if shipped.is_file() else Path(what))
    if options.save or options.summary:
        seen = RunState()
        for event in events:
            seen.add(event)
        if options.save:
            save(events, seen, options.save)
        if options.summary:
            tell_summary(seen, json=options.json)
    elif options.json:
        for event in events:
            typer.echo(encode(event))
    elif options.plain or not screen.is_interactive():
        replay.lines(events, style.console())
    else:
        replay.replay(events, style.console())


def play(link: DemoLink, console: Console) -> RunState:
    """Run a concept's demo for a learner who is in the middle of a sitting, and wait until they have looked at it."""
    from ddpquiz.ranks.machines.elastic import begin, of_demo
    from ddpquiz.ranks.request import Request
    from ddpquiz.terminal.runs import watch

    script = script_of(link.run)
    request = Request(script, args=link.args, ranks=link.ranks, timeout=PATIENCE, cluster=of_demo(script))
    if not console.is_terminal or console.is_dumb_terminal:
        seen = watch.lines(begin(request), console)
    else:
        seen = watch.live(lambda: begin(request), console, look=link.look, stay=True)
    keep_time(request.script, link.args, seen)
    return seen
