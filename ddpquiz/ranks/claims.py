"""The claims of a script: its asserts with a literal message, and how a rank reports whether each held."""

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ddpquiz.events.event import Claimed, ClaimText

if TYPE_CHECKING:  # only a rank writes events
    from ddpquiz.ranks.inside.event_writer import EventWriter

REPORT = "__ddpquiz_claim__"  # the name that a `reporter` has in the script


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


def reporter(claims: Sequence[ClaimText], writer: "EventWriter") -> Callable[[int, object], bool]:
    """What the claims call with their line and the value that they test: sends each outcome of each claim once."""
    lines = {claim.line for claim in claims}
    reported: set[tuple[int, bool]] = set()

    def report(line: int, value: object) -> bool:
        held = bool(value)
        if line in lines and (line, held) not in reported:
            reported.add((line, held))
            writer.send(Claimed(writer.now(), writer.rank, line, held))
        return held

    return report


def _claim(node: ast.AST) -> ClaimText | None:
    match node:
        case ast.Assert(msg=ast.Constant(value=str(text)), lineno=line):
            return ClaimText(line, text)
    return None
