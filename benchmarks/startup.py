"""How long it takes until something is on the screen, as ratios to the fastest possible start.

    python benchmarks/startup.py [--rounds 7] [--no-torch]

Every round runs each command once, so that all see the same noise; the ratios are medians over the rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pexpect

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
HOME = tempfile.mkdtemp(prefix="ddpquiz-bench-")
ENV = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
ENV |= {"DDPQUIZ_HOME": HOME, "TERM": "xterm-256color"}


def command(*words: str) -> Callable[[], float]:
    """A function that runs a whole command and returns its seconds."""

    def timed() -> float:
        began = time.perf_counter()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        # In a session of its own, as on a pseudo-terminal: Linux divides processor time between sessions
        subprocess.run(words, cwd=ROOT, env=ENV, start_new_session=True, check=False, **quiet)
        return time.perf_counter() - began

    return timed


def python(code: str) -> Callable[[], float]:
    """A function that times `python -c code`."""
    return command(sys.executable, "-c", code)


def until(shown: str, *command: str, **variables: str) -> float:
    """The seconds from the start of a command of ddpquiz to what it shows, in a pseudo-terminal."""
    began = time.perf_counter()
    words = ["-P", "-m", "ddpquiz", *command]  # -P: the working directory must not hide what PYTHONPATH names
    child = pexpect.spawn(sys.executable, words, env=ENV | variables, cwd=str(ROOT), dimensions=(24, 80), timeout=30)
    child.expect_exact(shown)
    seconds = time.perf_counter() - began
    child.send("q")
    child.close(force=True)
    return seconds


def first_card(**variables: str) -> float:
    """The seconds to the first card."""
    return until("Card 1", "study", **variables)


def first_step() -> float:
    """The seconds to the first step of a lesson."""
    return until("step 1 of", "learn", "why-distribute")


@cache
def installed() -> str:
    """Build a wheel and install it without its dependencies; return the folder."""
    folder = tempfile.mkdtemp(prefix="ddpquiz-bench-")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, str(ROOT)], check=True)
    wheel = next(Path(folder).glob("*.whl"))
    subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", "--target", f"{folder}/site", wheel], check=True)
    return f"{folder}/site"


def first_start() -> float:
    """The seconds to the first card at the first start of a freshly installed wheel."""
    with tempfile.TemporaryDirectory() as home:
        return first_card(PYTHONPATH=installed(), DDPQUIZ_HOME=home)


def demo_from_card() -> float:
    """The seconds from `d` on the first card, whose demo asks for no prediction, to the first event."""
    child = pexpect.spawn(str(BIN / "ddpquiz"), ["study"], env=ENV, cwd=str(ROOT), dimensions=(24, 80), timeout=30)
    child.expect_exact("Card 1")
    time.sleep(5)
    began = time.perf_counter()
    child.send("d")
    child.expect_exact(" on CPU over ")  # the first event names the ranks and their backend
    seconds = time.perf_counter() - began
    child.close(force=True)
    return seconds


CASES: dict[str, Callable[[], float]] = {
    "python -c pass": python("pass"),
    "ddpquiz --version": command(str(BIN / "ddpquiz"), "--version"),
    "python -c 'import typer, rich.console'": python("import typer, rich.console"),
    "ddpquiz study, first card": first_card,
    "ddpquiz learn, first step": first_step,
    "ddpquiz study, first start of a wheel": first_start,
    "ddpquiz list": command(str(BIN / "ddpquiz"), "list"),
    "ddpquiz search ring": command(str(BIN / "ddpquiz"), "search", "ring"),
    "ddpquiz demo": command(str(BIN / "ddpquiz"), "demo"),
    "python -c 'import torch'": python("import torch"),
    "ddpquiz demo allreduce --nproc 4 --plain": command(
        str(BIN / "ddpquiz"), "demo", "allreduce", "--nproc", "4", "--plain"
    ),
    "torchrun --nproc-per-node 4 demos/allreduce.py": command(
        str(BIN / "torchrun"), "--nproc-per-node", "4", "demos/allreduce.py"
    ),
    "d on a card: first event": demo_from_card,
}
WITH_TORCH = [*CASES][[*CASES].index("python -c 'import torch'") :]
BASE = "python -c 'import typer, rich.console'"
RATIOS = [
    ("ddpquiz --version", "python -c pass", "at most 1.6"),
    ("ddpquiz study, first card", BASE, "at most 1.8"),
    ("ddpquiz learn, first step", BASE, "at most 1.8"),
    ("ddpquiz study, first start of a wheel", BASE, "at most 2.2"),
    ("ddpquiz list", BASE, "at most 2.0"),
    ("ddpquiz search ring", BASE, "at most 2.0"),
    ("ddpquiz demo", BASE, "at most 2.0"),
    ("ddpquiz demo allreduce --nproc 4 --plain", "python -c 'import torch'", "at most 0.9"),
    ("torchrun --nproc-per-node 4 demos/allreduce.py", "ddpquiz demo allreduce --nproc 4 --plain", "at least 4.0"),
]


def main() -> None:
    """Run the rounds and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-torch", action="store_true", help="leave out what imports torch")
    options = parser.parse_args()
    rounds = options.rounds
    cases = {name: run for name, run in CASES.items() if not (options.no_torch and name in WITH_TORCH)}
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, run in cases.items():
            took = run()
            if number:  # the first round warms the caches
                seconds[name].append(took)
    print(f"{'seconds':50} {'median':>8} {'min':>8} {'max':>8}")
    for name, all_of in seconds.items():
        print(f"{name:50} {statistics.median(all_of):8.3f} {min(all_of):8.3f} {max(all_of):8.3f}")
    print(f"\n{'ratio':60} {'median':>8}  wanted")
    for slow, fast, wanted in RATIOS:
        if slow not in cases:
            continue
        ratios = [one / other for one, other in zip(seconds[slow], seconds[fast], strict=True)]
        print(f"{slow[:30]} / {fast[:27]:29} {statistics.median(ratios):8.2f}  {wanted}")
    if card := seconds.get("d on a card: first event"):
        print(f"{'d on a card: first event, seconds':60} {statistics.median(card):8.2f}  at most 0.4")


if __name__ == "__main__":
    main()
