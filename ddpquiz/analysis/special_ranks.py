"""Which ranks a script treats in a special way where it prepares a call, as `torch.ones(5 if rank == 1 else 4)`."""

import ast
from collections.abc import Iterator
from functools import lru_cache

from ddpquiz.analysis.rank_expressions import RankExpressions, values_by_name
from ddpquiz.analysis.source_text import read_source

_ROOTS = ("src", "dst", "group_src", "group_dst")  # arguments that name a root; also the second one of a call
_Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


@lru_cache(256)
def special_ranks(
    file: str, lines: tuple[int, ...], ranks: tuple[int, ...], *, in_roots: bool = False
) -> frozenset[int]:
    """Return which of some ranks the script singles out where they call: in the lines, or where variables get values.

    Conditions around both a line and the assignment do not count: they hold for every rank that comes there. Those
    around some of the lines do. With `in_roots`, only what names a root counts.
    """
    try:
        tree = ast.parse(read_source(file) or "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    world = len(ranks) if ranks == tuple(range(len(ranks))) else None
    expressions = RankExpressions(values_by_name(tree), ranks, world)
    places = [_scope_of(tree, line) for line in lines]
    found: set[int] = set()
    for line, (scope, around) in zip(lines, places, strict=True):
        for part in _parts(scope, around, line, in_roots=in_roots):
            found.update(expressions.singled_out(part))
    for _, around in places:
        for each in around:
            if isinstance(each, ast.If) and any(each not in others for _, others in places):
                found.update(expressions.singled_out(each.test))
    return frozenset(found)


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
