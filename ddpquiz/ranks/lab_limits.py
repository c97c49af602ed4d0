"""Whether the phases of a run keep within the budgets of a lab."""

import math
from collections.abc import Sequence
from pathlib import Path

from ddpquiz.analysis.formatting import format_seconds
from ddpquiz.analysis.phases import Phase, PhaseCall
from ddpquiz.curriculum.budget_rule import ROUNDING, Limit, Order, PhaseMoment
from ddpquiz.curriculum.formula import spell
from ddpquiz.curriculum.lab import Budget, Lab
from ddpquiz.errors import UserError
from ddpquiz.ranks.lab_failure import FinishedRun
from ddpquiz.ranks.lab_verdict import LabVerdict

UNITS = {  # of one, and of several
    "sent": ("byte sent", "bytes sent"),
    "received": ("byte received", "bytes received"),
    "calls": ("operation called", "operations called"),
    "collectives": ("collective called", "collectives called"),
    "destinations": ("destination of messages", "destinations of messages"),
    "rounds": ("round of messages", "rounds of messages"),
    "in_flight": ("operation in flight at once", "operations in flight at once"),
    "overlapped": ("operation overlapped", "operations overlapped"),
    "peak": ("byte alive at the peak", "bytes alive at the peak"),
    "kept": ("byte kept", "bytes kept"),
    "read": ("byte read", "bytes read"),
    "held": ("micro-batch held", "micro-batches held"),
}
_BOUNDS = {  # what a comparison asks for
    "<=": ("at most ", "allowed"), "<": ("fewer than ", "allowed"), ">=": ("at least ", "needed"),
    ">": ("more than ", "needed"), "==": ("exactly ", "needed"),
}  # fmt: skip


def exceeded(lab: Lab, file: Path, finished: FinishedRun, phases: Sequence[Phase]) -> LabVerdict | None:
    """Return the verdict on the first budget, in the order of the lab, that a phase does not meet."""
    ranks = finished.run.ranks
    for budget in lab.budgets:
        found = [phase for phase in phases if phase.name == budget.phase]
        if not found:
            raise UserError(
                f"check.py of the lab {lab.id} never reached the phase `{budget.phase}`; that is a fault of the lab."
            )
        for phase in sorted(found, key=lambda phase: (phase.index, phase.rank)):
            if not meets(budget, phase, ranks):
                return _verdict(budget, phase, file, found, ranks)
    return None


def meets(budget: Budget, phase: Phase, ranks: int) -> bool:
    """Return whether a phase meets a budget."""
    match budget.rule:
        case Limit() as limit:
            return limit.holds(_values(phase, ranks))
        case Order(earlier=earlier, later=later):
            first, then = _time(earlier, phase), _time(later, phase)
            return first is not None and then is not None and first < then
    return False


def _values(phase: Phase, ranks: int) -> dict[str, float]:
    return {**phase.measures(), "n": ranks, "rank": phase.rank}


def _time(moment: PhaseMoment, phase: Phase) -> float | None:
    """Return when something happened in a phase, or None if it did not."""
    if moment.kind == "label":
        return next((time for label, time in phase.labels if label == moment.name), None)
    call = _call(moment, phase)
    return call.issued if call else None


def _call(moment: PhaseMoment, phase: Phase) -> PhaseCall | None:
    """Return the call that a moment names, or None if it was not made."""
    calls = [call for call in phase.calls if call.operation.op == moment.name]
    if moment.kind == "label" or not calls:
        return None
    if moment.which in ("first", "last"):
        return calls[0 if moment.which == "first" else -1]
    return calls[int(moment.which) - 1] if int(moment.which) <= len(calls) else None


def _verdict(budget: Budget, phase: Phase, file: Path, phases: Sequence[Phase], ranks: int) -> LabVerdict:
    call = _call_at_fault(budget, phase, ranks)
    line = call.operation.line if call and call.operation.file == str(file.absolute()) else 0
    what = "" if isinstance(budget.rule, Order) else f"{call.operation.op} " if call else ""
    where = f" ({what}in line {line})" if line else ""
    same = [each for each in phases if each.index == phase.index]
    return LabVerdict(
        outcome="budget", caught=budget.name, seconds=0, runs=0, rank=phase.rank, line=line, seed=phase.seed,
        sentence=f"Rank {phase.rank}: {_measured(budget, phase, ranks, where)}. {budget.say}",
        values={each.rank: _value(budget, each, ranks) for each in sorted(same, key=lambda each: each.rank)},
    )  # fmt: skip


def _measured(budget: Budget, phase: Phase, ranks: int, where: str) -> str:
    """Return what was measured, and what is allowed or needed; `where` says which call was too much."""
    match budget.rule:
        case Limit(left=left, sign=sign) as limit:
            found, bound = limit.sides(_values(phase, ranks))
            verb = "is" if spell(bound) == "1" or _forbids(sign, bound) else "are"
            return f"{_counted(found, left)}{where}; {_bound(sign, bound)} {verb} {_asks(sign, bound)}"
        case Order(earlier=earlier, later=later):
            late = _lateness(budget.rule, phase)
            if late is not None:
                return f"{earlier}{where} came {late} after {later}"
            return f"{earlier if _time(earlier, phase) is None else later} did not happen"
    return ""


def _lateness(order: Order, phase: Phase) -> str | None:
    """Return by how much the two moments of an order were the wrong way round, or None if one did not happen."""
    first, then = _time(order.earlier, phase), _time(order.later, phase)
    return None if first is None or then is None else format_seconds(first - then)


def _counted(found: float, left: str) -> str:
    """Return an amount with its unit, such as `1 collective called`."""
    is_one = spell(found) == "1"
    if left.startswith("calls_"):
        return f"{spell(found)} {'call' if is_one else 'calls'} of {left.removeprefix('calls_')}"
    one, many = UNITS.get(left, (left, left))
    return f"{spell(found)} {one if is_one else many}"


def _bound(sign: str, bound: float) -> str:
    """Return the limit in words, in whole numbers: `at most 341` for 341.3 bytes."""
    if _forbids(sign, bound):
        return "none"
    whole = math.floor(bound + ROUNDING) if sign == "<=" else math.ceil(bound - ROUNDING) if sign == ">=" else bound
    return f"{_BOUNDS[sign][0]}{spell(whole)}"


def _asks(sign: str, bound: float) -> str:
    return "allowed" if _forbids(sign, bound) else _BOUNDS[sign][1]


def _forbids(sign: str, bound: float) -> bool:
    return sign in ("<=", "==") and not bound


def _value(budget: Budget, phase: Phase, ranks: int) -> str:
    if isinstance(budget.rule, Limit):
        found, bound = budget.rule.sides(_values(phase, ranks))
        asked = f"{_bound(budget.rule.sign, bound)} {_asks(budget.rule.sign, bound)}"
        return f"{_counted(found, budget.rule.left)} ({asked})"
    if meets(budget, phase, ranks):
        return "in this order"
    late = _lateness(budget.rule, phase)
    return f"{late} too late" if late is not None else "did not happen"


def _call_at_fault(budget: Budget, phase: Phase, ranks: int) -> PhaseCall | None:
    """Return the first call after which the budget no longer held, or the call that came too late."""
    if isinstance(budget.rule, Order):
        return _call(budget.rule.earlier, phase)
    if not isinstance(budget.rule, Limit) or budget.rule.sign not in ("<=", "<", "=="):
        return None
    calls, phase_so_far = phase.calls, list[PhaseCall]()
    for call in calls:
        phase_so_far.append(call)
        so_far = Phase(phase.rank, phase.name, phase.index, phase.seed, phase.began, phase.values, phase_so_far)
        found, allowed = budget.rule.sides(_values(so_far, ranks))
        if found > allowed:
            return call
    return None
