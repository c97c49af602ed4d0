"""A script's claims: its asserts that have a literal message."""

from __future__ import annotations

import ast

from ddpquiz.analysis.events import ClaimText

REPORT = "__ddpquiz_claim__"


def find(tree: ast.AST) -> tuple[ClaimText, ...]:
    """Return the claims of a script, from top to bottom."""
    found = (_claim(node) for node in ast.walk(tree))
    return tuple(sorted((claim for claim in found if claim), key=lambda claim: claim.line))


def reporting(tree: ast.Module) -> ast.Module:
    """Return the script with each claim handing its value to the function named REPORT; lines stay where they are."""
    reporting_tree = _Reporting().visit(tree)
    assert isinstance(reporting_tree, ast.Module)  # noqa: S101  # for mypy
    return ast.fix_missing_locations(reporting_tree)


class _Reporting(ast.NodeTransformer):
    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        claim = _claim(node)
        if claim:
            report = ast.Name(REPORT, ast.Load())
            node.test = ast.copy_location(ast.Call(report, [ast.Constant(claim.line), node.test], []), node.test)
        return node


def _claim(node: ast.AST) -> ClaimText | None:
    match node:
        case ast.Assert(msg=ast.Constant(value=str(text)), lineno=line):
            return ClaimText(line, text)
    return None
