"""Runs that are kept in a file and played again, without ranks and without torch."""

import ast
import io
import os
import re
import subprocess
import sys
from unittest.mock import Mock

import pyte
import pytest
from run_program import ddpquiz

from ddpquiz.diagnosis.event_diagnosis import diagnose
from ddpquiz.errors import UserError
from ddpquiz.events import saved_run
from ddpquiz.events.event import Began, End, Ended, Issued, Note, Output, Result, encode
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_steps import EventCursor, beginnings, steps
from ddpquiz.paths import demos_dir, recordings_dir
from ddpquiz.ranks.claims import find_claims
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.kit.screen import Screen
from ddpquiz.terminal.runs import plain_lines, replay
from ddpquiz.terminal.runs.frame import Hint

NEW = re.compile(r"\*(?=\S)")  # before a value that has changed
DEMOS = sorted(path.stem for path in demos_dir().glob("*.py"))
BEGAN = Began("demo.py", (), 1, "cpu", "gloo", "1 rank on CPU over Gloo")
EVENTS = (
    BEGAN,
    Output(0.1, 0, "stdout", "a: 1", "a", "1"),
    Issued(0.2, 0, 1, Operation("all_reduce", (0,), None, ((),), "float32", 4, "demo.py", 3), ("1.0",)),
    Result(0.3, 0, 1, ("2.0",)),
    Issued(0.4, 0, 2, Operation("barrier", (0,), None, (), "", 0, "demo.py", 4)),
    End(0.5, True, 0, 0),
)


def test_a_run_is_read_as_it_was_saved(tmp_path):
    path = tmp_path / "run.json"
    saved_run.save(EVENTS, path)
    assert saved_run.read(path) == EVENTS
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


def test_events_are_played_in_the_order_in_which_they_happened(tmp_path):
    path = tmp_path / "run.json"
    saved_run.save([*EVENTS[:1], *EVENTS[4:0:-1], EVENTS[5]], path)
    assert saved_run.read(path) == EVENTS


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\r"])
def test_output_may_hold_whatever_ends_a_line_elsewhere(tmp_path, mark):
    said = Output(0.5, 0, "stdout", f"one{mark}two")
    saved_run.save([EVENTS[0], said, EVENTS[-1]], tmp_path / "run.json")
    assert said in saved_run.read(tmp_path / "run.json")


END = encode(EVENTS[-1])
INCOMPLETE = "{} is incomplete: a saved run begins with a `run` event and finishes with an `end` event."
FAULTS = {
    "": INCOMPLETE,
    encode(BEGAN) + "\n": INCOMPLETE,
    "7\n": "{}:1: invalid event: not an event of a kind that ddpquiz knows.",
    "nonsense\n": "{}:1: invalid event: not valid JSON (column 1).",
    "\udcff": "{}:1: invalid event: not valid JSON.",
    encode(BEGAN) + '\n{"event": "surprise"}\n': "{}:2: invalid event: not an event of a kind that ddpquiz knows.",
    END: "{}:1: invalid event: the first event must be a `run` event.",
    f"{encode(BEGAN)}\n{encode(BEGAN)}\n{END}": "{}:2: invalid event: it is a second `run` event.",
    f"{encode(BEGAN)}\n{END}\n{END}": "{}:3: invalid event: it stands after the `end` event.",
    encode(BEGAN).replace('"version": 2', '"version": 9') + "\n" + END: (
        "{} holds events of version 9; ddpquiz reads versions up to 2."
    ),
    encode(BEGAN).replace('"ranks": 1', '"ranks": 1000000') + "\n" + END: (
        "{}:1: invalid event: `ranks` must be a whole number from 1 to 1,024."
    ),
    f"{encode(BEGAN)}\n{END.replace('0.5', 'NaN')}": "{}:2: invalid event: `time` must be a number from 0 to 100,000,000.",
    f"{encode(BEGAN)}\n{END.replace('true', '1')}": "{}:2: invalid event: `ok` must be true or false.",
    f"{encode(BEGAN)}\n{END.replace('proven', 'proved')}": (
        "{}:2: invalid event: it has a field that events of this kind do not have."
    ),
    f"{encode(BEGAN)}\n{encode(Ended(0.1, 3, 1))}\n{END}": (
        "{}:2: invalid event: it names a rank that does not exist in a run of 1."
    ),
}


@pytest.mark.parametrize("text", FAULTS, ids=range(len(FAULTS)))
def test_a_file_that_is_no_run_is_refused(tmp_path, text):
    path = tmp_path / "run.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError) as refused:
        saved_run.read(path)
    assert str(refused.value) == FAULTS[text].format(path)


def test_a_file_that_is_not_there_or_cannot_be_written_is_said(tmp_path):
    with pytest.raises(UserError, match="There is no saved run"):
        saved_run.read(tmp_path / "none.json")
    with pytest.raises(UserError, match="the run was not saved"):
        saved_run.save(EVENTS, tmp_path / "none" / "run.json")


def test_a_step_ends_before_each_operation_and_the_last_one_at_the_end():
    assert steps(EVENTS) == [2, 4, 6]
    after_one = EventCursor(EVENTS).seek(4)
    assert (after_one.last_call[0].before, after_one.last_result[0]) == (("1.0",), ("2.0",))
    assert EventCursor(EVENTS).seek(3).last_result == {}


def test_an_operation_begins_before_its_first_call():
    calls = [
        Issued(0.1 * at, at % 2, 1 + at // 2, Operation("all_reduce", (0, 1), None, ((),), "float32", 4, "demo.py", 3))
        for at in range(6)
    ]
    events = [Began("demo.py", (), 2, "cpu", "gloo", "2 ranks"), *calls, End(0.9, True, 0, 0)]
    stops = steps(events)
    assert beginnings(events, stops) == [0, 2, 4, 6]
    assert len(stops) == 7


def test_what_comes_next_is_said_in_one_line_and_whole():
    events = saved_run.read(recordings_dir() / "collectives.json")
    stops = steps(events)
    lines = [replay.next_step(events, stops, at, 80) for at in range(len(stops))]
    assert max(line.cell_len for line in lines) <= 80
    assert any("all_to_all_single" in line.plain for line in lines)


def test_a_cursor_that_is_wound_back_shows_what_it_showed_before():
    cursor = EventCursor(
        [BEGAN, *(Output(at / 1000, 0, "stdout", f"step: {at}", "step", str(at)) for at in range(3500))]
    )
    there = [cursor.seek(to).rows["step"][0][-1] for to in (10, 3000, 2500, 1001, 999, 11)]
    assert there == ["8", "2998", "2498", "999", "997", "9"]
    assert len(cursor.seek(12).log[0]) == 11


def test_a_saved_run_prints_as_plain_lines():
    console = style.console(io.StringIO(), width=60)
    plain_lines.print_saved(EVENTS, console)
    assert console.file.getvalue().splitlines() == ["1 rank on CPU over Gloo", "rank 0  a: 1", "done in 0.50 s"]


@pytest.mark.parametrize("name", DEMOS)
def test_every_demo_has_a_saved_run_of_its_present_text(name):
    events = saved_run.read(recordings_dir() / f"{name}.json")
    began, end = events[0], events[-1]
    assert (began.ranks, began.script) == (4, f"demos/{name}.py")
    assert end.ok
    assert began.claims == find_claims(ast.parse((demos_dir() / f"{name}.py").read_text())), (
        f"record it again: ddpquiz demo {name} --nproc 4 --plain --save ddpquiz/recordings/{name}.json"
    )
    verdict = diagnose(
        EventCursor(events).seek(len(events))
    )  # a demo that shows a fault on purpose is recorded with its diagnosis
    said = any(verdict.sentence in event.text for event in events if isinstance(event, Note))
    assert said == (verdict.fault != "none")
    files = {event.operation.file for event in events if isinstance(event, Issued)}
    assert not any(map(os.path.isabs, files)), f'sed -i "s|$PWD/||g" ddpquiz/recordings/{name}.json'


def test_a_replay_needs_no_torch(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-m", "ddpquiz", "demo", "--replay", "allreduce"],
        capture_output=True,
        text=True,
        timeout=60,
        env=env,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "rank 3  bytes sent (ring): 24" in ran.stdout


def test_a_run_is_stepped_forward_and_back_in_a_terminal():
    terminal = ddpquiz("demo", "--replay", "allreduce")
    terminal.wait("call 0 of")
    last = len(steps(saved_run.read(recordings_dir() / "allreduce.json"))) - 1
    terminal.press("\x1b[F", f"call {last} of {last}")  # end
    assert "calls send" in terminal.press("\x1b[H", "call 0 of")  # home
    terminal.press("\x1b[C", "call 1 of")
    terminal.press("\x1b[D", "call 0 of")
    assert re.search("calls (send|recv)", terminal.press("n", "call 1 of"))
    terminal.press("N", "call 0 of")
    terminal.press("\r", "call 1 of")
    terminal.press("\x1b[F", f"call {last} of {last}")
    terminal.press("\r")  # at the end it leaves
    assert terminal.end() == 0


def test_a_demo_can_be_saved_and_played(tmp_path):
    path = tmp_path / "run.json"
    command = [sys.executable, "-m", "ddpquiz", "demo", "collectives", "--nproc", "2", "--plain", "--save", str(path)]
    saved = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert saved.returncode == 0, saved.stderr
    assert saved_run.read(path)[-1].ok


class Walk(replay.ReplayScreen):
    """Goes through a run with the key `right`, and notes what a terminal shows after each call."""

    def __init__(self, events, size, hint=None, key="right"):
        self.key = key
        self.console = style.console(io.StringIO(), width=size[0], height=size[1], force_terminal=True)
        super().__init__(events, Screen(self.console), hint=hint)
        self.terminal = pyte.Screen(*size)
        self.stream = pyte.Stream(self.terminal)
        self.frames = []

    def wait(self, _):
        self.stream.feed(self.console.file.getvalue())
        self.console.file.seek(0)
        self.console.file.truncate()
        self.frames.append("\n".join(self.terminal.display))
        return "q" if len(self.frames) == len(steps(self._cursor.events)) - 1 or self.state.end else self.key


def walked(events, size, hint=None, key="right"):
    walk, keys = Walk(events, size, hint, key), Mock()
    keys.waiting.return_value = False
    walk.loop(walk.screen, keys)
    return walk.frames


@pytest.mark.parametrize("size", [(80, 24), (60, 18)], ids=str)
@pytest.mark.parametrize("hint", [None, Hint("the numbers in brackets: " * 8, place="3 of 6: demo")], ids=["", "hint"])
def test_what_changed_is_on_the_screen_after_every_call(size, hint):
    events = saved_run.read(recordings_dir() / "allreduce.json")
    everything = [NEW.findall(frame) for frame in walked(events, (size[0], 80))]
    small = [NEW.findall(frame) for frame in walked(events, size, hint)]
    assert len(everything) == len(small) > 50
    assert sum(map(bool, everything)) > 15
    assert [bool(frame) for frame in small] == [bool(frame) for frame in everything]


def test_the_next_operation_marks_all_that_changed_since_the_one_before():
    operation = Operation("all_reduce", (0, 1), None, ((),), "float32", 4, "demo.py", 3)
    events = [
        Began("demo.py", (), 2, "cpu", "gloo", "2 ranks"),
        Issued(0.1, 0, 1, operation),
        Output(0.2, 0, "stdout", "early: 1", "early", "1"),
        Issued(0.3, 1, 1, operation),
        Output(0.4, 1, "stdout", "late: 2", "late", "2"),
        Issued(0.5, 0, 2, operation),
        End(0.9, True, 0, 0),
    ]
    by_operation = walked(events, (80, 24), key="n")
    by_call = walked(events, (80, 24))
    assert [re.findall(r"\*(\d)", frame) for frame in by_operation] == [[], ["1", "2"], []]
    assert [re.findall(r"\*(\d)", frame) for frame in by_call] == [[], ["1"], ["2"]]


def test_what_to_look_at_takes_one_line_where_there_is_little_room():
    events = saved_run.read(recordings_dir() / "allreduce.json")
    hint = Hint("the numbers in brackets: " * 8, place="3 of 6: demo")
    first, *_, last = walked(events, (80, 24), hint)
    assert first.count("brackets") == 8
    assert last.splitlines()[0].startswith("3 of 6: demo · All-reduce: every rank brings")
    assert last.splitlines()[1].endswith("…")
    assert walked(events, (80, 40), hint)[-1].count("brackets") == 8
