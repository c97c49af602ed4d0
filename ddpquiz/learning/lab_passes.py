"""Labs in the log: what was passed, with which stars, and whether its solution had been seen before."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date

from ddpquiz.learning.log_rows import Row

PASSED, SEEN = "passed", "solution"  # the first line of `given` in a row; the names of stars follow
_AIDED = 0.5  # the credit of a pass after the solution was seen


@dataclass(frozen=True, slots=True)
class LabStanding:
    """Where a learner stands with one lab: when it was passed last, all stars so far, and its credit as evidence."""

    concept: str
    lab: str
    passed: date | None = None
    stars: tuple[str, ...] = ()
    seen: bool = False
    credit: float = 0.0


def lab_standings(rows: Iterable[Row]) -> dict[str, LabStanding]:
    """The standing of each lab, by its name; `rows` are those of kind `lab`, oldest first.

    The first pass decides about the credit: 1, or _AIDED if the solution was seen before it.
    """
    found: dict[str, LabStanding] = {}
    for row in rows:
        concept, lab = row.item.rpartition("/")[0], _lab_name(row.item)
        what, *stars = (row.given or "").split("\n")
        now = found.get(lab, LabStanding(concept, lab))
        if what == SEEN:
            found[lab] = replace(now, seen=True)
        elif what == PASSED:
            credit = now.credit or (_AIDED if now.seen else 1.0)
            every = tuple(dict.fromkeys([*now.stars, *stars]))
            found[lab] = replace(now, passed=date.fromisoformat(row.day), stars=every, credit=credit)
    return found


def _lab_name(item: str) -> str:
    """The name under which the lab of a row is run: `pack/concept/lab` is `pack/lab`."""
    *pack, _, lab = item.split("/")
    return "/".join([*pack, lab])


def lab_evidence(rows: Iterable[Row]) -> list[Row]:
    """The last pass of each lab as an answer to a hard question that nobody guesses; see `mastery`."""
    rows = list(rows)
    known = lab_standings(rows)
    last = {row.item: row for row in rows if (row.given or "").split("\n")[0] == PASSED}
    return [replace(row, credit=known[_lab_name(item)].credit, level="hard", chance=0.0) for item, row in last.items()]
