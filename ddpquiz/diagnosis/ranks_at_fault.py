"""Which ranks left the common order of calls where the calls of a group differ, and in which way.

What ranks did earlier in the run decides first, then the majority, then the script: which call stands in a branch of
its own, as under `if rank == 0`, and for which ranks it is prepared in another way, as `torch.ones(5 if rank == 1 else
4)`. `script_analysis.py` reads that in the text of the script.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from ddpquiz.diagnosis.script_analysis import (
    branches_of,
    left_a_loop,
    opposite_branches,
    ranks_kept_apart,
    singled_out,
    stands_alone,
)
from ddpquiz.events.collective import CallOrder
from ddpquiz.events.operation import Operation
from ddpquiz.events.source_text import source_line

_Fault = Literal["missing", "order", "signature"]


@dataclass(frozen=True, slots=True)
class Deviation:
    """The ranks that deviate and what they called, the other ranks and what those called, and what kind of fault it is.

    `extra` is True if the ranks that deviate made a call that the others never make; otherwise, for `missing`, they
    left out the call of the others. `before` is what all of them had called before, if it was the same. `tied` is True
    if as many ranks are on the other side and nothing that they did earlier tells who is right; `guessed` if not even
    the script does.
    """

    fault: _Fault
    ranks: tuple[int, ...]
    call: Operation
    others: tuple[int, ...]
    expected: Operation
    extra: bool = False
    before: Operation | None = None
    tied: bool = False
    guessed: bool = False


_Calls = Mapping[int, tuple[Operation, Operation | None]]  # by rank: what it called, and what it had called before


def find_deviation(calls: _Calls, order: CallOrder, voters: Collection[int] | None = None) -> Deviation:
    """Which ranks deviate, where at least two of the calls differ.

    What ranks did earlier in the run decides first: a side that calls what usually follows is right. Then the majority
    of the `voters` decides (of all ranks, if it is None), then the script: which of the calls stands in a branch of its
    own, or is prepared in another way.
    """
    sides = sides_of({rank: operation for rank, (operation, _) in sorted(calls.items())})
    usual, evidence = _usual(sides, calls, order), ""
    if not usual or _is_first_of_most(sides, usual, calls, order):
        votes = {each: sum(voters is None or rank in voters for rank in ranks) for each, ranks in sides.items()}
        usual = [each for each in sides if votes[each] == max(votes.values())]
    if len(usual) == len(sides):
        by_script = _by_special_ranks(sides) or _by_script(usual)
        usual, evidence = (
            [by_script or min(usual, key=lambda each: (each.file, each.line))],
            "script" if by_script else "none",
        )
    expected = max(usual, key=lambda each: len(sides[each]))
    odd = max((each for each in sides if each not in usual), key=lambda each: len(sides[each]))
    ranks = tuple(sorted(rank for each in sides if each not in usual for rank in sides[each]))
    others = tuple(sorted(rank for rank in calls if rank not in ranks))
    fault, extra = _fault(odd, expected, calls[ranks[0]][1], order, ranks)
    earlier = {before for _, before in calls.values()}
    together = earlier.pop() if len(earlier) == 1 else None
    return Deviation(
        fault, ranks, odd, others, expected, extra, together, tied=bool(evidence), guessed=evidence == "none"
    )


_Side = Literal["callers", "others", "unknown"]


def who_deviates(
    extra: Operation, callers: tuple[int, ...], others: tuple[int, ...], instead: Operation | None = None
) -> _Side:
    """Which side is wrong where some ranks, the callers, made a call that the other ranks never made.

    The others may have made another call `instead`. The smaller side is wrong. If both sides are equal, the script
    decides: first the conditions on the rank that lead to the call, then the branch in which the call stands.
    """
    if len(callers) != len(others):
        return "callers" if len(callers) < len(others) else "others"
    other = instead or extra._replace(file="", line=0)
    coming, kept_away = ranks_kept_apart(extra, other)
    if {*callers} <= coming:
        return "callers"
    if {*others} <= kept_away:
        return "others"
    usual = _by_script([extra, other])
    return "unknown" if usual is None else "others" if usual is extra else "callers"


def sides_of(calls: Mapping[int, Operation]) -> dict[Operation, list[int]]:
    """Put ranks that ask for the same on one side, wherever they ask for it."""
    sides: dict[Operation, list[int]] = {}
    for rank, operation in calls.items():
        same = next((each for each in sides if _same_request(each, operation)), operation)
        sides.setdefault(same, []).append(rank)
    return sides


def _same_request(one: Operation, other: Operation) -> bool:
    alike = other._replace(file=one.file, line=one.line, asynchronous=one.asynchronous)
    if not (one.reduce and other.reduce):  # of one of them torch did not tell it
        alike = alike._replace(reduce=one.reduce)
    if one.op == "scatter":  # only the root brings the parts
        alike = alike._replace(shapes=one.shapes, bytes=one.bytes)
    return one in (other, alike)


def _usual(sides: Mapping[Operation, list[int]], calls: _Calls, order: CallOrder) -> list[Operation]:
    """The sides whose call followed the one before it earlier in the run too; nothing if that is so of all."""
    for count in (order.follows, order.place_follows):
        usual = [
            operation
            for operation, ranks in sides.items()
            if any(count(calls[rank][0], calls[rank][1]) > _made_now(calls, rank, count) for rank in ranks)
        ]
        if 0 < len(usual) < len(sides):
            return usual
    return []


def _is_first_of_most(
    sides: Mapping[Operation, list[int]], usual: list[Operation], calls: _Calls, order: CallOrder
) -> bool:
    """True if most ranks came to a line in which no rank has been before, as to the first checkpoint of a loop.

    What they did earlier says nothing of such a line. But if most have left a loop in which the others go on, nothing
    says who has the right number of steps. This can only be told apart in a script that can be read.
    """
    odd = [each for each in sides if each not in usual]
    if len(odd) != 1 or len(usual) != 1 or len(sides[odd[0]]) <= len(sides[usual[0]]):
        return False
    call, expected, ranks = odd[0], usual[0], sides[odd[0]]
    return (
        call.file == expected.file
        and bool(source_line(call.file, call.line))
        and order.calls_in(call.place) <= len(ranks)
        and not left_a_loop(expected, call)
        and not opposite_branches(call, expected)
        and not {*ranks} <= ranks_kept_apart(call, expected, calls[ranks[0]][1])[0]
    )


def unusual_ranks(calls: _Calls, order: CallOrder) -> frozenset[int]:
    """The ranks whose call had never followed the one before it; nothing if that is so of all."""
    unusual = frozenset(
        rank for rank, call in calls.items() if order.follows(*call) <= _made_now(calls, rank, order.follows)
    )
    return unusual if len(unusual) < len(calls) else frozenset()


def _made_now(calls: _Calls, rank: int, count: object) -> int:
    """How many of the calls in question make the same step as the call of one rank."""
    operation, before = calls[rank]
    if getattr(count, "__name__", "") == "follows":
        return sum(each == (operation, before) for each in calls.values())
    place = before.place if before else None
    return sum(o.place == operation.place and (b.place if b else None) == place for o, b in calls.values())


def _by_script(sides: list[Operation]) -> Operation | None:
    """Of sides of equal size, return the one that the script makes the common one, if its branches show that.

    A call in a branch of its own is the exception, unless the branch leaves out a rank, as `if rank != 1` does.
    """
    first, *rest = sides
    for other in rest:
        if first.file != other.file or first.line == other.line:
            continue
        inside = [set(branches_of(each.file, each.line)) for each in (first, other)]
        branches = [{branch for _, branch in mine - theirs} for mine, theirs in (inside, inside[::-1])]
        rare = [branch & {"if", "not unless"} for branch in branches]
        usual = [branch & {"unless"} for branch in branches]
        if (rare[0] and not rare[1]) or (usual[1] and not usual[0]):
            return other
        if (rare[1] and not rare[0]) or (usual[0] and not usual[1]):
            return first
    return None


def _by_special_ranks(sides: Mapping[Operation, list[int]]) -> Operation | None:
    """The one side whose ranks the script does not single out where it prepares the calls."""
    special = singled_out(sides)
    ordinary = [each for each, ranks in sides.items() if special.isdisjoint(ranks)]
    return ordinary[0] if len(ordinary) == 1 else None


def _fault(
    odd: Operation, expected: Operation, before: Operation | None, order: CallOrder, ranks: tuple[int, ...]
) -> tuple[_Fault, bool]:
    """What is wrong with a call of some ranks, and True if it is one too many."""
    later = order.successors(expected)
    if odd.place == expected.place:
        # A loop over tensors that leaves one out comes to the next tensor too early.
        own = len(ranks) if before == expected else 0  # of these steps, the ones in question
        skipped = odd.shapes != expected.shapes and order.follows(odd, expected) > own
        return ("missing" if skipped else "signature"), False
    if odd.op == expected.op and opposite_branches(odd, expected):
        return "signature", False
    if opposite_branches(odd, expected):
        return "order", False
    if stands_alone(odd, expected, ranks) or {*ranks} <= ranks_kept_apart(odd, expected, before)[0]:
        return "missing", True
    if order.calls_in(odd.place) > len(ranks):  # a line in which ranks have met before
        return "missing", False
    if any(_same_request(odd, each) and each.place != odd.place for each in later):  # what comes next, in another line
        return "order", False
    is_new = order.calls_in(expected.place) <= _expected_calls(expected)
    if odd.file == expected.file and odd.line > expected.line and is_new:
        return "missing", False
    return "missing", True


def _expected_calls(operation: Operation) -> int:
    """How many calls of an operation are made when each member makes one."""
    return len(operation.members)
