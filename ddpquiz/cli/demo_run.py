"""What `ddpquiz demo` does with one demo: predict and run it, replay it, explain it, copy it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Group
from rich.text import Text

from ddpquiz.atomic_file import replacing
from ddpquiz.cli.clock import now
from ddpquiz.cli.output import say
from ddpquiz.cli.progress_file import open_progress
from ddpquiz.cli.run_display import exit_with_status, print_job, print_summary, show_run
from ddpquiz.cli.run_options import RunOptions
from ddpquiz.cli.saving import save
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.concept import DemoLink
from ddpquiz.curriculum.demo_scripts import read_demo
from ddpquiz.curriculum.pack_consent import allowed_pack
from ddpquiz.errors import ContentError, UserError
from ddpquiz.events import saved_run
from ddpquiz.events.event import encode
from ddpquiz.events.run_state import RunState
from ddpquiz.paths import demo_name, pack_of, recordings_dir
from ddpquiz.ranks.content_runner import follow
from ddpquiz.ranks.installed_torch import require_demos
from ddpquiz.ranks.request import Request
from ddpquiz.terminal.kit import pager, screen, style
from ddpquiz.terminal.runs import plain_lines, replay
from ddpquiz.terminal.runs.script import of_script, tries
from ddpquiz.terminal.sittings import prediction
from ddpquiz.terminal.sittings.prediction import NoRun, PredictedRun
from ddpquiz.terminal.sittings.rank_runner import save_time


def run_demo(script: Path, args: tuple[str, ...], options: RunOptions, *, predict: bool) -> None:
    """Run a demo, after a prediction if one is wanted, save how long it took, and end with its status."""
    predict = predict and not (options.max_restarts or options.plain or options.json or options.emit)
    options = replace(options, max_restarts=options.max_restarts or read_demo(script).restarts)
    if options.emit is not None:
        print_job(options, options.emit, script, args)
        return
    require_demos()
    request = options.request(script, args)
    asked = _predicted(script, args, options.nproc) if predict else None
    if asked:
        request = replace(request, ranks=asked.link.ranks)
    shown = show_run(options, request, asked.hint if asked else None)
    save_time(script, args, shown.asked)
    if asked and asked.answer:
        with open_progress(asked.catalog.moved) as progress:
            style.console().print(asked.outcome(shown.asked, progress, now(), is_last=shown.last is shown.asked))
    exit_with_status(shown)


def _predicted(script: Path, args: tuple[str, ...], nproc: int | None) -> PredictedRun | None:
    """Ask for a prediction, if this is a terminal, while torch is imported in the server."""
    if not screen.is_interactive():
        return None
    try:
        known = loading.load()
    except ContentError:  # demos also run while content is being edited
        return None
    predicted = prediction.find_question(known, DemoLink(demo_name(script), "", args, nproc))
    if predicted is None:
        return None
    due = False
    with suppress(UserError), open_progress(known.moved) as progress:  # the run reports it, if there is an answer
        due = prediction.makes_card_due(known, predicted[1], progress, now(), in_path=False)
    try:
        return prediction.ask(known, predicted, style.console(), makes_due=due)
    except NoRun:
        raise typer.Exit from None


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
            say(encode(event))
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
    pager.show_paged(style.console(), Group(*page))
    if why:
        raise UserError(f"{script.name} cannot print its options: {why}")


def copy_script(script: Path, folder: Path) -> None:
    """Copy a script into a folder. UserError if the file exists or cannot be written."""
    target, pack = folder / script.name, allowed_pack(pack_of(script))
    if target.exists():
        raise UserError(f"{target} already exists; move it, or name another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(target) as fresh:
            fresh.write_bytes(pack.read(script) if pack else script.read_bytes())
    except OSError as wrong:
        raise UserError(f"{target} cannot be written: {wrong.strerror}.") from None
    say(f"{target}\nChange it, and run it with: ddpquiz run {target}")
