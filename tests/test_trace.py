"""Runs in the Trace Event Format, and as pictures: what a viewer needs is there, and nothing comes from a network."""

import dataclasses
import io
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from test_timeline import Rank

from ddpquiz.analysis import saved_run, trace
from ddpquiz.analysis.events import Began, Claimed, ClaimText, End, Ended, Exited, Issued, Note, Output, Result, Started
from ddpquiz.analysis.operation import Operation
from ddpquiz.analysis.recent_events import RecentEvents
from ddpquiz.analysis.timeline import Timeline
from ddpquiz.errors import UserError
from ddpquiz.paths import recordings_dir

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
    """Return what is wrong with a trace by the format, and by how Perfetto reads it."""
    wrong, owners, named = [], {}, set()
    if set(told) - {"displayTimeUnit", "traceEvents"} or told["displayTimeUnit"] not in ("ms", "ns"):
        wrong.append("the object itself")
    for event in told["traceEvents"]:
        must, may = PHASES.get(event["ph"], ({}, {}))
        known = must | may
        if not must or must.keys() - event.keys() or event.keys() - known.keys():
            wrong.append(f"fields of {event}")
            continue
        wrong += [f"{name} of {event}" for name, value in event.items() if not isinstance(value, known[name])]
        pid, tid = event["pid"], event["tid"]
        if pid <= 0 or tid <= 0:  # process 0 and thread 0 are the kernel's
            wrong.append(f"kernel's place of {event}")
        if {owners.setdefault(each, pid) for each in (pid, tid)} != {pid}:  # all threads are numbered together
            wrong.append(f"another's place of {event}")
        match event["ph"]:
            case "X" if event["dur"] < 0 or event["ts"] < 0:
                wrong.append(f"times of {event}")
            case "i" if event["s"] not in ("g", "p", "t"):
                wrong.append(f"scope of {event}")
            case "C" if not all(isinstance(value, NUMBER) for value in event["args"].values()):
                wrong.append(f"value of {event}")
            case "C" if list(event["args"]) != [""]:  # a curve is called by its name and what stands here
                wrong.append(f"double name of {event}")
            case "M":
                key, kind = METADATA[event["name"]]
                if not isinstance(event["args"].get(key), kind):
                    wrong.append(f"args of {event}")
                named.add((event["name"], pid if event["name"] == "process_name" else tid))
    for event in told["traceEvents"]:
        if not {("process_name", event["pid"]), ("thread_name", event["tid"])} <= named:
            wrong.append(f"no name of {event}")
    return wrong + read(told["traceEvents"])[1]


def read(events):
    """Return the arrows of a trace as Perfetto finds them, and what it cannot place.

    Events come in order of time, at the same time in that of the file. A slice is put into those of its row that last
    longer. Each end of an arrow goes to the slice of its row that began last, if at all, and is returned as the slices
    that it is in, from the outermost.
    """
    arrows, wrong, rows, starts = [], [], {}, {}
    for event in sorted((event for event in events if event["ph"] in "Xisf"), key=lambda event: event["ts"]):
        row, at = rows.setdefault(event["tid"], []), nanoseconds(event["ts"])
        if event["ph"] in "Xi":
            while row and ended(row[-1]) <= at:
                row.pop()
            if row and ended(row[-1]) < ended(event):
                wrong.append(f"overlap of {row[-1]} and {event}")
            row.append(event)
            continue
        key = event["cat"], event["name"], event["id"]
        if not row or at >= ended(row[-1]):
            wrong.append(f"no slice around {event}")
        elif event["ph"] == "s" and starts.setdefault(key, row[:]) != row:
            wrong.append(f"second start of {event}")
        elif event["ph"] == "f":
            if event["bp"] != "e" or key not in starts:
                wrong.append(f"no start of {event}")
            elif starts[key][-1]["ts"] > row[-1]["ts"]:
                wrong.append(f"turned round: {event}")
            arrows.append((starts.pop(key, []), row[:]))
    return arrows, wrong + [f"no finish of {key}" for key in starts]


def nanoseconds(time):
    return round(time * 1000)


def ended(event):
    return nanoseconds(event["ts"]) + nanoseconds(event.get("dur", 0))


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


def of(*ranks, device="cpu"):
    """Return the trace events of a run of these ranks."""
    between = sorted((event for rank in ranks for event in rank.events), key=lambda event: event.time)
    run = [Began("train.py", (), len(ranks), device, "gloo", ""), *between, End(20, True, 0, 0)]
    assert complaints(told(run)) == []
    return told(run)["traceEvents"]


def test_a_trace_is_what_the_format_asks_for():
    assert complaints(told(run())) == []


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
    events = told(run())["traceEvents"]
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
    events = told(run())["traceEvents"]
    where = places(events)
    rows = {
        each["name"]: each["tid"]
        for each in events
        if each["ph"] == "X" and where[each["tid"]] == ("rank 0", "operations")
    }
    assert rows["all_reduce"] == rows["all_gather"] != rows["barrier"]


def test_an_arrow_leads_from_the_last_to_enter_to_what_is_left_for_who_was_held_up():
    assert drawn(told(run())["traceEvents"]) == [
        ((4, "rank 1", "all_reduce"), (4, "rank 0", "all_reduce/communication")),
        ((6, "rank 1", "all_gather"), (6, "rank 0", "all_gather")),
        ((6.5, "rank 1", "barrier"), (6.5, "rank 0", "barrier")),
    ]


def test_no_arrow_leads_to_who_left_before_the_last_one_came_or_to_nobody():
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
        ((1, None), (3, 4), (3, "send/communication"), (3, "recv")),  # nobody waits for it
    ],
)
def test_an_arrow_leads_from_a_send_to_its_receive_whoever_came_first(sent, received, begin, end):
    sender, receiver = Rank(0), Rank(1)
    sender.issue("send", sent[0], peer=1)
    if sent[1]:
        sender.end(sent[1])
    receiver.sync("recv", *received, peer=0)
    assert drawn(of(sender, receiver)) == [((begin[0], "rank 0", begin[1]), (end[0], "rank 1", end[1]))]


def test_a_node_without_rank_0_says_on_it_what_is_said_of_the_run():
    began = Began("train.py", (), 4, "cpu", "gloo", "", here=(2, 3))
    events = told(
        [began, Note(0, 0, "a note"), *Rank(2, 4).sync("barrier", 1, 2).events, End(3, False, 0, 0, None, "why")]
    )
    assert complaints(events) == []
    assert {name for name, _ in places(events["traceEvents"]).values()} == {"rank 0", "rank 2", "rank 3"}


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
    trace.write([run()[0], Output(1, 0, "stdout", "größer 数 🙂"), End(2, True, 0, 0)], file)
    assert '"größer 数 🙂"' in file.getvalue()
    assert complaints(json.loads(file.getvalue())) == []


def test_what_is_said_stands_at_its_time_and_numbers_make_a_curve():
    events = told(run())["traceEvents"]
    assert {"loss: 0.5", "state: nan", "claim holds: it holds"} <= {
        each["name"] for each in events if each["ph"] == "i"
    }
    curve = [(each["name"], each["args"]) for each in events if each["ph"] == "C"]
    assert curve == [("loss", {"": 0.5})]  # JSON has no nan


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
            assert saved_run.read(path) == saved_run.read(recordings_dir() / "allreduce.json")
        case ".trace.json":
            assert complaints(json.loads(text)) == []
        case ".svg":
            assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
            assert "bytes&#160;sent&#160;(ring)" in text
            assert text.count("every rank brings") + text.count("every&#160;rank&#160;brings") == 2  # as name and text
            assert "<circle" not in text, "no window around it"
            assert not re.search(r"url\((?!#)|@import|@font-face|href=\"(?!#)|<script", text)
        case ".html":
            assert "bytes sent (ring)" in text
            assert Links(text).found == []
            assert not re.search(r"url\(|@import|@font-face", text)


@pytest.mark.parametrize("end", [".json", ".trace.json", ".svg", ".html"])
def test_a_live_run_is_saved_by_the_end_of_its_name(tmp_path, end):
    script, path = tmp_path / "two.py", tmp_path / f"run{end}"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\nx = torch.ones(2)\ndist.all_reduce(x)\nprint(f'sum: {x.tolist()}')\n"
    )
    ran = ddpquiz("run", "--nproc", "2", "--plain", "--save", path, script)
    assert ran.returncode == 0, ran.stderr
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(["two.py", path.name])
    text = path.read_text(encoding="utf-8")
    assert "[2.0, 2.0]" in text.replace("&#160;", " ")
    if end == ".json":
        assert saved_run.read(path)[-1].ok
    elif end == ".trace.json":
        assert complaints(json.loads(text)) == []


def test_text_of_a_script_does_not_become_part_of_a_picture(tmp_path):
    script = tmp_path / "evil.py"
    script.write_text('"""A {title} <b>bold</b>."""\nprint("state: <script>alert(1)</script>")\n')
    for end in (".svg", ".html"):
        path = tmp_path / f"run{end}"
        assert ddpquiz("run", "--nproc", "1", "--plain", "--save", path, script).returncode == 0
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
    assert ran.stderr == f"The folder {tmp_path / 'none'} does not exist, so the run cannot be saved in it.\n"


def test_what_could_not_be_written_leaves_nothing_behind(tmp_path):
    def breaks(file):
        file.write("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match="No space left on device"):
        saved_run.write(tmp_path / "run.json", breaks)
    assert list(tmp_path.iterdir()) == []


def test_only_the_last_events_of_a_long_run_are_kept():
    recent = RecentEvents(limit=10)
    events = run()
    for event in [*events, *events[1:] * 5]:
        recent.add(event)
    assert recent.events[0] == events[0]
    assert len(recent.events) <= 21
    assert recent.events[-1] == events[-1]


def test_what_is_kept_of_a_long_run_holds_no_call_without_its_partners():
    """However the cut falls: else the k-th call of a rank would be taken for the (k+1)-th of another one."""
    whole = [Began("two.py", (), 2, "cpu", "gloo", "2 ranks")]
    for number in range(1, 101):
        op = "all_reduce" if number % 2 else "broadcast"
        calls = [
            Issued(
                number + 0.1 * rank,
                rank,
                number,
                Operation(op, (0, 1), None, ((),), "float32", 4, "two.py", number % 2 + 1),
            )
            for rank in (0, 1)
        ]
        whole += [*calls, *(Ended(number + 0.5, rank, number) for rank in (0, 1))]
    for most in range(10, 30):
        recent, timeline = RecentEvents(most), Timeline()
        for event in whole:
            recent.add(event)
        for event in recent.events:
            timeline.add(event)
        assert (timeline.current(), timeline.mismatches) == ([], [])
        assert timeline.count >= most // 4 - 1
