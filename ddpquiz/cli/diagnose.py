"""`ddpquiz diagnose`, `watch`, `compare` and `where`: what happened in a job, or happens now."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.text import Text

from ddpquiz.cli import saving
from ddpquiz.cli.lesson import lesson_of
from ddpquiz.cli.output import say
from ddpquiz.diagnosis.diagnosis import Diagnosis
from ddpquiz.diagnosis.report import diagnosis_sections, summary_sections
from ddpquiz.diagnosis.run_verdict import diagnose_record
from ddpquiz.errors import UserError
from ddpquiz.events import comparison, saved_run
from ddpquiz.events.event import End, Event
from ddpquiz.events.run_state import RunState
from ddpquiz.events.run_summary import summarize
from ddpquiz.jobs.job_reader import read_job, record_of_stacks
from ddpquiz.jobs.job_record import JobRecord
from ddpquiz.jobs.stacks import as_json as stacks_as_json
from ddpquiz.jobs.stacks import stacks_of_ranks
from ddpquiz.plural import plural
from ddpquiz.ranks.process_stacks import stacks_of
from ddpquiz.ranks.running_jobs import APART, RunningJob, find_jobs, ranks_below
from ddpquiz.safe_text import plain, to_json
from ddpquiz.terminal.kit import layout, screen, style
from ddpquiz.terminal.runs.job_watch import JobFollower, VerdictScreen, diagnosis_page, watch_in_lines, watch_on_screen
from ddpquiz.terminal.runs.replay import replay
from ddpquiz.terminal.runs.stacks_page import stacks_page
from ddpquiz.terminal.runs.summary import comparison_page
from ddpquiz.terminal.runs.summary import summary as summary_page


def diagnose(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            show_default=False,
            help="Logs, dumps, stacks and recordings of a job, or folders that hold them, mixed.",
        ),
    ],
    step: Annotated[bool, typer.Option("--step", help="Step through the job, operation by operation.")] = False,
    summary: Annotated[bool, typer.Option("--summary", help="Then print where time and bytes went.")] = False,
    save: Annotated[
        Path | None, typer.Option(help="Save the job as an interactive page (.html), or as `run --save` does.")
    ] = None,
    nproc: Annotated[
        int,
        typer.Option("--nproc", "-n", min=0, max=1024, help="How many ranks the job had, if dumps do not say it."),
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
        raise UserError(f"Logs hold no run that {save} could save. Save the verdict as a page (.html), or use --json.")
    state = RunState.after(record.events)
    verdict = diagnose_record(record, state)
    if save:
        _save_verdict(record, state, verdict, save)
    if as_json:
        known = {"ranks": record.ranks, "present": record.present, "source": record.source, "notes": record.notes}
        say(json.dumps(verdict.as_json() | known))
    elif step and not record.is_unrecorded and screen.is_interactive():
        replay(_judged(record, state, verdict), style.console(), lesson=lesson_of)
    else:
        page = [diagnosis_page(verdict, record)]
        if summary and not record.is_unrecorded:
            page += [Text(), summary_page(summarize(state.timeline, state.time, state.script))]
        _show(Group(*page), verdict)


def _show(page: RenderableType, verdict: Diagnosis) -> None:
    """Show a verdict until the user leaves, and leave it in the scrollback; in a pipe, print it."""
    console = style.console()
    if screen.is_interactive():
        VerdictScreen(page, lambda: lesson_of(verdict.concept)).show(console)
    layout.show(console, page)


def _judged(record: JobRecord, state: RunState, verdict: Diagnosis) -> list[Event]:
    """The events of a job, with an end that says what the verdict says."""
    end = End(state.time, verdict.fault == "none", 0, 0, verdict.rank, verdict.whole, verdict.advice, verdict.concept)
    recorded = [event for event in record.events if not isinstance(event, End)]
    return [*recorded, replace(end, why="") if end.ok else end]


def _save_verdict(record: JobRecord, state: RunState, verdict: Diagnosis, path: Path) -> None:
    """Save a job with its verdict, and with where the time went."""
    report = [
        *diagnosis_sections(verdict, record),
        *summary_sections(summarize(state.timeline, state.time, state.script)),
    ]
    saving.save(_judged(record, state, verdict), state, path, report)


def watch(
    job: Annotated[Path, typer.Argument(help="The folder into which `ddpquiz.record` writes.")],
    plain: Annotated[bool, typer.Option("--plain", help="Print lines, as in a pipe.")] = False,
) -> None:
    """Show live what the ranks of a recorded job do; when the job has ended, say what went wrong, if anything did.

    The folder may still be empty. Jobs of more than 16 ranks are shown in groups that do the same.
    """
    if job.exists() and not job.is_dir():
        raise UserError(f"{job} is a file; `ddpquiz watch` needs the folder into which the ranks write.")
    show = watch_in_lines if plain or not screen.is_interactive() else watch_on_screen
    show(JobFollower(job), style.console())


def compare(
    a: Annotated[Path, typer.Argument(help="A run that `ddpquiz run --save FILE.json` saved.", show_default=False)],
    b: Annotated[Path, typer.Argument(help="A later run, to compare with it.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare two saved runs: what got slower or faster, which operations are new or gone, more or fewer bytes.

    Lines of the script may have moved between the runs. Times are those of an average rank.
    """
    found = comparison.compare(saved_run.read(a), saved_run.read(b))
    if as_json:
        say(to_json(found.as_json()))
        return
    layout.show_paged(style.console(), comparison_page(found, (a.name, b.name)))


def where(
    pid: Annotated[
        int | None,
        typer.Argument(
            min=1, help="Show all threads of this process and of those that it started.", metavar="[PID]",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each job, which `diagnose` reads.")
    ] = False,
) -> None:  # fmt: skip
    """Find the ranks of jobs that run on this machine, and say which rank does not stand where the others wait.

    The ranks are those of any launcher. It takes two looks at each, a second from each other, and the ranks go on. With
    PID, show the stacks of that process, the innermost call first.
    """
    if pid is not None and not as_json:
        layout.show_paged(style.console(), stacks_page(stacks_of(pid), ranks_below(pid)))
        return
    jobs = find_jobs(pid)
    if as_json:
        for job in jobs:
            say(json.dumps(stacks_as_json(job.name, job.ranks, socket.gethostname(), APART, job.processes)))
        return
    pages = [_job_page(job) for job in jobs]
    if len(pages) == 1:
        _show(*pages[0])
        return
    parts: list[RenderableType] = []
    for job, (page, _) in zip(jobs, pages, strict=True):
        name = f"{job.script} ({job.name})" if job.script else job.name
        parts += [Text(), Rule(style="quiet")] if parts else []
        parts += [Text(plain(f"Job {name}"), style="head"), page]
    layout.show_paged(style.console(), Group(*parts))


def _job_page(job: RunningJob) -> tuple[RenderableType, Diagnosis]:
    """The verdict on where the ranks of a job stand that runs here, and its page."""
    pids = ", ".join(str(each.pid) for each in job.processes[:_MOST_PIDS])
    more = ", ..." if len(job.processes) > _MOST_PIDS else ""
    source = f"stacks of {plural(len(job.processes), 'rank')} on {socket.gethostname()}, processes {pids}{more}"
    record = record_of_stacks(stacks_of_ranks(job.ranks, APART, job.processes), source)
    verdict = diagnose_record(record, RunState())
    return diagnosis_page(verdict, record), verdict


_MOST_PIDS = 16
