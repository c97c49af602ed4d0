"""Which module may import which, and what a command may load."""

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import ddpquiz
from ddpquiz.cli import completion
from ddpquiz.paths import demos_dir

PACKAGE = Path(ddpquiz.__file__).parent
MODULES = sorted(
    path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in {"content", "demos"}
)

# What the modules of a package may import from ddpquiz besides each other. A top-level module has its own entry.
KIT = "terminal.kit"
MAY_IMPORT = {
    "errors": set(),
    "paths": {"errors"},
    "atomic_file": set(),
    "planning": {"errors", "analysis"},
    "curriculum": {"planning", "errors", "paths", "atomic_file"},
    "learning": {"curriculum", "errors", "paths", "atomic_file"},
    "analysis": {"errors", "atomic_file"},
    "ranks": {"analysis", "curriculum", "errors", "paths", "atomic_file"},
    KIT: {"errors"},
    "terminal.runs": {KIT, "analysis", "ranks", "errors", "paths"},
    "terminal.pages": {KIT, "learning", "analysis", "planning", "curriculum", "errors", "paths"},
    "terminal.sittings": {KIT, "terminal.pages", "learning", "ranks", "curriculum", "errors", "paths"},
    "terminal": set(),
    "web": {KIT, "terminal.pages", "analysis", "learning", "curriculum", "errors", "atomic_file"},
    "cli": {
        *("terminal", KIT, "terminal.runs", "terminal.pages", "terminal.sittings"),
        *("web", "learning", "analysis", "ranks", "planning"),
        *("curriculum", "errors", "paths", "atomic_file", "__init__"),
    },
    "__main__": {"cli", "__init__"},
    "record": {"ranks"},
    "bench": {"cli", "ranks"},
    "__init__": set(),
}
MAY_IMPORT_TORCH = {
    "ranks/elastic/agent.py",
    "ranks/elastic/rendezvous.py",
    "ranks/installed_torch.py",
    "ranks/store.py",
    "ranks/inside/worker.py",
    "ranks/inside/collective_bench.py",
    "ranks/inside/kernels.py",
    "ranks/inside/recorder.py",
    "ranks/inside/direct_calls.py",
    "ranks/inside/operators.py",
    "ranks/inside/buckets.py",
    "ranks/inside/read_marks.py",
    "ranks/inside/replica_sums.py",
    "ranks/inside/training_marks.py",
    "ranks/inside/store_patch.py",
    "ranks/inside/operations.py",
    "ranks/inside/process_groups.py",
    "ranks/inside/joining.py",
    "ranks/inside/new_groups.py",
    "ranks/inside/torch_private.py",
}


@cache
def imports(path):
    """List (line, module) for every import of a file, inside functions too; `from a import b` is a.b."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno} is relative"
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


NAMES = {".".join(("ddpquiz", *path.relative_to(PACKAGE).with_suffix("").parts)): path for path in MODULES}


def package_of(words):
    """Name the package, or the top-level module, to which a module of ours belongs; `words` are its dotted name."""
    return next((name for name in (".".join(words[1:3]), words[1:2] and words[1]) if name in MAY_IMPORT), "__init__")


def test_imports_point_down_only():
    wrong = []
    for name, path in NAMES.items():
        here = package_of(name.split("."))
        for line, module in imports(path):
            words = module.split(".")
            if words[0] == "ddpquiz" and package_of(words) not in MAY_IMPORT[here] | {here}:
                wrong.append(f"{path}:{line}: {here} must not import {module}")
    assert not wrong


def test_no_modules_import_each_other_in_a_circle():
    def module_of(name):
        return name if name in NAMES else name.rpartition(".")[0]

    needs = {name: {module_of(module) for _, module in imports(path)} & {*NAMES} for name, path in NAMES.items()}
    while free := [name for name, needed in needs.items() if not needed & {*needs}]:
        for name in free:
            del needs[name]
    assert not needs


def test_torch_is_imported_only_where_ranks_run():
    using = {path for path in MODULES if any(module.split(".")[0] == "torch" for _, module in imports(path))}
    assert {str(path.relative_to(PACKAGE)) for path in using} <= MAY_IMPORT_TORCH


@pytest.mark.parametrize("path", sorted(demos_dir().glob("*.py")), ids=lambda path: path.stem)
def test_a_demo_imports_torch_and_the_standard_library_only(path):
    found = {module.split(".")[0] for _, module in imports(path)}
    assert found <= {"torch", *sys.stdlib_module_names}


@pytest.mark.parametrize("path", sorted(PACKAGE.joinpath("cli").glob("*.py")), ids=lambda path: path.stem)
def test_a_command_imports_only_what_is_light_at_the_top(path):
    light = {"typer", "ddpquiz.errors", "ddpquiz.paths", "ddpquiz.cli", "ddpquiz.__version__"}
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for module in modules:
            known = any(module == name or module.startswith(f"{name}.") for name in light)
            assert known or module.split(".")[0] in sys.stdlib_module_names, f"{path}:{node.lineno}: {module}"


# Runs a command in a fresh interpreter and prints what it loaded; in this one, another test may have loaded anything.
PROBE = """
import sys
sys.argv = ["ddpquiz", *sys.argv[1:]]
from ddpquiz.__main__ import main
try:
    main()
except SystemExit as end:
    status = end.code or 0
else:
    status = 0
loaded = {name.split(".")[0] for name in sys.modules}
print("status", status, *sorted(loaded & {"torch", "pydantic", "markdown_it", "numpy", "typer", "rich"}), file=sys.stderr)
"""
COMMANDS = {
    "--version": "status 0",
    "": "status 0 rich typer",
    "--help": "status 0 typer",
    "list": "status 0 rich typer",
    "list all-reduce-ring": "status 0 rich typer",
    "list --json": "status 0 typer",
    "search ring": "status 0 rich typer",
    "show ITEM": "status 0 rich typer",
    "learn all-reduce-ring": "status 0 markdown_it rich typer",
    "check": "status 0 typer",
    "site --help": "status 0 typer",
    "study --help": "status 0 typer",
    "explain --help": "status 0 typer",
    "explain all-reduce-ring": "status 1 rich typer",
    "study all-reduce-ring": None,
    "test all-reduce-ring": None,
    "demo": "status 0 rich typer",
    "demo --help": "status 0 typer",
    "run --help": "status 0 typer",
    "prove --help": "status 0 typer",
    "plan --help": "status 0 typer",
    "bench --help": "status 0 typer",
    "plan --gpus 64 --layout tp=8": "status 0 rich typer",
    "plan --gpus 64 --layout tp=8 --json": "status 0 typer",
    "doctor --help": "status 0 typer",
    "optimize": "status 1 rich typer",
    "progress rebuild": "status 0 typer",
    "progress restore a/b": "status 1 rich typer",
    "list --hidden": "status 0 rich typer",
    "no-such-command": "status 2 typer",
    "learn no-such-concept": "status 1 rich typer",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_loads_only_what_it_needs(command, tmp_path):
    words = [completion.items("all-reduce-ring/")[-1] if word == "ITEM" else word for word in command.split()]
    environment = {**os.environ, "DDPQUIZ_HOME": str(tmp_path), "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    reported = done.stderr.splitlines()[-1]
    assert reported.startswith("status"), done.stderr
    if COMMANDS[command] is None:
        assert not {"torch", "pydantic", "markdown_it", "numpy"} & set(reported.split())
    else:
        assert reported == COMMANDS[command], done.stderr
