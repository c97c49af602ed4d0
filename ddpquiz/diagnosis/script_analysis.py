"""What the text of a script says of its ranks: branches, loops, and values for each rank; nothing is run."""

from __future__ import annotations

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

from ddpquiz.events.operation import Operation
from ddpquiz.events.source_text import read_source


def singled_out(calls: Collection[Operation], *, in_roots: bool = False) -> frozenset[int]:
    """Which members of a group the script singles out in the lines of some calls, or where they name roots."""
    lines: dict[str, set[int]] = {}
    for each in calls:
        lines.setdefault(each.file, set()).add(each.line)
    members = next(iter(calls)).members
    special = (special_ranks(file, tuple(sorted(at)), members, in_roots=in_roots) for file, at in lines.items())
    return frozenset().union(*special)


def stands_alone(odd: Operation, expected: Operation, ranks: tuple[int, ...]) -> bool:
    """True if a call stands in a branch that the script leaves to its ranks, as `if rank == 0` does."""
    own = {*branches_of(odd.file, odd.line)} - {*branches_of(expected.file, expected.line)}
    return not {branch for _, branch in own}.isdisjoint({"if", "not unless"}) and {*ranks} <= singled_out(
        [odd, expected]
    )


def opposite_branches(one: Operation, other: Operation) -> bool:
    """True if two calls stand in opposite branches of the same `if`."""
    if one.file != other.file:
        return False
    first, second = (dict(branches_of(each.file, each.line)) for each in (one, other))
    return any(first[at] != second[at] for at in first.keys() & second.keys())


def calls_elsewhere(call: Operation) -> bool:
    """Whether other ranks may meet a call without coming to its line, in the other branch of an `if`, or by group."""
    around = [node for node in _statements(call.file) if node.lineno <= call.line <= (node.end_lineno or 0)]
    here = (each for node in around for each in _calls_of(call.op, [node]) if each.lineno == call.line)
    if any(keyword.arg == "group" for each in here for keyword in each.keywords):
        return True
    return any(
        _calls_of(call.op, node.orelse if call.line <= (node.body[-1].end_lineno or 0) else node.body)
        for node in around
        if isinstance(node, ast.If) and node.orelse
    )


def _calls_of(op: str, statements: Collection[ast.stmt]) -> list[ast.Call]:
    nodes = (node for statement in statements for node in ast.walk(statement))
    return [node for node in nodes if isinstance(node, ast.Call) and _last_name(node.func) == op]


def left_a_loop(inner: Operation, outer: Operation) -> bool:
    """True if one call is made in a loop, and the other after it in the same function.

    Each may be made in a function that is called there, or in one that such a function calls.
    """
    if inner.file != outer.file:
        return False
    for inside in _ways_to(inner.file, inner.line):
        for after in _ways_to(outer.file, outer.line):
            (function, loops), (other, others) = _loops_around(inner.file, inside), _loops_around(inner.file, after)
            if function == other and loops - others and inside < after:
                return True
    return False


@lru_cache(256)
def _ways_to(file: str, line: int) -> tuple[int, ...]:
    """A line, and the lines of its file that come there through calls of the functions around it."""
    found, new = {line: None}, [line]
    for _ in range(_ROUNDS):
        names = {function.name for each in new if (function := _function_around(file, each))}
        new = [at for name, at in _calls_in(file) if name in names and at not in found][:_MOST_CALLS]
        found |= dict.fromkeys(new)
    return tuple(found)


def _function_around(file: str, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    around = (
        node for node in _statements(file)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    )  # fmt: skip
    return max(around, key=lambda node: node.lineno, default=None)


@lru_cache(16)
def _calls_in(file: str) -> tuple[tuple[str, int], ...]:
    """The last name of each call in a file, and its line."""
    return tuple((_last_name(node), node.lineno) for node in ast.walk(_parse(file)) if isinstance(node, ast.Call))


@lru_cache(256)
def _loops_around(file: str, line: int) -> tuple[int, frozenset[int]]:
    """The lines where the innermost function around a line and the loops in it begin; 0 for the module."""
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
    """The `if` statements around a line of a file: the line of each, and the branch.

    The branch is "if" or "else"; after a test such as `rank != 1` or `not ...` it is "unless" or "not unless".
    """
    branches: list[tuple[int, str]] = []
    for node in _statements(file):
        if isinstance(node, ast.If):
            names = ("unless", "not unless") if _leaves_out(node.test) else ("if", "else")
            for branch, body in zip(names, (node.body, node.orelse), strict=True):
                if body and body[0].lineno <= line <= (body[-1].end_lineno or 0):
                    branches.append((node.lineno, branch))
    return tuple(branches)


def _statements(file: str) -> list[ast.stmt]:
    """All statements of a file; none if it cannot be read as Python."""
    return [node for node in ast.walk(_parse(file)) if isinstance(node, ast.stmt)]


def _parse(file: str) -> ast.Module:
    return _parse_text(read_source(file) or "")


@lru_cache(8)
def _parse_text(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _leaves_out(test: ast.expr) -> bool:
    """True for a test that few ranks fail: `rank != 1`, `not (rank == 1 and step == 3)`."""
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotEq)


# Which ranks a script treats in a special way where it prepares a call.

_MOST_CALLS = 50  # of functions, that are followed
_ROOTS = ("src", "dst", "group_src", "group_dst")  # arguments that name a root; also the second one of a call
_Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


@lru_cache(256)
def special_ranks(
    file: str, lines: tuple[int, ...], ranks: tuple[int, ...], *, in_roots: bool = False
) -> frozenset[int]:
    """Which of some ranks the script singles out where they call: in the lines, or where variables get values.

    Conditions around both a line and the assignment do not count: they hold for every rank that comes there. Those on
    the way to some of the lines do. With `in_roots`, only what names a root counts.
    """
    tree = _parse(file)
    expressions = _expressions(tree, ranks)
    special: set[int] = set()
    for line in lines:
        scope, around = _scope_of(tree, line)
        for part in _parts(scope, around, line, in_roots=in_roots):
            special.update(expressions.singled_out(part))
    ways = [_ways_with_tests(tree, line) for line in lines]
    shared = set.intersection(*({test for way in each for test, _ in way} for each in ways))
    for each in ways:
        special.update(_singled_out_on(each, expressions, shared))
    return frozenset(special)


def ranks_that_reach(file: str, line: int, ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Which of all ranks of a job come to a line, as far as the conditions on the way there tell."""
    tree = _parse(file)
    expressions = _expressions(tree, ranks)
    ways = _ways_with_tests(tree, line)
    return tuple(rank for rank in ranks if _may_go(rank, ways, expressions))


@lru_cache(256)
def ranks_kept_apart(
    call: Operation, other: Operation, after: Operation | None = None
) -> tuple[frozenset[int], frozenset[int]]:
    """The ranks that the script lets come to a call as exceptions, and those that it keeps away as exceptions.

    `if rank == 0: evaluate()` makes rank 0 the exception for all lines of `evaluate`, and `if rank != 1:` rank 1. A
    test that also leads to the other call does not count, as where rank 0 runs one function and the others another one.
    If the call came `after` another one, only the way on from there counts: all ranks may evaluate elsewhere.
    """
    tree, expressions, through = _parse(call.file), _expressions(_parse(call.file), call.members), 0
    if after and after.file == call.file:
        function = _function_around(call.file, after.line)
        lines = (at for at in _ways_to(call.file, call.line) if _function_around(call.file, at) is function)
        through = min((at for at in lines if at > after.line), default=0)
    ways = _ways_with_tests(tree, other.line) if other.file == call.file else []
    shared = {test for way in ways for test, _ in way}
    here = _ways_with_tests(tree, call.line, through)
    special = _singled_out_on(here, expressions, shared)
    coming = frozenset(rank for rank in special if _may_go(rank, here, expressions))
    return coming, special - coming


_Way = list[tuple[ast.expr, bool]]  # tests, and what each of them must be worth
_MOST_WAYS = 20
_LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Raise)


def _singled_out_on(ways: list[_Way], expressions: _RankExpressions, known: Collection[ast.expr]) -> frozenset[int]:
    """The ranks that the tests on each of some ways to a line single out, without tests that are `known`."""
    tests = [[test for test, _ in way if test not in known] for way in ways]
    return frozenset.intersection(*(frozenset().union(*map(expressions.singled_out, way)) for way in tests))


def _may_go(rank: int, ways: list[_Way], expressions: _RankExpressions) -> bool:
    """True if a rank may come to a line on one of the ways to it, as far as the tests there tell."""
    evaluation = _Evaluation(expressions, rank)
    return any(
        all((value := evaluation.of(test)) is _UNKNOWN or bool(value) is wanted for test, wanted in way) for way in ways
    )


def _ways_with_tests(tree: ast.Module, line: int, through: int = 0) -> list[_Way]:
    """The tests on each way to a line: those around it, and those around the calls of its function.

    Of the calls of a function, only the one in line `through` counts if that is one of them.
    """
    ways: list[_Way] = []
    left: list[tuple[int, _Way, int]] = [(line, [], _ROUNDS)]
    while left:
        at, way, deep = left.pop()
        scope, around = _scope_of(tree, at)
        way = [*way, *_tests_before(tree, around, at)]
        calls = [] if isinstance(scope, ast.Module) or not deep else _lines_that_call(tree, scope)
        calls = [through] if through in calls else calls
        if calls and len(ways) + len(left) + len(calls) <= _MOST_WAYS:
            left += [(call, way, deep - 1) for call in calls]
        else:
            ways.append(way)
    return ways


def _lines_that_call(tree: ast.Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[int]:
    """The lines of a file that call one of its functions, without those in the function itself."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and _last_name(node) == function.name)
    return [call.lineno for call in calls if not function.lineno <= call.lineno <= (function.end_lineno or 0)]


def _tests_before(tree: ast.Module, around: list[ast.stmt], line: int) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the tests around a line in a file, and those that end the block before it, as `if rank != 0: return`."""
    for outer, inner in pairwise([tree, *around]):
        if isinstance(inner, ast.If) and inner.body[0].lineno <= line:
            yield inner.test, line <= (inner.body[-1].end_lineno or 0)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(outer, name, ())
            for each in block[: block.index(inner)] if inner in block else ():
                if isinstance(each, ast.If) and not each.orelse and isinstance(each.body[-1], _LEAVES):
                    yield each.test, False


_ROUNDS = 5  # names that stand for each other
_SETTERS = ("set", "add", "append", "compare_set", "multi_set", "queue_push")  # methods of a store


def lines_that_set(file: str, key: str) -> list[int]:
    """The lines of a script that may set a key of a store: they name it, or a text that it fits."""
    tree = _parse(file)
    values = _values_by_name(tree)
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SETTERS:
            named = [*node.args[:1], *(each.value for each in node.keywords if each.arg in ("key", "keys"))]
            asked = [
                part for each in named for part in (each.elts if isinstance(each, ast.List | ast.Tuple) else [each])
            ]
            if any(re.fullmatch(_pattern(each, values), key, re.DOTALL) for each in asked):
                lines.add(node.lineno)
    return sorted(lines)


def _pattern(node: ast.expr, values: Mapping[str, ast.expr], deep: int = _ROUNDS) -> str:
    """What a text may be that an expression makes; nothing that fits if it could be any text."""
    match node:
        case ast.Constant(value=str(text)):
            return re.escape(text)
        case ast.JoinedStr(values=parts):
            return "".join(_pattern(each, values) if isinstance(each, ast.Constant) else ".*" for each in parts)
        case ast.Name(id=name) if name in values and deep:
            return _pattern(values[name], values, deep - 1)
    return "(?!)"


def _parts(scope: _Scope, around: list[ast.stmt], line: int, *, in_roots: bool) -> Iterator[ast.AST]:
    """Yield the statement at a line, and before it what gives values to its variables, with the conditions for that."""
    if not around:
        return
    parts: list[ast.AST] = [*_roots(around[-1])] if in_roots else [around[-1]]
    nodes = [node for part in parts for node in ast.walk(part)]
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    yield from parts
    for path in _paths(scope.body):
        if path[-1].lineno < line and used & _assigned(path[-1]):
            yield path[-1]
            yield from (each.test for each in path[:-1] if isinstance(each, ast.If) and each not in around)


def _roots(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the arguments of calls that may name a root."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            yield from (each.value for each in node.keywords if each.arg in _ROOTS)
            yield from node.args[1:2]


def _scope_of(tree: ast.Module, line: int) -> tuple[_Scope, list[ast.stmt]]:
    """The innermost function around a line, and the statements around it, the innermost last."""
    scope: _Scope = tree
    around: list[ast.stmt] = []
    for path in _paths(tree.body, into_functions=True):
        simple = path[-1]
        if simple.lineno <= line <= (simple.end_lineno or 0):
            around = path
    for each in around:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            scope = each
    return scope, around


def _paths(body: list[ast.stmt], *, into_functions: bool = False) -> Iterator[list[ast.stmt]]:
    """Yield each statement without a body, after the statements that it stands in."""
    left = [[each] for each in body]
    while left:
        path = left.pop()
        inner = [part for name in ("body", "orelse", "finalbody", "handlers") for part in getattr(path[-1], name, ())]
        if isinstance(path[-1], ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not into_functions:
            continue
        if not inner:
            yield path
        left += [[*path, each] for each in inner]


def _assigned(statement: ast.stmt) -> set[str]:
    """The variables to which a statement gives a value."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return set()
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


# What expressions of a script are worth on each rank, as far as the text of the script tells.

# `rank == 1 and step == 3` is False on each rank but 1, where it depends on the step. Names count that get a value once
# in the file, such as `is_main = dist.get_rank() == 0` or `sizes = [4, 4, 5]`.

_UNKNOWN = object()
_DEEP = 20  # names that stand for each other, one after the other
_MOST = 10**6  # the largest number with which is computed
_RANK = re.compile(r"(?:^|_)rank$", re.IGNORECASE)
_WORLD = re.compile(r"(?:^|_)world(?:_?size)?$", re.IGNORECASE)
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda one, those: one in those, ast.NotIn: lambda one, those: one not in those,
}  # fmt: skip


def _expressions(tree: ast.Module, ranks: tuple[int, ...]) -> _RankExpressions:
    world = len(ranks) if ranks == tuple(range(len(ranks))) else None
    return _RankExpressions(_values_by_name(tree), ranks, world)


def _values_by_name(tree: ast.Module) -> dict[str, ast.expr]:
    """The expressions of the variables that get a value once in a file, and of functions that only return one."""
    times: Counter[str] = Counter()
    values: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            times[node.id] += 1
        elif isinstance(node, ast.arg):
            times[node.arg] += 2
        if isinstance(node, ast.Assign):
            for target in node.targets:
                values.update(_pairs(target, node.value))
        elif isinstance(node, ast.FunctionDef):
            times[f"{node.name}()"] += 1
            if isinstance(last := node.body[-1], ast.Return) and last.value and not node.args.args and _is_short(node):
                values[f"{node.name}()"] = last.value
    return {name: value for name, value in values.items() if times[name] == 1}


def _is_short(function: ast.FunctionDef) -> bool:
    """True if nothing comes before the last statement of a function but its docstring."""
    return all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in function.body[:-1])


def _pairs(target: ast.expr, value: ast.expr) -> Iterable[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for part, part_value in zip(target.elts, value.elts, strict=True):
            yield from _pairs(part, part_value)


@dataclass
class _RankExpressions:
    """Evaluates expressions for each of some ranks; `world` is their number if they are all ranks of the job.

    `left` are the parts of expressions that are still evaluated, since a file may hold anything.
    """

    names: Mapping[str, ast.expr]
    ranks: Sequence[int]
    world: int | None = None
    left: int = 200_000

    def singled_out(self, tree: ast.AST) -> frozenset[int]:
        """The ranks for which some expression in a tree is worth something else than for most."""
        expressions = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
        odd = frozenset(rank for node in expressions for rank in self._odd_ones(node))
        return odd if self.left > 0 else frozenset()

    def _odd_ones(self, node: ast.expr) -> list[int]:
        values = {rank: _key(_Evaluation(self, rank).of(node)) for rank in self.ranks}
        usual, most = Counter(values.values()).most_common(1)[0]
        if 2 * most <= len(values):
            usual = self._usual_of_half(node) if len(values) == 2 else ""
        return [rank for rank, value in values.items() if usual and value != usual]

    def _usual_of_half(self, node: ast.expr, deep: int = _DEEP) -> str:
        """What a test is worth for ordinary ranks; nothing if it does not tell which are, like `rank > 0`."""
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                usual = "True" if _RANK.search(_last_name(inner)) else self._usual_of_half(inner, deep)
                return {"True": "False", "False": "True"}.get(usual, "")
            case ast.Compare(ops=[ast.Eq() | ast.In()]):
                return "False"
            case ast.Compare(ops=[ast.NotEq() | ast.NotIn()]):
                return "True"
            case ast.Name(id=name) if name in self.names and deep:
                return self._usual_of_half(self.names[name], deep - 1)
            case ast.Call(func=ast.Name(id=name)) if f"{name}()" in self.names and deep:
                return self._usual_of_half(self.names[f"{name}()"], deep - 1)
        return ""


def _key(value: object) -> str:
    return "unknown" if value is _UNKNOWN else repr(value)


@dataclass
class _Evaluation:
    """Evaluates expressions on one rank."""

    of_all: _RankExpressions
    rank: int
    _deep: int = field(default=0)

    def of(self, node: ast.expr) -> Any:
        """The value of an expression: a number, a text, a truth value or a tuple of them; or _UNKNOWN."""
        self.of_all.left -= 1
        if self.of_all.left < 0:
            return _UNKNOWN
        try:
            return self._value(node)
        except (TypeError, ValueError, ArithmeticError, LookupError, RecursionError):
            return _UNKNOWN

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | str() | None as value):
                return value
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                return tuple(self.of(part) for part in parts)
            case ast.Name() | ast.Attribute() | ast.Call() | ast.Subscript():
                return self._named(node)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return _UNKNOWN if (value := self.of(inner)) is _UNKNOWN else not value
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self._value(inner)
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _BINARY:
                return self._computed(_BINARY[type(op)], self._value(left), self._value(right))
            case ast.BoolOp(op=op, values=parts):
                return _joined([self.of(part) for part in parts], stop=isinstance(op, ast.Or))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
                return _compared(op, self.of(left), self.of(right))
            case ast.IfExp(test=test, body=body, orelse=other):
                return _UNKNOWN if (value := self.of(test)) is _UNKNOWN else self.of(body if value else other)
        return _UNKNOWN

    def _computed(self, compute: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        if not (isinstance(left, int) and isinstance(right, int)) or max(abs(left), abs(right)) > _MOST:
            return _UNKNOWN
        return compute(left, right)

    def _named(self, node: ast.expr) -> Any:
        match node:
            case ast.Call(func=ast.Name(id="int" | "str" | "bool" as kind), args=[inner], keywords=[]):
                value = self.of(inner)
                return _UNKNOWN if value is _UNKNOWN else {"int": int, "str": str, "bool": bool}[kind](value)
            case ast.Call(func=ast.Name(id="range"), args=args, keywords=[]):
                values = range(*(self.of(each) for each in args))
                self.of_all.left -= len(values)
                return tuple(values) if self.of_all.left > 0 else _UNKNOWN
            case ast.Subscript(value=ast.Attribute(attr="environ"), slice=ast.Constant(value="RANK")):
                return str(self.rank)
            case ast.Call(func=ast.Attribute(attr="get" | "getenv"), args=[ast.Constant(value="RANK"), *_]):
                return str(self.rank)
            case ast.Subscript(value=table, slice=index):
                values, at = self.of(table), self.of(index)
                return _UNKNOWN if _UNKNOWN in (values, at) else values[at]
        name = _last_name(node)
        known = f"{name}()" if isinstance(node, ast.Call) else name
        if not isinstance(node, ast.Attribute | ast.Subscript) and known in self.of_all.names and self._deep < _DEEP:
            self._deep += 1
            try:
                value = self.of(self.of_all.names[known])
            finally:
                self._deep -= 1
            if value is not _UNKNOWN:
                return value
        if _RANK.search(name):
            return self.rank
        return self.of_all.world if self.of_all.world and _WORLD.search(name) else _UNKNOWN


def _compared(op: ast.cmpop, left: Any, right: Any) -> Any:
    """Compare two values of which parts may be unknown: (2, unknown) and (1, 3) certainly differ."""
    if isinstance(op, ast.Eq | ast.NotEq) and isinstance(left, tuple) and isinstance(right, tuple):
        parts = [_compared(ast.Eq(), one, other) for one, other in zip(left, right, strict=False)]
        same = len(left) == len(right) and _joined(parts, stop=False)
        return same if same is _UNKNOWN or isinstance(op, ast.Eq) else not same
    if isinstance(op, ast.In | ast.NotIn) and isinstance(right, tuple):
        is_in = _joined([_compared(ast.Eq(), left, element) for element in right], stop=True)
        return is_in if is_in is _UNKNOWN or isinstance(op, ast.In) else not is_in
    return _UNKNOWN if left is _UNKNOWN or right is _UNKNOWN else _COMPARISONS[type(op)](left, right)


def _joined(values: Sequence[Any], *, stop: bool) -> Any:
    """Join truth values by `and`, or by `or` if `stop` is True."""
    if any(value is not _UNKNOWN and bool(value) is stop for value in values):
        return stop
    return _UNKNOWN if any(value is _UNKNOWN for value in values) else not stop


def _last_name(node: ast.expr) -> str:
    """The last name of an expression: `rank` of `self.rank`, and of `dist.get_rank()`."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
