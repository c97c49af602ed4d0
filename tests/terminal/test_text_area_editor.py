"""An explanation that is written in the learner's own editor."""

import resource
import shutil
import signal
import sqlite3
import stat
import sys

import pytest
from run_program import sample
from sample_sittings import explaining, press, saved_explanations, screen, type_text

from ddpquiz.learning.progress import Progress
from ddpquiz.learning.side_files import load_drafts


@pytest.fixture
def editor(tmp_path):
    """A program that appends a sentence to the file that it is given."""
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\ngrep -q "# Why a ring" "$1" && echo "A bottleneck." >> "$1"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def test_an_editor_opens_what_was_written_and_returns_the_explanation(progress, editor, monkeypatch):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor)
    seat = press(type_text(explaining(progress), "Others idle."), "escape", "e")
    assert saved_explanations(progress) == [("ring/why-ring", 0.0, "Others idle.\nA bottleneck.", [False] * 3)]
    assert seat.state.checking


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("", "No editor is set, and none of the usual ones is installed; set EDITOR."),
        ("/no/such --x", "The editor `/no/such --x` cannot be started; set EDITOR to another one."),
        ("false", "The editor `false` ended with status 1, so your text was not read."),
    ],
)
def test_an_editor_that_fails_is_reported_and_nothing_is_lost(progress, monkeypatch, named, said):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", named)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    seat = press(type_text(explaining(progress), "Others"), "escape", "e")
    assert said in " ".join(screen(seat).split())
    assert "> Others_" in screen(seat)
    assert progress.log() == []


def test_an_editor_whose_file_cannot_be_written_leaves_what_was_typed(home, editor):
    terminal = sample(home, "explain", "ring", EDITOR=editor, VISUAL="")
    terminal.wait("Why a ring")
    terminal.press("Others", "> Others_")
    resource.prlimit(terminal.child.pid, resource.RLIMIT_FSIZE, (0, 0))
    shown = terminal.press("\x1be", "The file for the editor cannot be written; free some disk space")
    assert "> Others_" in shown
    terminal.child.kill(signal.SIGKILL)
    assert terminal.end() == -signal.SIGKILL
    with Progress(home) as progress:
        assert progress.log() == []


def test_control_c_in_an_editor_is_for_the_editor(home, tmp_path):
    script = tmp_path / "editor"
    script.write_text(
        f"#!{sys.executable}\nimport signal, sys, time\nhit = []\nsignal.signal(signal.SIGINT, lambda *_: hit.append(1))\n"
        "print('\\nnow editing', flush=True)\nwhile not hit: time.sleep(0.05)\n"
        "time.sleep(1)\nopen(sys.argv[1], 'a').write('others idle')\n"
    )
    script.chmod(stat.S_IRWXU)
    terminal = sample(home, "explain", "ring", EDITOR=str(script), VISUAL="")
    terminal.wait("Why a ring")
    terminal.press("\x1be", "now editing")
    terminal.press("\x03", "You ticked 0 of 3 points")
    terminal.press("\x03")  # without the editor, the key ends the sitting
    assert terminal.end() == 130


def test_before_an_editor_opens_that_nobody_chose_its_name_and_how_to_leave_it_are_said(home, editor, tmp_path):
    for name in ("nano", "vim"):
        (tmp_path / name).symlink_to(editor)
    terminal = sample(home, "explain", "ring", EDITOR="", VISUAL="", PATH=f"{tmp_path}:/bin:/usr/bin")
    terminal.wait("Why a ring")
    terminal.press(
        "\x1be", r"^nano opens. Ctrl\+o and enter save, ctrl\+x leaves\.$", "set EDITOR. Press enter to open"
    )
    terminal.press("\x03", "^stopped")
    assert "\x1b[2A\r\x1b[J" in terminal.raw
    terminal.press("\x1be", "set EDITOR. Press enter to open")
    terminal.press("\r", "You ticked 0 of 3 points")
    terminal.press("q")
    assert terminal.end() == 0
    assert "\x1b[3A\r\x1b[J" in terminal.raw  # nothing of that is left on the screen of the shell


def test_an_editor_that_the_learner_chose_opens_at_once(home, editor, tmp_path):
    (tmp_path / "vim").symlink_to(editor)
    terminal = sample(home, "explain", "ring", EDITOR=str(tmp_path / "vim"), VISUAL="")
    terminal.wait("Why a ring")
    terminal.press("\x1be", "You ticked 0 of 3 points")
    terminal.press("q")
    assert terminal.end() == 0
    assert (
        "vim opens. Press i to type; esc, then :wq and enter, saves and leaves.\r\nTo use another editor, set EDITOR."
        in terminal.raw
    )
    assert "\x1b[2A\r\x1b[J" in terminal.raw


def test_what_was_written_in_an_editor_is_saved_when_it_cannot_be_graded(home, editor):
    with Progress(home) as progress, sqlite3.connect(progress.path) as database:
        fault = "BEGIN SELECT raise(ABORT, 'no'); END"
        database.execute(f"CREATE TRIGGER broken BEFORE INSERT ON log {fault}")
    sample(home, "explain", "ring", "--editor", EDITOR=editor, VISUAL="").end()
    assert load_drafts(home) == {"ring/why-ring": "A bottleneck."}


def test_the_editor_opens_by_itself_when_asked_for(home, editor):
    terminal = sample(home, "explain", "ring", "--editor", EDITOR=editor, VISUAL="")
    terminal.wait("You ticked 0 of 3 points")
    terminal.press("q")
    assert terminal.end() == 0
