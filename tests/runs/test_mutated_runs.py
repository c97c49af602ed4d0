"""A saved run is foreign data: whatever its file holds, it is shown or refused in a sentence, and steers no terminal."""

import io
import json
import os
from pathlib import Path

import passed
import pytest
from mutated_runs import CONTROL, EVERY_KIND, attack, shown
from rich.segment import Segment, Segments

from ddpquiz.errors import UserError
from ddpquiz.events import saved_run
from ddpquiz.events.event import (
    decode,
    encode,
)
from ddpquiz.events.source_text import MAX_BYTES, read_source, source_line
from ddpquiz.terminal.kit import style

pytestmark = passed.COMMANDS


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
