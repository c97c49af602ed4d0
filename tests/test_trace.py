"""Runs in the Trace Event Format, and as pictures: what a viewer needs is there, and nothing comes from a network."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from test_timeline import Rank

from ddpquiz.errors import UserError
from ddpquiz.ranks.events import Began, Claimed, ClaimText, End, Output, Result
from ddpquiz.ranks.history import recording, trace
from ddpquiz.shipped import recordings_dir

RECORDED = sorted(recordings_dir().glob("*.json"))

# What the Trace Event Format asks of an event, by its phase: the fields that it must have, and those that it may have.
NUMBER = (int, float)
COMMON = {"ph": str, "name": str, "pid": int, "tid": int, "ts": NUMBER}
PHASES = {
    "X": ({**COMMON, "dur": NUMBER, "cat": str}, {"args": dict}),
    "i": ({**COMMON, "s": str, "cat": str}, {"args": dict}),
    "C": ({**COMMON, "args": dict}, {}),
    "M": ({**COMMON, "args": dict}, {}),
    "s": ({**COMMON, "cat": str, "id": int}, {}),
    "f": ({**COMMON, "cat": str, "id": int, "bp": str}, {}),
}
METADATA = {
    "process_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}


def complaints(told):
    """Return what is wrong with a trace by the format, and by what Perfetto says that it cannot show."""
    wrong, rows, starts = [], {}, {}
    if set(told) - {"displayTimeUnit", "traceEvents"} or told["displayTimeUnit"] not in ("ms", "ns"):
        wrong.append("the object itself")
    for event in told["traceEvents"]:
        must, may = PHASES.get(event["ph"], ({}, {}))
        known = must | may
        if not must or must.keys() - event.keys() or event.keys() - known.keys():
            wrong.append(f"fields of {event}")
            continue
        wrong += [f"{name} of {event}" for name, value in event.items() if not isinstance(value, known[name])]
        match event["ph"]:
            case "X":
                if event["dur"] < 0 or event["ts"] < 0:
                    wrong.append(f"times of {event}")
                rows.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
            case "i" if event["s"] not in ("g", "p", "t"):
                wrong.append(f"scope of {event}")
            case "C" if not all(isinstance(value, NUMBER) for value in event["args"].values()):
                wrong.append(f"value of {event}")
            case "M":
                key, kind = METADATA[event["name"]]
                if not isinstance(event["args"].get(key), kind):
                    wrong.append(f"args of {event}")
            case "s":
                starts[event["cat"], event["name"], event["id"]] = event
    for (pid, tid), slices in rows.items():
        slices.sort(key=lambda each: (each[0], -each[1]))
        wrong += [
            f"overlap in {pid}.{tid}: {a} {b}" for a, b in pairwise(slices) if a[1] > b[0] + 0.001 and b[1] > a[1]
        ]
    for event in told["traceEvents"]:
        if event["ph"] in "sf":
            inside = any(a - 0.001 <= event["ts"] <= b + 0.001 for a, b in rows.get((event["pid"], event["tid"]), ()))
            if not inside:
                wrong.append(f"no slice around {event}")
        if event["ph"] == "f":
            start = starts.pop((event["cat"], event["name"], event["id"]), None)
            if start is None or start["ts"] > event["ts"] or event["bp"] != "e":
                wrong.append(f"no start of {event}")
    return wrong + [f"no finish of {event}" for event in starts.values()]


def run():
    """Return the events of a run in which rank 1 comes late, and both then wait for two operations at once."""
    early, late = Rank(0).sync("all_reduce", 1, 5, line=7), Rank(1).sync("all_reduce", 4, 5, line=7)
    early.events.append(Result(5, 0, 1, ("[3.0]",)))
    for rank in (early, late):
        first, second = rank.issue("all_gather", 6, asynchronous=True), rank.issue("barrier", 6.5, asynchronous=True)
        rank.end(8, first).end(9, second).exit(10)
    said = [
        Output(5.5, 1, "stdout", "loss: 0.5", "loss", "0.5"),
        Output(5.5, 1, "stdout", "state: nan", "state", "nan"),
        Claimed(5.6, 1, 9, True),
    ]
    first = Began("train.py", (), 2, "cpu", "gloo", "", (ClaimText(9, "it holds"),))
    between = sorted([*early.events, *late.events, *said], key=lambda event: event.time)
    return [first, *between, End(10, True, 1, 1)]


def told(events):
    return {"displayTimeUnit": "ms", "traceEvents": list(trace.trace(events))}


def test_a_trace_is_what_the_format_asks_for():
    assert complaints(told(run())) == []


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_traces_of_the_shipped_runs_are_what_the_format_asks_for(path):
    assert complaints(json.loads(json.dumps(told(recording.read(path))))) == []


def test_a_rank_is_a_process_with_its_time_and_its_operations():
    events = told(run())["traceEvents"]
    assert {event["args"]["name"] for event in events if event["name"] == "process_name"} == {"rank 0", "rank 1"}
    time = [
        (each["name"], each["ts"], each["dur"])
        for each in events
        if each["ph"] == "X" and (each["pid"], each["tid"]) == (0, 0)
    ]
    assert time == [
        ("compute", 0, 1e6), ("waiting", 1e6, 3e6), ("communication", 4e6, 1e6), ("compute", 5e6, 5e6),
    ]  # fmt: skip
    first = next(each for each in events if each["ph"] == "X" and each["name"] == "all_reduce" and each["pid"] == 0)
    about = first["args"]
    assert (about["line"], about["bytes"], about["ranks"], about["last to enter"], about["after"]) == (
        "train.py:7", 16, [0, 1], 1, "[3.0]",
    )  # fmt: skip


def test_operations_at_the_same_time_stand_on_rows_of_their_own():
    events = told(run())["traceEvents"]
    rows = {each["name"]: each["tid"] for each in events if each["ph"] == "X" and each["pid"] == 0 and each["tid"]}
    assert rows["all_reduce"] == rows["all_gather"] != rows["barrier"]


def test_an_arrow_leads_from_the_last_to_enter_to_who_was_held_up():
    events = told(run())["traceEvents"]
    start = next(each for each in events if each["ph"] == "s" and each["name"] == "all_reduce")
    finish = next(each for each in events if each["ph"] == "f" and each["id"] == start["id"])
    assert (start["pid"], start["ts"], finish["pid"], finish["ts"]) == (1, 4e6, 0, 5e6)


def test_what_is_said_stands_at_its_time_and_numbers_make_a_curve():
    events = told(run())["traceEvents"]
    assert {"loss: 0.5", "state: nan", "claim holds: it holds"} <= {
        each["name"] for each in events if each["ph"] == "i"
    }
    assert [each["args"] for each in events if each["ph"] == "C"] == [{"loss": 0.5}]  # JSON has no nan


def ddpquiz(*args, **more):
    return subprocess.run(
        [sys.executable, "-m", "ddpquiz", *map(str, args)], capture_output=True, text=True, timeout=60, **more
    )


class Links(HTMLParser):
    """Notes every attribute that could fetch something, and every tag that could run something."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found += [tag] if tag in ("script", "link", "img", "iframe") else []
        self.found += [value for name, value in attributes if name in ("src", "href", "srcset")]


@pytest.mark.parametrize("end", [".json", ".trace.json", ".svg", ".html"])
def test_a_saved_run_becomes_another_file_without_torch(tmp_path, end):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    path = tmp_path / f"run{end}"
    made = ddpquiz("demo", "--replay", "allreduce", "--save", path, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")
    text = path.read_text(encoding="utf-8")
    match end:
        case ".json":
            assert recording.read(path) == recording.read(recordings_dir() / "allreduce.json")
        case ".trace.json":
            assert complaints(json.loads(text)) == []
        case ".svg":
            assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
            assert "bytes&#160;sent&#160;by&#160;the&#160;ring" in text
            assert not re.search(r"url\((?!#)|@import|@font-face|href=\"(?!#)|<script", text)
        case ".html":
            assert "bytes sent by the ring" in text
            assert Links(text).found == []
            assert not re.search(r"url\(|@import|@font-face", text)


@pytest.mark.parametrize("end", [".json", ".trace.json", ".svg", ".html"])
def test_a_live_run_is_saved_by_the_end_of_its_name(tmp_path, end):
    script, path = tmp_path / "two.py", tmp_path / f"run{end}"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\nx = torch.ones(2)\ndist.all_reduce(x)\nprint(f'sum: {x.tolist()}')\n"
    )
    ran = ddpquiz("run", script, "--nproc", "2", "--plain", "--save", path)
    assert ran.returncode == 0, ran.stderr
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(["two.py", path.name])
    text = path.read_text(encoding="utf-8")
    assert "[2.0, 2.0]" in text.replace("&#160;", " ")
    if end == ".json":
        assert recording.read(path)[-1].ok
    elif end == ".trace.json":
        assert complaints(json.loads(text)) == []


def test_text_of_a_script_does_not_become_part_of_a_picture(tmp_path):
    script = tmp_path / "evil.py"
    script.write_text('"""A {title} <b>bold</b>."""\nprint("state: <script>alert(1)</script>")\n')
    for end in (".svg", ".html"):
        path = tmp_path / f"run{end}"
        assert ddpquiz("run", script, "--nproc", "1", "--plain", "--save", path).returncode == 0
        text = path.read_text(encoding="utf-8")
        assert "<script" not in text
        assert "<b>" not in text
        assert "{title}" in text.replace("&#160;", " ")


def test_a_file_of_another_kind_is_refused_before_anything_runs(tmp_path):
    ran = ddpquiz("demo", "allreduce", "--save", tmp_path / "run.png")
    assert ran.returncode == 2
    said = re.sub(r"\s+", " ", ran.stderr)
    assert "run.png must end with .json (events), .trace.json (for Perfetto), .svg or .html (pictures)." in said


def test_a_folder_that_is_not_there_is_said_before_anything_runs(tmp_path):
    ran = ddpquiz("demo", "allreduce", "--plain", "--save", tmp_path / "none" / "run.json")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"There is no folder {tmp_path / 'none'} to save the run in.\n"


def test_what_could_not_be_written_leaves_nothing_behind(tmp_path):
    def breaks(file):
        file.write("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match="No space left on device"):
        recording.write(tmp_path / "run.json", breaks)
    assert list(tmp_path.iterdir()) == []


def test_only_the_last_events_of_a_long_run_are_kept():
    recent = recording.Recent(most=10)
    events = run()
    for event in [*events, *events[1:] * 5]:
        recent.add(event)
    assert recent.events[0] == events[0]
    assert len(recent.events) <= 21
    assert recent.events[-1] == events[-1]
