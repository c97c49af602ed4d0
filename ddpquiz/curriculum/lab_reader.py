"""Read a lab's folder as frozen data, or collect every complaint with its line and column.

Besides lab.yaml, it holds solution.py with its markers, and check.py, whose claims and measured values are found in its
syntax tree: it is not run.
"""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass
from pathlib import Path

from yaml import SequenceNode

from ddpquiz.curriculum.budget_rule import MEASURES, Limit, Order, read_rule
from ddpquiz.curriculum.lab import Attempt, Budget, Lab, LabRun
from ddpquiz.curriculum.lab_solution import LabSolution, MarkerError, edit, read_solution
from ddpquiz.curriculum.yaml_file import ID, Fields, YamlFile, did_you_mean, shown
from ddpquiz.errors import Complaint

MINUTES = (5, 90)  # that a lab may be said to need
_MOST_RANKS = 8
_SEEDS = (1, 2, 3)
_SECONDS = 10  # that one run may last
_HINTS, _MUTANTS, _VARIANTS, _STARS = (3, 3), (8, 40), (3, 20), (0, 2)
OTHER_ENDS = ("hang", "error", "no end", "not awaited")  # by which a mutant may be caught, besides claims and budgets


@dataclass(frozen=True, slots=True)
class LabReading:
    """The result of reading a lab. `lab` is None if there are complaints in `page`."""

    page: YamlFile
    lab: Lab | None


def read_lab(folder: Path) -> LabReading:
    """Read one lab: lab.yaml, solution.py and check.py of its folder, whose name is the lab's with _ for -."""
    page = YamlFile.open(folder / "lab.yaml")
    if page.root is None:
        return LabReading(page, None)
    around = _read_sources(page, folder)
    if page.complaints:  # without them, most of lab.yaml cannot be judged
        return LabReading(page, None)
    record = Fields(page, page.root, "a lab")
    lab_id = folder.name.replace("_", "-")
    if not ID.fullmatch(lab_id) or "-" in folder.name:
        page.complain_at(1, 1, f"the folder `{folder.name}` must consist of a-z, 0-9 and _")
    task, hints = record.code("task"), record.texts("hints")
    lab = Lab(
        id=lab_id, folder=folder, title=record.text("title"), concept=record.text("concept"),
        minutes=record.whole("minutes", *MINUTES) or 0, needs=record.texts("needs", optional=True, empty=True),
        task=task, hints=hints,
        runs=record.records("runs", "a run", _run),
        restarts=record.whole("restarts", 1, 5, optional=True) or 0,
        seconds=record.whole("seconds", 2, 60, optional=True) or _SECONDS,
        budgets=record.records("budgets", "a budget", lambda each: _budget(each, around), optional=True),
        stars=record.records("stars", "a star", lambda each: _budget(each, around), optional=True),
        mutants=record.records("mutants", "a mutant", lambda each: _attempt(each, around, wrong=True)),
        variants=record.records("variants", "a variant", lambda each: _attempt(each, around, wrong=False)),
        solution=around.solution, claims=around.claims,
    )  # fmt: skip
    record.close()
    page.mention("concept", lab.concept, record.at("concept"))
    for need, node in zip(lab.needs, record.children("needs"), strict=False):
        page.mention("lab", need, node)
    _check_counts(record, lab)
    _check_caught(record, lab)
    return LabReading(page, None if page.complaints else lab)


def _run(record: Fields) -> LabRun:
    ranks = record.whole("ranks", 1, _MOST_RANKS) or 1
    seeds = record.texts("seeds", optional=True)
    for node, seed in zip(record.children("seeds"), seeds, strict=True):
        if not re.fullmatch(r"\d{1,6}", seed):
            record.page.complain(node, f"a seed is a whole number below a million, got `{seed}`")
            return LabRun(ranks, _SEEDS)
    return LabRun(ranks, tuple(map(int, seeds)) or _SEEDS, record.texts("args", optional=True))


def _budget(record: Fields, around: _LabSources) -> Budget:
    name, phase, text = record.text("name"), record.text("phase"), record.text("limit")
    if phase and phase not in around.phases:
        record.complain("phase", f"check.py has no phase `{phase}`{did_you_mean(phase, around.phases)}")
    rule: Limit | Order = Limit(text, "0", "==", "0")
    try:
        rule = read_rule(text)
    except ValueError as problem:
        record.complain("limit", str(problem))
    for used in sorted(rule.names()) if isinstance(rule, Limit) else ():
        known = {"n", "rank", *MEASURES, *around.values}
        if used not in known and not used.startswith("calls_"):
            record.complain(
                "limit", f"`{used}` is not measured, and no phase of check.py has it{did_you_mean(used, known)}"
            )
    return Budget(name, phase, rule, record.text("say"))


def _attempt(record: Fields, around: _LabSources, *, wrong: bool) -> Attempt:
    name = record.text("name")
    source = _source(record, around)
    try:
        ast.parse(source)
    except SyntaxError as problem:
        record.page.complain(
            record.node, f"`{name}` is not valid Python: {problem.msg} in line {problem.lineno} of the file"
        )
    if around.solution.parts and source == around.solution.source:
        record.page.complain(record.node, f"`{name}` is the solution itself")
    return Attempt(name, source, _caught(record) if wrong else ())


def _caught(record: Fields) -> tuple[str, ...]:
    """The names under `caught`: one, or a list if it depends on the order of events which comes first."""
    node = record.find("caught")
    names = record.texts("caught") if isinstance(node, SequenceNode) else (record.text("caught"),)
    return tuple("not awaited" if name == "no wait" else name for name in names)  # its name in older packs


def _source(record: Fields, around: _LabSources) -> str:
    """The file that `write`, `old` with `new`, `edits` or `file` describe."""
    forms = [key for key in ("write", "old", "edits", "file") if key in record]
    if len(forms) != 1:
        record.page.complain(record.node, "expected one of write, old (with new), edits and file")
    solution, source = around.solution, around.solution.source
    match forms[:1]:
        case ["write"]:
            return _written(record, solution)
        case ["old"]:
            return _edit(record, source)
        case ["edits"]:
            for node in record.entries("edits"):
                entry = Fields(record.page, node, "an edit")
                source = _edit(entry, source)
                entry.close()
        case ["file"]:
            return record.code("file") + "\n"
    return source


def _written(record: Fields, solution: LabSolution) -> str:
    count = len(solution.written)
    node = record.find("write")
    is_text = node is not None and not isinstance(node.value, list)
    texts = (record.code("write"),) if is_text else record.texts("write")
    if not is_text:  # texts loses the indentation of a first line, which `dedent` needs
        texts = tuple(str(part.value).rstrip() for part in record.children("write"))
    if len(texts) != count:
        record.complain("write", f"solution.py has {count} parts to write, and these are {len(texts)}")
        return solution.source
    return solution.replaced(texts)


def _edit(record: Fields, source: str) -> str:
    old, new = record.code("old"), record.code("new") if "new" in record else ""
    if "new" not in record:
        record.text("new")
    changed = edit(source, old, new)
    if changed is None:
        record.complain("old", "this must stand in solution.py exactly once, with its lines whole if it has several")
    return changed or source


def _check_counts(record: Fields, lab: Lab) -> None:
    spans = {"hints": _HINTS, "mutants": _MUTANTS, "variants": _VARIANTS, "stars": _STARS}
    for key, (least, most) in spans.items():
        count = len(getattr(lab, key))
        if key in record and not least <= count <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            record.complain(key, f"expected {wanted}, got {count}")


def _check_caught(record: Fields, lab: Lab) -> None:
    """Complain about a mutant that nothing is named to catch, and about a claim or budget that catches no mutant."""
    budgets = [budget.name for budget in lab.budgets]
    ends = [*lab.claims, *budgets, *OTHER_ENDS]
    for node, mutant in zip(record.children("mutants"), lab.mutants, strict=False):
        for name in mutant.caught:
            if name and name not in ends:
                text = f"`{name}` is no claim of check.py, no budget, and none of {', '.join(OTHER_ENDS)}"
                record.page.complain(node, text + did_you_mean(name, ends))
    used = {name for mutant in lab.mutants for name in mutant.caught}
    for name in [*budgets, *lab.claims]:
        if name not in used:
            kind = "budget" if name in budgets else "claim"
            record.complain("mutants", f"no mutant is caught by the {kind} `{name}`")


@dataclass(frozen=True, slots=True)
class _LabSources:
    """The solution and the check of a lab, as far as they could be read: its claims, its phases and their values."""

    solution: LabSolution
    claims: tuple[str, ...]
    phases: frozenset[str]
    values: frozenset[str]


def _read_sources(page: YamlFile, folder: Path) -> _LabSources:
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
    values = {keyword.arg for node in calls for keyword in node.keywords if keyword.arg}
    values |= {
        str(target.slice.value)
        for node in ast.walk(check)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant)
    }
    return _LabSources(solution, tuple(dict.fromkeys(claims)), frozenset(phases), frozenset(values))


def _is_phase(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "phase"


def _parse(page: YamlFile, path: Path, text: str) -> ast.Module:
    """The tree of a Python file; an empty one, with a complaint, if it is not valid."""
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
