"""Runs in the Trace Event Format: a viewer finds what it needs."""

import dataclasses
import io
import json

import pytest
from rank_events import Rank, late_run
from trace_format import complaints, read, told

from ddpquiz.events import saved_run, trace
from ddpquiz.events.event import Began, End, Ended, Exited, Output, Result, Started
from ddpquiz.paths import recordings_dir

RECORDED = sorted(recordings_dir().glob("*.json"))


def places(events):
    """Return what the viewer writes beside each row: the names of its process and of itself."""
    names = {
        (event["name"], event["pid" if event["name"] == "process_name" else "tid"]): event["args"]["name"]
        for event in events
        if event["name"] in ("process_name", "thread_name")
    }
    return {event["tid"]: (names["process_name", event["pid"]], names["thread_name", event["tid"]]) for event in events}


def drawn(events):
    """Return each arrow of a trace: its seconds, and rank and slices of both ends."""
    where = places(events)
    return [
        tuple(
            (end[-1]["ts"] / 1e6, where[end[-1]["tid"]][0], "/".join(each["name"] for each in end))
            for end in (source, target)
        )
        for source, target in read(events)[0]
    ]


def of(*ranks, device="cpu"):
    """Return the trace events of a run of these ranks."""
    between = sorted((event for rank in ranks for event in rank.events), key=lambda event: event.time)
    run = [Began("train.py", (), len(ranks), device, "gloo", ""), *between, End(20, True, 0, 0)]
    assert complaints(told(run)) == []
    return told(run)["traceEvents"]


def test_a_trace_is_what_the_format_asks_for():
    assert complaints(told(late_run())) == []


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_traces_of_the_shipped_runs_are_what_the_format_asks_for(path):
    seen = json.loads(json.dumps(told(saved_run.read(path))))
    assert complaints(seen) == []
    where = places(seen["traceEvents"])
    for source, target in read(seen["traceEvents"])[0]:
        first, held = source[0], target[0]  # the operations
        assert {where[first["tid"]][1], where[held["tid"]][1]} == {"operations"}
        if first["name"] == "send":
            assert held["name"] == "recv"
        else:
            assert where[first["tid"]][0] == f"rank {held['args']['last to enter']}"


def test_a_rank_is_a_process_with_its_time_and_its_operations():
    events = told(late_run())["traceEvents"]
    where = places(events)
    assert list(dict.fromkeys(where[tid] for tid in sorted(where))) == [
        (rank, row) for rank in ("rank 0", "rank 1") for row in ("time", "output", "operations")
    ]
    time = [
        (each["name"], each["ts"], each["dur"])
        for each in events
        if each["ph"] == "X" and where[each["tid"]] == ("rank 0", "time")
    ]
    assert time == [
        ("compute", 0, 1e6), ("waiting", 1e6, 3e6), ("communication", 4e6, 1e6), ("compute", 5e6, 5e6),
    ]  # fmt: skip
    slices = [each for each in events if each["ph"] == "X" and where[each["tid"]][0] == "rank 0"]
    about = next(each["args"] for each in slices if each["name"] == "all_reduce")
    assert (about["line"], about["bytes"], about["ranks"], about["last to enter"], about["after"]) == (
        "train.py:7", 16, [0, 1], 1, "[3.0]",
    )  # fmt: skip


def test_operations_at_the_same_time_stand_on_rows_of_their_own():
    events = told(late_run())["traceEvents"]
    where = places(events)
    rows = {
        each["name"]: each["tid"]
        for each in events
        if each["ph"] == "X" and where[each["tid"]] == ("rank 0", "operations")
    }
    assert rows["all_reduce"] == rows["all_gather"] != rows["barrier"]


def test_an_arrow_leads_from_the_last_rank_to_enter_to_each_rank_that_waited():
    assert drawn(told(late_run())["traceEvents"]) == [
        ((4, "rank 1", "all_reduce"), (4, "rank 0", "all_reduce/communication")),
        ((6, "rank 1", "all_gather"), (6, "rank 0", "all_gather")),
        ((6.5, "rank 1", "barrier"), (6.5, "rank 0", "barrier")),
    ]


def test_no_arrow_leads_to_a_rank_that_left_before_the_last_one_came_or_without_a_target():
    root, other = Rank(0).sync("broadcast", 1, 2, peer=0), Rank(1).sync("broadcast", 3, 4, peer=0)
    root.issue("barrier", 5)
    assert drawn(of(root, other)) == []


def test_on_a_gpu_the_last_to_begin_is_the_last_to_enter():
    first, second = Rank(0), Rank(1)
    first.issue("all_reduce", 1)
    second.issue("all_reduce", 2)
    first.end(6, started=5)
    second.end(6, started=3)
    assert drawn(of(first, second, device="cuda")) == [
        ((5, "rank 0", "all_reduce/communication"), (5, "rank 1", "all_reduce/communication"))
    ]


@pytest.mark.parametrize(
    ("sent", "received", "begin", "end"),
    [
        ((3, 4), (1, 5), (3, "send"), (3, "recv/communication")),
        ((1, 5), (3, 4), (3, "send/communication"), (3, "recv")),
        ((1, 2), (3, 4), (1, "send"), (3, "recv")),
        ((1, None), (3, 4), (3, "send/communication"), (3, "recv")),  # no rank waits for it
    ],
)
def test_an_arrow_leads_from_a_send_to_its_receive_whichever_came_first(sent, received, begin, end):
    sender, receiver = Rank(0), Rank(1)
    sender.issue("send", sent[0], peer=1)
    if sent[1]:
        sender.end(sent[1])
    receiver.sync("recv", *received, peer=0)
    assert drawn(of(sender, receiver)) == [((begin[0], "rank 0", begin[1]), (end[0], "rank 1", end[1]))]


def test_calls_of_ranks_that_start_again_keep_their_values_and_end_with_their_process():
    events = [Began("train.py", (), 1, "cpu", "gloo", "", restarts=1)]
    for life, began in enumerate((0, 10)):
        rank = Rank(0, 1, began)
        rank.events[0] = Started(began, 0, 100 + life, life)
        rank.issue("all_reduce", began + 1)
        rank.events[-1] = dataclasses.replace(rank.events[-1], before=(str(life),))
        events += [*rank.events, *([Ended(12, 0, 1), Result(12, 0, 1, ("9",))] if life else [])]
        events.append(Exited(began + 5, 0, 1 - life))
    events.append(End(20, True, 0, 0))
    assert complaints(told(events)) == []
    calls = [event for event in trace.trace(events) if event["name"] == "all_reduce"]
    assert [(call["ts"], call["dur"], call["args"]["before"], call["args"].get("after")) for call in calls] == [
        (1e6, 4e6, "0", None),
        (11e6, 1e6, "1", "9"),
    ]
    assert len({call["tid"] for call in calls}) == 1


def test_text_beyond_ascii_is_written_as_it_is():
    file = io.StringIO()  # Perfetto leaves what is escaped in a name as it stands
    trace.write([late_run()[0], Output(1, 0, "stdout", "größer 数 🙂"), End(2, True, 0, 0)], file)
    assert '"größer 数 🙂"' in file.getvalue()
    assert complaints(json.loads(file.getvalue())) == []


def test_printed_lines_stand_at_their_times_and_numbers_make_a_curve():
    events = told(late_run())["traceEvents"]
    assert {"loss: 0.5", "state: nan", "claim holds: it holds"} <= {
        each["name"] for each in events if each["ph"] == "i"
    }
    curve = [(each["name"], each["args"]) for each in events if each["ph"] == "C"]
    assert curve == [("loss", {"": 0.5})]  # JSON has no nan
