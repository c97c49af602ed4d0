"""Events as lines of JSON, and labels in what ranks print."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from ddpquiz.events import event as events
from ddpquiz.events.event import (
    KINDS,
    Began,
    ClaimText,
    End,
    Hung,
    Issued,
    LineBuffer,
    Operation,
    Output,
    RankStack,
    decode,
    encode,
    labelled,
)

EVENTS = [
    Began(
        "demo.py",
        ("--size", "8"),
        4,
        "cpu",
        "gloo",
        "4 ranks on CPU over Gloo · no GPU found",
        (ClaimText(7, "it holds"),),
    ),
    Output(0.25, 1, "stdout", "sum: 3.0 é", "sum", "3.0 é"),
    Issued(0.5, 0, 3, Operation("all_reduce", (0, 1), None, ((2, 3), ()), "float32", 28, "demo.py", 9), ("[1.0]",)),
    Hung(9.0, 3.5, (RankStack(0, "all_reduce", "demo.py", 9, "stack"),)),
    End(9.1, False, 1, 2, 0, "No rank made progress for 3.5 s"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.event)
def test_an_event_survives_the_trip_through_json(event):
    line = encode(event)
    assert "\n" not in line
    assert json.loads(line)["event"] == event.event
    assert decode(line) == event


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
    assert labelled(line) == LABELS[line]


def test_bytes_become_whole_lines_however_they_are_cut():
    data = "eins\nzwei é\n\ndrei".encode()
    for size in range(1, len(data) + 1):
        lines = LineBuffer()
        found = [line for at in range(0, len(data), size) for line in lines.feed(data[at : at + size])]
        assert [line.decode() for line in [*found, *lines.feed(b"")]] == ["eins", "zwei é", "", "drei"]


def test_the_documents_describe_every_event_with_all_its_fields():
    page = (Path(__file__).parents[1] / "docs/events.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for name, kind in KINDS.items():
        row = next(line for line in rows if line.startswith(f"| `{name}` | `"))
        fields = {field.name for field in dataclasses.fields(kind)}
        fields = fields - {"operation"} | {*Operation._fields} if name == "issued" else fields
        assert sorted(fields) == sorted(re.findall(r"`(\w+)`", row.split("|")[2])), name


def test_the_end_of_an_older_run_is_read_although_its_advice_had_another_name():
    line = '{"event": "end", "time": 1.0, "ok": false, "proven": 0, "claims": 0, "rank": 1, "why": "It hangs.", "mend": "Look."}'
    assert decode(line) == End(1.0, False, 0, 0, 1, "It hangs.", "Look.")
