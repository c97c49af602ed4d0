"""Nothing is left of a run, whichever of its processes gets which signal at a random moment."""

import random
import sys
from collections import Counter
from pathlib import Path

import passed
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import leftovers

pytestmark = passed.ENGINE


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_is_left_whoever_is_killed(tmp_path, scale):
    dice, kills = random.Random(0), Counter()
    for _ in range(scale(6, 30)):
        done = leftovers.kill_one(dice, tmp_path, patience=60)
        kills[done.victim] += 1
        assert done.left == [], done
    assert len(kills) >= 2  # not always the same process
