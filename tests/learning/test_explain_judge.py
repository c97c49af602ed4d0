"""A program that judges explanations: it ticks points, and a failure of it is reported."""

import json
import stat
import sys

import pytest
from run_program import piped, sample
from sample import WHY_RING

from ddpquiz.learning.progress import Progress


@pytest.fixture
def judge(tmp_path):
    """Return a function that makes a program which prints a text and notes what it reads."""

    def make(prints):
        script = tmp_path / "judge"
        script.write_text(
            f"#!{sys.executable}\nimport sys\nopen({str(tmp_path / 'read')!r}, 'w').write(sys.stdin.read())\nprint({prints!r})\n"
        )
        script.chmod(stat.S_IRWXU)
        return str(script)

    return make


def test_a_judge_ticks_the_points_and_its_remark_is_shown(home, judge, tmp_path):
    program = judge(json.dumps({"points": [False, True, True], "say": "Not bad.\x1b[31m"}))
    done = piped(home, "explain", "ring", "--judge", program, lines="The bottleneck")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Not bad.[31m\n" in done.stdout
    assert "\x1b" not in done.stdout
    assert "A good answer makes these points\nYour program ticked these points." in done.stdout
    assert "\n\nYour program ticked 2 of 3 points.\n" in done.stdout
    assert "\n✓ 2  the other links idle meanwhile\n     ticked by your program\n" in done.stdout
    assert json.loads((tmp_path / "read").read_text()) == {
        "question": WHY_RING.ask,
        "points": list(WHY_RING.points),
        "text": "The bottleneck",
    }
    with Progress(home) as progress:
        assert [row.credit for row in progress.entries("explanation")] == [pytest.approx(2 / 3)]


@pytest.mark.parametrize(
    "prints",
    ["", "[]", "{}", '{"points": [true]}', '{"points": [1, 2, 3]}', '{"points": [true, true, true], "say": 3}', None],
)
def test_a_judge_that_fails_is_reported_and_nothing_is_scored(home, judge, prints):
    program = "/no/such/judge" if prints is None else judge(prints)
    done = piped(home, "explain", "ring", "--judge", program, lines="The bottleneck")
    assert done.returncode == 0
    assert f"Thejudge`{program}`" in "".join(done.stdout.split())  # a long path is cut into lines
    assert "so it ticked no points." in " ".join(done.stdout.split())
    assert "Nothing is scored or saved here" in done.stdout
    with Progress(home) as progress:
        assert progress.log() == []


def test_a_judge_is_asked_in_a_terminal_too(home, judge):
    terminal = sample(home, "explain", "ring", "--judge", judge('{"points": [true, true, true]}'))
    terminal.wait("Why a ring")
    terminal.press("Others\x04", "Your program ticked 3 of 3 points")
    terminal.press("2", "2 of 3 points are ticked: 2 by your program, 0 by you.", "changed by you")
    terminal.press("q")
    assert terminal.end() == 0
