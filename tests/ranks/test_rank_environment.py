"""What a rank finds: environment variables, arguments, random state, and modules."""

import os
import subprocess
import sys
from pathlib import Path

import passed
import pytest
from inline_snapshot import snapshot
from real_run import end, of, run

from ddpquiz.events.event import Output
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run
from ddpquiz.ranks.script import of_module

pytestmark = passed.ENGINE

LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


def test_threads_are_those_that_the_environment_sets(script, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    events = run(script("print('threads:', torch.get_num_threads())"))
    assert [event.value for event in of(events, Output)] == ["3", "3"]


@pytest.mark.parametrize(("wanted", "threads"), [("3,2", 3), ("0", os.cpu_count()), ("all", os.cpu_count())])
def test_threads_that_openmp_understands_and_torch_does_not_are_not_an_error(script, monkeypatch, wanted, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", wanted)
    events = run(script("print('threads:', torch.get_num_threads())"), ranks=1)
    assert [event.value for event in of(events, Output)] == [str(threads)]


def test_ranks_do_not_share_a_random_state(script):
    events = run(script("print('random:', torch.rand(1).item())"))
    assert len({event.value for event in of(events, Output)}) == 2


def test_ranks_do_not_share_the_random_state_of_numpy(script):
    pytest.importorskip("numpy")
    body = "import numpy, torch.optim  # for the latter the server imports what imports numpy.random\n"
    events = run(script(body + "print('random:', numpy.random.rand())"))
    assert len({event.value for event in of(events, Output)}) == 2


LAUNCHERS = """\
import os

class Env:  # what Lightning's TorchElasticEnvironment and Accelerate's PartialState look at
    detected = {"RANK", "GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"} <= set(os.environ) and bool(
        {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"} & set(os.environ))
    main_address, main_port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    world, rank, local = (int(os.environ[name]) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"))

import torch.distributed as dist
dist.init_process_group("gloo", init_method="env://", rank=Env.rank, world_size=Env.world)
print("launched:", Env.detected, Env.local, dist.get_world_size())
dist.destroy_process_group()
"""


def test_launchers_that_look_for_torchrun_find_it(script):
    events = run(script(LAUNCHERS, ""))
    launched = [event.value for event in of(events, Output) if event.label == "launched"]
    assert sorted(launched) == ["True 0 2", "True 1 2"]


RECORDED = """\
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    raise ValueError("bad")

main()
"""


def test_a_script_that_records_its_errors_for_torchrun_fails_with_its_own(script):
    assert end(run(script(RECORDED, ""), ranks=1)).why == snapshot("Rank 0 raised ValueError at script.py:5: bad")


MODULE = (
    "from .near import NAME\nprint('who:', __name__, __package__, __spec__.name, NAME, sys.argv[1:], sys.path[0])\n"
)


def test_a_module_runs_as_python_would_run_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pkg").mkdir()
    for name, text in {"__init__": "", "near": "NAME = 'near'\n", "train": "import sys\n" + MODULE}.items():
        (tmp_path / "pkg" / f"{name}.py").write_text(text)
    (tmp_path / "pkg" / "__main__.py").write_text("import sys\n" + MODULE)
    for name, spec in {"pkg.train": "pkg.train", "pkg": "pkg.__main__"}.items():
        request = Request(of_module(name), args=("-x",), ranks=1, device="cpu", module=name)
        said = of(list(Run(request).events()), Output)
        assert [line.value for line in said] == [f"__main__ pkg {spec} near ['-x'] {tmp_path}"]


def test_modules_in_the_working_directory_do_not_take_the_place_of_others(tmp_path):
    for name in ("types", "queue", "profile", "script"):
        (tmp_path / f"{name}.py").write_text("print('hello: from the wrong module')\n")
    (tmp_path / "scripts").mkdir()
    path = tmp_path / "scripts" / "script.py"
    path.write_text("import queue\nprint('queue:', hasattr(queue, 'Queue'))\n")
    ran = subprocess.run(
        [Path(sys.executable).with_name("ddpquiz"), "run", "--nproc", "1", path],
        capture_output=True, text=True, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert "rank 0  queue: True" in ran.stdout, ran.stderr
    assert "wrong" not in ran.stdout
