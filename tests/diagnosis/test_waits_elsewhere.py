"""Ranks that wait outside of collectives: to form a group, in a store, in a lock; who waits for what is said."""

import re
import textwrap

import passed
import pytest

from ddpquiz.diagnosis.diagnosis import ADVICE, LONGER
from ddpquiz.diagnosis.event_diagnosis import diagnose
from ddpquiz.events.event import Began, Exited, Joining, Note, Raised, Started
from ddpquiz.events.run_state import RunState
from ddpquiz.ranks import watchdog
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

pytestmark = passed.ENGINE

HEAD = """\
import os, queue, threading, time, torch, torch.distributed as dist
from datetime import timedelta
rank = int(os.environ["RANK"])
"""


STACK = re.compile(r" `ddpquiz where \d+` shows the stack of rank \d\.$")  # while the run goes on


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
                    told = STACK.sub("", event.text.partition(" s. ")[2])
                    run.stop("You stopped the run.")
        return told, run.seen.end.advice.partition("\n")[0]

    return run_until_told


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            'dist.init_process_group("gloo", world_size=4)',
            "Ranks 0-2 wait in init_process_group at train.py:4 for 4 ranks, but the job has only 3.",
        ),
        (
            """
            if rank == 1:
                time.sleep(60)
            dist.init_process_group("gloo")
            """,
            (
                "Ranks 0 and 2 wait in init_process_group at train.py:7 for rank 1: it has not reached this call and was "
                "last seen at train.py:6."
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
                'Ranks 0 and 2 wait in store.get at train.py:11 for the key "all are there", and no rank has set it. No line '
                "of the script names that key. Rank 1 was last seen at train.py:10."
            ),
        ),
        (
            """
            dist.init_process_group("gloo")
            store = dist.distributed_c10d._get_default_store()
            if rank == 0 and os.path.exists("/no/such"):
                store.set("prepared", "1")
            dist.barrier() if rank == 0 else store.get("prepared")
            """,
            (
                'Ranks 1 and 2 wait in store.get at train.py:9 for the key "prepared", and no rank has set it. The script '
                "sets it at train.py:8 on rank 0. Rank 0 went on to barrier at train.py:9."
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
                "No rank waits in a recorded call: ranks 0-2 in `thread.join()` at train.py:9 for thread loader. It is "
                "not known what keeps them there."
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
    assert told.startswith("Ranks 0-2 wait in init_process_group at train.py:7: ranks 0 and 1 look for the others at ")
    assert told.endswith("; rank 2 looks for the others at 127.0.0.1:29777.")


def test_a_rank_that_is_interrupted_in_init_process_group_had_called_it():
    """As in a record of two ranks with MASTER_PORT=0: rank 0 gave up, rank 1 was interrupted later."""
    events = [Began("t.py", (), 2, "cpu", "gloo", ""), Started(0.0, 0, 1), Started(0.0, 1, 2)]
    events += [
        Joining(1.0, rank, done=False, line=3, size=2, asked_rank=rank, address="127.0.0.1:0") for rank in (0, 1)
    ]
    gave_up = "Timed out after 9 seconds waiting for clients. 1/2 clients joined."
    events += [Raised(10.0, 0, "torch.distributed.DistStoreError", gave_up, ""), Exited(10.0, 0, 1)]
    events += [Raised(15.0, 1, "KeyboardInterrupt", "", ""), Exited(15.0, 1, 1)]
    verdict = diagnose(RunState.after(events), now=15.0)
    assert verdict.fault == "signature"
    assert "port 0" in verdict.sentence
    assert "had not reached" not in verdict.sentence


WAITED = {  # a script that fails by a timeout: why it ended, and what is advised
    "a group": (
        """
        dist.init_process_group("gloo")
        pair = dist.new_group([0, 1], timeout=timedelta(seconds=4))
        if rank == 1:
            time.sleep(120)
        dist.all_reduce(torch.ones(2), group=pair) if rank < 2 else None
        dist.barrier()
        """,
        ("Rank 0 waited in all_reduce at train.py:9 for rank 1 until the group's timeout of 4 s had passed: it has not "
        "reached this call and was last seen at train.py:8."),
        f"{ADVICE['late']} {LONGER}",
    ),
    "the group that is formed": (
        """
        if rank == 1:
            time.sleep(120)
        dist.init_process_group("gloo", timeout=timedelta(seconds=4))
        """,
        ("Ranks 0 and 2 waited in init_process_group at train.py:7 for rank 1 until the timeout of 4 s had passed: it "
        "has not reached this call and was last seen at train.py:6."),
        f"{ADVICE['late']} {LONGER}",
    ),
    "a key": (
        """
        dist.init_process_group("gloo")
        store = dist.distributed_c10d._get_default_store()
        if rank == 1:
            time.sleep(120)
            store.set("vocabulary", "1")
        store.wait(["vocabulary"], timedelta(seconds=2))
        """,
        ('Ranks 0 and 2 waited in store.wait at train.py:10 for the key "vocabulary" until the timeout of 2 s had '
        "passed; no rank had set it. The script sets it at train.py:9 on rank 1. Rank 1 was last seen at train.py:8."),
        f"{ADVICE['late']} If it needs that long, let the others wait for longer: `timeout` of that call.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WAITED)
def test_a_time_out_is_named_with_the_rank_that_was_late(tmp_path, what):
    body, sentence, advice = WAITED[what]
    path = tmp_path / "train.py"
    path.write_text(HEAD + textwrap.dedent(body))
    *_, end = Run(Request(path, ranks=3, device="cpu", diagnose=True)).events()
    assert (end.rank, end.why, end.advice) == (1, sentence, advice)


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
