"""What `ddpquiz run` says while a script of the user's own hangs, and when it is stopped."""

import re
import textwrap

import passed
import pytest
from inline_snapshot import snapshot
from state_of_calls import call, state_of

from ddpquiz.diagnosis.diagnosis import ADVICE
from ddpquiz.diagnosis.event_diagnosis import diagnose
from ddpquiz.events.event import Alive, Hung, Issued, Note, Output, Waiting
from ddpquiz.events.run_state import RunState
from ddpquiz.ranks import watchdog
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

pytestmark = passed.ENGINE

HEAD = """\
import os, sys, threading, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.ones(2)
"""


@pytest.fixture
def started(tmp_path):
    def start(body, ranks=3, **options):
        path = tmp_path / "train.py"
        path.write_text(HEAD + textwrap.dedent(body))
        return Run(Request(path, ranks=ranks, device="cpu", diagnose=True, **options))

    return start


def notes(events):
    return [event.text for event in events if isinstance(event, Note)]


def test_calls_that_do_not_match_end_the_run_at_once_with_both_lines(started):
    run = started("""
        dist.all_reduce(x)
        if rank == 1:
            dist.all_reduce(torch.ones(5))
        dist.barrier()
    """)
    events = list(run.events())
    assert run.seen.end.why == snapshot(
        "Only rank 1 called all_reduce at train.py:8; ranks 0 and 2 called barrier at train.py:9 instead."
    )
    assert run.seen.end.rank == 1
    last = max(event.time for event in events if isinstance(event, Issued))
    hung = next((event for event in events if isinstance(event, Hung)), None)
    assert hung is None or hung.time - last >= watchdog.MISMATCH  # Gloo may fail first


JOIN = """
    from torch.distributed.algorithms.join import Join
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear({size}))
    with Join([model]):
        for step in range(2 + rank):
            model(torch.ones(3, 1)).sum().backward()
            dist.all_reduce(torch.zeros(1))
"""


@pytest.mark.parametrize("size", ["1, 40", "1, 1, bias=False"], ids=["sizes differ", "all sizes are equal"])
def test_a_call_that_join_does_not_mirror_is_named_and_not_the_rank_whose_inputs_have_ended(started, size):
    run = started(JOIN.format(size=size), timeout=2.0)
    list(run.events())
    found = diagnose(run.seen)
    assert (found.fault, found.culprits, found.concept) == ("missing", (1, 2), "uneven-inputs")
    assert found.sentence == snapshot(
        "Ranks 1 and 2 called all_reduce at train.py:12 when rank 0 had ended its inputs. Join (train.py:9) makes calls for rank 0 then, but only those of the modules that it was given, so from there on the calls do not match."
    )


def test_a_late_rank_is_named_and_the_run_goes_on(started, monkeypatch):
    monkeypatch.setattr(watchdog, "NOTICE", 0.8)
    run = started("""
        if rank == 2:
            time.sleep(2.5)
        dist.all_reduce(x)
        print("sum:", x[0].item())
        dist.destroy_process_group()
    """)
    events = list(run.events())
    (text,) = notes(events)
    assert re.match(r"No operation and no line of output for more than \d+ s\. Ranks 0", text)
    assert text.endswith(
        "Ranks 0 and 1 wait in all_reduce at train.py:8 for rank 2: it has not reached this call and was last seen at "
        f"train.py:7. `ddpquiz where {run.seen.pids[2]}` shows the stack of rank 2."
    )
    assert run.seen.end.ok
    assert len([event for event in events if isinstance(event, Output)]) == 3
    at = next(number for number, event in enumerate(events) if isinstance(event, Note))
    assert RunState.after(events[: at + 1]).notes == [text]
    moved = next(number for number, event in enumerate(events) if number > at and not isinstance(event, Alive))
    assert RunState.after(events[:moved]).notes == [text]
    assert RunState.after(events[: moved + 1]).notes == []


def test_where_each_rank_stands_is_said_when_none_waits_for_another(started, monkeypatch):
    monkeypatch.setattr(watchdog, "NOTICE", 0.8)
    run = started("""
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            pass
        dist.destroy_process_group()
    """, ranks=2)  # fmt: skip
    (text,) = notes(run.events())
    assert "No rank waits in a recorded call: ranks 0 and 1 at train.py:" in text
    assert run.seen.end.ok


def test_a_thread_that_only_beats_is_no_progress(started):
    run = started("""
        def beat():
            while True:
                time.sleep(0.005)
                sum(range(30_000))
        threading.Thread(target=beat, daemon=True).start()
        if rank != 2:
            dist.all_reduce(x)
        else:
            time.sleep(60)
    """, timeout=1.5)  # fmt: skip
    list(run.events())
    assert run.seen.hung
    assert "rank 2: it has not reached this call and was last seen at train.py:" in run.seen.end.why


def test_a_lock_that_never_opens_is_told_although_no_rank_communicates(started):
    run = started("threading.Event().wait(60)", ranks=2, timeout=1.0)
    list(run.events())
    assert run.seen.hung
    assert "train.py:5" in run.seen.end.why


def test_who_stops_a_run_that_hangs_learns_where_it_stood(started, monkeypatch):
    monkeypatch.setattr(watchdog, "NOTICE", 0.8)
    run = started("""
        if rank == 0:
            time.sleep(60)
        dist.all_reduce(x)
    """)
    while not run.over:
        run.read(0.1)
        if run.seen.notes:
            run.stop("You stopped the run.")
    assert run.seen.end.why == "You stopped the run."
    standing, _, advice = run.seen.end.advice.partition("\n")
    assert standing == snapshot(
        "Ranks 1 and 2 wait in all_reduce at train.py:8 for rank 0: it has not reached this call and was last seen at train.py:7."
    )
    assert advice == ADVICE["late"]


def test_a_rank_that_waits_in_a_call_itself_is_not_told_to_look_for_slow_input():
    """Both halves of its message are recorded, so the record does not show why the wait does not end."""
    send, receive = (call(5, op, members=(0, 1, 2), peer=peer)._replace(asynchronous=True)
                     for op, peer in (("send", 0), ("recv", 1)))  # fmt: skip
    state = state_of([receive], [send, call(9)], [call(9)], ended=False, more=[Waiting(0.1, 0, 1)])
    found = diagnose(state, now=60.0)
    assert (found.fault, found.culprits) == ("late", (0,))
    assert found.sentence == snapshot(
        "Ranks 1 and 2 wait in all_reduce at train.py:9 for rank 0: it is itself in recv at train.py:5, and the record does not show why."
    )
    assert "input" not in found.advice
