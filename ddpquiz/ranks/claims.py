"""The claims of a script: its asserts with a literal message, whose values a rank reports."""

import ast

from ddpquiz.events.event import ClaimText

REPORT = "__ddpquiz_claim__"  # the function to which claims pass their values


def find_claims(tree: ast.AST) -> tuple[ClaimText, ...]:
    """The claims of a script, from top to bottom."""
    found = (_claim(node) for node in ast.walk(tree))
    return tuple(sorted((claim for claim in found if claim), key=lambda claim: claim.line))


def report_claims(tree: ast.Module) -> ast.Module:
    """Make each claim pass its value to the function named REPORT, and return the tree; line numbers stay.

    This does not recurse, so scripts that Python can compile are never nested too deeply for it.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and (claim := _claim(node)):
            parts = ast.Name(REPORT, ast.Load()), ast.Constant(claim.line)
            name, line = (ast.copy_location(part, node.test) for part in parts)
            node.test = ast.copy_location(ast.Call(name, [line, node.test], []), node.test)
    return tree


def _claim(node: ast.AST) -> ClaimText | None:
    match node:
        case ast.Assert(msg=ast.Constant(value=str(text)), lineno=line):
            return ClaimText(line, text)
    return None
