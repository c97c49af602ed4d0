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
    from ddpquiz.terminal.runs.watch import ShownRuns


def show_run(options: RunOptions, request: Request, hint: Hint | None = None, *, claims: bool = True) -> ShownRuns:
    """Run a script on ranks, show it as the options say, and save it; the hint is shown above the live view."""
    from ddpquiz.ranks import launch

    launch.server()
    from ddpquiz.ranks import script as reading
    from ddpquiz.ranks.elastic.elastic_run import begin
    from ddpquiz.terminal.kit import screen, style
    from ddpquiz.terminal.runs import plain_lines, watch

    launch.warm_for(reading.read(request.script).source)
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
        shown = watch.ShownRuns(seen, seen)
    elif options.plain or not screen.is_interactive():
        seen = plain_lines.print_run(start(request), style.console())
        shown = watch.ShownRuns(seen, seen)
    else:
        how = watch.LiveOptions(hint=hint, hold=options.stay, step=options.step)
        shown = watch.live(start, request, style.console(), how)
    if file:
        file.finish(shown.asked)
    if options.summary:
        print_summary(shown.asked, json=options.json)
    return shown


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


def exit_with_status(shown: ShownRuns, prediction: PredictedRun | None = None) -> None:
    """Print whether a prediction held, and end with the status of the last run."""
    if prediction is not None:
        from ddpquiz.cli.prediction import settle
        from ddpquiz.terminal.kit import style

        settle(prediction, shown.asked, style.console())
    end = shown.last.end
    if end and not end.ok:
        from ddpquiz.terminal.runs.outcome import INTERRUPTED, TERMINATED

        raise typer.Exit({INTERRUPTED: 130, TERMINATED: 143}.get(end.why, 1))
