"""Proves a lab: its solution and variants pass, and each mutant fails by the claim or budget that it names."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ddpquiz.curriculum.lab import Attempt, Lab
from ddpquiz.curriculum.lab_reader import OTHER_ENDS
from ddpquiz.ranks.lab_check import check_file
from ddpquiz.ranks.lab_verdict import LabVerdict


@dataclass(frozen=True, slots=True)
class ProvenAttempt:
    """What the check said of one attempt; `complaint` is what is wrong with that, or ""."""

    attempt: Attempt
    verdict: LabVerdict
    complaint: str


def attempts(lab: Lab) -> tuple[Attempt, ...]:
    """Return all that a lab's check must decide rightly: solution, starter, variants and mutants."""
    starter = ("unwritten",) if not all(part.broken for part in lab.solution.written) else _broken(lab)
    return (
        Attempt("the solution", lab.solution.source), Attempt("the starter", lab.solution.starter, starter),
        *lab.variants, *lab.mutants,
    )  # fmt: skip


def prove_attempt(lab: Lab, attempt: Attempt, *, fresh: int | None = None) -> ProvenAttempt:
    """Check one attempt and compare the verdict with what it must be."""
    with tempfile.TemporaryDirectory(prefix="ddpquiz-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / lab.file_name
        file.write_text(attempt.source, encoding="utf-8")
        verdict = check_file(lab, file, fresh=fresh)
    return ProvenAttempt(attempt, verdict, _complaint(attempt, verdict))


def prove_lab(lab: Lab, *, fresh: int | None = None) -> Iterator[ProvenAttempt]:
    """Prove every attempt of a lab."""
    for attempt in attempts(lab):
        yield prove_attempt(lab, attempt, fresh=fresh)


def _broken(lab: Lab) -> tuple[str, ...]:
    """Return all by which the faulty starter of a lab to repair may fail."""
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
