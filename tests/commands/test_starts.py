"""Each command, started as a user starts it: a new interpreter, with nothing imported before.

Most other tests fork ddpquiz from a process that has imported everything (template.py).
"""

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import run_program
import template

from ddpquiz.cli.app import _COMMANDS

USES = {
    "study": (["all-reduce-ring"], "rank"),
    "test": (["all-reduce-ring", "--count", "1", "--seed", "1"], "Question 1/1"),
    "learn": (["all-reduce-ring"], "All-reduce"),
    "explain": (["all-reduce-ring"], "explanation"),
    "demo": (["broadcast_that_is_missing"], "No demo named"),
    "lab": ([], "ring-all-reduce"),
    "run": (["--nproc", "2", "script.py"], "rank 1  the sum is 3.0"),
    "watch": (["script.py"], "script.py"),
    "where": (["4194305"], "4194305"),
    "diagnose": (["no-folder"], "no-folder"),
    "compare": (["no-a.json", "no-b.json"], "no-a.json"),
    "bench": (["--nproc", "2", "--sizes", "8..64", "--seconds", "2"], "all_reduce"),
    "plan": (["--model", "llama-3-70b", "--gpu", "h100", "--gpus", "64"], "gradients"),
    "prove": (["all-reduce-ring/ring-bytes", "--seed", "1"], "observed"),
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
NOT_COMPARED = {"bench", "doctor", "site"}  # the first two print measurements, and a site takes long
STATE = """
import gc, json, locale, os, resource, signal, socket, sys, tempfile, threading, torch
streams = [[each.encoding, each.errors, each.line_buffering] for each in (sys.stdin, sys.stdout, sys.stderr)]
state = {
    "environment": {name: value for name, value in os.environ.items() if name not in ("MASTER_PORT", "_")},
    "path": sys.path, "argv": sys.argv, "flags": list(sys.flags), "streams": streams, "folder": os.getcwd(),
    "temporary": tempfile.gettempdir(), "umask": os.umask(0), "locale": locale.setlocale(locale.LC_ALL),
    "signals": [str(signal.getsignal(each)) for each in signal.valid_signals()],
    "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "collector": gc.get_threshold(),
    "descriptors": [os.readlink(path).partition(":")[0] for path in map("/proc/self/fd/{}".format, range(200)) if os.path.lexists(path)],
    "limits": [resource.getrlimit(each) for each in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_FSIZE)],
    "threads": [len(threading.enumerate()), torch.get_num_threads()], "timeout": socket.getdefaulttimeout(),
    "leads": [os.getpid() == os.getpgrp(), os.getppid() == os.getsid(0)], "recursion": sys.getrecursionlimit(),
    "hooks": [sys.excepthook is sys.__excepthook__, len(gc.callbacks)], "main": sorted(globals()),
}
json.dump(state, open("state.json", "w"))
"""


def start(words, folder, *, real):
    folder.mkdir()
    folder.joinpath("script.py").write_text(SCRIPT)
    with template.real_starts() if real else contextlib.nullcontext():
        done = subprocess.run(
            [sys.executable, "-m", "ddpquiz", *words],
            cwd=folder, env={**os.environ, "DDPQUIZ_HOME": str(folder / "home"), "COLUMNS": "200"},
            input="", capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    return done.returncode, *(text.replace(str(folder), "FOLDER") for text in (done.stdout, done.stderr))


def test_each_command_has_a_use():
    assert sorted(USES) == sorted(_COMMANDS)


def lines(text):
    """Return the lines without times, sorted, since ranks print in any order."""
    return sorted(re.sub(r"\d+(\.\d+)? m?s", "TIME", text).splitlines())


@pytest.mark.parametrize("command", USES)
def test_a_command_does_in_a_new_interpreter_what_it_does_in_a_fork(command, tmp_path):
    words, said = USES[command]
    status, out, errors = start([command, *words], tmp_path / "real", real=True)
    assert said in out + errors
    assert "Traceback" not in errors
    assert status in (0, 1)
    if command not in NOT_COMPARED:
        forked = start([command, *words], tmp_path / "fork", real=False)
        assert forked[0] == status
        assert [*map(lines, forked[1:])] == [lines(out), lines(errors)]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every start is a real one")
def test_a_rank_finds_the_same_in_a_fork_as_in_a_new_interpreter(tmp_path):
    script = tmp_path / "state.py"
    script.write_text(STATE)
    found = []
    for folder in (tmp_path / "real", tmp_path / "fork"):
        words = ["run", "--nproc", "1", "--plain", script]
        status, out, errors = start(words, folder, real=folder.name == "real")
        assert (status, errors) == (0, ""), out
        text = folder.joinpath("state.json").read_text().replace(str(folder), "FOLDER")
        found.append(json.loads(text))
    assert found[0] == found[1]


def is_forked(pid):
    return b"template.py" in Path(f"/proc/{pid}/cmdline").read_bytes()


def process_state(pid):
    """Return group, session, terminal and its group, signals and descriptors of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    signals = re.findall(r"^Sig(?:Blk|Ign|Cgt):\s+(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    files = [path.readlink() for path in sorted(Path(f"/proc/{pid}/fd").iterdir())]
    kinds = [file.name.partition(":")[0] if file.parent.name != "pts" else "terminal" for file in files]
    return (
        int(fields[1]) == os.getpid(),
        [int(field) == pid for field in (fields[2], fields[3], fields[5])],
        signals,
        kinds,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every start is a real one")
def test_a_program_on_a_terminal_is_forked_and_in_the_state_of_a_new_process(home):
    found = []
    for real in (True, False):
        with template.real_starts() if real else contextlib.nullcontext():
            terminal = run_program.sample(home, "explain", "ring")
        terminal.wait("Why a ring")
        assert is_forked(terminal.child.pid) == (not real)
        found.append(process_state(terminal.child.pid))
        terminal.press("\x03")
        assert terminal.end() == 130
    assert found[0] == found[1]
    assert found[0][:2] == (True, [True, True, True])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every start is a real one")
def test_a_program_in_a_pipe_is_forked(home):
    command = [sys.executable, "-m", "ddpquiz", "explain", "all-reduce-ring"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert is_forked(child.pid)
        child.communicate(b"")
