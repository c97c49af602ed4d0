"""`ddpquiz diagnose`: say why a job hangs or failed, from what its ranks recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from ddpquiz.analysis.diagnosis import diagnose_record
from ddpquiz.analysis.events import End, Event
from ddpquiz.analysis.frames.report import diagnosis_sections, summary_sections
from ddpquiz.analysis.records.job_reader import read_job
from ddpquiz.analysis.records.job_record import JobRecord
from ddpquiz.analysis.run_state import RunState
from ddpquiz.analysis.run_summary import summarize
from ddpquiz.analysis.verdict import Diagnosis
from ddpquiz.cli import saving
from ddpquiz.terminal.kit import pager, screen, style
from ddpquiz.terminal.runs.diagnosis_page import diagnosis_page
from ddpquiz.terminal.runs.replay import replay
from ddpquiz.terminal.runs.summary import summary as summary_page


def diagnose(
    job: Annotated[
        Path, typer.Argument(help="A folder with one file for each rank, from `ddpquiz.record` or Flight Recorder.")
    ],
    view: Annotated[bool, typer.Option("--view", help="Walk through the job, operation by operation.")] = False,
    summary: Annotated[bool, typer.Option("--summary", help="Then print where time and bytes went.")] = False,
    save: Annotated[
        Path | None, typer.Option(help="Save the job as an interactive page (.html), or as `run --save` does.")
    ] = None,
    ranks: Annotated[
        int, typer.Option("--ranks", min=0, max=1024, help="How many ranks the job had, if dumps do not say it.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Say why a job hangs or failed: which rank, which line, which operation.

    JOB may also be a run that was saved with --save.
    """
    if save:
        saving.format_of(save)
    record = read_job(job, ranks)
    state = RunState()
    for event in record.events:
        state.add(event)
    verdict = diagnose_record(record, state)
    if save:
        save_verdict(record, state, verdict, save)
    if as_json:
        known = {"ranks": record.ranks, "present": record.present, "source": record.source, "notes": record.notes}
        typer.echo(json.dumps(verdict.as_json() | known))
    elif view and screen.is_interactive():
        replay(judged(record, state, verdict), style.console())
    else:
        page = [diagnosis_page(verdict, record)]
        if summary:
            page += [Text(), summary_page(summarize(state.timeline, state.time, state.script))]
        pager.show(style.console(), Group(*page))


def judged(record: JobRecord, state: RunState, verdict: Diagnosis) -> list[Event]:
    """Return the events of a job, with an end that says what the verdict says."""
    culprit = verdict.culprits[0] if len(verdict.culprits) == 1 else None
    end = End(state.time, verdict.fault == "none", 0, 0, culprit, verdict.sentence, verdict.next)
    recorded = [event for event in record.events if not isinstance(event, End)]
    return [*recorded, replace(end, why="") if end.ok else end]


def save_verdict(record: JobRecord, state: RunState, verdict: Diagnosis, path: Path) -> None:
    """Save a job with its verdict, and with where the time went."""
    report = [
        *diagnosis_sections(verdict, record),
        *summary_sections(summarize(state.timeline, state.time, state.script)),
    ]
    saving.save(judged(record, state, verdict), state, path, report)
