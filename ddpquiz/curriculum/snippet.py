"""Python inside a content file: check that it compiles, and find the place of an error in the file."""

from __future__ import annotations

import ast
import re
import warnings
from typing import TYPE_CHECKING

from ddpquiz.curriculum.yaml_file import YamlFile

if TYPE_CHECKING:
    from yaml import Node


OPTION = "<option>"
_OPTION_LINE = re.compile(r"^([ ]*)<option>[ ]*$", re.MULTILINE)


def has_option_line(code: str) -> bool:
    """Return True if this code has a line `<option>`."""
    return _OPTION_LINE.search(code) is not None


def with_option(code: str, option: str) -> str:
    """Replace the line `<option>` with the code of an option, indented like that line."""

    def indented(line: re.Match[str]) -> str:
        return "\n".join(line[1] + part if part.strip() else part for part in option.split("\n"))

    return _OPTION_LINE.sub(indented, code)


def check_snippet(page: YamlFile, node: Node, name: str, code: str) -> None:
    """Complain if `code` at `node` is not valid Python. Only a thorough reading checks this, because it takes time."""
    if not page.thorough or not code or getattr(node, "style", None) == ">":
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except SyntaxError as problem:
        line, column = _place(page, node, problem)
        page.complain_at(line, column, f"`{name}` is not valid Python: {problem.msg}")
    except (ValueError, RecursionError, MemoryError) as problem:
        page.complain(node, f"`{name}` is not valid Python: {problem or 'too deeply nested'}")


def _place(page: YamlFile, node: Node, problem: SyntaxError) -> tuple[int, int]:
    mark = node.start_mark
    if getattr(node, "style", None) != "|" or not problem.lineno:
        return mark.line + 1, mark.column + 1
    lines = page.text.split("\n")
    # Lines count from 0, and a block starts on the line after its `|`.
    number = min(mark.line + problem.lineno, node.end_mark.line, len(lines) - 1)
    inside = (problem.text or "").rstrip("\n")
    indent = max(len(lines[number].rstrip()) - len(inside.rstrip()), 0)
    return number + 1, indent + max(problem.offset or 1, 1)
