"""Events as lines of JSON, and labels in what ranks print."""

import dataclasses
import json
import re
from typing import get_args

import pytest
from places import ROOT

from ddpquiz.events import event as events
from ddpquiz.events.event import (
    Began,
    ClaimText,
    End,
    Event,
    GradientChecksum,
    Hung,
    Issued,
    Marked,
    MemoryPeak,
    ModelSharded,
    ModelWrapped,
    OptimizerStep,
    OrderRepeated,
    Output,
    RandomDraw,
    RankStack,
    ScriptFinished,
    SyncPaused,
    SyncResumed,
    TensorRead,
    decode,
    encode,
)
from ddpquiz.events.operation import Operation
from ddpquiz.events.printed_values import label_and_value
from ddpquiz.ranks.event_reader import LineBuffer

EVENTS = [
    Began(
        "demo.py",
        ("--size", "8"),
        4,
        "cpu",
        "gloo",
        "4 ranks on CPU over Gloo · no GPU found",
        (ClaimText(7, "it holds"),),
        highlighted=("sum",),
    ),
    TensorRead(0.2, 1, 9, "demo.py", "item()", on_gpu=True),
    Output(0.25, 1, "stdout", "sum: 3.0 é", "sum", "3.0 é"),
    Issued(0.5, 0, 3, Operation("all_reduce", (0, 1), None, ((2, 3), ()), "float32", 28, "demo.py", 9), ("[1.0]",)),
    Hung(9.0, 3.5, (RankStack(0, "all_reduce", "demo.py", 9, "stack"),)),
    End(9.1, False, 1, 2, 0, "No rank made progress for 3.5 s", "Wait."),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.event)
def test_an_event_survives_the_trip_through_json(event):
    line = encode(event)
    assert "\n" not in line
    assert json.loads(line)["event"] == event.event
    assert decode(line) == event


HEAD = {"time": 1.5, "rank": 1}
IN_VERSION_1 = [
    ({"what": "step", "line": 7}, OptimizerStep(1.5, 1, 7)),
    ({"what": "no_sync", "line": 7}, SyncPaused(1.5, 1, 7)),
    ({"what": "sync", "line": 7}, SyncResumed(1.5, 1, 7)),
    ({"what": "ddp", "line": 0}, ModelWrapped(1.5, 1, 0)),
    ({"what": "same_order", "line": 7}, OrderRepeated(1.5, 1, 7)),
    ({"what": "shard", "line": 7}, ModelSharded(1.5, 1, 7)),
    ({"what": "shard_many", "line": 7}, ModelSharded(1.5, 1, 7, several_layers=True)),
    ({"what": "drew 0a1b2c3d", "line": 7}, RandomDraw(1.5, 1, 7, "0a1b2c3d")),
    ({"what": "gradients dadb6a1f", "line": 0}, GradientChecksum(1.5, 1, 0, "dadb6a1f")),
    (
        {"what": "read cpu print() local sgd.py:51", "line": 60},
        TensorRead(1.5, 1, 51, "local sgd.py", "print()", False),
    ),
    ({"what": "read gpu item() a.py:9", "line": 0}, TensorRead(1.5, 1, 9, "a.py", "item()", True)),
    ({"what": "memory 279101440 1024", "line": 0}, MemoryPeak(1.5, 1, 0, 279101440, 1024)),
    ({"what": "finished", "line": 0}, ScriptFinished(1.5, 1, 0)),
]


@pytest.mark.parametrize(("fields", "mark"), IN_VERSION_1, ids=[fields["what"] for fields, _ in IN_VERSION_1])
def test_a_mark_of_version_1_which_was_one_text_is_read(fields, mark):
    assert decode(json.dumps({"event": "mark"} | HEAD | fields)) == mark
    assert decode(encode(mark)) == mark


@pytest.mark.parametrize(
    "what", ["memory 5", "memory 1 -1", "read gpu item() a.py", "drew", "ddpp", "", ["step"], None]
)
def test_what_no_mark_says_is_refused(what):
    with pytest.raises(ValueError, match=r"not an event of a kind|`\w+` is missing"):
        decode(json.dumps({"event": "mark"} | HEAD | {"what": what, "line": 0}))


def test_a_run_of_version_1_is_read_with_the_names_of_its_fields():
    began, end = json.loads(encode(EVENTS[0])), json.loads(encode(EVENTS[-1]))
    began |= {"version": 1, "look": began.pop("highlighted"), "here": False}
    end["mend"] = end.pop("advice")
    assert [decode(json.dumps(event)) for event in (began, end)] == [EVENTS[0], EVENTS[-1]]


def test_the_first_event_carries_the_version():
    assert json.loads(encode(EVENTS[0]))["version"] == events.VERSION


LABELS = {
    "mine: [1, 2]": ("mine", "[1, 2]"),
    "bytes sent by the ring: 48": ("bytes sent by the ring", "48"),
    "loss (mean): 0.5": ("loss (mean)", "0.5"),
    "a: b: c": ("a", "b: c"),
    "empty: ": ("empty", ""),
    "INFO: started": None,
    "12:30:01 started": None,
    "no label here": None,
    "colon:without a space": None,
    f"{'x' * 41}: too long": None,
}


@pytest.mark.parametrize("line", LABELS)
def test_lines_with_a_label_are_told_from_log_lines(line):
    assert label_and_value(line) == LABELS[line]


def test_bytes_become_whole_lines_however_they_are_cut():
    data = "eins\nzwei é\n\ndrei".encode()
    for size in range(1, len(data) + 1):
        lines = LineBuffer()
        found = [line for at in range(0, len(data), size) for line in lines.feed(data[at : at + size])]
        assert [line.decode() for line in [*found, *lines.feed(b"")]] == ["eins", "zwei é", "", "drei"]


def test_the_documents_describe_every_event_with_all_its_fields():
    page = (ROOT / "docs/events.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for kind in get_args(Event):
        name = f"mark {kind.what}" if issubclass(kind, Marked) else kind.event
        row = next(line for line in rows if line.startswith(f"| `{name}` |"))
        fields = {field.name for field in dataclasses.fields(kind)}
        fields = fields - {"operation"} | {*Operation._fields} if name == "issued" else fields
        fields = fields - {"time", "rank", "line"} if issubclass(kind, Marked) else fields
        assert sorted(fields) == sorted(re.findall(r"`(\w+)`", row.split("|")[2])), name
