"""Where a script goes through a set: its order depends on the hash secret of the interpreter, so it differs by rank.

The text of the script is read, and nothing is run. Sets of numbers have one order everywhere, and do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ddpquiz.events.source_text import read_source

_MOST_FILES = 100  # of the script's own imports that are read
_MAKERS = ("set", "frozenset")
_METHODS = ("union", "intersection", "difference", "symmetric_difference", "copy")
_IN_ORDER = (
    "list",
    "tuple",
    "enumerate",
    "iter",
    "zip",
    "map",
    "filter",
    "dict",
    "reversed",
)  # keep the order they get


def find_set_loops(script: Path) -> list[tuple[str, int]]:
    """The lines in which a script, or a file of its folder that it imports, goes through a set: each file and line."""
    found: list[tuple[str, int]] = []
    left, seen = [script], {script}
    while left and len(seen) <= _MOST_FILES:
        path = left.pop(0)
        tree = _parse(str(path))
        found += [(str(path), line) for line in _lines(tree)]
        new = [each for each in _local_imports(tree, script.resolve().parent) if each not in seen]
        left += new
        seen.update(new)
    return found


def loops_over_set(file: str, line: int) -> int:
    """The line of the innermost loop around a line of a file if that loop goes through a set; else 0."""
    tree = _parse(file)
    lines = {*_lines(tree)}
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.AsyncFor)]
    around = [node for node in loops if node.lineno <= line <= (node.end_lineno or 0)]
    innermost = max(around, key=lambda node: node.lineno, default=None)
    return innermost.lineno if innermost and innermost.lineno in lines else 0


@lru_cache(8)
def _parse(file: str) -> ast.Module:
    try:
        return ast.parse(read_source(file) or "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _lines(tree: ast.Module) -> list[int]:
    """The lines that go through a set, in which its order matters."""
    names = _sets_by_name(tree)
    nodes = [node for walked in ast.walk(tree) for node in _gone_through(walked)]
    return sorted({node.lineno for node in nodes if _is_set(node, names)})


def _gone_through(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions that a node goes through one by one, keeping their order."""
    match node:
        case ast.For(iter=each) | ast.AsyncFor(iter=each) | ast.Starred(value=each):
            yield each
        case ast.ListComp(generators=generators) | ast.DictComp(generators=generators):
            yield from (each.iter for each in generators)
        case ast.Call(func=ast.Name(id=name), args=args) if name in _IN_ORDER:
            yield from args
        case ast.Call(func=ast.Attribute(attr="join" | "extend" | "fromkeys"), args=args):
            yield from args
    if isinstance(node, ast.For | ast.AsyncFor) and isinstance(node.iter, ast.Call):
        yield from (
            each for each in node.iter.args if isinstance(node.iter.func, ast.Name) and node.iter.func.id in _IN_ORDER
        )


def _is_set(node: ast.expr, names: frozenset[str], deep: int = 10) -> bool:
    """Whether an expression is a set that holds something else than numbers, as far as the text tells."""
    match node:
        case ast.Set(elts=parts):
            return not all(_is_number(part) for part in parts)
        case ast.SetComp(elt=part):
            return not _is_number(part)
        case ast.Call(func=ast.Name(id=name), args=[]) if name in _MAKERS:
            return True
        case ast.Call(func=ast.Name(id=name), args=[inner]) if name in _MAKERS:
            return not _holds_numbers(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _METHODS and deep:
            return _is_set(inner, names, deep - 1)
        case ast.BinOp(op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), left=left, right=right) if deep:
            return any(_is_set(each, names, deep - 1) or _is_keys(each) for each in (left, right))
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in names
    return False


def _is_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "keys"


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _holds_numbers(node: ast.expr) -> bool:
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return all(map(_is_number, parts))
        case ast.Call(func=ast.Name(id="range")):
            return True
    return False


def _sets_by_name(tree: ast.Module) -> frozenset[str]:
    """The variables and attributes that are nothing but sets, wherever they get a value in a file."""
    names: frozenset[str] = frozenset()
    for _ in range(3):  # one may be made of another
        are, others = set[str](), set[str]()
        for node in ast.walk(tree):
            for target, value in _values(node):
                (are if _is_set(value, names) else others).add(target)
        names = frozenset(are - others)
    return names


def _values(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((name, value) for target in targets if (name := _name(target)))
        case ast.AnnAssign(target=target, value=ast.expr() as value) if name := _name(target):
            yield name, value


def _name(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""


def _local_imports(tree: ast.Module, folder: Path) -> list[Path]:
    """The files of a folder that a file imports."""
    modules: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                modules += [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                modules += [module, *(f"{module}.{alias.name}" for alias in aliases)]
    paths = [folder.joinpath(*module.split(".")) for module in dict.fromkeys(modules)]
    files = [each for path in paths for each in (path.with_name(f"{path.name}.py"), path / "__init__.py")]
    return [each for each in files if each.is_file()]
