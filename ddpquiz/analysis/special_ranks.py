"""Which ranks a script treats in a special way where it prepares a call, as `torch.ones(5 if rank == 1 else 4)`."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from ddpquiz.analysis.source_text import read_source

_RANK = re.compile(r"(?:^|_)(?:global_|world_)?rank$", re.IGNORECASE)
_Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


@lru_cache(256)
def special_ranks(file: str, line: int) -> frozenset[int]:
    """Return the ranks that are compared by number in the statement at a line, or where its variables get values.

    Conditions around both the statement and the assignment do not count: they hold for every rank that comes there.
    """
    try:
        tree = ast.parse(read_source(file) or "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    scope, around = _scope_of(tree, line)
    if not around:
        return frozenset()
    statement = around[-1]
    used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    found = set(_compared(statement))
    for path in _paths(scope.body):
        if path[-1].lineno < line and used & _assigned(path[-1]):
            found.update(_compared(path[-1]))
            tests = [each.test for each in path[:-1] if isinstance(each, ast.If) and each not in around]
            found.update(rank for test in tests for rank in _compared(test))
    return frozenset(found)


def _scope_of(tree: ast.Module, line: int) -> tuple[_Scope, list[ast.stmt]]:
    """Return the innermost function around a line, and the statements around it, the innermost last."""
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
    """Return the variables to which a statement gives a value."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return set()
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _compared(tree: ast.AST) -> Iterator[int]:
    """Yield the numbers with which something that is named like a rank is compared."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            for one, other in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
                if isinstance(other, ast.Constant) and type(other.value) is int and _RANK.search(_name(one)):
                    yield other.value


def _name(node: ast.expr) -> str:
    """Return the last name of an expression: `rank` of `self.rank`, and of `dist.get_rank()`."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
