"""The same job reads the same, whether it is judged live, from the files of its recorder, or from its dumps."""

import json
import os
import subprocess
import sys
from pathlib import Path

import passed
import pytest

from ddpquiz.diagnosis.awaited_keys import SET_THE_KEY
from ddpquiz.diagnosis.diagnosis import ADVICE, MESSAGES
from ddpquiz.diagnosis.event_diagnosis import diagnose
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

pytestmark = passed.ENGINE

HEAD = """\
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
x = torch.ones(4)
for step in range(3):
    dist.all_reduce(x)
    dist.barrier()
"""
JOBS = {  # what follows; which kinds of record hold the fault; the heading, the sentence and the advice
    "mismatched calls": (
        "dist.broadcast(x, src=1 if rank == 1 else 0)\ndist.barrier()\n",
        ["record"],
        "Mismatched calls",
        ("Rank 1 called broadcast of 4 float32 with root 1 at job.py:8, but ranks 0 and 2 called broadcast of 4 float32 "
         "with root 0 at job.py:8."),
        ADVICE["signature"],
    ),
    "an exception on one rank": (
        "if rank == 1:\n    raise ValueError('no batch')\ndist.all_reduce(x)\n",
        ["record"],
        "A rank is dead",
        "Rank 1 raised ValueError at job.py:9: no batch",
        ADVICE["raised"],
    ),
    "a collective that one rank leaves out": (
        "if rank != 1:\n    dist.all_reduce(x)\ndist.all_gather([torch.ones(4) for _ in range(3)], x)\n",
        ["record", "dump"],
        "A call is missing",
        ("Rank 1 did not call all_reduce at job.py:9, in which ranks 0 and 2 wait, but went on to all_gather at "
         "job.py:10."),
        ADVICE["missing"],
    ),
    "a tensor that one rank leaves out of a loop": (
        ("for size in (4, 6, 8):\n    if not (rank == 1 and size == 6):\n        dist.all_reduce(torch.ones(size))\n"
         "dist.barrier()\n"),
        ["record"],
        "Mismatched calls",
        ("Rank 1 called all_reduce of 8 float32 (sum) at job.py:10, but ranks 0 and 2 called all_reduce of 6 float32 (sum) "
         "at job.py:10."),
        ADVICE["signature"],
    ),
    "a receive that hangs": (
        ("for step in range(3):\n    if rank == 0:\n        dist.recv(x, 1)\n    if rank == 1 and step < 2:\n"
         "        dist.send(x, 0)\n    dist.barrier()\n"),
        ["record"],
        "A call is missing",
        ("Rank 0 waits in recv at job.py:10 for a message that rank 1 did not send: rank 1 went on to barrier at "
         "job.py:13."),
        MESSAGES,
    ),
    "a key of the store that its rank does not set": (
        ("store = dist.distributed_c10d._get_default_store()\nif rank == 1:\n    if step > 5:\n"
         "        store.set('ready', '1')\nelse:\n    store.wait(['ready'])\ndist.barrier()\n"),
        ["record"],
        "A call is missing",
        ('Ranks 0 and 2 wait in store.wait at job.py:13 for the key "ready", and no rank has set it. The script sets it '
         "at job.py:11 on rank 1. Rank 1 went on to barrier at job.py:14."),
        SET_THE_KEY,
    ),
    "a lock that nobody opens": (
        ("import threading\nlock = threading.Lock()\nif rank == 1:\n    lock.acquire()\n    lock.acquire()\n"
         "dist.barrier()\n"),
        ["record"],
        "A rank is late",
        "Ranks 0 and 2 wait in barrier at job.py:13 for rank 1: it waits in `lock.acquire()` at job.py:12.",
        ADVICE["late"],
    ),
    "a thread that does not end": (
        ("import threading\nthread = threading.Thread(target=threading.Event().wait, name='loader', daemon=True)\n"
         "if rank == 1:\n    thread.start()\n    thread.join()\ndist.barrier()\n"),
        ["record"],
        "A rank is late",
        ("Ranks 0 and 2 wait in barrier at job.py:13 for rank 1: it waits in `thread.join()` at job.py:12 for thread "
         "loader."),
        ADVICE["late"],
    ),
}  # fmt: skip

# Runs a job as the benchmark of the diagnosis does: it forks the ranks, and judges what they leave behind.
JUDGE = """
import importlib, json, pathlib, sys
import torch.distributed
import diagnosis as benchmark
from faulty_jobs import FaultyJob

script, folder, *sources = sys.argv[1:]
job = FaultyJob(seed=0, kind="skip", ranks=3, script=script, culprits=(1,), members=(0, 1, 2))
benchmark.STUCK, benchmark.LONGEST = 2.0, 10.0  # seconds after which the ranks of a hang are ended
for source in sources:
    if source == "dump":
        importlib.import_module("torch._inductor")  # torch needs it to write stacks
    place = pathlib.Path(folder, source)
    place.mkdir()
    verdict = {"record": benchmark.from_record, "dump": benchmark.from_dump}[source](job, place)
    print(json.dumps([source, verdict.title, verdict.culprits, verdict.sentence, verdict.advice]), flush=True)
"""


def judged_from(sources, script, folder):
    """Run a job once for each kind of record, and return how it reads."""
    root = Path(__file__).parents[2]
    path = os.pathsep.join(str(each) for each in (root / "benchmarks", root / "tests" / "helpers", root))
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", JUDGE, script, folder, *sources],
        capture_output=True, text=True, timeout=180, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.parametrize("name", JOBS)
def test_a_job_reads_the_same_live_and_from_what_it_left_behind(name, tmp_path):
    body, sources, title, sentence, advice = JOBS[name]
    path = tmp_path / "job.py"
    path.write_text(HEAD + body)
    run = Run(Request(path, ranks=3, device="cpu", timeout=1.5))
    *_, end = run.events()
    live = diagnose(run.seen)
    assert (live.title, live.culprits, live.sentence, live.advice) == (title, (1,), sentence, advice)
    assert (end.rank, end.why, end.advice) == (1, sentence, advice)
    judged = judged_from(sources, HEAD + body, tmp_path)
    for each in judged:  # of a job that may still run, it also says how to look at the rank
        each[-1] = each[-1].partition(" If the job still runs, `ddpquiz where ")[0]
    assert judged == [[source, title, [1], sentence, advice] for source in sources]
