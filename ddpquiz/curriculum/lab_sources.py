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
    check = _parsed(page, folder / "check.py")
    text = _text(page, folder / "solution.py")
    solution = LabSolution(())
    try:
        solution = read_solution(text) if text else solution
        compile(solution.source, "solution.py", "exec", dont_inherit=True)
        compile(solution.starter, "solution.py", "exec", dont_inherit=True)
    except MarkerError as problem:
        _complain_in(page, folder / "solution.py", problem.line, str(problem))
    except SyntaxError as problem:
        wrong = f"the solution or the starter is not valid Python: {problem.msg}"
        _complain_in(page, folder / "solution.py", problem.lineno or 1, wrong)
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


def _parsed(page: YamlFile, path: Path) -> ast.Module:
    try:
        return ast.parse(_text(page, path))
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
