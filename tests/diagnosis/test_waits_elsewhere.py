"""Ranks that wait outside of collectives: to form a group, in a store, in a lock; who waits for what is said."""

import textwrap

import passed
import pytest

from ddpquiz.events.event import Note
from ddpquiz.ranks import run as watchdog
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

pytestmark = passed.ENGINE

HEAD = """\
import os, queue, threading, time, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
"""


@pytest.fixture
def said(tmp_path, monkeypatch):
    """What a run of a script says while nothing moves, and when it is then stopped; both empty if it ends by itself."""
    monkeypatch.setattr(watchdog, "NOTICE", 1.0)

    def run_until_told(body):
        path = tmp_path / "train.py"
        path.write_text(HEAD + textwrap.dedent(body))
        run, told = Run(Request(path, ranks=3, device="cpu", diagnose=True)), ""
        while not run.over:
            for event in run.read(0.1):
                if isinstance(event, Note) and event.text.startswith("No operation"):
                    told = event.text.partition(" s. ")[2]
                    run.stop("You stopped the run.")
        return told, run.seen.end.advice.partition("\n")[0]

    return run_until_told


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            'dist.init_process_group("gloo", world_size=4)',
            "Ranks 0-2 wait in init_process_group at train.py:3 for 4 ranks, but the job has only 3.",
        ),
        (
            """
            if rank == 1:
                time.sleep(60)
            dist.init_process_group("gloo")
            """,
            (
                "Ranks 0 and 2 wait in init_process_group at train.py:6 for rank 1: it has not reached this call and was "
                "last seen at train.py:5."
            ),
        ),
        (
            """
            dist.init_process_group("gloo")
            store = dist.distributed_c10d._get_default_store()
            if store.add("came", 1) == 3:
                store.set("all came", "1")
            if rank == 1:
                time.sleep(60)
            store.get("all are there")
            """,
            (
                'Ranks 0 and 2 wait in store.get at train.py:10 for the key "all are there", and no rank has set it. No line '
                "of the script names that key. Rank 1 was last seen at train.py:9."
            ),
        ),
        (
            """
            dist.init_process_group("gloo")
            dist.barrier()
            thread = threading.Thread(target=queue.Queue().get, name="loader", daemon=True)
            thread.start()
            thread.join()
            """,
            (
                "No rank waits in a recorded call: ranks 0-2 in `thread.join()` at train.py:8 for thread loader. What holds "
                "them there is not known."
            ),
        ),
    ],
)
def test_who_waits_for_what_is_said_live_and_at_the_end(said, body, sentence):
    assert said(body) == (sentence, sentence)


def test_ranks_that_name_different_ports_never_meet(said):
    told, at_the_end = said("""
        if rank == 2:
            os.environ["MASTER_PORT"] = "29777"
        dist.init_process_group("gloo")
    """)
    assert told == at_the_end
    assert told.startswith("Ranks 0-2 wait in init_process_group at train.py:6: ranks 0 and 1 look for the others at ")
    assert told.endswith("; rank 2 looks for the others at 127.0.0.1:29777.")


def test_a_key_that_comes_later_and_a_lock_that_opens_are_no_faults(said):
    assert said("""
        dist.init_process_group("gloo")
        store = dist.distributed_c10d._get_default_store()
        if rank == 1:
            timer = threading.Timer(0.3, lambda: None)
            timer.start()
            timer.join()
            store.set("ready", "1")
        store.wait(["ready"])
        dist.barrier()
        dist.destroy_process_group()
    """) == ("", "")
