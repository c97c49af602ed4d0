"""The Python files of a lab: the solution with its markers, and what the check claims and measures."""

import ast
import os
from dataclasses import dataclass
from pathlib import Path

from ddpquiz.curriculum.lab_solution import LabSolution, MarkerError, read_solution
from ddpquiz.curriculum.yaml_file import YamlFile, shown
from ddpquiz.errors import Complaint


@dataclass(frozen=True, slots=True)
class LabSources:
    """The solution and the check of a lab, as far as they could be read: its claims, its phases and their values."""

    solution: LabSolution
    claims: tuple[str, ...]
    phases: frozenset[str]
    values: frozenset[str]


def read_sources(page: YamlFile, folder: Path) -> LabSources:
    """Read solution.py and check.py of a folder; complaints go to the page of its lab.yaml."""
    check = _parse(page, folder / "check.py", _text(page, folder / "check.py"))
    text = _text(page, folder / "solution.py")
    solution = LabSolution(())
    _parse(page, folder / "solution.py", text)
    try:
        solution = read_solution(text) if text else solution
        ast.parse(solution.starter)
    except MarkerError as problem:
        _complain_in(page, folder / "solution.py", problem.line, str(problem))
    except SyntaxError as problem:
        wrong = f"the starter made from this is not valid Python: {problem.msg} in its line {problem.lineno}"
        _complain_in(page, folder / "solution.py", 1, wrong)
    claims = [
        node.msg.value
        for node in ast.walk(check)
        if isinstance(node, ast.Assert) and isinstance(node.msg, ast.Constant) and isinstance(node.msg.value, str)
    ]
    calls = [node for node in ast.walk(check) if isinstance(node, ast.Call) and _is_phase(node)]
    phases = {str(node.args[0].value) for node in calls if node.args and isinstance(node.args[0], ast.Constant)}
    values = {each.arg for node in calls for each in node.keywords if each.arg}
    values |= {
        str(target.slice.value)
        for node in ast.walk(check)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant)
    }
    return LabSources(solution, tuple(dict.fromkeys(claims)), frozenset(phases), frozenset(values))


def _is_phase(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "phase"


def _parse(page: YamlFile, path: Path, text: str) -> ast.Module:
    """Return the tree of a Python file; an empty one, with a complaint, if it is not valid."""
    try:
        return ast.parse(text)
    except SyntaxError as problem:
        _complain_in(page, path, problem.lineno or 1, f"not valid Python: {problem.msg}")
        return ast.Module([], [])


def _text(page: YamlFile, path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as problem:
        reason = os.strerror(problem.errno).lower() if isinstance(problem, OSError) and problem.errno else problem
        _complain_in(page, path, 1, f"cannot be read: {reason}")
        return ""


def _complain_in(page: YamlFile, path: Path, line: int, text: str) -> None:
    """Complain about a place in a file beside lab.yaml."""
    page.complaints.append(Complaint(shown(path), line, 1, text))
