"""`ddpquiz check --labs` and `ddpquiz lab NAME --check`: labs without a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from ddpquiz.curriculum.lab import Lab
    from ddpquiz.ranks.lab_verdict import LabVerdict


def prove_labs(names: list[str]) -> list[str]:
    """Check all attempts of these labs on real ranks, and return a line for each verdict that is wrong."""
    from ddpquiz.curriculum.labs import load_lab
    from ddpquiz.ranks.lab_proof import prove_lab

    problems: list[str] = []
    for name in names:
        lab = load_lab(name)
        for proven in prove_lab(lab):
            verdict = proven.verdict
            what = "passed" if verdict.passed else f"caught by {verdict.caught}"
            typer.echo(f"{lab.id}: {proven.attempt.name}: {what}, {verdict.seconds:.1f} s. {verdict.sentence}")
            if proven.complaint:
                problems.append(f"{lab.folder / 'lab.yaml'}: {proven.complaint}")
    return problems


def check_once(lab: Lab, file: Path, *, json: bool) -> LabVerdict:
    """Check a learner's file once and print the verdict, as lines or as JSON."""
    from ddpquiz.ranks.lab_check import check_file

    verdict = check_file(lab, file)
    if json:
        import json as encoder

        typer.echo(encoder.dumps(as_data(lab, verdict)))
    else:
        print_lines(lab, file, verdict)
    return verdict


def as_data(lab: Lab, verdict: LabVerdict) -> dict[str, object]:
    """Return a verdict as JSON can hold it."""
    return {
        "lab": lab.id, "passed": verdict.passed, "outcome": verdict.outcome, "sentence": verdict.sentence,
        "advice": verdict.advice, "caught": verdict.caught, "rank": verdict.rank, "ranks": verdict.ranks,
        "line": verdict.line, "seed": verdict.seed,
        "values": {str(rank): text for rank, text in verdict.values.items()},
        "waits": [{"rank": each.rank, "in": each.waits_in, "line": each.line} for each in verdict.waits],
        "repeat": verdict.repeat, "stars": list(verdict.stars), "runs": verdict.runs, "seconds": round(verdict.seconds, 2),
    }  # fmt: skip


def print_lines(lab: Lab, file: Path, verdict: LabVerdict) -> None:
    """Print a verdict as plain lines."""
    if verdict.passed:
        stars = f", stars: {', '.join(verdict.stars)}" if verdict.stars else ""
        typer.echo(f"{lab.title}: {file.name} passes {verdict.runs} runs in {verdict.seconds:.1f} s{stars}.")
        return
    typer.echo(verdict.sentence)
    if verdict.advice:
        typer.echo(verdict.advice)
    for rank, text in verdict.values.items():
        typer.echo(f"rank {rank}: {text}")
    for each in verdict.waits:
        typer.echo(
            f"rank {each.rank}: {f'waits in {each.waits_in}' if each.waits_in else 'does not wait'}, line {each.line}"
        )
    if verdict.repeat:
        typer.echo(f"Repeat: {verdict.repeat}")
