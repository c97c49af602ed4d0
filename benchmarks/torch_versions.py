"""Which versions of torch work: for each version, run `doctor`, every demo, every proof and the recorder's tests.

    python benchmarks/torch_versions.py 2.9.1 2.11.0 [--folder DIR]

Each version gets a virtual environment of its own in DIR, several gigabytes with the CUDA packages that torch's wheels
need. The environments stay there for the next call. The table in docs/install.md says what was run, and when.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ["pytest", "pexpect", "pyte", "hypothesis"]
RECORDER_TESTS = [
    f"tests/{name}.py"
    for name in (
        "ranks/test_recorder",
        "ranks/test_buckets",
        "ranks/test_operators",
        "ranks/test_operations",
        "ranks/test_event_writer",
        "jobs/test_record",
        "diagnosis/test_diagnosis",
        "diagnosis/test_run_diagnosis",
    )
]
DEMOS = sorted(path.stem for path in ROOT.joinpath("demos").glob("[a-z]*.py"))


def environment(version: str, folder: Path) -> Path:
    """Return the Python of an environment with this version of torch; make the environment if it is missing."""
    python = folder / version / "bin" / "python"
    installed = f"import torch; assert torch.__version__.split('+')[0] == {version!r}"
    if python.exists() and subprocess.run([python, "-c", installed], capture_output=True, check=False).returncode == 0:
        return python
    venv.create(folder / version, with_pip=True)
    needs = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    others = [each for each in needs if not each.startswith("torch")]
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"torch=={version}", *others, *TESTS], check=True)
    return python


def run(python: Path, *words: str, limit: float = 120) -> tuple[bool, list[str]]:
    """Run a module of this checkout for at most `limit` seconds; return whether it succeeded, and what it printed."""
    with tempfile.TemporaryDirectory() as home:
        variables = {**os.environ, "DDPQUIZ_HOME": home, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [python, "-m", *words]
        with subprocess.Popen(
            command, cwd=ROOT, env=variables, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as child:  # fmt: skip
            try:
                lines = child.communicate(timeout=limit)[0].strip().splitlines()
            except subprocess.TimeoutExpired:
                child.kill()  # its ranks end with it
                return False, [f"still running after {limit:.0f} s"]
    return child.returncode == 0, lines


def failures(python: Path) -> dict[str, list[str]]:
    """Return the failures of each check."""
    works, lines = run(python, "ddpquiz", "doctor")
    found = {"doctor": [] if works else [line for line in lines if line.startswith("BAD")]}
    found["demos"] = []
    for name in DEMOS:
        works, lines = run(python, "ddpquiz", "demo", name, "--nproc", "2", "--plain")
        print(f"  {name}: {'ok' if works else 'fails'}", file=sys.stderr, flush=True)
        found["demos"] += [] if works else [f"{name}: {lines[-1] if lines else ''}"]
    works, lines = run(python, "ddpquiz", "check", "--proofs", limit=3600)
    found["proofs"] = (
        [] if works else [line for line in lines if ": the proof of " in line] or lines[-1:] or ["no output"]
    )
    works, lines = run(python, "pytest", "-q", "-p", "no:cacheprovider", *RECORDER_TESTS, limit=1800)
    found["recorder"] = (
        [] if works else [line for line in lines if line.startswith(("FAILED", "ERROR"))] or lines[-1:] or ["no output"]
    )
    return found


def main() -> None:
    """Try each version, and print a table of failures and then the failures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("versions", nargs="+")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "ddpquiz-torch-versions")
    options = parser.parse_args()
    results = {}
    for version in options.versions:
        print(f"torch {version} ...", file=sys.stderr, flush=True)
        results[version] = failures(environment(version, options.folder))
    print(f"{'failures':10} {'doctor':>8} {'demos':>8} {'proofs':>8} {'recorder':>8}")
    for version, found in results.items():
        print(f"{version:10} " + " ".join(f"{len(lines):8}" for lines in found.values()))
    for version, found in results.items():
        for lines in found.values():
            for line in lines:
                print(f"{version}: {line}")


if __name__ == "__main__":
    main()
