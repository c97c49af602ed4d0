"""What is done with one demo: find it, predict and run it, also in a sitting, replay it, explain it, copy it."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Group
from rich.text import Text

from ddpquiz.cli import completion, prediction
from ddpquiz.cli.prediction import Before, PredictedRun
from ddpquiz.cli.run import exit_with_status, print_job, print_summary, show_run
from ddpquiz.cli.run_options import DEMO_PATIENCE, RunOptions
from ddpquiz.cli.saving import save
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.concept import DemoLink
from ddpquiz.curriculum.demo_scripts import read_demo
from ddpquiz.curriculum.packs import allowed_pack
from ddpquiz.errors import ContentError, UserError
from ddpquiz.events import saved_run
from ddpquiz.events.event import encode
from ddpquiz.events.run_state import RunState
from ddpquiz.learning.side_files import Timing, save_timing
from ddpquiz.paths import data_dir, demo_file, demo_name, pack_of, recordings_dir
from ddpquiz.ranks.elastic_run import begin
from ddpquiz.ranks.proof_runner import follow
from ddpquiz.ranks.request import Request
from ddpquiz.terminal.kit import layout, screen, style
from ddpquiz.terminal.runs import plain_lines, replay, watch
from ddpquiz.terminal.runs.frame import Hint
from ddpquiz.terminal.runs.script import of_script, tries
from ddpquiz.terminal.sittings.path import DemoVisit
from ddpquiz.terminal.sittings.prediction import NoRun


def script_of(name: str) -> Path:
    """Return the script of a demo. UserError if no demo has that name."""
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
    demos = completion.demos("")
    same = [demo for demo in demos if demo.rpartition("/")[2] == name]
    same += difflib.get_close_matches(name, demos, 1, cutoff=0.8)
    try:
        concepts = loading.load().concepts
    except ContentError:  # demos are also found while content is being edited
        concepts = ()
    about = [one.demos[0].run for one in concepts if one.demos and name.lower() in f"{one.id} {one.title}".lower()]
    return next(iter([*same, *about, *difflib.get_close_matches(name, demos, 1)]), "")


def run_demo(script: Path, args: tuple[str, ...], options: RunOptions, *, predict: bool) -> None:
    """Run a demo, after a prediction if one is wanted, save how long it took, and end with its status."""
    predict = predict and not (options.max_restarts or options.plain or options.json or options.emit)
    options = replace(options, max_restarts=options.max_restarts or read_demo(script).restarts)
    if options.emit is not None:
        print_job(options, options.emit, script, args)
        return
    request = options.request(script, args)
    asked = predicted(script, args, options.nproc) if predict else None
    if asked:
        request = replace(request, ranks=asked.link.ranks)
    shown = show_run(options, request, asked.hint if asked else None)
    save_time(script, args, shown.asked)
    if asked:
        prediction.settle(asked, shown.asked, style.console())
    exit_with_status(shown)


def predicted(script: Path, args: tuple[str, ...], nproc: int | None) -> PredictedRun | None:
    """Ask for a prediction, if this is a terminal, while torch is imported in the server."""
    if not screen.is_interactive():
        return None
    try:
        return prediction.ask(demo_name(script), args, nproc, style.console())
    except ContentError:  # demos also run while content is being edited
        return None
    except NoRun:
        raise typer.Exit from None


def visit(link: DemoLink, before: Before, *, ask: bool = True, step: bool = False, place: str = "") -> DemoVisit | None:
    """Ask for a prediction, and run a demo; return None if the learner declines the run.

    Without `ask`, and in a pipe, there is no prediction. With `step`, the run opens at its first operation once it has
    ended. `place` is that of the run in a guided path; see SessionContext.
    """
    console, script, asked = style.console(), script_of(link.run), None
    if ask and screen.is_interactive():
        try:
            asked = prediction.ask(link.run, link.args, link.ranks, console, before)
        except NoRun:
            return None
    ranks = asked.link.ranks if asked else link.ranks
    restarts = read_demo(script).restarts
    request = Request(script, args=link.args, ranks=ranks, timeout=DEMO_PATIENCE, restarts=restarts)
    if screen.is_interactive():
        hint = replace(asked.hint if asked else Hint(link.look), place=place)
        how = watch.LiveOptions(hint=hint, stay=True, step=step)
        state = watch.live(lambda chosen, _: begin(chosen), request, console, how).asked
    else:
        state = plain_lines.print_run(begin(request), console)
    save_time(script, link.args, state)
    return DemoVisit(
        remark=prediction.note(asked, state) if asked else "",
        was_predicted=bool(asked and asked.prediction),
        ended_well=bool(state.end and state.end.ok),
    )


def save_time(script: Path, args: tuple[str, ...], seen: RunState) -> None:
    """Save how long a demo took, if it succeeded."""
    if seen.end and seen.end.ok:
        save_timing(data_dir(), demo_name(script), Timing(round(seen.end.time, 2), seen.ranks, args))


def play_again(what: str, options: RunOptions) -> None:
    """Replay, summarize or convert a saved run: the recording of a shipped demo, or a file."""
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


def explain(script: Path) -> None:
    """Print what a demo shows and its options, from its docstring and its --help. UserError if that fails."""
    about, _, _ = read_demo(script).about.partition("\n\nTry ")
    page = [style.prose(about), Text(), *tries(of_script(str(script)))]
    _, seen = follow(Request(script, args=("--help",), ranks=1, device="cpu"))
    why = seen.raised or seen.failed
    if not why:
        options = "".join(seen.printed[0].partition("options:")[1:])
        where = "These options go after --. The options in `ddpquiz demo --help` go before it."
        page += [Text(), Text(options), Text(where)]
    layout.show_paged(style.console(), Group(*page))
    if why:
        raise UserError(f"{script.name} cannot print its options: {why}")


def copy_script(script: Path, folder: Path) -> None:
    """Copy a script into a folder. UserError if the file exists or cannot be written."""
    target, pack = folder / script.name, allowed_pack(pack_of(script))
    if target.exists():
        raise UserError(f"{target} already exists; move it, or name another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        target.write_bytes(pack.read(script) if pack else script.read_bytes())
    except OSError as wrong:
        raise UserError(f"{target} cannot be written: {wrong.strerror}.") from None
    typer.echo(f"{target}\nChange it, and run it with: ddpquiz run {target}")
