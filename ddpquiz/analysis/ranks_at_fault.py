"""Which ranks left the common order of calls where the calls of a group differ, and in which way."""

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ddpquiz.analysis.call_order import CallOrder
from ddpquiz.analysis.operation import Operation
from ddpquiz.analysis.source_text import read_source
from ddpquiz.analysis.special_ranks import special_ranks

Fault = Literal["missing", "order", "signature"]


@dataclass(frozen=True, slots=True)
class Deviation:
    """The ranks that deviate and what they called, the other ranks and what those called, and what kind of fault it is.

    `extra` is True if the ranks that deviate made a call that the others never make; otherwise, for `missing`, they
    left out the call of the others. `before` is what all of them had called before, if it was the same. `tied` is True
    if as many ranks are on the other side and nothing that they did earlier tells who is right; `guessed` if not even
    the script does.
    """

    fault: Fault
    ranks: tuple[int, ...]
    call: Operation
    others: tuple[int, ...]
    expected: Operation
    extra: bool = False
    before: Operation | None = None
    tied: bool = False
    guessed: bool = False


Calls = Mapping[int, tuple[Operation, Operation | None]]  # by rank: what it called, and what it had called before


def find_deviation(calls: Calls, order: CallOrder) -> Deviation:
    """Return which ranks deviate, where at least two of the calls differ.

    What ranks did earlier in the run decides first: a side that calls what usually follows is right. Then the majority
    decides, then the script: which of the calls stands in a branch of its own, or is prepared in another way.
    """
    sides = sides_of({rank: operation for rank, (operation, _) in calls.items()})
    usual, evidence = _usual(sides, calls, order), ""
    if not usual:
        most = max(map(len, sides.values()))
        usual = [each for each, ranks in sides.items() if len(ranks) == most]
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


def sides_of(calls: Mapping[int, Operation]) -> dict[Operation, list[int]]:
    """Put ranks that ask for the same on one side, wherever they ask for it."""
    sides: dict[Operation, list[int]] = {}
    for rank, operation in calls.items():
        same = next((each for each in sides if _same_request(each, operation)), operation)
        sides.setdefault(same, []).append(rank)
    return sides


def _same_request(one: Operation, other: Operation) -> bool:
    alike = other._replace(file=one.file, line=one.line, asynchronous=one.asynchronous)
    if one.op == "scatter":  # only the root brings the parts
        alike = alike._replace(shapes=one.shapes, bytes=one.bytes)
    return one in (other, alike)


def _usual(sides: Mapping[Operation, list[int]], calls: Calls, order: CallOrder) -> list[Operation]:
    """Return the sides whose call followed the one before it earlier in the run too; nothing if that is so of all."""
    for count in (order.follows, order.place_follows):
        usual = [
            operation
            for operation, ranks in sides.items()
            if any(count(calls[rank][0], calls[rank][1]) > _made_now(calls, rank, count) for rank in ranks)
        ]
        if 0 < len(usual) < len(sides):
            return usual
    return []


def unusual_ranks(calls: Calls, order: CallOrder) -> frozenset[int]:
    """Return the ranks whose call had never followed the one before it; nothing if that is so of all."""
    found = frozenset(
        rank for rank, call in calls.items() if order.follows(*call) <= _made_now(calls, rank, order.follows)
    )
    return found if len(found) < len(calls) else frozenset()


def _made_now(calls: Calls, rank: int, count: object) -> int:
    """Return how many of the calls in question make the same step as the call of one rank."""
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
    """Return the one side whose ranks the script does not single out where it prepares the calls."""
    special = singled_out(sides)
    ordinary = [each for each, ranks in sides.items() if special.isdisjoint(ranks)]
    return ordinary[0] if len(ordinary) == 1 else None


def singled_out(calls: Collection[Operation], *, in_roots: bool = False) -> frozenset[int]:
    """Return which members of a group the script singles out in the lines of some calls, or where they name roots."""
    lines: dict[str, set[int]] = {}
    for each in calls:
        lines.setdefault(each.file, set()).add(each.line)
    members = next(iter(calls)).members
    found = (special_ranks(file, tuple(sorted(those)), members, in_roots=in_roots) for file, those in lines.items())
    return frozenset().union(*found)


def _fault(
    odd: Operation, expected: Operation, before: Operation | None, order: CallOrder, ranks: tuple[int, ...]
) -> tuple[Fault, bool]:
    """Return what is wrong with a call of some ranks, and True if it is one too many."""
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
    if _stands_alone(odd, expected, ranks):
        return "missing", True
    if order.calls_in(odd.place) > len(ranks):  # a line in which ranks have met before
        return "missing", False
    if any(_same_request(odd, each) and each.place != odd.place for each in later):  # what comes next, in another line
        return "order", False
    is_new = order.calls_in(expected.place) <= expected_calls(expected)
    if odd.file == expected.file and odd.line > expected.line and is_new:
        return "missing", False
    return "missing", True


def _stands_alone(odd: Operation, expected: Operation, ranks: tuple[int, ...]) -> bool:
    """Return True if a call stands in a branch that the script leaves to its ranks, as `if rank == 0` does."""
    own = {*branches_of(odd.file, odd.line)} - {*branches_of(expected.file, expected.line)}
    return not {branch for _, branch in own}.isdisjoint({"if", "not unless"}) and {*ranks} <= singled_out(
        [odd, expected]
    )


def expected_calls(operation: Operation) -> int:
    """Return how many calls of an operation are made when each member makes one."""
    return len(operation.members)


def opposite_branches(one: Operation, other: Operation) -> bool:
    """Return True if two calls stand in opposite branches of the same `if`."""
    if one.file != other.file:
        return False
    first, second = (dict(branches_of(each.file, each.line)) for each in (one, other))
    return any(first[at] != second[at] for at in first.keys() & second.keys())


def left_a_loop(inner: Operation, outer: Operation) -> bool:
    """Return True if one call stands in a loop of a function, and the other after it in the same function."""
    if inner.file != outer.file:
        return False
    (function, loops), (other, others) = (_loops_around(each.file, each.line) for each in (inner, outer))
    return function == other and bool(loops - others) and inner.line < outer.line


@lru_cache(256)
def _loops_around(file: str, line: int) -> tuple[int, frozenset[int]]:
    """Return the lines where the innermost function around a line and the loops in it begin; 0 for the module."""
    function, loops = 0, set[int]()
    for node in sorted(_statements(file), key=lambda node: node.lineno):
        if node.lineno <= line <= (node.end_lineno or 0):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                function, loops = node.lineno, set()
            elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
                loops.add(node.lineno)
    return function, frozenset(loops)


@lru_cache(256)
def branches_of(file: str, line: int) -> tuple[tuple[int, str], ...]:
    """Return the `if` statements around a line of a file: the line of each, and the branch.

    The branch is "if" or "else"; after a test such as `rank != 1` or `not ...` it is "unless" or "not unless".
    """
    found: list[tuple[int, str]] = []
    for node in _statements(file):
        if isinstance(node, ast.If):
            names = ("unless", "not unless") if _leaves_out(node.test) else ("if", "else")
            for branch, body in zip(names, (node.body, node.orelse), strict=True):
                if body and body[0].lineno <= line <= (body[-1].end_lineno or 0):
                    found.append((node.lineno, branch))
    return tuple(found)


def _statements(file: str) -> list[ast.stmt]:
    """Return all statements of a file; none if it cannot be read as Python."""
    try:
        tree = ast.parse(read_source(file) or "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


def _leaves_out(test: ast.expr) -> bool:
    """Return True for a test that few ranks fail: `rank != 1`, `not (rank == 1 and step == 3)`."""
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotEq)
