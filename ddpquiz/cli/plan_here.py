"""`ddpquiz plan --here`: predict a small run on this machine, run it, and show both."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddpquiz.analysis.events import Event
    from ddpquiz.planning.run_prediction import RunPrediction
    from ddpquiz.ranks.request import Request

TIMEOUT = 60.0  # seconds without progress after which a run counts as hung


def predict_here(command: str, ranks: int | None, *, as_json: bool) -> None:
    """Predict the step of a script from a warm-up and the bench, then measure it in a second run."""
    from ddpquiz.cli.bench_file import load_bench
    from ddpquiz.planning.recorded_program import measured_step, recorded_program
    from ddpquiz.planning.run_prediction import meeting_cost, predict_run

    bench = load_bench()
    if not bench.groups:
        raise UserError(
            "This machine has not been measured yet: first run `ddpquiz bench`, which needs less than a minute."
        )
    request = request_of(command, ranks)
    typer.echo(f"Warm-up: {request.script.name} runs once, to see what its ranks compute and call.", err=True)
    events, device = _run(request)
    predicted = predict_run(recorded_program(events), meeting_cost(bench, device))
    if not as_json:
        _show(request, predicted)
    typer.echo("Now it runs again, and is measured.", err=True)
    seconds, steps = measured_step(_run(request)[0], by_steps=predicted.by_steps)
    error = predicted.seconds / seconds - 1
    if as_json:
        typer.echo(json.dumps(_as_json(predicted, seconds, steps)))
    else:
        from ddpquiz.terminal.kit import layout, style
        from ddpquiz.terminal.pages.here_page import outcome_line

        layout.show(style.console(), outcome_line(predicted, seconds, error))


def request_of(command: str, ranks: int | None) -> Request:
    """Return the run of a script, given by its path or as a demo's name, with arguments; UserError if it is missing."""
    from ddpquiz.paths import demo_file
    from ddpquiz.ranks.request import Request

    try:
        script, *args = shlex.split(command)
    except ValueError:
        raise typer.BadParameter("a script is expected, with its arguments in quotes.", param_hint="--here") from None
    path = Path(script)
    if not path.is_file() and path.name == script and demo_file(script).is_file():
        path = demo_file(script)
    return Request(path, args=tuple(args), ranks=ranks, timeout=TIMEOUT)


def _run(request: Request) -> tuple[Sequence[Event], str]:
    """Run a script to its end and return its events and its device; UserError if it fails."""
    from ddpquiz.ranks.elastic.elastic_run import begin

    run = begin(request)
    events: list[Event] = []
    try:
        events += run.events()
    finally:
        run.close("The run was stopped.")
    end = run.seen.end
    if end is None or not end.ok:
        why = end.why if end else "it did not end."
        raise UserError(f"{request.script} cannot be predicted, because it fails: {why}")
    return events, run.began.device


def _show(request: Request, predicted: RunPrediction) -> None:
    from ddpquiz.terminal.kit import layout, style
    from ddpquiz.terminal.pages.here_page import here_page

    layout.show(style.console(), here_page(request.script.name, predicted))


def _as_json(predicted: RunPrediction, seconds: float, steps: int) -> dict[str, object]:
    from dataclasses import asdict

    found = asdict(predicted)
    return {
        "what": "step" if predicted.by_steps else "run", "predicted_seconds": found.pop("seconds"),
        "measured_seconds": seconds, "error": predicted.seconds / seconds - 1, "measured_steps": steps,
        "computing_seconds": found["computing"], "operations": found["operations"],
    }  # fmt: skip
