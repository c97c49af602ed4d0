"""Each command, started as a user starts it: a new interpreter, with nothing imported before.

Most other tests fork ddpquiz from a process that has imported everything (template.py).
"""

import os
import subprocess
import sys

import pytest
import template

from ddpquiz.cli.app import _COMMANDS

USES = {
    "study": (["all-reduce-ring"], "rank"),
    "test": (["all-reduce-ring", "--count", "1"], "Question 1/1"),
    "learn": (["all-reduce-ring"], "All-reduce"),
    "explain": (["all-reduce-ring"], "explanation"),
    "demo": (["broadcast_that_is_missing"], "No demo named"),
    "lab": ([], "ring-all-reduce"),
    "run": (["--nproc", "2", "script.py"], "rank 1  the sum is 3.0"),
    "watch": (["script.py"], "script.py"),
    "where": (["1"], ""),
    "diagnose": (["no-folder"], "no-folder"),
    "compare": (["no-a.json", "no-b.json"], "no-a.json"),
    "bench": (["--nproc", "2", "--sizes", "8..64", "--seconds", "2"], "all_reduce"),
    "plan": (["--model", "llama-3-70b", "--gpu", "h100", "--gpus", "64"], "gradients"),
    "prove": (["all-reduce-ring/ring-bytes"], "observed"),
    "list": ([], "all-reduce-ring"),
    "search": (["ring"], "all-reduce-ring"),
    "show": (["all-reduce-ring/ring-bytes"], "bytes"),
    "stats": ([], ""),
    "optimize": ([], "512"),
    "export": (["json"], "ddpquiz progress"),
    "import": (["no-file.json"], "no-file.json"),
    "pack": (["list"], ""),
    "site": (["folder"], "folder"),
    "check": (["good.yaml"], "good.yaml"),
    "doctor": ([], "torch"),
    "progress": (["restore-backup", "2020-01-01"], "2020-01-01"),
}
SCRIPT = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.tensor(dist.get_rank() + 1.0)
dist.all_reduce(x)
print("the sum is", x.item())
dist.destroy_process_group()
"""


def test_each_command_has_a_use():
    assert list(USES) == list(_COMMANDS)


@pytest.mark.parametrize("command", USES)
def test_a_command_starts_in_a_new_interpreter(command, tmp_path):
    words, said = USES[command]
    tmp_path.joinpath("script.py").write_text(SCRIPT)
    environment = {**os.environ, "DDPQUIZ_HOME": str(tmp_path / "home")}
    with template.real_starts():
        done = subprocess.run(
            [sys.executable, "-m", "ddpquiz", command, *words],
            cwd=tmp_path, env=environment, input="", capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1)
