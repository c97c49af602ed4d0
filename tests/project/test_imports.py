"""Which module may import which, and what a command may load."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import ddpquiz
from ddpquiz.cli import completion
from ddpquiz.learning.progress import Progress
from ddpquiz.paths import demos_dir

PACKAGE = Path(ddpquiz.__file__).parent
MODULES = sorted(
    path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in {"content", "demos"}
)

# What the modules of a package may import from ddpquiz besides each other. A top-level module has its own entry.
KIT = "terminal.kit"
MAY_IMPORT = {
    "errors": {"safe_text"},
    "paths": {"errors"},
    "atomic_file": set(),
    "plural": set(),
    "safe_text": set(),
    "events": {"errors", "safe_text", "atomic_file", "plural"},
    "jobs": {"events", "errors", "safe_text", "plural"},
    "diagnosis": {"events", "jobs", "errors", "plural"},
    KIT: {"errors", "safe_text"},
    "plan": {KIT, "events", "errors"},
    "curriculum": {"plan", "errors", "paths", "atomic_file"},
    "learning": {"curriculum", "safe_text", "errors", "paths", "atomic_file", "plural"},
    "ranks": {"events", "jobs", "diagnosis", "curriculum", "errors", "paths", "atomic_file", "plural"},
    "terminal.runs": {KIT, "events", "jobs", "diagnosis", "ranks", "errors", "paths", "plural"},
    "terminal.pages": {KIT, "events", "plan", "learning", "curriculum", "errors", "paths", "plural"},
    "terminal.sittings": {
        *(KIT, "terminal.runs", "terminal.pages", "learning", "ranks", "bench", "events", "curriculum"),
        *("errors", "paths", "plural"),
    },
    "terminal": set(),
    "web": {KIT, "terminal.pages", "events", "diagnosis", "learning", "curriculum", "errors", "atomic_file", "plural"},
    "lab": {
        KIT,
        "terminal.runs",
        "events",
        "diagnosis",
        "ranks",
        "learning",
        "curriculum",
        "errors",
        "paths",
        "atomic_file",
        "plural",
    },
    "bench": {KIT, "events", "ranks", "learning", "errors", "paths", "atomic_file"},
    "cli": {
        *(KIT, "terminal.runs", "terminal.pages", "terminal.sittings", "lab", "plan", "bench", "web"),
        *(
            "safe_text",
            "learning",
            "ranks",
            "diagnosis",
            "jobs",
            "events",
            "curriculum",
            "errors",
            "paths",
            "atomic_file",
            "plural",
        ),
        "__init__",
    },
    "__main__": {"cli", "__init__"},
    "record": {"ranks"},
    "bench.__main__": {"bench", "cli", "ranks", "errors"},
    "__init__": set(),
}
MAY_IMPORT_TORCH = {
    "ranks/elastic_agent.py",
    "ranks/installed_torch.py",
    "ranks/store.py",
    "ranks/inside/worker.py",
    "ranks/inside/collective_bench.py",
    "ranks/inside/hand_reduced_replicas.py",
    "ranks/inside/kernels.py",
    "ranks/inside/recorder.py",
    "ranks/inside/direct_calls.py",
    "ranks/inside/replica_sums.py",
    "ranks/inside/training_marks.py",
    "ranks/inside/replica_drift.py",
    "ranks/inside/never_awaited.py",
    "ranks/inside/store_patch.py",
    "ranks/inside/store_waits.py",
    "ranks/inside/object_collectives.py",
    "ranks/inside/operations.py",
    "ranks/inside/process_groups.py",
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
loaded = {name.split(".")[0] for name in sys.modules} & {"torch", "pydantic", "markdown_it", "numpy", "typer", "rich"}
loaded |= {name for name in ("ranks.run", "web.run_page") if f"ddpquiz.{name}" in sys.modules}
print(*sorted(name for name in sys.modules if name.startswith("ddpquiz.cli.")), file=sys.stderr)
print("status", status, *sorted(loaded), file=sys.stderr)
"""
COMMANDS = {
    "--version": "status 0",
    "": "status 0 rich typer",
    "--help": "status 0 typer",
    "list": "status 0 rich typer",
    "list all-reduce-ring": "status 0 rich typer",
    "list --json": "status 0 rich typer",
    "search ring": "status 0 rich typer",
    "show ITEM": "status 0 rich typer",
    "learn all-reduce-ring": "status 0 markdown_it rich typer",
    "check": "status 0 markdown_it rich typer",
    "site --help": "status 0 markdown_it rich typer web.run_page",
    "study --help": "status 0 rich typer",
    "explain --help": "status 0 rich typer",
    "explain all-reduce-ring": "status 1 rich typer",
    "study all-reduce-ring": "status 0 rich typer",
    "test all-reduce-ring": "status 0 rich typer",
    "demo": "status 0 rich typer",
    "lab": "status 0 rich typer",
    "demo --help": "status 0 rich typer",
    "run --help": "status 0 ranks.run rich typer",
    "prove --help": "status 0 ranks.run rich typer",
    "plan --help": "status 0 rich typer",
    "bench --help": "status 0 ranks.run rich typer",
    "plan --gpus 64 --layout tp=8": "status 0 rich typer",
    "plan --gpus 64 --layout tp=8 --json": "status 0 rich typer",
    "doctor --help": "status 0 ranks.run typer",
    "optimize": "status 1 typer",
    "progress rebuild": "status 0 typer",
    "progress restore a/b": "status 1 typer",
    "list --hidden": "status 0 rich typer",
    "no-such-command": "status 2 typer",
    "learn no-such-concept": "status 1 rich typer",
}


def probe(home, *words, **more):
    """Run a command; return the modules of the command line that it loaded, and what it reported in its last line."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words],
        env={**os.environ, "DDPQUIZ_HOME": str(home), "COLUMNS": "80", **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    *_, modules, reported = done.stderr.splitlines()
    assert reported.startswith("status"), done.stderr
    return {module.rpartition(".")[2] for module in modules.split()}, reported


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_loads_only_what_it_needs(command, tmp_path):
    words = [completion.items("all-reduce-ring/")[-1] if word == "ITEM" else word for word in command.split()]
    assert probe(tmp_path, *words)[1] == COMMANDS[command]


def test_list_loads_nothing_of_the_database_where_nobody_has_learned(tmp_path):
    probed = "import sys; from ddpquiz.cli import app\ntry: app.main()\nexcept SystemExit: pass\nprint('sqlite3' in sys.modules)"
    command = [sys.executable, "-c", probed, "list"]
    environment = {**os.environ, "DDPQUIZ_HOME": str(tmp_path)}

    def says():
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.splitlines()[-1]

    assert says() == "False"
    assert [path.name for path in tmp_path.iterdir()] in ([], ["cache"])
    with Progress(tmp_path):
        pass
    assert says() == "True"


def test_no_command_is_loaded_to_list_the_commands_or_to_complete_the_name_of_one(tmp_path):
    always = {"app", "early_start", "typer_options"}
    assert probe(tmp_path, "--help") == (always, "status 0 typer")
    tab = {"_DDPQUIZ_COMPLETE": "complete_bash", "COMP_WORDS": "ddpquiz st", "COMP_CWORD": "1"}
    assert probe(tmp_path, **tab) == (always, "status 0 typer")


def test_commands_print_only_through_what_removes_control_characters():
    printing = re.compile(r"(?<![\w.])print\(|typer\.echo\((?!f\"\\r)")  # a line of progress begins with \r
    found = {path.name for path in (PACKAGE / "cli").glob("*.py") if printing.search(path.read_text())}
    assert found == {"app.py", "output.py"}  # the first prints the version and errors
