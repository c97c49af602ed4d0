"""`ddpquiz diagnose`: why a job hangs or failed, from what it left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.cli import saving
from ddpquiz.cli.fault_lesson import lesson_of
from ddpquiz.cli.output import say
from ddpquiz.diagnosis.diagnosis import Diagnosis
from ddpquiz.diagnosis.diagnosis_sections import diagnosis_sections
from ddpquiz.diagnosis.job_diagnosis import diagnose_job
from ddpquiz.errors import UserError
from ddpquiz.events.event import End, Event
from ddpquiz.events.run_state import RunState
from ddpquiz.events.run_summary import summarize
from ddpquiz.events.summary_sections import summary_sections
from ddpquiz.jobs.job_reader import read_job
from ddpquiz.jobs.job_record import JobRecord
from ddpquiz.terminal.kit import layout, screen, style
from ddpquiz.terminal.runs.diagnosis_page import DiagnosisScreen, diagnosis_page
from ddpquiz.terminal.runs.replay import replay
from ddpquiz.terminal.runs.summary import summary_page


def diagnose(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            show_default=False,
            help="Logs, dumps, stacks and recordings of one job, in any mix, or folders that hold them.",
        ),
    ],
    step: Annotated[bool, typer.Option("--step", help="Step through the job, operation by operation.")] = False,
    summary: Annotated[bool, typer.Option("--summary", help="Also print where the time and the bytes went.")] = False,
    save: Annotated[
        Path | None, typer.Option(help="Save the job as an interactive page (.html), or as `run --save` does.")
    ] = None,
    nproc: Annotated[
        int,
        typer.Option("--nproc", "-n", min=0, max=1024, help="How many ranks the job had, if the dumps do not say."),
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Say why a job hangs or failed: which rank, which line, which operation.

    The files may be plain logs (of all ranks or one for each, with the prefixes of torchrun and Slurm), Flight Recorder
    dumps, stacks (of `ddpquiz where --json`, py-spy or faulthandler), recordings of `ddpquiz.record`, or a run that was
    saved with --save.
    """
    if save:
        saving.format_of(save)
    record = read_job(paths, nproc)
    if save and record.is_unrecorded and save.suffix != ".html":
        raise UserError(f"Logs hold no run to save as {save}. Save the verdict as a page (.html), or use --json.")
    state = RunState.after(record.events)
    verdict = diagnose_job(record, state)
    unsaved = _save_verdict(record, state, verdict, save) if save else None
    if as_json:
        known = {"ranks": record.ranks, "present": record.present, "source": record.source, "notes": record.notes}
        say(json.dumps(verdict.as_json() | known))
    elif step and not record.is_unrecorded and screen.is_interactive():
        replay(_judged(record, state, verdict), style.console(), lesson=lesson_of)
    else:
        page = [diagnosis_page(verdict, record)]
        if summary and not record.is_unrecorded:
            page += [Text(), summary_page(summarize(state.timeline, state.time, state.script))]
        show_diagnosis(Group(*page), verdict)
    if unsaved:
        raise unsaved


def show_diagnosis(page: RenderableType, verdict: Diagnosis) -> None:
    """Show a verdict until the user leaves, and leave it in the scrollback; in a pipe, print it."""
    console = style.console()
    if screen.is_interactive():
        DiagnosisScreen(page, lambda: lesson_of(verdict.concept)).show(console)
    layout.show(console, page)


def _judged(record: JobRecord, state: RunState, verdict: Diagnosis) -> list[Event]:
    """The events of a job, with an end that says what the verdict says; of a job that still runs, no fault is known."""
    ok, why = verdict.fault in ("none", "quiet"), "" if verdict.fault == "none" else verdict.whole
    end = End(state.time, ok, 0, 0, verdict.rank, why, verdict.advice, verdict.concept)
    return [*(event for event in record.events if not isinstance(event, End)), end]


def _save_verdict(record: JobRecord, state: RunState, verdict: Diagnosis, path: Path) -> UserError | None:
    """Save a job with its verdict, and with where the time went; return why that fails, for after the verdict."""
    report = [
        *diagnosis_sections(verdict, record),
        *summary_sections(summarize(state.timeline, state.time, state.script)),
    ]
    try:
        saving.save(_judged(record, state, verdict), state, path, report)
    except UserError as wrong:
        return wrong
    return None
