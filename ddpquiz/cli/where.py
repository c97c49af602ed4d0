"""`ddpquiz where`: which rank of a job that runs here does not stand where the others wait."""

from __future__ import annotations

import json
import socket
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.text import Text

from ddpquiz.cli.diagnose import show_diagnosis
from ddpquiz.cli.output import say
from ddpquiz.diagnosis.diagnosis import Diagnosis
from ddpquiz.diagnosis.job_diagnosis import diagnose_job
from ddpquiz.events.run_state import RunState
from ddpquiz.jobs.job_record import record_of_stacks
from ddpquiz.jobs.stacks import stacks_as_json, stacks_of_ranks
from ddpquiz.plural import plural
from ddpquiz.ranks.process_stacks import stacks_of
from ddpquiz.ranks.running_jobs import APART, RunningJob, find_jobs, ranks_below
from ddpquiz.safe_text import plain
from ddpquiz.terminal.kit import pager, style
from ddpquiz.terminal.runs.diagnosis_page import diagnosis_page
from ddpquiz.terminal.runs.stacks_page import stacks_page


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
    """Find the ranks of jobs that run on this machine, and say which rank is not where the others are waiting.

    Any launcher may have started them. Each rank is looked at twice, a second apart, and keeps running. With
    PID, show the stacks of that process, the innermost call first.
    """
    if pid is not None and not as_json:
        pager.show_paged(style.console(), stacks_page(stacks_of(pid), ranks_below(pid)))
        return
    jobs = find_jobs(pid)
    if as_json:
        for job in jobs:
            say(json.dumps(stacks_as_json(job.name, job.ranks, socket.gethostname(), APART, job.processes)))
        return
    pages = [_job_page(job) for job in jobs]
    if len(pages) == 1:
        show_diagnosis(*pages[0])
        return
    parts: list[RenderableType] = []
    for job, (page, _) in zip(jobs, pages, strict=True):
        name = f"{job.script} ({job.name})" if job.script else job.name
        parts += [Text(), Rule(style="quiet")] if parts else []
        parts += [Text(plain(f"Job {name}"), style="head"), page]
    pager.show_paged(style.console(), Group(*parts))


def _job_page(job: RunningJob) -> tuple[RenderableType, Diagnosis]:
    """The verdict on where the ranks of a job stand that runs here, and its page."""
    pids = ", ".join(str(each.pid) for each in job.processes[:_MOST_PIDS])
    more = ", ..." if len(job.processes) > _MOST_PIDS else ""
    source = f"stacks of {plural(len(job.processes), 'rank')} on {socket.gethostname()}, processes {pids}{more}"
    record = record_of_stacks(stacks_of_ranks(job.ranks, APART, job.processes), source)
    verdict = diagnose_job(record, RunState())
    return diagnosis_page(verdict, record), verdict


_MOST_PIDS = 16
