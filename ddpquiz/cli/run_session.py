"""Start a run, show it as the options say, save it, and end with its status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ddpquiz.cli import saving
from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from ddpquiz.analysis.run_state import RunState
    from ddpquiz.cli.prediction import PredictedRun
    from ddpquiz.cli.run_options import RunOptions
    from ddpquiz.ranks.request import Request
    from ddpquiz.ranks.run import Run
    from ddpquiz.terminal.runs.frame import Hint


def show_run(options: RunOptions, request: Request, hint: Hint | None = None, *, claims: bool = True) -> RunState:
    """Run a script on ranks and show it as the options say; the hint is shown above the live view."""
    from ddpquiz.ranks import launch

    launch.server()
    from ddpquiz.ranks import script as reading
    from ddpquiz.ranks.elastic.elastic_run import begin
    from ddpquiz.terminal.kit import screen, style
    from ddpquiz.terminal.runs import plain_lines, watch

    launch.warm_for(reading.read(request.script).source)
    file = saving.Saving(options.save) if options.save else None

    def start(request: Request) -> Run:
        if file:
            file.begin()
        run = begin(request)
        run.seen.only_broken_claims = not claims
        if file:
            run.listeners.append(file.add)
        return run

    if options.step and (options.json or options.plain or not screen.is_interactive()):
        raise UserError("--step needs a terminal, and cannot be combined with --plain or --json.")
    if options.json:
        seen = plain_lines.print_json(start(request))
    elif options.plain or not screen.is_interactive():
        seen = plain_lines.print_run(start(request), style.console())
    else:
        shown = watch.LiveOptions(hint=hint, hold=options.stay, step=options.step)
        seen = watch.live(start, request, style.console(), shown)
    if file:
        file.finish(seen)
    if options.summary:
        print_summary(seen, json=options.json)
    return seen


def print_summary(seen: RunState, *, json: bool) -> None:
    """Print where time and bytes went in a run, and what could be better; JSON is one line."""
    from ddpquiz.analysis.run_summary import summarize
    from ddpquiz.cli.bench_file import load_bench
    from ddpquiz.planning.achieved_speed import achieved_speeds

    account = summarize(seen.timeline, seen.time, seen.script)
    speeds = achieved_speeds(seen.timeline.costs.lines, load_bench(), seen.began.device if seen.began else "")
    if json:
        from dataclasses import asdict
        from json import dumps

        from ddpquiz.analysis.event_codec import escape_controls

        compared = {"machine": [asdict(each) for each in speeds]} if speeds else {}
        typer.echo(escape_controls(dumps(account.as_json() | compared, ensure_ascii=False)))
    else:
        from ddpquiz.terminal.kit import layout, style
        from ddpquiz.terminal.pages.bench_page import speeds_section
        from ddpquiz.terminal.runs import summary

        layout.show(style.console(), summary.summary(account))
        if speeds:
            layout.show(style.console(), speeds_section(speeds))


def exit_with_status(seen: RunState, prediction: PredictedRun | None = None) -> None:
    """Print whether a prediction held, and end with the status of the run."""
    if prediction is not None:
        from ddpquiz.cli.prediction import settle
        from ddpquiz.terminal.kit import style

        settle(prediction, seen, style.console())
    if seen.end and not seen.end.ok:
        from ddpquiz.terminal.runs.outcome import INTERRUPTED, TERMINATED

        raise typer.Exit({INTERRUPTED: 130, TERMINATED: 143}.get(seen.end.why, 1))
