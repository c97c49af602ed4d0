"""A saved run is foreign data: whatever its file holds, it is shown or refused in a sentence, and steers no terminal."""

import io
import json
import os
from pathlib import Path

import pytest
from mutated_runs import CONTROL, attack, shown
from rich.segment import Segment, Segments

from ddpquiz.errors import UserError
from ddpquiz.events import saved_run
from ddpquiz.events.event import (
    Alive,
    Began,
    Claimed,
    ClaimText,
    Dropped,
    End,
    Ended,
    Exited,
    Hung,
    Issued,
    Joining,
    MemoryPeak,
    Note,
    Operation,
    OptimizerStep,
    Output,
    Raised,
    RankStack,
    Recorded,
    Result,
    Started,
    TensorRead,
    Waited,
    Waiting,
    decode,
    encode,
)
from ddpquiz.events.formatting import MAX_BYTES, read_source, source_line
from ddpquiz.terminal.kit import style

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    dist.barrier()\n'
SUM = Operation("all_reduce", (0, 1), None, ((2,), ()), "float32", 12, "train.py", 7, "0", "sum")
BUCKET = SUM._replace(asynchronous=True, bucket=0, line=8)
EVERY_KIND = [
    Began(
        "train.py",
        ("--lr", "1"),
        2,
        "cpu",
        "gloo",
        "2 ranks on CPU",
        (ClaimText(9, "it holds"),),
        "A title",
        highlighted=("a",),
    ),
    Recorded(0.0, 1, "host", "boot", 5.0, 1.7e9),
    Dropped(0.0, 1, "0", (0, 1), "send", 0, 3),
    Alive(1.0, 1, "train.py", 3),
    *(Started(0.1, rank, 100 + rank) for rank in (0, 1)),
    *(Joining(0.2 + at / 9, rank, done, 3) for rank in (0, 1) for at, done in enumerate((False, True))),
    *(Output(0.4 + at / 99, rank, "stdout", f"a: {at}", "a", f"{at}.5") for at in range(9) for rank in (0, 1)),
    *(Issued(0.5, rank, 1, SUM, ("[1.0, 2.0]",)) for rank in (0, 1)),
    *(Ended(0.6, rank, 1) for rank in (0, 1)),
    *(Result(0.6, rank, 1, ("[2.0, 4.0]",)) for rank in (0, 1)),
    *(Issued(0.7, rank, 2, BUCKET) for rank in (0, 1)),
    Waiting(0.8, 0, 2),
    Waited(0.9, 0, 2, 0.8),
    *(Ended(0.9, rank, 2) for rank in (0, 1)),
    OptimizerStep(1.0, 0, 9),
    TensorRead(1.0, 1, 9, "train.py", "item()", False),
    MemoryPeak(1.0, 1, 0, 1 << 30, 0),
    Issued(1.1, 0, 3, SUM._replace(op="send", peer=1, line=10)),
    Issued(1.2, 1, 3, SUM._replace(op="recv", peer=None, line=11)),
    Ended(1.3, 1, 3, source=0),
    Ended(1.3, 0, 3),
    Claimed(1.4, 0, 9, True),
    Note(1.4, 0, "A note."),
    Output(1.5, 1, "stderr", "an error"),
    Issued(1.6, 0, 4, SUM),
    Raised(1.7, 1, "ValueError", "bad", TRACE),
    Exited(1.8, 1, 1),
    Hung(1.9, 5.0, (RankStack(0, "all_reduce", "train.py", 7, TRACE), RankStack(1, "", "train.py", 9, TRACE))),
    End(2.0, False, 1, 1, 1, "Rank 1 raised ValueError: bad", "Mend it."),
]


@pytest.mark.parametrize(
    "seeds", [range(75), pytest.param(range(75, 1000), marks=pytest.mark.large)], ids=["few", "many"]
)
def test_a_mutated_run_is_shown_or_refused_and_steers_no_terminal(tmp_path, seeds):
    lines = [encode(event).encode() for event in EVERY_KIND]
    wrong, read, _ = attack(lines, tmp_path / "run.json", seeds, limit=30.0)
    assert wrong == []
    assert read > len(seeds) / 5  # not all of them were refused


def test_escape_sequences_in_any_text_of_a_run_are_dropped_on_the_screen_and_escaped_in_json(tmp_path):
    evil, path = json.dumps("\x1b]52;c;aGk=\x07\x9b31m\u202e")[1:-1], tmp_path / "run.json"
    text = "\n".join(map(encode, EVERY_KIND))
    for harmless in ("on CPU", "A title", "it holds", "bad", "an error", "A note", "Mend it", "[1.0, 2.0]", "--lr"):
        assert harmless in text
        text = text.replace(harmless, evil)
    path.write_text(text)
    out = shown(path)
    assert "]52;c;aGk=" in out["plain"]  # the rest of it can be seen
    assert [way for way, text in out.items() if CONTROL.search(text)] == []


def test_a_console_drops_escapes_of_texts_and_leaves_its_own():
    console = style.console(io.StringIO(), width=40)
    console.print(Segments([Segment("a\x1b[2Jb"), Segment("\x1b[K", None, [])]), end="")
    assert console.file.getvalue() == "a[2Jb\x1b[K"


LIMITS = {
    '"rank": 1': '"rank": 1024',
    '"time": 1.8': '"time": 1e400',
    '"status": 1': '"status": true',
    '"number": 3': '"number": -1',
    '"members": [0, 1]': '"members": [0, 0, 1]',
    '"shapes": [[2], []]': '"shapes": [[2], [-1]]',
    '"op": "recv"': '"op": "re\\u001bcv"',
    '"file": "train.py"': '"file": "train\\u0000.py"',
    '"text": "A note."': '"text": "\\ud800"',
    '"since": 0.8': '"since": 5.5',
    '"done": true': '"done": 1',
    '"dtype": "float32"': '"dtype": null',
    '"stack": ""': '"stack": []',
}


@pytest.mark.parametrize("fits", LIMITS)
def test_a_value_that_an_event_cannot_have_is_refused_where_it_is_decoded(fits):
    line = next(line for line in map(encode, EVERY_KIND) if fits in line)
    decode(line)
    with pytest.raises(ValueError, match="`"):
        decode(line.replace(fits, LIMITS[fits]))


@pytest.mark.parametrize(
    "line", ["", "[]", "7", "{}", '{"event": []}', "[" * 100_000, "9" * 10_000, b"\xff", b"\0"], ids=range(9)
)
def test_garbage_on_a_pipe_is_a_value_error(line):
    with pytest.raises(ValueError, match=r"not valid JSON|not an event"):
        decode(line)


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "large", "missing", "nul"])
def test_a_script_that_is_no_file_of_sane_size_is_not_read(tmp_path, kind):
    path = tmp_path / "script.py"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "device":
            path = "/dev/zero"
        case "folder":
            path.mkdir()
        case "large":
            path.write_bytes(b"#" * (MAX_BYTES + 1))
        case "nul":
            path = "a\0b"
    assert read_source(path) is None
    assert source_line(str(path), 1) == ""


def test_a_line_of_a_script_that_was_edited_is_read_again(tmp_path):
    script = tmp_path / "train.py"
    for edit, text in enumerate(("first", "second")):
        script.write_text(text)
        os.utime(script, ns=(edit, edit))
        assert source_line(str(script), 1) == text


def test_a_saved_run_without_line_ends_is_refused_before_it_fills_the_memory():
    with pytest.raises(UserError, match="/dev/zero:1: invalid event: not valid JSON"):
        saved_run.read(Path("/dev/zero"))
