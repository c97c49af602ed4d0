"""Layouts at random: each gets a plan, or a sentence that names a size that would do."""

import random
import sys

import pytest

from ddpquiz.cli import app
from ddpquiz.curriculum.plan_files import names

_SIZES = (1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 64)


def words(dice):
    layout = ",".join(f"{name}={dice.choice(_SIZES)}" for name in ("tp", "pp", "cp", "ep") if dice.random() < 0.6)
    chosen = ["--gpus", str(dice.choice((1, 2, 3, 8, 24, 64, 100, 256, 1000)))]
    chosen += ["--layout", layout] if layout else []
    for option, values in (("--chunks", _SIZES), ("--schedule", ("1f1b", "gpipe", "interleaved", "dualpipe"))):
        chosen += [option, str(dice.choice(values))] if dice.random() < 0.4 else []
    return ["ddpquiz", "plan", "--model", dice.choice(names("models")), *chosen]


@pytest.mark.parametrize("seed", range(10))
def test_every_layout_gets_a_plan_or_a_sentence(seed, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("DDPQUIZ_HOME", str(tmp_path))
    dice = random.Random(seed)
    planned = refused = 0
    for _ in range(200):
        monkeypatch.setattr(sys, "argv", words(dice))
        with pytest.raises(SystemExit) as end:
            app.main()
        said = capsys.readouterr()
        assert end.value.code in (0, 1, 2), sys.argv
        assert said.out if end.value.code == 0 else said.err
        planned += end.value.code == 0
        refused += end.value.code != 0
    assert planned
    assert refused
