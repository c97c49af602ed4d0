"""Nothing is left of a run, whichever of its processes gets which signal at a random moment."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import passed
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import leftovers

pytestmark = passed.COMMANDS


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_is_left_whoever_is_killed(tmp_path, scale):
    dice, kills = random.Random(0), Counter()
    for _ in range(scale(6, 30)):
        done = leftovers.kill_one(dice, tmp_path, patience=60)
        kills[done.victim] += 1
        assert done.left == [], done
    assert len(kills) >= 2  # not always the same process


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM])
def test_ranks_of_an_agent_that_is_ended_get_its_signal_and_leave_no_file(tmp_path, number):
    script, temporary = tmp_path / "script.py", tmp_path / "temporary"
    temporary.mkdir()
    script.write_text(
        "import os, pathlib, signal, sys, time\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "rank = os.environ['RANK']\n"
        "def end(number, _):\n"
        "    folder.joinpath(f'got-{rank}').write_text(str(number))\n"
        "    sys.exit(1)\n"
        f"signal.signal({int(number)}, end)\n"
        "folder.joinpath(f'up-{rank}').write_text(str(os.getppid()))\n"
        "time.sleep(600)\n"
    )
    words = [sys.executable, "-m", "ddpquiz", *leftovers.WAYS["run --max-restarts 1"], str(script)]
    environment = os.environ | {"TMPDIR": str(temporary), "DDPQUIZ_HOME": str(tmp_path / "home")}
    with subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as launcher:
        leftovers.wait_for(lambda: sum(bool(file.read_text()) for file in tmp_path.glob("up-*")) == 2, 60)
        os.kill(leftovers.parent(int((tmp_path / "up-0").read_text())), number)
        launcher.wait(60)
    assert {file.name: file.read_text() for file in tmp_path.glob("got-*")} == dict.fromkeys(
        ("got-0", "got-1"), str(int(number))
    )
    assert [*temporary.iterdir()] == []
