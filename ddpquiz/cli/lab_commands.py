"""What `ddpquiz lab` does: list, hint, solution, reset, one check, and the screen that watches a file."""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import Any

import typer
from rich.console import Group

from ddpquiz.cli import clock
from ddpquiz.cli.progress_file import open_progress
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.lab import Lab
from ddpquiz.curriculum.labs import pack_labs, survey_labs
from ddpquiz.errors import ContentError
from ddpquiz.lab import pages
from ddpquiz.lab.folder import LabFolder
from ddpquiz.lab.pages import LabProgress, hint, labs, task
from ddpquiz.lab.verdict import LabFigure, LabVerdict
from ddpquiz.learning.log_rows import LabRow
from ddpquiz.learning.schedule import study_day
from ddpquiz.learning.side_files import load_hints, save_hints
from ddpquiz.paths import data_dir
from ddpquiz.terminal.kit import layout, style


def list_labs(files: LabFolder) -> None:
    """Print the labs by track."""
    known = all_labs()
    with open_progress() as progress:
        standings = progress.labs()
    begun = [lab.id for lab in known if files.has(lab)]
    layout.show_paged(style.console(), labs(loading.load(), known, LabProgress(standings, begun)))


def all_labs() -> list[Lab]:
    """Return all labs in the order of their concepts, then those of packs; ContentError if one is not valid."""
    found, complaints = survey_labs([concept.id for concept in loading.load().concepts])
    if complaints:
        raise ContentError(tuple(complaints))
    return [*found, *pack_labs()]


def print_task(lab: Lab) -> None:
    """Print the task."""
    layout.show(style.console(), task(lab))


def print_hint(lab: Lab) -> None:
    """Print the hints that were shown before, and the next one."""
    count = min(len(lab.hints), load_hints(data_dir()).get(lab.id, 0) + 1)
    save_hints(data_dir(), lab.id, count)
    for number in range(1, count + 1):
        layout.show(style.console(), hint(lab, number))


def print_solution(lab: Lab) -> None:
    """Print the solution, and save that it was seen."""
    save_seen(lab)
    typer.echo(lab.solution.source, nl=False)


def reset(lab: Lab, files: LabFolder) -> None:
    """Write the starter again, and say where the file that was there is now."""
    old = files.reset(lab)
    typer.echo(f"{files.file(lab)} is the starter again." + (f" Your file is now {old}." if old else ""))


def check_once(lab: Lab, files: LabFolder, *, json: bool) -> None:
    """Check the learner's file once, print the verdict, save a pass, and exit with 1 if it fails."""
    from ddpquiz.lab.check import check_file, compare  # noqa: PLC0415  # lists, tasks and hints run no ranks

    file = files.file(lab)
    if files.begin(lab) and not json:
        typer.echo(f"{file} is new: it is the starter. `ddpquiz lab {lab.id} --task` prints the task.")
    verdict = check_file(lab, file)
    figures = compare(lab, verdict) if verdict.passed else ()
    if json:
        typer.echo(encoder.dumps(as_data(lab, verdict, figures), ensure_ascii=False))
    else:
        print_verdict(lab, file, verdict, figures)
    if verdict.passed:
        save_pass(lab, verdict)
    else:
        raise typer.Exit(1)


def save_pass(lab: Lab, verdict: LabVerdict) -> None:
    """Save a pass; a second one on the same day only if it has a star that was not met before."""
    at = clock.now()
    with open_progress() as progress:
        before = progress.labs().get(lab.id)
        if before and before.passed == study_day(at) and set(verdict.stars) <= set(before.stars):
            return
        progress.lab(LabRow(item=lab.item, passed=True, stars=verdict.stars), at)


def save_seen(lab: Lab) -> None:
    """Save that the solution was seen, once."""
    with open_progress() as progress:
        before = progress.labs().get(lab.id)
        if not (before and before.seen):
            progress.lab(LabRow(item=lab.item, passed=False), clock.now())


def print_verdict(lab: Lab, file: Path, verdict: LabVerdict, figures: tuple[LabFigure, ...]) -> None:
    """Print a verdict; its command is not wrapped, so that it can be copied."""
    layout.show(style.console(), Group(*pages.verdict(lab, file, verdict, figures)))
    for part in pages.repeat(verdict):
        style.console().print(part, soft_wrap=True)


def as_data(lab: Lab, verdict: LabVerdict, figures: tuple[LabFigure, ...]) -> dict[str, Any]:
    """Return a verdict as JSON can hold it."""
    return {
        "lab": lab.id, "passed": verdict.passed, "outcome": verdict.outcome, "sentence": verdict.sentence,
        "advice": verdict.advice, "caught": verdict.caught, "rank": verdict.rank, "ranks": verdict.ranks,
        "line": verdict.line, "seed": verdict.seed,
        "values": {str(rank): text for rank, text in verdict.values.items()},
        "waits": [{"rank": each.rank, "in": each.waits_in, "line": each.line} for each in verdict.waits],
        "repeat": verdict.repeat, "stars": list(verdict.stars), "runs": verdict.runs,
        "figures": {each.name: {"yours": each.yours, "reference": each.reference} for each in figures},
        "seconds": round(verdict.seconds, 2),
    }  # fmt: skip
