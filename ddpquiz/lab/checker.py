"""Checks a learner's file: runs the check of its lab on real ranks, run after run, up to the first failure.

`compare` sets the figures of a file that passed beside those of the solution, and `prove_lab` checks the check: the
solution and its variants pass, and each mutant fails by the claim or budget that it names.
"""

import ast
import random
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ddpquiz.curriculum.lab import Attempt, Budget, Lab, LabRun
from ddpquiz.curriculum.lab_reader import OTHER_ENDS
from ddpquiz.curriculum.pack_consent import require_consent
from ddpquiz.events.event import Event, Output
from ddpquiz.lab.phases import Phase, find_phases
from ddpquiz.lab.verdict import FinishedRun, LabFigure, LabVerdict, exceeded, find_failure, find_forgotten, meets
from ddpquiz.paths import own_labs_dir
from ddpquiz.ranks.elastic_run import begin
from ddpquiz.ranks.installed_torch import require_demos
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run
from ddpquiz.ranks.server_connection import temporary_folder
from ddpquiz.terminal.kit.layout import shown_path, shown_torchrun

_SILENCE = 2.0  # seconds without movement on any rank that count as a hang
_MOST_OUTPUT = 2_000_000  # bytes that one run may print
_MOST_LINES = 4_000
_BUSY = 3  # how much slower a run may be on a machine that does other things too
_FRESH = 1_000_000  # fresh seeds are below this
_SHOWN = ("claim", "error", "unwritten")  # the outcomes that torchrun shows too

Report = Callable[[int, int, LabRun], None]  # number of a run, of how many, and what runs


def check_solution(
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
    require_demos()
    began = time.monotonic()
    if wrong := _cannot_run(file):
        return replace(wrong, seconds=time.monotonic() - began)
    runs = planned(lab, random.randrange(_FRESH) if fresh is None else fresh)  # noqa: S311
    stars = {star.name for star in lab.stars}
    finished = None
    for number, run in enumerate(runs, 1):
        if report:
            report(number, len(runs), run)
        finished = _follow_check(lab, file, run, stop, hurry=number < len(runs))
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
    """The runs of one check: those of the lab, with a fresh seed in each run without arguments of its own."""
    return [replace(run, seeds=(*run.seeds, fresh)) for run in lab.runs]


def _repeat(lab: Lab, file: Path, run: LabRun, failure: LabVerdict) -> str:
    """The command that shows a failure again; torchrun knows no budgets, and would wait with ranks that hang."""
    if failure.outcome in _SHOWN:
        return command(lab, file, run, failure.seed)
    words = ["ddpquiz", "lab", lab.id, "--check"]
    usual = file.parent.absolute() == own_labs_dir().absolute()
    return shlex.join(words if usual else [*words, "--dir", shown_path(file.parent)])


def command(lab: Lab, file: Path, run: LabRun, seed: int | None) -> str:
    """The torchrun command that repeats a run, with the one seed that failed if that is known."""
    seeds = run.seeds if seed is None else (seed,)
    words = ["--nproc-per-node", str(run.ranks)]
    words += ["--max-restarts", str(lab.restarts)] if lab.restarts else []
    words += [shown_path(lab.check), shown_path(file), *_arguments(seeds), *run.args]
    return f"{shown_torchrun()} {shlex.join(words)}"


def _follow_check(
    lab: Lab, file: Path, run: LabRun, stop: Callable[[], bool] | None = None, *, hurry: bool = False
) -> FinishedRun:
    """Run the check once, to its end; in a hurry, ranks are not awaited that only have to exit.

    Raises Stopped if `stop` said so, and UserError for a lab of a pack that is not allowed.
    """
    require_consent(lab.id.rpartition("/")[0], lab.origin)
    with temporary_folder() as folder:
        request = Request(
            lab.check, args=(str(file), *_arguments(run.seeds), *run.args), ranks=run.ranks, device="cpu",
            timeout=_SILENCE, restarts=lab.restarts, diagnose=True, subject=file.absolute(),
            environment={"OMP_NUM_THREADS": "1", "TMPDIR": folder},  # torchrun sets no threads where there is one rank
        )  # fmt: skip
        return _follow(request, lab, run, stop, hurry=hurry)


def _follow(request: Request, lab: Lab, run: LabRun, stop: Callable[[], bool] | None, *, hurry: bool) -> FinishedRun:
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
    """Why a run has to be ended; on a busy machine, it may last longer than the limit."""
    if running.printed > _MOST_OUTPUT or lines > _MOST_LINES:
        return f"The ranks print too much: a check ends after {_MOST_LINES:,} lines, or {_MOST_OUTPUT:,} bytes."
    started = min(running.seen.started_at.values(), default=running.now())
    lasted = running.now() - started
    if lasted > limit and (lasted > _BUSY * limit or running.cpu_seconds() > limit / _BUSY):
        return f"The ranks were still computing after {limit} s, the limit of one run."
    return ""


def _cannot_run(file: Path) -> LabVerdict | None:
    """Why Python cannot read a file, if so."""
    try:
        ast.parse(file.read_bytes(), str(file))
    except SyntaxError as wrong:
        line = wrong.lineno or 1
        sentence = f"Line {line} of {file.name} is not valid Python: {wrong.msg}."
        return LabVerdict(outcome="error", caught="error", seconds=0, runs=0, sentence=sentence, line=line)
    except FileNotFoundError:
        sentence = f"There is no file {shown_path(file)}."
        return LabVerdict(outcome="error", caught="error", seconds=0, runs=0, sentence=sentence)
    except (OSError, ValueError, RecursionError, MemoryError) as wrong:
        sentence = f"{file.name} cannot be read: {wrong}."
        return LabVerdict(outcome="error", caught="error", seconds=0, runs=0, sentence=sentence)
    return None


def _met(star: Budget, phases: Sequence[Phase], ranks: int) -> bool:
    return all(meets(star, phase, ranks) for phase in phases if phase.name == star.phase)


def _arguments(seeds: Sequence[int]) -> list[str]:
    return [word for seed in seeds for word in ("--seed", str(seed))]


_SUMS = {  # over all phases of a rank
    "sent": ("sent", "bytes"),
    "received": ("received", "bytes"),
    "calls": ("operations", "calls"),
}
_HIGHEST = {"rounds": ("longest chain of messages", "rounds"), "peak": ("memory at the peak", "bytes")}


def compare(lab: Lab, verdict: LabVerdict, stop: Callable[[], bool] | None = None) -> tuple[LabFigure, ...]:
    """Run the solution as the learner's file ran last, and return the figures of both; of each the highest rank."""
    if verdict.run is None:
        return ()
    with temporary_folder() as folder:
        file = Path(folder) / lab.file_name
        file.write_text(lab.solution.source, encoding="utf-8")
        reference = _figures(_follow_check(lab, file, verdict.run, stop).events)
    yours = _figures(verdict.events)
    named = {**_SUMS, **_HIGHEST}
    return tuple(LabFigure(*named[key], yours[key], reference[key]) for key in named if key in yours.keys() & reference)


def _figures(events: Iterable[Event]) -> dict[str, float]:
    """Each figure of the rank where it is highest."""
    sums: dict[tuple[str, int], float] = {}
    found: dict[str, float] = {}
    for phase in find_phases(events):
        measures = phase.measures()
        for key in _SUMS:
            sums[key, phase.rank] = sums.get((key, phase.rank), 0.0) + measures[key]
        for key in _HIGHEST:
            if key in measures:
                found[key] = max(found.get(key, 0.0), measures[key])
    for (key, _), amount in sums.items():
        found[key] = max(found.get(key, 0.0), amount)
    return found


@dataclass(frozen=True, slots=True)
class ProvenAttempt:
    """What the check said of one attempt; `complaint` is what is wrong with that, or ""."""

    attempt: Attempt
    verdict: LabVerdict
    complaint: str


def attempts(lab: Lab) -> tuple[Attempt, ...]:
    """All that a lab's check must decide rightly: solution, starter, variants and mutants."""
    starter = ("unwritten",) if not all(part.broken for part in lab.solution.written) else _broken(lab)
    return (
        Attempt("the solution", lab.solution.source), Attempt("the starter", lab.solution.starter, starter),
        *lab.variants, *lab.mutants,
    )  # fmt: skip


def prove_attempt(lab: Lab, attempt: Attempt, *, fresh: int | None = None) -> ProvenAttempt:
    """Check one attempt and compare the verdict with what it must be."""
    with temporary_folder() as folder:
        file = Path(folder) / lab.file_name
        file.write_text(attempt.source, encoding="utf-8")
        verdict = check_solution(lab, file, fresh=fresh)
    return ProvenAttempt(attempt, verdict, _complaint(attempt, verdict))


def prove_lab(lab: Lab, *, fresh: int | None = None) -> Iterator[ProvenAttempt]:
    """Prove every attempt of a lab."""
    for attempt in attempts(lab):
        yield prove_attempt(lab, attempt, fresh=fresh)


def _broken(lab: Lab) -> tuple[str, ...]:
    """All by which the faulty starter of a lab to repair may fail."""
    return (*lab.claims, *(budget.name for budget in lab.budgets), *OTHER_ENDS)


def _complaint(attempt: Attempt, verdict: LabVerdict) -> str:
    if not attempt.caught:
        return "" if verdict.passed else f"{attempt.name} must pass, but: {verdict.sentence} Repeat: {verdict.repeat}"
    if verdict.passed:
        return f"{attempt.name} must be caught by {' or '.join(attempt.caught)}, but it passes"
    if verdict.caught not in attempt.caught:
        wanted = " or ".join(attempt.caught)
        return f"{attempt.name} must be caught by {wanted}, but is caught by {verdict.caught}: {verdict.sentence}"
    return ""
