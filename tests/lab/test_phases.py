"""What budgets measure: on real ranks for operations in flight, and from made-up calls for rounds of messages."""

from textwrap import dedent

import pytest

from ddpquiz.events.event import Output
from ddpquiz.events.operation import Operation
from ddpquiz.lab.phases import Phase, PhaseCall, bytes_received, count_rounds, find_phases
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

SCRIPT = dedent("""\
    import time, torch, torch.distributed as dist
    dist.init_process_group("gloo")
    x = torch.ones(100)
    dist.barrier()
    print("phase: in flight bytes=400")
    works = [dist.all_reduce(x.clone(), async_op=True) for _ in range(3)]
    time.sleep(0.05)
    print("backward: done")
    for work in works:
        work.wait()
    print("phase: end peak=7")
    print("phase: at once")
    work = dist.all_reduce(x, async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    work.wait()
    print("backward: done")
    print("phase: end")
    dist.barrier()
    """)


def test_operations_count_as_overlapped_until_they_are_waited_for_even_if_they_have_ended(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run = Run(Request(script, ranks=2, device="cpu", timeout=5.0, subject=script))
    phases = find_phases(list(run.events()))
    assert run.seen.end.ok, run.seen.end.why
    assert sorted((phase.name, phase.rank) for phase in phases) == [
        ("at once", 0),
        ("at once", 1),
        ("in flight", 0),
        ("in flight", 1),
    ]
    for phase in phases:
        found = phase.measures()
        if phase.name == "in flight":
            assert (found["overlapped"], found["in_flight"], found["calls_all_reduce"]) == (3, 3, 3)
            assert (found["sent"], found["bytes"], found["peak"], found["rounds"]) == (1200, 400, 7, 3)
        else:
            assert (found["overlapped"], found["in_flight"], found["collectives"]) == (0, 1, 1)
            assert found["destinations"] == 0


def call(op, rank, peer, at, done, size=8, members=(0, 1, 2, 3)):
    operation = Operation(op, members, peer, ((size // 4,),), "float32", size, "x.py", 1)
    return rank, operation, at, done, None


def messages(*pairs):
    """Return the calls of messages from one rank to another, one after the other."""
    calls = []
    for at, (sender, receiver) in enumerate(pairs):
        calls += [call("send", sender, receiver, at, at + 0.1), call("recv", receiver, sender, at, at + 0.2)]
    return calls


def test_destinations_are_the_ranks_that_a_rank_sent_to_each_counted_once():
    sent = messages((0, 1), (0, 2), (0, 1), (2, 0))
    calls = [PhaseCall(operation, number, at) for number, (rank, operation, at, *_) in enumerate(sent) if rank == 0]
    assert Phase(rank=0, name="x", index=0, seed=None, began=0.0, calls=calls).measures()["destinations"] == 2


@pytest.mark.parametrize(
    ("calls", "rounds"),
    [
        (messages(), 0),
        (messages((0, 1), (0, 2), (0, 3)), 3),  # a rank sends one message in a round
        (messages((0, 1), (0, 2), (1, 3)), 2),  # a tree
        (messages((0, 1), (1, 2), (2, 3)), 3),  # a chain
        (messages((1, 0), (2, 0), (3, 0)), 3),  # a rank receives one message in a round
        (messages((0, 1), (2, 3), (1, 0), (3, 2)), 2),  # pairs that do not know of each other
        ([call("all_reduce", rank, None, turn, turn + 0.5) for turn in range(2) for rank in range(4)], 2),
    ],
)
def test_rounds_are_the_longest_chain_of_messages_that_wait_for_each_other(calls, rounds):
    assert count_rounds(calls) == rounds


@pytest.mark.parametrize(
    ("op", "peer", "received"),
    [
        ("all_reduce", None, [12, 12, 12, 12]), ("all_gather", None, [24, 24, 24, 24]), ("broadcast", 1, [8, 0, 8, 8]),
        ("reduce", 1, [8, 8, 0, 8]), ("gather", 1, [0, 24, 0, 0]), ("send", 1, [0, 0, 0, 0]), ("recv", 1, [8, 8, 8, 8]),
    ],
)  # fmt: skip
def test_the_bytes_that_a_member_receives(op, peer, received):
    operation = Operation(op, (0, 1, 2, 3), peer, ((2,),), "float32", 8, "x.py", 1)
    assert [bytes_received(operation, rank) for rank in range(4)] == received
    assert op in ("recv", "send") or sum(received) == sum(map(operation.bytes_sent_by, range(4)))


def test_a_phase_whose_first_line_was_read_late_keeps_its_values():
    lines = [(2.0, "build layers=4"), (1.0, "end held=7"), (3.0, "step"), (4.0, "end")]
    built, step = find_phases([Output(time, 0, "stdout", f"phase: {text}", "phase", text) for time, text in lines])
    assert (built.values, step.values) == ({"layers": 4.0, "held": 7.0}, {})
