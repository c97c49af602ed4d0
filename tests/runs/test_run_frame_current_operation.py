"""What each rank is doing, and the operation that is running."""

import pytest
from drawn_run import issued, live, seen
from inline_snapshot import snapshot

from ddpquiz.events.event import Began, Ended, Exited, Issued, Joining, Started, Waiting
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_frame import describe_frame


def test_what_runs_beside_the_script_is_not_what_a_rank_is_doing_until_it_waits_for_it():
    picture = seen(issued(0.1, 1, 1, asynchronous=True), issued(0.2, 1, 2, bucket=0))
    assert picture.doing(1) == "computing"
    picture.add(Waiting(0.3, 1, 2))
    assert picture.doing(1) == "all_reduce"
    picture.add(Ended(0.4, 1, 2))
    assert picture.doing(1) == "computing"
    assert picture.communicates_in(1) == "all_reduce", "number 1 is open still"


RUNNING = {
    "no communication yet": [],
    "the group is formed, no communication yet": [Joining(0.1, 0, done=False, line=3), Joining(0.2, 0, done=True, line=3)],
    "scatter · all arrived for 0.8 s · from 0 · 4 numbers": [
        Issued(0.1, 0, 1, Operation("scatter", (0, 1), 0, ((4,), (4,)), "float32", 32, "demo.py", 5)),
        Issued(0.2, 1, 1, Operation("scatter", (0, 1), 0, ((4,),), "float32", 16, "demo.py", 5)),
    ],
    "init_process_group · rank 1 arrived, waiting for rank 0": [Joining(0.1, 1, done=False, line=3)],
    "init_process_group · all arrived, forming the group": [
        Joining(0.1, 0, done=False, line=3), Joining(0.1, 1, done=False, line=3),
    ],
    "all_reduce · rank 0 arrived, waiting 0.4 s for rank 1 · sum of 4 numbers": [
        *(Joining(0.1, rank, done=False, line=3) for rank in (0, 1)), Joining(0.2, 0, done=True, line=3),
        issued(0.5, 0, 1, reduce="sum"),
    ],
    "all_reduce · rank 1 arrived, waiting 0.8 s for rank 0 · sum of 4 numbers": [issued(0.1, 1, 1, reduce="sum")],
    "all_reduce · rank 1 arrived, waiting 0.8 s for rank 0 (it has ended) · 4 numbers": [issued(0.1, 1, 1), Exited(0.2, 0, 0)],
    "all_reduce · all arrived for 0.8 s · 4 numbers": [issued(0.1, 1, 1), issued(0.2, 0, 1)],
    "calls differ · all_reduce: rank 0 · broadcast: rank 1 for 0.8 s": [
        issued(0.1, 0, 1), Issued(0.2, 1, 1, Operation("broadcast", (0, 1), 0, ((4,),), "float32", 16, "demo.py", 6))
    ],
    "broadcast · rank 0 arrived, waiting 0.4 s for rank 1 · from 0 · 1 number": [
        Issued(0.5, 0, 1, Operation("broadcast", (0, 1), 0, ((),), "float32", 4, "demo.py", 5))
    ],
    "send · 0 → 1 · rank 0 arrived, waiting 0.8 s for rank 1 · bucket 3 · 4 numbers · 1 more under way": [
        Issued(0.1, 0, 1, Operation("send", (0, 1), 1, ((4,),), "float32", 16, "demo.py", 5, bucket=3)), issued(0.3, 0, 2),
    ],
    "recv · any rank → 1 · rank 1 arrived, waiting 0.8 s for any rank · 4 numbers": [
        Issued(0.1, 1, 1, Operation("recv", (0, 1), None, ((4,),), "float32", 16, "demo.py", 5))
    ],
    "all_reduce · ranks 0-2 · ranks 1 and 2 arrived, waiting 0.6 s for rank 0 · 4 numbers · 1 more under way": [
        Issued(0.1, 0, 1, Operation("all_reduce", (0, 1, 2), None, ((4,),), "float32", 16, "demo.py", 5, group="1")),
        *(Issued(0.3, rank, 1, Operation("all_reduce", (0, 1, 2), None, ((4,),), "float32", 16, "demo.py", 5)) for rank in (1, 2)),
    ],
    "last: barrier · rank 1 alone · took 200 ms": [
        Issued(0.1, 1, 1, Operation("barrier", (1,), None, (), "", 0, "demo.py", 5)), Ended(0.3, 1, 1)
    ],
    "last: barrier · rank 1 came 300 ms late · then took 200 ms": [
        Issued(0.1, 0, 1, Operation("barrier", (0, 1), None, (), "", 0, "demo.py", 5)),
        Issued(0.4, 1, 1, Operation("barrier", (0, 1), None, (), "", 0, "demo.py", 5)),
        Ended(0.5, 0, 1), Ended(0.6, 1, 1),
    ],
}  # fmt: skip


@pytest.mark.parametrize("line", RUNNING)
def test_the_running_operation_stands_in_one_line_with_who_arrived_and_who_is_awaited(line):
    assert live(seen(*RUNNING[line]), now=0.9, width=110).splitlines()[-1] == line


def test_what_a_rank_had_begun_before_it_was_started_again_is_over():
    lives = [issued(0.1, 0, 1), Exited(0.2, 1, -9), Exited(0.3, 0, -15), Started(0.4, 0, 7, 1), Started(0.5, 1, 8, 1)]
    picture = seen(*lives)
    assert live(picture, now=0.9, width=100).splitlines()[-1] == "no communication yet"
    assert picture.timeline.mismatches == []
    assert "restart 1 of 0 · now processes 7 8" in live(picture)


def test_what_does_not_fit_into_the_running_line_is_left_out_and_not_cut():
    line = next(line for line in RUNNING if "bucket 3" in line)
    shown = live(
        seen(*RUNNING[line]), now=0.9, width=len("send · 0 → 1 · rank 0 arrived, waiting 0.8 s for rank 1 · bucket 3")
    )
    assert shown.splitlines()[-1] == snapshot("send · 0 → 1 · rank 0 arrived, waiting 0.8 s for rank 1 · bucket 3")


def test_the_operation_that_was_called_last_is_described_where_a_run_is_stepped_through():
    """In a hang, ranks 1 and 2 may wait together at the end, while rank 0 waits alone in an earlier operation."""
    everyone = (0, 1, 2)
    made = [Issued(0.1, rank, 1, Operation("barrier", everyone, None, (), "", 0, "demo.py", 9)) for rank in (1, 2)]
    other = Operation("all_reduce", everyone, None, ((4,),), "float32", 16, "demo.py", 5, group="1")
    picture = seen(*made, Issued(0.3, 0, 1, other), began=Began("demo.py", (), 3, "cpu", "gloo", ""))
    assert live(picture, now=0.9, width=99).splitlines()[-1].startswith("barrier · ranks 1 and 2 arrived")
    assert live(picture, now=0.9, width=99, since=0.0).splitlines()[-1].startswith("all_reduce · rank 0 arrived")


CALLED = {
    ("all_gather", "ddp = DistributedDataParallel(model)", None): ["DDP compares the models"],
    ("broadcast", "ddp = DDP(model)", None): ["DDP copies rank 0's model"],
    ("broadcast", "loss = ddp(x).mean()", None): ["called by a library"],
    ("all_reduce", "loss.backward()", 0): [],  # the bucket says it
    ("reduce_scatter_tensor", "dist.reduce_scatter_single(mine, x)", None): [],
    ("recv", "work = dist.irecv(x, 0)", None): [],
    ("all_reduce", None, None): [],  # the file cannot be read
}


def _purposes(script, *calls):
    """What is said of each of these calls: its operator, its line, its dtype and its bucket."""
    events, said = [], []
    for number, (op, line, dtype, bucket) in enumerate(calls, 1):
        called = Operation(op, (0, 1), 0, ((4,),), dtype, 16, str(script), line, bucket=bucket)
        events += [Issued(number / 10, rank, number, called) for rank in (0, 1)]
        more = describe_frame(seen(*events), since=0.0).operation.more
        said.append(next((part for part in more if part.startswith(("DDP ", "called by"))), ""))
        events += [Ended(number / 10 + 0.05, rank, number) for rank in (0, 1)]
    return said


COMPARES, COPIES = "DDP compares the models", "DDP copies rank 0's model"
ORDERS, LIBRARY = "DDP sends the order of buckets", "called by a library"


@pytest.fixture
def trains(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("ddp = DDP(model)\nloss = ddp(x).mean()\nloss.backward()\ndist.all_gather(parts, x)\n")
    return script


def test_what_ddp_broadcasts_right_after_it_has_gathered_compares_the_models_whatever_its_dtype(trains):
    wraps = [("all_gather", 1, "int64", None), ("broadcast", 1, "int64", None), ("broadcast", 1, "float32", None)]
    buffers = ("broadcast", 1, "int64", None)
    assert _purposes(trains, *wraps, buffers) == [COMPARES, COMPARES, COPIES, COPIES]
    gathers = ("all_gather", 4, "int64", None)  # the script's own call
    assert _purposes(trains, gathers, wraps[-1]) == ["", COPIES]


def test_the_order_of_buckets_is_told_from_buffers_of_the_same_dtype(trains):
    bucket, integers = ("all_reduce", 3, "float32", 0), ("broadcast", 2, "int32", None)
    others = ("broadcast", 2, "int64", None)
    calls = [others, bucket, integers, integers, others, bucket, others]
    assert _purposes(trains, *calls) == [LIBRARY, "", ORDERS, ORDERS, LIBRARY, "", LIBRARY]
    assert _purposes(trains, bucket, integers, integers, integers)[-1] == LIBRARY
    assert _purposes(trains, integers, bucket, integers, integers) == [LIBRARY, "", LIBRARY, LIBRARY]


@pytest.mark.parametrize("called", CALLED)
def test_a_call_that_a_library_makes_says_so(called, tmp_path):
    op, line, bucket = called
    script = tmp_path / "train.py"
    if line is not None:
        script.write_text(f"\n{line}\n")
    operation = Operation(op, (0, 1), None, ((4,),), "float32", 16, str(script), 2, bucket=bucket)
    more = describe_frame(seen(Issued(0.1, 0, 1, operation))).operation.more
    assert [part for part in more if part.startswith(("DDP ", "called by"))] == CALLED[called]
