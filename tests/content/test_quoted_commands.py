"""The output of `ddpquiz plan` that lessons quote is what the command prints."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CONTENT = Path(__file__).parents[2] / "content"
_WIDTH = "76"  # columns of a listing in a lesson
_FENCE = re.compile(r"^( *)```\n(?P<text>.*?)^\1```$", re.MULTILINE | re.DOTALL)


def compared(lines):
    """Lines without what differs with the width of the screen: blanks at their ends, and the length of a bar."""
    return [re.sub("━+", "━", line.rstrip()) for line in lines]


def quoted():
    """The command and what a lesson says that it prints, for each command that runs `ddpquiz plan`."""
    for file in sorted(CONTENT.glob("*/*.yaml")):
        for fence in _FENCE.finditer(file.read_text("utf-8")):
            lines = [line.removeprefix(fence[1]) for line in fence["text"].splitlines()]
            if not lines[0].startswith("$") or "ddpquiz plan" not in lines[0]:
                continue
            end = next(place for place, line in enumerate(lines) if not line.endswith("\\")) + 1
            command = "\n".join(lines[:end]).removeprefix("$ ")
            yield pytest.param(command, compared(lines[end:]), id=file.stem)


QUOTED = [*quoted()]


def test_lessons_quote_plans():
    assert len(QUOTED) >= 8


@pytest.mark.parametrize(("command", "printed"), QUOTED)
def test_a_quoted_plan_is_what_the_command_prints(command, printed):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PATH": path, "COLUMNS": _WIDTH},
    )
    assert done.stderr == ""
    assert compared(done.stdout.splitlines()) == printed
