#!/usr/bin/env python3
"""Set up this checkout, run ddpquiz from it, and check it.

    python3 dev.py run demo allreduce    run any ddpquiz command
    python3 dev.py check                 run every check; proofs that passed in the branch you started from are left out
    python3 dev.py check --base REV      the same; leave out what passed in this commit
    python3 dev.py check --all           run everything, also the large forms of tests
    python3 dev.py check --quick         leave out the proofs and the slow tests
    python3 dev.py check -k WORD         pass further options to pytest
    python3 dev.py check --torch 2.9.1   run the tests with another torch, in .venv-torch-2.9.1
    python3 dev.py snapshots [PATH]      write the screens and sentences that tests expect anew; look at `git diff`

The first call creates .venv in this folder and installs what pyproject.toml and constraints.txt name. Later calls
install again only if one of the two has changed. Nothing outside this folder is changed. With --torch, what passed
before is neither read nor written; below 2.9, where no demo or proof runs, only tests of recorder, ranks, jobs and
diagnosis run. docs/install.md says what fails on which version, and why.
"""

# An older Python must be able to print the sentence about its version, so this file uses old syntax.
from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
_CORES = max(2, os.cpu_count() or 2)
_WORKERS = _CORES + 1  # slow tests often wait
_PYTEST = [
    *("-m", "pytest", "-n", str(_WORKERS), "--dist", "loadgroup", "--inline-snapshot=disable"),
    "--max-worker-restart=0",  # pytest-xdist 3.8 can hang under loadgroup after it restarts a worker
]
CHECKS: dict[str, list[str | Path]] = {
    "ruff check": [PYTHON, "-m", "ruff", "check", "."],
    "ruff format": [PYTHON, "-m", "ruff", "format", "--check", "."],
    "mypy": [PYTHON, "-m", "mypy"],
    "oxlint": [VENV / "bin" / "oxlint", "ddpquiz/web"],
    "pytest": [PYTHON, *_PYTEST],
}
_WITHOUT_DEMOS = (
    *("tests/ranks", "tests/events", "tests/jobs", "tests/diagnosis"),
    "--ignore=tests/ranks/test_content_check.py",
)
_FOLLOW_TORCH = ("torch", "setuptools", "sympy")  # of the latter two, some versions of torch ask for others than ours


def main(words: list[str]) -> int:
    """Run the command line `words` and return the exit status."""
    if sys.version_info < (3, 11):  # noqa: UP036  # any python3 may run this file
        return _fail(f"ddpquiz needs Python 3.11 or newer; this is {sys.version.split()[0]}.")
    if os.name == "nt":
        return _fail("ddpquiz runs on Linux and macOS; on Windows, run it inside WSL.")
    if not words or words[0] not in {"run", "check", "snapshots"}:
        print((__doc__ or "").strip())
        return 0 if words in (["-h"], ["--help"]) else 2
    if words[:2] == ["check", "--torch"]:
        return _check_torch("".join(words[2:3]), words[3:])
    problem = _set_up(VENV)
    if problem:
        return _fail(problem)
    if words[0] == "check":
        return _check(words[1:])
    if words[0] == "snapshots":
        return _write_snapshots(words[1:] or ["tests"])
    sys.stdout.flush()
    os.execv(PYTHON, [str(PYTHON), "-P", "-m", "ddpquiz", *words[1:]])  # noqa: S606  # arguments, no shell
    raise AssertionError  # execv does not return


def _fail(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 1


def _set_up(folder: Path, torch: str = "") -> str | None:
    """Install what the project names into an environment, with another version of torch than ours if one is named.

    Return None, or a sentence that says what is wrong.
    """
    python, stamp, constraints = folder / "bin" / "python", folder / "installed-from", _constraints(torch)
    wanted = _fingerprint(constraints)
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return None
    says = f"Setting up {folder.name}. The first time this takes minutes, most of them for torch."
    print(says, file=sys.stderr, flush=True)
    stamp.unlink(missing_ok=True)
    if not _works(python):
        import venv  # slow to import, and rarely needed

        try:
            venv.create(folder, clear=True, symlinks=True, with_pip=True)
        except (OSError, subprocess.CalledProcessError) as error:
            return f"Python could not create {folder.name} ({error}). On Debian, run: apt install python3-venv."
    file = folder / "constraints.txt"
    file.write_text(constraints, "utf-8")
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "-c", str(file)]
    pip += [] if sys.stderr.isatty() else ["--quiet"]
    if subprocess.call([*pip, "-e", ".", *_tools()], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=sys.stderr):
        return "pip could not install what ddpquiz needs; its messages are above."
    stamp.write_text(wanted)
    return None


def _constraints(torch: str) -> str:
    """Return the versions to install: ours, or those around another version of torch."""
    text = ROOT.joinpath("constraints.txt").read_text("utf-8")
    if not torch:
        return text
    kept = [line for line in text.splitlines() if line.partition("==")[0] not in _FOLLOW_TORCH]
    return "\n".join([*kept, f"torch=={torch}", ""])


def _fingerprint(constraints: str) -> str:
    """Return a hash of what an environment is made from, and of the folder to which the editable install points."""
    parts = [str(ROOT).encode(), ROOT.joinpath("pyproject.toml").read_bytes(), constraints.encode()]
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


def _works(python: Path) -> bool:
    """Return whether the Python of an environment starts, is new enough and has pip."""
    if not python.exists():  # also if it is a link to a Python that was removed
        return False
    probe = "import pip, sys; sys.exit(sys.version_info < (3, 11))"
    return subprocess.call([python, "-c", probe], stderr=subprocess.DEVNULL) == 0


def _tools() -> list[str]:
    """Return the packages for the checks; only pip 25.1 and later can read a dependency group."""
    import tomllib

    tools: list[str] = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))["dependency-groups"]["dev"]
    return tools


def _base() -> list[str]:
    """Return the option that names the commit in which this branch began; none if there is no remote."""
    command = ["git", "merge-base", "HEAD", "origin/HEAD"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode:
        print("There is no origin/HEAD, so every proof runs; `--base REV` names a commit to compare with.", flush=True)
        return []
    return ["--base", found.stdout.strip()]


def _write_snapshots(places: list[str]) -> int:
    """Run the tests with snapshots in one process, which writes what they see into their source."""
    files: list[Path] = []
    for place in places:
        files += [ROOT / place] if place.endswith(".py") else sorted(ROOT.joinpath(place).rglob("*.py"))
    chosen = [file for file in files if "snapshot(" in file.read_text("utf-8")]
    if not chosen:
        return _fail(f"No test in {' '.join(places)} has a snapshot.")
    command: list[str | Path] = [PYTHON, "-m", "pytest", "-n0", "--inline-snapshot=fix", *chosen]
    subprocess.call(command, cwd=ROOT, stdin=subprocess.DEVNULL)  # a test whose snapshot was wrong counts as failed
    return subprocess.call(["git", "diff", "--stat", "--", "tests"], cwd=ROOT)


def _check_torch(version: str, more: list[str]) -> int:
    """Run the tests that can pass with another version of torch, in an environment of its own."""
    from ddpquiz.ranks.installed_torch import OLDEST_TAUGHT, major_minor

    if not re.fullmatch(r"\d+(\.\d+){2}", version):
        return _fail("Name a version of torch, such as: python3 dev.py check --torch 2.9.1")
    folder = ROOT / f".venv-torch-{version}"
    if problem := _set_up(folder, version):
        return _fail(problem)
    places = ("tests",) if major_minor(version) >= OLDEST_TAUGHT else _WITHOUT_DEMOS
    return _run([folder / "bin" / "python", *_PYTEST, *places, *more])


def _check(more: list[str]) -> int:
    """Run every check, also after one has failed, and print one line for each at the end."""
    failed, summary = False, []
    more = more or _base()
    for name, command in CHECKS.items():
        print(f"== {name}", flush=True)
        begun = time.monotonic()
        extra = _pytest_options(more) if name == "pytest" else []
        status = _run([*command, *extra])
        failed = failed or status != 0
        summary.append(f"{name:12} {'FAILED' if status else 'ok':6} {time.monotonic() - begun:6.1f} s")
    print("== summary", *summary, sep="\n")
    return int(failed)


def _pytest_options(more: list[str]) -> list[str]:
    """The further options of pytest. The tests of a quick check hardly wait, so one worker per core is enough."""
    return ["-n", str(_CORES), *more] if "--quick" in more else more


def _run(command: list[str | Path]) -> int:
    # With this variable, every program that a test starts would compile all of our modules again.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.call(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
