#!/usr/bin/env python3
"""Set up this checkout, run ddpquiz from it, and check it.

    python3 dev.py run demo allreduce    run any ddpquiz command
    python3 dev.py check                 run every check; proofs that passed in the branch you started from are left out
    python3 dev.py check --base REV      the same; leave out what passed in this commit
    python3 dev.py check --all           run everything, also the large forms of tests
    python3 dev.py check --quick         leave out the proofs and the slow tests
    python3 dev.py check -k WORD         pass further options to pytest
    python3 dev.py snapshots [PATH]      write the screens and sentences that tests expect anew; look at `git diff`

The first call creates .venv in this folder and installs what pyproject.toml and constraints.txt name. Later calls
install again only if one of the two has changed. Nothing outside this folder is changed.
"""

# An older Python must be able to print the sentence about its version, so this file uses old syntax.
from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed-from"
_WORKERS = max(3, (os.cpu_count() or 2) + 1)  # one more than cores, because tests often wait
CHECKS: dict[str, list[str | Path]] = {
    "ruff check": [PYTHON, "-m", "ruff", "check", "."],
    "ruff format": [PYTHON, "-m", "ruff", "format", "--check", "."],
    "mypy": [PYTHON, "-m", "mypy"],
    "oxlint": [VENV / "bin" / "oxlint", "ddpquiz/web"],
    "pytest": [PYTHON, "-m", "pytest", "-n", str(_WORKERS), "--dist", "loadgroup", "--inline-snapshot=disable"],
}


def main(words: list[str]) -> int:
    """Run the command line `words` and return the exit status."""
    if sys.version_info < (3, 11):  # noqa: UP036  # any python3 may run this file
        return _fail(f"ddpquiz needs Python 3.11 or newer; this is {sys.version.split()[0]}.")
    if os.name == "nt":
        return _fail("ddpquiz runs on Linux and macOS; on Windows, run it inside WSL.")
    if not words or words[0] not in {"run", "check", "snapshots"}:
        print((__doc__ or "").strip())
        return 0 if words in (["-h"], ["--help"]) else 2
    problem = _set_up()
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


def _set_up() -> str | None:
    """Install what the project names into .venv; return None, or a sentence that says what is wrong."""
    wanted = _fingerprint()
    if PYTHON.exists() and STAMP.exists() and STAMP.read_text() == wanted:
        return None
    print("Setting up .venv. The first time this takes minutes, most of them for torch.", file=sys.stderr, flush=True)
    STAMP.unlink(missing_ok=True)
    if not _works():
        import venv  # slow to import, and rarely needed

        try:
            venv.create(VENV, clear=True, symlinks=True, with_pip=True)
        except (OSError, subprocess.CalledProcessError) as error:
            return f"Python could not create .venv ({error}). On Debian and Ubuntu, run: apt install python3-venv."
    pip = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "-c", "constraints.txt"]
    pip += [] if sys.stderr.isatty() else ["--quiet"]
    if subprocess.call([*pip, "-e", ".", *_tools()], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=sys.stderr):
        return "pip could not install what ddpquiz needs; its messages are above."
    STAMP.write_text(wanted)
    return None


def _fingerprint() -> str:
    """Return a hash of what .venv is made from: two files, and the folder to which the editable install points."""
    parts = [str(ROOT).encode(), *(ROOT.joinpath(name).read_bytes() for name in ("pyproject.toml", "constraints.txt"))]
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


def _works() -> bool:
    """Return whether .venv has a Python that starts, is new enough and has pip."""
    if not PYTHON.exists():  # also if it is a link to a Python that was removed
        return False
    probe = "import pip, sys; sys.exit(sys.version_info < (3, 11))"
    return subprocess.call([PYTHON, "-c", probe], stderr=subprocess.DEVNULL) == 0


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


def _check(more: list[str]) -> int:
    """Run every check, also after one has failed, and print one line for each at the end."""
    failed, summary = False, []
    more = more or _base()
    # With this variable, every program that a test starts would compile all of our modules again.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for name, command in CHECKS.items():
        print(f"== {name}", flush=True)
        begun = time.monotonic()
        extra = more if name == "pytest" else []
        status = subprocess.call([*command, *extra], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL)
        failed = failed or status != 0
        summary.append(f"{name:12} {'FAILED' if status else 'ok':6} {time.monotonic() - begun:6.1f} s")
    print("== summary", *summary, sep="\n")
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
