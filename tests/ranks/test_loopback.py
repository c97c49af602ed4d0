"""A run listens on the loopback interface only."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddpquiz.events.event import Output
from ddpquiz.ranks import server_connection
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run


def listening(pids):
    """Return the addresses, as the kernel writes them, on which these processes listen."""
    sockets = set()
    for pid in pids:
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            sockets.add(str(fd.readlink()))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add(fields[1].split(":")[0])
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_only_loopback_is_listened_on_by_ranks_store_and_server(script):
    running = Run(Request(script("dist.all_reduce(x)\nprint('ready: yes')\ntime.sleep(60)"), ranks=2, device="cpu"))
    ready = set()
    while len(ready) < 2:
        assert not running.over
        ready |= {event.rank for event in running.read(0.1) if isinstance(event, Output)}
    serving = server_connection.server()
    assert len(serving.pids) == 3  # two ranks and the store
    found = listening([serving.process.pid, *serving.pids])
    running.stop("seen enough")
    while not running.over:
        running.read(0.1)
    assert found == {"0100007F"}  # 127.0.0.1


LISTENING = """\
import multiprocessing, os, torch, torch.distributed as dist
r, w = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

def work(rank):
    dist.init_process_group("gloo", init_method="tcp://0.0.0.0:29873", rank=rank, world_size=2)
    dist.barrier()
    os._exit(0)

dist.init_process_group("gloo", init_method="tcp://0.0.0.0:29872", rank=r, world_size=w)
dist.barrier()
dist.destroy_process_group()
if r == 0:
    mine = [multiprocessing.get_context("fork").Process(target=work, args=(rank,)) for rank in range(2)]
    for process in mine:
        process.start()
    for process in mine:
        process.join()
"""


def may_trace():
    """Whether strace is here, and may look at other processes: in many a container it may not."""
    return (
        bool(shutil.which("strace"))
        and not subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], check=False).returncode
    )


@pytest.mark.skipif(not may_trace(), reason="needs strace")
def test_no_process_binds_or_listens_anywhere_but_on_loopback_even_for_a_moment(script, tmp_path):
    trace, path = tmp_path / "trace", script(LISTENING, "")
    traced = ["strace", "-f", "-qq", "-e", "trace=bind,listen", "-o", trace]
    ran = subprocess.run(
        [*traced, sys.executable, "-m", "ddpquiz", "run", "--nproc", "2", path],
        capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    calls = trace.read_text()
    bound = re.findall(r"bind\((\d+), .*AF_INET6?, .*inet_(?:addr|pton)\((?:AF_INET6, )?\"([^\"]+)\"", calls)
    assert len(bound) >= 5  # the store, two ranks, two ranks that a rank has forked
    assert {address for _, address in bound} == {"127.0.0.1"}
    assert set(re.findall(r"listen\((\d+),", calls)) <= {file for file, _ in bound}


@pytest.mark.skipif(not may_trace(), reason="needs strace")
def test_no_process_of_a_run_with_restarts_sends_anything_but_over_loopback(tmp_path):
    trace = tmp_path / "trace"
    traced = ["strace", "-f", "-qq", "-e", "trace=connect,sendto,sendmsg,sendmmsg", "-o", trace]
    ran = subprocess.run(
        [*traced, sys.executable, "-m", "ddpquiz", "demo", "elastic", "--nproc", "2", "--plain"],
        capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    sent = re.findall(r"AF_INET6?, .*inet_(?:addr|pton)\((?:AF_INET6, )?\"([^\"]+)\"", trace.read_text())
    assert len(sent) >= 4  # the agent and its ranks connect to the store, in two lives
    assert {address.removeprefix("::ffff:") for address in sent} == {"127.0.0.1"}
