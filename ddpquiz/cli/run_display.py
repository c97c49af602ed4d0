"""How commands start a run, show and save it, sum it up, and end with its status; or print it as a job."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from ddpquiz.bench.bench_page import speeds_section
from ddpquiz.bench.measurements import achieved_speeds
from ddpquiz.bench.saved_bench import load_bench
from ddpquiz.cli import saving
from ddpquiz.cli.fault_lesson import lesson_of
from ddpquiz.cli.output import say
from ddpquiz.cli.run_options import RunOptions
from ddpquiz.errors import UserError
from ddpquiz.events.run_state import RunState
from ddpquiz.events.run_summary import summarize
from ddpquiz.ranks import launch_files, server_connection
from ddpquiz.ranks import script as reading
from ddpquiz.ranks.elastic_run import begin
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run
from ddpquiz.safe_text import to_json
from ddpquiz.terminal.kit import layout, screen, style
from ddpquiz.terminal.runs import live_view, plain_lines, summary
from ddpquiz.terminal.runs.frame import INTERRUPTED, TERMINATED, Hint
from ddpquiz.terminal.runs.live_view import ShownRuns


def show_run(options: RunOptions, request: Request, hint: Hint | None = None, *, claims: bool = True) -> ShownRuns:
    """Run a script on ranks, show it as the options say, and save it; the hint is shown above the live view."""
    server_connection.server()
    server_connection.warm_for(reading.read(request.script).source)
    file = saving.Saving(options.save) if options.save else None

    def start(chosen: Request, is_asked: bool = True) -> Run:
        run = begin(chosen)
        run.seen.only_broken_claims = not claims
        if file and is_asked:
            file.record(run)
        return run

    if options.step and (options.json or options.plain or not screen.is_interactive()):
        raise UserError("--step needs a terminal, and cannot be combined with --plain or --json.")
    if options.json:
        seen = plain_lines.print_json(start(request))
        shown = live_view.ShownRuns(seen, seen)
    elif options.plain or not screen.is_interactive():
        seen = plain_lines.print_run(start(request), style.console(), summary=options.summary)
        shown = live_view.ShownRuns(seen, seen)
    else:
        how = live_view.LiveOptions(
            hint=hint, hold=options.stay, step=options.step, summary=options.summary, lesson=lesson_of
        )
        shown = live_view.live(start, request, style.console(), how)
    try:
        if file:
            file.finish(shown.asked)
    finally:  # the run is over, and its summary is not lost if the file cannot be written
        if options.summary:
            print_summary(shown.asked, json=options.json)
    return shown


def print_job(options: RunOptions, kind: str, script: Path, args: tuple[str, ...], module: str = "") -> None:
    """Print how to start a script elsewhere: a command line or a job file."""
    if kind not in launch_files.KINDS:
        raise typer.BadParameter(f"{kind!r} is not one of {', '.join(launch_files.KINDS)}.", param_hint="--emit")
    ranks = 4 if options.nproc is None else options.nproc
    if ranks < 1:
        raise typer.BadParameter(f"{ranks} is not a number of ranks for one machine.", param_hint="--nproc")
    reading.read(script)
    job = launch_files.JobFile(
        script, args, ranks, options.nnodes, options.max_restarts, options.device == "cuda", module, recorded=True
    )
    say(launch_files.KINDS[kind](job), end="")


def print_summary(seen: RunState, *, json: bool) -> None:
    """Print where time and bytes went in a run, and what could be better; JSON is one line."""
    account = summarize(seen.timeline, seen.time, seen.script)
    speeds = achieved_speeds(seen.timeline.costs.lines, load_bench(), seen.began.device if seen.began else "")
    if json:
        compared = {"machine": [asdict(each) for each in speeds]} if speeds else {}
        say(to_json(account.as_json() | compared))
    else:
        layout.show(style.console(), summary.summary_page(account))
        if speeds:
            layout.show(style.console(), speeds_section(speeds))


def exit_with_status(shown: ShownRuns) -> None:
    """End with the status of the last run."""
    end = shown.last.end
    if end and not end.ok:
        raise typer.Exit({INTERRUPTED: 130, TERMINATED: 143}.get(end.why, 1))
