"""Each verdict names the concept that explains it, and a key opens its lesson."""

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from run_program import Terminal, environment

from ddpquiz.curriculum import loading
from ddpquiz.diagnosis import diagnosis, known_errors
from ddpquiz.diagnosis.diagnosis import Diagnosis, FaultKind, RankPosition
from ddpquiz.events.run_state import RunState

STACKS = Path(__file__).parents[1] / "data/stacks/py_spy"
COMMAND = (sys.executable, "-m", "ddpquiz")


def test_each_kind_of_verdict_has_a_concept_that_exists():
    known = {concept.id for concept in loading.load().concepts}
    assert {Diagnosis(fault, (), "").concept for fault in get_args(FaultKind)} <= known
    assert {*diagnosis._OF_ADVICE.values(), *diagnosis._OF_CALLS.values()} <= known


@pytest.mark.parametrize(
    ("found", "concept"),
    [
        (Diagnosis("late", (1,), "", advice=diagnosis.ADVICE["late"]), "debug-tooling"),
        (Diagnosis("left", (1,), "", advice=diagnosis.UNEVEN), "uneven-inputs"),
        (Diagnosis("order", (1,), "", (RankPosition((0,), "recv of 4 float32 from rank 1"),)), "point-to-point"),
        (Diagnosis("late", (1,), "", (RankPosition((0,), "init_process_group"),)), "process-group-init"),
        (Diagnosis("dead", (1,), "", advice=f"{diagnosis.SMALLER}, or fewer ranks."), "training-memory"),
        (Diagnosis("dead", (1,), "", advice=diagnosis.ADVICE["raised"]), "debug-tooling"),
        (Diagnosis("missing", (1,), "", advice=f"{diagnosis.RESUME} {diagnosis.UNEVEN}"), "elastic-restart"),
        (
            Diagnosis("signature", (1,), "", (RankPosition((0,), "new_group for rank 0"),), advice=diagnosis.SAME_MESH),
            "devicemesh-dtensor",
        ),
    ],
)
def test_what_happened_decides_which_concept_explains_it(found, concept):
    assert (found.concept, found.as_json()["concept"]) == (concept, concept)


@pytest.mark.parametrize(
    ("text", "concept"),
    [
        ("ValueError: Global rank 0 is not part of group <object>", "devicemesh-dtensor"),
        ("ValueError: Default process group has not been initialized", "process-group-init"),
        ("DistNetworkError: cannot listen. port: 29500, name: EADDRINUSE", "process-group-init"),
        ("RuntimeError: CUDA error: invalid device ordinal", "process-model"),
        ("RuntimeError: Found no NVIDIA driver", "backends"),
        ("RuntimeError: NCCL error in: x\nLast error:\nsocket", "nccl-operations"),
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error", "data-loading"),
        ("RuntimeError: Expected to mark a variable ready only once.", "activation-checkpointing"),
        (
            "RuntimeError: Expected to have finished reduction in the prior iteration: did not receive grad for rank 0: 4",
            "ddp-pitfalls",
        ),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "training-memory"),
        ("ModuleNotFoundError: No module named 'flash'", "debug-tooling"),
    ],
)
def test_a_known_error_is_explained_by_the_concept_it_belongs_to(text, concept):
    _, advice = known_errors.explain_text(text, 0, "train.py:3", RunState())
    assert Diagnosis("dead", (0,), "", advice=advice).concept == concept


def test_in_a_pipe_the_concept_is_a_line_and_in_json_a_field():
    ran = subprocess.run([*COMMAND, "diagnose", STACKS], capture_output=True, text=True, timeout=60)
    assert "\n  `ddpquiz learn debug-tooling` explains it.\n" in ran.stdout
    ran = subprocess.run([*COMMAND, "diagnose", STACKS, "--json"], capture_output=True, text=True, timeout=60)
    assert json.loads(ran.stdout)["concept"] == "debug-tooling"


def test_in_a_terminal_l_opens_the_lesson_and_the_verdict_stays_in_the_scrollback(tmp_path):
    terminal = Terminal(*COMMAND, "diagnose", STACKS, env=environment(tmp_path))
    terminal.wait("^A rank is late$", "l lesson")
    terminal.press("l", "^Finding the rank at fault$", "esc back")
    terminal.press("l", "^A rank is late$")
    terminal.press("q")
    assert terminal.end() == 0
    assert "A rank is late" in terminal.lines


HANGS = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
x = torch.ones(4)
if dist.get_rank() == 0:
    dist.all_reduce(x)
dist.barrier()
"""


def test_at_the_end_of_a_run_l_opens_the_lesson(tmp_path):
    (tmp_path / "train.py").write_text(HANGS)
    home = tmp_path / "home"
    terminal = Terminal(*COMMAND, "run", "--nproc", "2", tmp_path / "train.py", env=environment(home))
    terminal.wait("hangs-desync` explains it", "l lesson", seconds=120)
    terminal.press("l", "^Why jobs hang$")
    terminal.press("q", "ended after")
    terminal.press("q")
    assert terminal.end() == 1
