"""What expressions of a script are worth on each rank, as far as the text of the script tells.

`rank == 1 and step == 3` is False on each rank but 1, where it depends on the step. Names count that get a value once
in the file, such as `is_main = dist.get_rank() == 0` or `sizes = [4, 4, 5]`.
"""

import ast
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

UNKNOWN = object()
DEEP = 20  # names that stand for each other, one after the other
MOST = 10**6  # the largest number with which is computed
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


def values_by_name(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the expressions of the variables that get a value once in a file."""
    times: Counter[str] = Counter()
    found: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            times[node.id] += 1
        elif isinstance(node, ast.arg):
            times[node.arg] += 2
        if isinstance(node, ast.Assign):
            for target in node.targets:
                found.update(_pairs(target, node.value))
    return {name: value for name, value in found.items() if times[name] == 1}


def _pairs(target: ast.expr, value: ast.expr) -> Iterable[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for each, its in zip(target.elts, value.elts, strict=True):
            yield from _pairs(each, its)


@dataclass
class RankExpressions:
    """Evaluates expressions for each of some ranks; `world` is their number if they are all ranks of the job.

    `left` are the parts of expressions that are still evaluated, since a file may hold anything.
    """

    names: Mapping[str, ast.expr]
    ranks: Sequence[int]
    world: int | None = None
    left: int = 200_000

    def singled_out(self, tree: ast.AST) -> frozenset[int]:
        """Return the ranks for which some expression in a tree is worth something else than for most."""
        expressions = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
        found = frozenset(rank for node in expressions for rank in self._odd_ones(node))
        return found if self.left > 0 else frozenset()

    def _odd_ones(self, node: ast.expr) -> list[int]:
        values = {rank: _key(_Evaluation(self, rank).of(node)) for rank in self.ranks}
        usual, most = Counter(values.values()).most_common(1)[0]
        if 2 * most <= len(values):
            usual = self._usual_of_half(node) if len(values) == 2 else ""
        return [rank for rank, value in values.items() if usual and value != usual]

    def _usual_of_half(self, node: ast.expr, deep: int = DEEP) -> str:
        """Return what a test is worth for ordinary ranks; nothing if it does not tell which are, like `rank > 0`."""
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
        return ""


def _key(value: object) -> str:
    return "unknown" if value is UNKNOWN else repr(value)


@dataclass
class _Evaluation:
    """Evaluates expressions on one rank."""

    of_all: RankExpressions
    rank: int
    _deep: int = field(default=0)

    def of(self, node: ast.expr) -> Any:
        """Return the value of an expression: a number, a text, a truth value or a tuple of them; or UNKNOWN."""
        self.of_all.left -= 1
        if self.of_all.left < 0:
            return UNKNOWN
        try:
            return self._value(node)
        except (TypeError, ValueError, ArithmeticError, LookupError, RecursionError):
            return UNKNOWN

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | str() | None as value):
                return value
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                return tuple(self.of(part) for part in parts)
            case ast.Name() | ast.Attribute() | ast.Call() | ast.Subscript():
                return self._named(node)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return UNKNOWN if (value := self.of(inner)) is UNKNOWN else not value
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self._value(inner)
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _BINARY:
                return self._computed(_BINARY[type(op)], self._value(left), self._value(right))
            case ast.BoolOp(op=op, values=parts):
                return _joined([self.of(part) for part in parts], stop=isinstance(op, ast.Or))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
                return _compared(op, self.of(left), self.of(right))
            case ast.IfExp(test=test, body=body, orelse=other):
                return UNKNOWN if (value := self.of(test)) is UNKNOWN else self.of(body if value else other)
        return UNKNOWN

    def _computed(self, compute: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        if not (isinstance(left, int) and isinstance(right, int)) or max(abs(left), abs(right)) > MOST:
            return UNKNOWN
        return compute(left, right)

    def _named(self, node: ast.expr) -> Any:
        match node:
            case ast.Call(func=ast.Name(id="int" | "str" | "bool" as kind), args=[inner], keywords=[]):
                value = self.of(inner)
                return UNKNOWN if value is UNKNOWN else {"int": int, "str": str, "bool": bool}[kind](value)
            case ast.Call(func=ast.Name(id="range"), args=args, keywords=[]):
                values = range(*(self.of(each) for each in args))
                self.of_all.left -= len(values)
                return tuple(values) if self.of_all.left > 0 else UNKNOWN
            case ast.Subscript(value=ast.Attribute(attr="environ"), slice=ast.Constant(value="RANK")):
                return str(self.rank)
            case ast.Call(func=ast.Attribute(attr="get" | "getenv"), args=[ast.Constant(value="RANK"), *_]):
                return str(self.rank)
            case ast.Subscript(value=table, slice=index):
                values, at = self.of(table), self.of(index)
                return UNKNOWN if UNKNOWN in (values, at) else values[at]
        name = _last_name(node)
        if isinstance(node, ast.Name) and name in self.of_all.names and self._deep < DEEP:
            self._deep += 1
            try:
                value = self.of(self.of_all.names[name])
            finally:
                self._deep -= 1
            if value is not UNKNOWN:
                return value
        if _RANK.search(name):
            return self.rank
        return self.of_all.world if self.of_all.world and _WORLD.search(name) else UNKNOWN


def _compared(op: ast.cmpop, left: Any, right: Any) -> Any:
    """Compare two values of which parts may be unknown: (2, unknown) and (1, 3) certainly differ."""
    if isinstance(op, ast.Eq | ast.NotEq) and isinstance(left, tuple) and isinstance(right, tuple):
        parts = [_compared(ast.Eq(), one, other) for one, other in zip(left, right, strict=False)]
        same = len(left) == len(right) and _joined(parts, stop=False)
        return same if same is UNKNOWN or isinstance(op, ast.Eq) else not same
    if isinstance(op, ast.In | ast.NotIn) and isinstance(right, tuple):
        found = _joined([_compared(ast.Eq(), left, each) for each in right], stop=True)
        return found if found is UNKNOWN or isinstance(op, ast.In) else not found
    return UNKNOWN if left is UNKNOWN or right is UNKNOWN else _COMPARISONS[type(op)](left, right)


def _joined(values: Sequence[Any], *, stop: bool) -> Any:
    """Join truth values by `and`, or by `or` if `stop` is True."""
    if any(value is not UNKNOWN and bool(value) is stop for value in values):
        return stop
    return UNKNOWN if any(value is UNKNOWN for value in values) else not stop


def _last_name(node: ast.expr) -> str:
    """Return the last name of an expression: `rank` of `self.rank`, and of `dist.get_rank()`."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
