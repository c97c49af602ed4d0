"""Checks a learner's file: runs the check of its lab on real ranks, run after run, up to the first failure."""

import ast
import random
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ddpquiz.analysis.events import Event, Output
from ddpquiz.analysis.phases import Phase, find_phases
from ddpquiz.curriculum.lab import Budget, Lab, LabRun
from ddpquiz.curriculum.pack_consent import require_consent
from ddpquiz.paths import own_labs_dir
from ddpquiz.ranks.elastic.elastic_run import begin
from ddpquiz.ranks.lab_failure import FinishedRun, find_failure
from ddpquiz.ranks.lab_limits import exceeded, meets
from ddpquiz.ranks.lab_verdict import LabVerdict
from ddpquiz.ranks.lab_waits import find_forgotten
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

SILENCE = 2.0  # seconds without movement on any rank that count as a hang
MOST_OUTPUT = 2_000_000  # bytes that one run may print
MOST_LINES = 4_000
BUSY = 3  # how much slower a run may be on a machine that does other things too
FRESH = 1_000_000  # fresh seeds are below this
_SHOWN = ("claim", "error", "unwritten")  # the outcomes that torchrun shows too

Report = Callable[[int, int, LabRun], None]  # number of a run, of how many, and what runs


def check_file(
    lab: Lab,
    file: Path,
    *,
    fresh: int | None = None,
    report: Report | None = None,
    stop: Callable[[], bool] | None = None,
) -> LabVerdict:
    """Check a learner's file. `fresh` is the seed that is drawn for each check; None draws it.

    `report` is called before each run, and `stop` often: the check ends when it returns True, as `Stopped`.
    """
    began = time.monotonic()
    if wrong := _cannot_run(file):
        return replace(wrong, seconds=time.monotonic() - began)
    runs = planned(lab, random.randrange(FRESH) if fresh is None else fresh)  # noqa: S311
    stars = {star.name for star in lab.stars}
    finished = None
    for number, run in enumerate(runs, 1):
        if report:
            report(number, len(runs), run)
        finished = follow_check(lab, file, run, stop, hurry=number < len(runs))
        phases = find_phases(finished.events)
        failure = find_failure(lab, file, finished) or exceeded(lab, file, finished, phases)
        failure = failure or find_forgotten(file, finished)
        if failure:
            return replace(
                failure, seconds=time.monotonic() - began, runs=number, ranks=run.ranks, run=run,
                events=finished.events, repeat=_repeat(lab, file, run, failure),
            )  # fmt: skip
        stars -= {star.name for star in lab.stars if not _met(star, phases, run.ranks)}
    names = tuple(star.name for star in lab.stars if star.name in stars)
    events = finished.events if finished else ()
    return LabVerdict(
        outcome="passed", seconds=time.monotonic() - began, runs=len(runs), stars=names, events=events,
        run=runs[-1], ranks=runs[-1].ranks,
    )  # fmt: skip


class Stopped(Exception):  # noqa: N818  # it is no error
    """The check was ended because its result is no longer wanted."""


def planned(lab: Lab, fresh: int) -> list[LabRun]:
    """Return the runs of one check: those of the lab, with a fresh seed in each run without arguments of its own."""
    return [replace(run, seeds=(*run.seeds, fresh)) for run in lab.runs]


def _repeat(lab: Lab, file: Path, run: LabRun, failure: LabVerdict) -> str:
    """Return the command that shows a failure again; torchrun knows no budgets, and would wait with ranks that hang."""
    if failure.outcome in _SHOWN:
        return command(lab, file, run, failure.seed)
    words = ["ddpquiz", "lab", lab.id, "--check"]
    usual = file.parent.absolute() == own_labs_dir().absolute()
    return shlex.join(words if usual else [*words, "--dir", str(_near(file.parent))])


def command(lab: Lab, file: Path, run: LabRun, seed: int | None) -> str:
    """Return the torchrun command that repeats a run, with the one seed that failed if that is known."""
    seeds = run.seeds if seed is None else (seed,)
    words = ["torchrun", "--nproc-per-node", str(run.ranks)]
    words += ["--max-restarts", str(lab.restarts)] if lab.restarts else []
    return shlex.join([*words, str(_near(lab.check)), str(_near(file)), *_arguments(seeds), *run.args])


def follow_check(
    lab: Lab, file: Path, run: LabRun, stop: Callable[[], bool] | None = None, *, hurry: bool = False
) -> FinishedRun:
    """Run the check once, to its end; in a hurry, ranks are not awaited that only have to exit.

    Raises Stopped if `stop` said so, and UserError for a lab of a pack that is not allowed.
    """
    require_consent(lab.id.rpartition("/")[0], lab.origin)
    request = Request(
        lab.check, args=(str(file), *_arguments(run.seeds), *run.args), ranks=run.ranks, device="cpu",
        timeout=SILENCE, restarts=lab.restarts, diagnose=True, subject=file.absolute(),
        environment={"OMP_NUM_THREADS": "1"},  # also on one rank, where torchrun does not set it
    )  # fmt: skip
    running = begin(request)
    events: list[Event] = []
    why, complete, lines = "", False, 0
    try:
        while not (running.over or why or complete):
            new = running.read(0.1)
            events += new
            lines += sum(isinstance(event, Output) for event in new)
            complete = hurry and not lab.restarts and len(running.seen.rows.get("checked", {})) == run.ranks
            why = "" if complete else _why_stop(running, lab.seconds, lines)
            if stop and stop():
                raise Stopped
    finally:
        events += running.close(why or "The check was stopped.")
    return FinishedRun(run, tuple(events), running.seen, why, complete)


def _why_stop(running: Run, limit: int, lines: int) -> str:
    """Return why a run has to be ended; on a busy machine, it may last longer than the limit."""
    if running.printed > MOST_OUTPUT or lines > MOST_LINES:
        return f"The ranks print too much: a check ends after {MOST_LINES:,} lines, or {MOST_OUTPUT:,} bytes."
    started = min(running.seen.started_at.values(), default=running.now())
    lasted = running.now() - started
    if lasted > limit and (lasted > BUSY * limit or running.cpu_seconds() > limit / BUSY):
        return f"The ranks were still computing after {limit} s, the limit of one run."
    return ""


def _cannot_run(file: Path) -> LabVerdict | None:
    """Return why Python cannot read a file, if so."""
    try:
        ast.parse(file.read_bytes(), str(file))
    except SyntaxError as wrong:
        line = wrong.lineno or 1
        sentence = f"Line {line} of {file.name} is not valid Python: {wrong.msg}."
        return LabVerdict(outcome="error", caught="error", seconds=0, runs=0, sentence=sentence, line=line)
    except FileNotFoundError:
        sentence = f"There is no file {_near(file)}."
        return LabVerdict(outcome="error", caught="error", seconds=0, runs=0, sentence=sentence)
    except (OSError, ValueError, RecursionError, MemoryError) as wrong:
        sentence = f"{file.name} cannot be read: {wrong}."
        return LabVerdict(outcome="error", caught="error", seconds=0, runs=0, sentence=sentence)
    return None


def _met(star: Budget, phases: Sequence[Phase], ranks: int) -> bool:
    return all(meets(star, phase, ranks) for phase in phases if phase.name == star.phase)


def _arguments(seeds: Sequence[int]) -> list[str]:
    return [word for seed in seeds for word in ("--seed", str(seed))]


def _near(path: Path) -> Path:
    """Return a path as a user would write it."""
    path = path.absolute()
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
