"""Explaining at the keyboard, as text on screens and from end to end."""

import errno
import io
import json
import os
import re
import resource
import signal
import sqlite3
import stat
import sys
from dataclasses import replace

import pytest
from program import LEAVE_SCREEN, SAMPLE, Terminal, environment, piped, sample
from sample import WHY_RING
from seats import explaining, press, screen, spoken

from ddpquiz.errors import UserError
from ddpquiz.learning import side_files
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.side_files import load_drafts, save_drafts
from ddpquiz.terminal.kit import style

OTHER = replace(WHY_RING, id="other", ask="And once more?")


def type_(seat, text):
    return press(seat, *({" ": "space", "\n": "enter"}.get(letter, letter) for letter in text))


def kept(progress):
    rows = progress.entries("explanation")
    return [(row.item, row.credit, row.given, [p["overruled"] for p in json.loads(row.points)]) for row in rows]


def test_what_is_written_stands_above_the_keys(progress):
    seat = type_(explaining(progress), "The root is a bottleneck.\nq?u1")
    assert screen(seat) == (
        """\
Explain 1/1 · ring

Why a ring, and not a root?
in your own words; ctrl+d, or enter on an empty line, ends it

> The root is a bottleneck.
  q?u1_
ctrl+d check · esc: h hint · e editor · s skip · d demo · ? help · q quit"""
    )


def test_points_are_ticked_by_their_words_beside_a_model_answer_and_the_learner_changes_ticks(progress):
    seat = type_(explaining(progress), "The root is a bottleneck.\nOther links do not idle.\n\n")
    assert screen(seat) == (
        """\
Explain 1/1 · ring

Why a ring, and not a root?

  The root is a bottleneck.
  Other links do not idle.

A model answer
  A root sends and receives everything.

You made 2 of 3 points.
A tick means that one of the point's words occurs in your text. You decide: a
number changes a tick.

✓ 1  the root's link is the bottleneck
     found: bottleneck
✓ 2  the other links idle meanwhile
     found: idle
✗ 3  each rank sends less than two tensors
     not found: 2(N-1)/N, two tensors

enter confirm · 1-3 tick · u undo · d demo · f flag · ? help · q quit"""
    )
    text = "The root is a bottleneck.\nOther links do not idle."
    assert kept(progress) == [("ring/why-ring", pytest.approx(2 / 3), text, [False, False, False])]
    assert "✗ 2  the other links idle meanwhile\n     changed by you\n" in screen(press(seat, "2"))
    assert kept(progress) == [("ring/why-ring", pytest.approx(1 / 3), text, [False, True, False])]
    press(seat, "2", "1", "4", "0")
    assert kept(progress) == [("ring/why-ring", pytest.approx(1 / 3), text, [True, False, False])]
    assert [row.kind for row in progress.log()] == ["explanation", *["undo", "explanation"] * 3]


def test_the_keys_that_grade_are_named_when_they_do(progress):
    seat = explaining(progress)
    assert "\nctrl+d check · esc: h hint" in screen(press(seat, "A", "enter", "b"))
    assert "\nctrl+d/enter check · esc: h hint" in screen(press(seat, "enter"))
    assert press(seat, "enter").state.checking


def test_a_paste_is_text_to_its_end_and_no_key_of_it_acts(progress):
    seat = press(explaining(progress), "paste:A bottleneck.\n\nq others idle\n")
    assert not seat.state.checking
    assert seat.text == "A bottleneck.\n\nq others idle\n"
    assert press(seat, "escape", "paste:s").text.endswith("\ns")
    assert press(seat, "backspace", "enter").state.explanation.made == 2
    before = screen(seat)
    press(seat, "paste:q123\n")
    assert screen(seat) == before
    assert not seat.left


def test_of_a_long_text_the_end_stays_in_sight(progress):
    seat = press(explaining(progress), "paste:" + "\n".join(f"line {number} " + "word " * 40 for number in range(9)))
    *_, above, first, second, third, fourth, fifth, last, keys = screen(seat).splitlines()
    assert above == ""
    assert first.startswith("> line 7 word")
    assert [line[:2] for line in (second, third, fourth, fifth, last)] == ["  "] * 5
    assert fourth.startswith("  line 8 word")
    assert last.endswith(" word _")
    assert keys.startswith("ctrl+d check")


def test_an_objection_that_cannot_be_kept_takes_no_explanation_along(progress):
    seat = type_(explaining(progress), "A bottleneck\n\n")
    full = "BEFORE INSERT ON log WHEN new.kind = 'explanation' BEGIN SELECT raise(ABORT, 'full'); END"
    progress._database.execute(f"CREATE TEMP TRIGGER full {full}")  # an undo is smaller, and may still be written
    with pytest.raises(sqlite3.IntegrityError, match="full"):
        press(seat, "2")
    assert kept(progress) == [("ring/why-ring", pytest.approx(1 / 3), "A bottleneck", [False] * 3)]


def test_undo_goes_back_to_the_text_to_write_on(progress):
    seat = type_(explaining(progress), "A bottleneck\n\n")
    assert "> A bottleneck_" in screen(press(seat, "u"))
    assert kept(progress) == []
    type_(seat, ", others idle")
    press(seat, "ctrl+d", "enter")
    assert screen(seat) == (
        """\
Done: you made 2 of 3 points.

Left out
  • each rank sends less than two tensors

Next
  ddpquiz learn ring  read about it
  ddpquiz test ring   find out how strong you are

enter leave · u undo · ? help"""
    )
    assert "> A bottleneck, others idle_" in screen(press(seat, "u"))


def test_what_was_begun_and_left_for_another_prompt_is_there_again_and_is_kept(progress):
    seat = press(type_(explaining(progress, WHY_RING, OTHER, drafts={"ring/other": "old"}), "begun"), "escape", "s")
    assert "> old_" in screen(seat)
    assert seat.begun == {"ring/why-ring": "begun", "ring/other": "old"}
    assert "> begun_" in screen(press(seat, "escape", "u"))
    assert seat.note == "What you began to write is here again."
    press(type_(seat, " idle\n\n"), "enter")
    assert "> old and more_" in screen(type_(seat, " and more"))
    assert "> begun idle_" in screen(press(seat, "escape", "u"))  # back to the one before, to write on
    assert seat.begun == {"ring/why-ring": "begun idle", "ring/other": "old and more"}
    assert "> old and more_" in screen(press(seat, "ctrl+d", "enter"))
    press(seat, *["backspace"] * 12, "escape", "s")
    assert seat.begun == {"ring/why-ring": "", "ring/other": ""}


def test_where_lines_are_read_what_was_begun_before_is_shown(progress):
    text = spoken(explaining(progress, drafts={"ring/why-ring": "The bottleneck"}), "others idle", "")
    shown, judged = text.split("You made 2 of 3 points.")
    assert "  The bottleneck\n" in shown
    assert shown.count("What you began to write the last time is here again.") == 1
    assert "here again" not in judged


def test_commands_come_after_escape_and_letters_are_text_else(progress):
    seat = press(explaining(progress, WHY_RING, OTHER), "escape", "h")
    assert "Hint  Count the bytes on the busiest link.\n" in screen(seat)
    assert "h hint" not in screen(seat)
    press(seat, "x", "escape", "d")
    assert seat.desk.actions.started == ["allreduce"]
    assert "> x_" in screen(seat)
    assert "Explain 2/2" in screen(press(seat, "escape", "s"))
    assert "Explain 1/2" in screen(press(seat, "escape", "u"))
    assert press(seat, "escape", "q").left


def test_an_empty_text_is_no_explanation(progress):
    assert "Write a sentence or two first; esc s skips." in screen(press(explaining(progress), "enter"))
    assert progress.log() == []


def test_the_line_is_edited_at_its_end(progress):
    seat = type_(explaining(progress), "one\ntwo")
    assert press(seat, "backspace").text == "one\ntw"
    assert press(seat, "ctrl+u").text == "one\n"
    assert press(seat, "ctrl+u").text == "one"
    assert press(seat, "up", "tab", "ctrl+a").text == "one "


def test_the_cursor_moves_in_the_text_and_keys_act_where_it_stands(progress):
    seat = type_(explaining(progress), "one\ntwo")
    assert type_(press(seat, "left", "left"), "x").text == "one\ntxwo"
    assert press(seat, "delete").text == "one\ntxo"
    assert press(seat, "backspace").text == "one\nto"
    assert type_(press(seat, "home"), "a").text == "one\nato"
    assert type_(press(seat, "end"), "b").text == "one\natob"
    assert type_(press(seat, "up"), "c").text == "onec\natob"
    assert press(seat, "ctrl+a", "paste:d\ne").text == "d\neonec\natob"
    assert press(seat, "ctrl+u").text == "d\nonec\natob"
    assert press(seat, "ctrl+u", "ctrl+u", "ctrl+u").text == "onec\natob"
    assert (
        press(seat, "left", "up", "backspace", "ctrl+e", "down", "down", "end", "right", "delete").text == "onec\natob"
    )
    press(seat, "up", "home", "enter", "up")  # an empty line above text does not end it
    assert press(seat, "enter").text == "\n\nonec\natob"
    assert not seat.state.checking
    assert press(seat, "ctrl+d").state.checking


def test_up_and_down_move_by_the_rows_that_are_seen(progress):
    seat = explaining(progress)
    seat.foot(23)  # the text has 20 columns
    press(seat, "paste:aaaa bbbb cccc dddd eeee ffff gggg hhhh\nij")
    assert type_(press(seat, "up"), "X").text == "aaaa bbbb cccc dddd eeXee ffff gggg hhhh\nij"
    assert type_(press(seat, "up"), "Y").text == "aaaYa bbbb cccc dddd eeXee ffff gggg hhhh\nij"
    assert type_(press(seat, "down", "down"), "Z").text.endswith("\nijZ")


def test_of_a_long_text_the_rows_around_the_cursor_are_seen(progress):
    seat = press(explaining(progress), "paste:" + "\n".join(f"line {number}" for number in range(9)))
    assert "\n\n> line 3\n" in screen(seat)
    press(seat, *["up"] * 6)
    assert "\n\n> line 0\n  line 1\n  line 2_\n  line 3\n  line 4\n  line 5\nctrl+d" in screen(seat)
    assert "\n\n> line 1\n  line 2\n  line 3\n" in screen(press(seat, "down", "left"))


@pytest.mark.parametrize("width", [40, 60])
def test_long_lines_are_folded(progress, width):
    seat = type_(explaining(progress), "word " * 30)
    assert max(map(len, screen(seat, width).splitlines())) <= width
    seat = type_(seat, "\n\n")
    assert max(map(len, screen(seat, width).splitlines())) <= width


def test_where_lines_are_read_an_empty_one_ends_the_text(progress):
    seat = explaining(progress, WHY_RING, OTHER)
    text = spoken(seat, ":h", "A bottleneck", "others idle", "", "3", "", ":s")
    assert "Count the bytes on the busiest link.\n" in text
    assert "You made 2 of 3 points.\n" in text
    assert "You made 3 of 3 points.\n" in text
    assert kept(progress) == [("ring/why-ring", 1.0, "A bottleneck\nothers idle", [False, False, True])]
    assert seat.over
    console = style.console(io.StringIO(), width=80)
    explaining(progress).read(console, ["a"], asked=True)
    assert "empty line check · :h hint · :e editor" in console.file.getvalue()


def test_a_word_is_mended_in_a_terminal_with_the_keys_that_move(home):
    terminal = sample(home, "explain", "ring", NO_COLOR="1")
    terminal.wait("Why a ring")
    terminal.press("Te bottleneck\rothrs idle", "othrs idle_")
    up, down, right, left, start, end, delete = (f"\x1b[{code}" for code in ("A", "B", "C", "D", "H", "F", "3~"))
    terminal.press(f"{start}{up}{right}h", "> The bottleneck\n  othrs idle$")
    (row,) = (y for y, line in enumerate(terminal.screen.display) if "The bottleneck" in line)
    assert [x for x in range(80) if terminal.screen.buffer[row][x].reverse] == [4]  # the cursor is on the e
    terminal.press(f"{down}{right}ex", "  othexrs idle$")
    terminal.press(f"{left}{delete}", "  others idle$")
    terminal.press(f"{end}x", "  others idlex_")
    terminal.press("\x7f\x04", "You made 2 of 3 points")
    terminal.press("q")
    assert terminal.end() == 0


@pytest.fixture
def editor(tmp_path):
    """A program that appends a sentence to the file that it is given."""
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\ngrep -q "# Why a ring" "$1" && echo "A bottleneck." >> "$1"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def test_an_editor_gets_what_was_written_and_gives_the_explanation(progress, editor, monkeypatch):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor)
    seat = press(type_(explaining(progress), "Others idle."), "escape", "e")
    assert kept(progress) == [("ring/why-ring", pytest.approx(2 / 3), "Others idle.\nA bottleneck.", [False] * 3)]
    assert seat.state.checking


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("", "No editor is set; set EDITOR, for example to nano or vim."),
        ("/no/such --x", "The editor `/no/such --x` cannot be started; set EDITOR to another one."),
        ("false", "The editor `false` ended with status 1; its text was not read."),
    ],
)
def test_an_editor_that_fails_is_told_and_nothing_is_lost(progress, monkeypatch, named, said):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", named)
    seat = press(type_(explaining(progress), "Others"), "escape", "e")
    assert said in " ".join(screen(seat).split())
    assert "> Others_" in screen(seat)
    assert progress.log() == []


def test_an_editor_whose_file_cannot_be_written_leaves_what_was_typed(home, editor):
    terminal = sample(home, "explain", "ring", EDITOR=editor, VISUAL="")
    terminal.wait("Why a ring")
    terminal.press("Others", "> Others_")
    resource.prlimit(terminal.child.pid, resource.RLIMIT_FSIZE, (0, 0))
    terminal.press("\x1be", "The file for the editor cannot be written; free some disk space", "> Others_")
    terminal.child.kill(signal.SIGKILL)
    terminal.end()


def test_an_explanation_in_a_terminal(home):
    terminal = sample(home, "explain", "ring")
    terminal.wait("Why a ring, and not a root")
    terminal.press("The bottleneck", "> The bottleneck_")
    terminal.resize(24, 60)
    terminal.press("\rothers idle", "others idle_")
    terminal.press("\x04", "You made 2 of 3 points")
    terminal.press("3", "You made 3 of 3 points")
    terminal.press("\r", "Done: you made 3 of 3 points")
    terminal.press("\r")
    assert terminal.end() == 0
    assert "Done: you made 3 of 3 points." in terminal.raw.split(LEAVE_SCREEN)[-1]


def test_what_is_pasted_in_a_terminal_is_neither_graded_nor_obeyed(home):
    terminal = sample(home, "explain", "ring")
    terminal.wait("Why a ring")
    assert "\x1b[?2004h" in terminal.raw
    terminal.press("\x1b[200~The bottleneck.\r\rq others\x1b[201~", "q others_")
    terminal.press(" idle\x04", "You made 2 of 3 points")
    terminal.press("\x1b[200~q\r3\x1b[201~")
    terminal.press("1", "You made 1 of 3 points")
    terminal.press("q")
    assert terminal.end() == 0
    assert terminal.raw.rindex("\x1b[?2004l") > terminal.raw.rindex("\x1b[?2004h")


@pytest.mark.parametrize("leave", ["\x03", "\x1bq"])
def test_what_was_begun_is_there_again_the_next_time_until_it_is_graded(home, leave):
    terminal = sample(home, "explain", "ring")
    terminal.wait("Why a ring")
    terminal.press("The bottleneck\rothers", "others_")
    terminal.press(leave)
    assert terminal.end() == (130 if leave == "\x03" else 0)
    assert "What you began to write will be here the next time." in terminal.raw.split(LEAVE_SCREEN)[-1]
    terminal = sample(home, "explain", "ring")
    terminal.wait("What you began to write the last time is here again", "> The bottleneck\n  others_")
    terminal.press(" idle\x04", "You made 2 of 3 points")
    terminal.press("q")
    assert terminal.end() == 0
    assert load_drafts(home) == {}
    terminal = sample(home, "explain", "ring")
    assert "last time" not in terminal.wait("> _")
    terminal.press("\x03")
    assert terminal.end() == 130


@pytest.mark.parametrize(("leave", "disk"), [("\x1bq", "full"), ("\x03", "full"), ("\x04", "full"), ("\x03", "other")])
def test_what_was_begun_and_cannot_be_kept_is_printed_to_be_copied(home, leave, disk):
    terminal = sample(home, "explain", "ring", width=200)
    terminal.wait("Why a ring")
    terminal.press("The bottleneck\rothers", "others_")
    if disk == "full":  # each write to a file fails from now on
        resource.prlimit(terminal.child.pid, resource.RLIMIT_FSIZE, (0, 0))
        fault = "File too large"
    else:
        (home / "drafts.json").mkdir()
        fault = "Is a directory"
    terminal.press(leave)
    assert terminal.end() == 1
    *_, head, first, second, sentence = terminal.raw.split(LEAVE_SCREEN)[-1].splitlines()
    assert [head, first, second] == ["What you began to write:", "The bottleneck", "others"]
    assert sentence == (
        f"{home / 'drafts.json'} cannot be written ({fault}), so what you began to write was not saved; "
        "copy it, and make room there or set DDPQUIZ_HOME to another folder."
    )
    assert not any("Traceback" in line for line in terminal.lines)
    assert not [*home.glob("drafts.json.*")]


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
    terminal.press("\x03", "You made 1 of 3 points")
    terminal.press("\x03")  # and then it ends the sitting again
    assert terminal.end() == 130


def test_what_was_written_in_an_editor_is_kept_when_it_cannot_be_graded(home, editor):
    with Progress(home) as progress, sqlite3.connect(progress.path) as database:
        fault = "BEGIN SELECT raise(ABORT, 'no'); END"
        database.execute(f"CREATE TRIGGER broken BEFORE INSERT ON log {fault}")
    sample(home, "explain", "ring", "--editor", EDITOR=editor, VISUAL="").end()
    assert load_drafts(home) == {"ring/why-ring": "A bottleneck."}


def test_a_draft_that_cannot_be_deleted_is_no_fault(tmp_path, monkeypatch):
    def disk_is_full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    save_drafts(tmp_path, {"ring/why-ring": "A bottleneck"})
    monkeypatch.setattr(side_files, "save_json", disk_is_full)
    save_drafts(tmp_path, {"ring/why-ring": ""})
    with pytest.raises(UserError, match="was not saved"):
        save_drafts(tmp_path, {"ring/why-ring": "Others"})
    assert load_drafts(tmp_path) == {"ring/why-ring": "A bottleneck"}


def test_a_key_after_escape_that_is_no_command_is_text(progress):
    seat = press(type_(explaining(progress), "Idl"), "escape")
    assert "command: _" in screen(seat)
    assert "esc back · " in screen(seat)
    assert "> Idl1_" in screen(press(seat, "1"))


def test_a_kill_loses_no_explanation_and_no_objection(home):
    terminal = sample(home, "explain", "ring")
    terminal.wait("Why a ring")
    terminal.press("idle\r\r", "You made 1 of 3 points")
    terminal.press("1", "You made 2 of 3 points")
    terminal.child.kill(signal.SIGKILL)
    terminal.end()
    with Progress(home) as progress:
        assert kept(progress) == [("ring/why-ring", pytest.approx(2 / 3), "idle", [True, False, False])]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_the_terminal_as_it_was(home, number):
    terminal = sample(home, "explain", "ring")
    terminal.wait("Why a ring")
    os.kill(terminal.child.pid, number)
    assert terminal.end() == 128 + number
    assert LEAVE_SCREEN in terminal.raw


def test_control_d_leaves_when_nothing_is_written(home):
    terminal = sample(home, "explain", "ring", NO_COLOR="1")
    terminal.wait("Why a ring")
    terminal.press("\x04")
    assert terminal.end() == 0
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", terminal.raw)
    assert "Done: nothing explained." in terminal.raw


def test_a_terminal_that_cannot_be_painted_explains_by_lines(home):
    terminal = sample(home, "explain", "ring", TERM="dumb")
    terminal.wait("empty line check")
    terminal.press("others idle\r\r")
    terminal.wait("You made 1 of 3 points")
    terminal.press("\r")
    assert terminal.end() == 0
    assert "\x1b" not in terminal.raw


def test_a_pipe_is_one_explanation_with_empty_lines_in_it(home):
    done = piped(home, "explain", "ring", lines="A bottleneck.\n\nOthers idle.\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n\nYou made 2 of 3 points.\nA tick means that" in done.stdout
    assert "\n\n✓ 1  the root's link is the bottleneck\n" in done.stdout
    result = json.loads(piped(home, "explain", "ring/why-ring", "--json", lines="idle").stdout)
    (told,) = result["explanations"]
    assert (told["item"], told["made"], [point["words"] for point in told["points"]]) == (
        "ring/why-ring",
        1,
        [[], ["idle"], []],
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("explain", "ring"),
            "There is no text on standard input; write your explanation of ring/why-ring there.\n",
        ),
        (
            ("explain", "ring/bytes"),
            "`ring/bytes` is a card or a question; you can explain ring/why-ring.\n",
        ),
        (("explain", "rang"), "No concept named 'rang'. Did you mean 'ring'?\n"),
        (
            ("explain", "ring", "--editor"),
            "--editor needs a terminal; without it, the text is read from standard input.\n",
        ),
    ],
)
def test_what_cannot_be_explained_is_told_in_a_sentence(home, words, said):
    done = piped(home, *words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)


def test_the_editor_opens_by_itself_when_asked_for(home, editor):
    terminal = sample(home, "explain", "ring", "--editor", EDITOR=editor, VISUAL="")
    terminal.wait("You made 1 of 3 points")
    terminal.press("q")
    assert terminal.end() == 0


@pytest.mark.parametrize("words", ["explain ring", "test ring --kind number"])
def test_what_was_written_is_still_there_after_control_z(home, words):
    terminal = Terminal("bash", "--norc", "-i", env=environment(home, PS1="$ "))
    terminal.press(f"{sys.executable} {SAMPLE} {words}\n", "Explain 1/1|Question 1/1")
    terminal.press("18", "> 18_")
    terminal.press("\x1a", r"\[1\]\+")  # what follows is "Stopped" in the language of the learner
    terminal.press("fg\n", "> 18_")
    terminal.press("00", "> 1800_")
    terminal.child.close(force=True)


@pytest.fixture
def judge(tmp_path):
    """Return a function that makes a program which prints a text and notes what it reads."""

    def make(prints):
        script = tmp_path / "judge"
        script.write_text(
            f"#!{sys.executable}\nimport sys\nopen({str(tmp_path / 'read')!r}, 'w').write(sys.stdin.read())\nprint({prints!r})\n"
        )
        script.chmod(stat.S_IRWXU)
        return str(script)

    return make


def test_a_judge_ticks_the_points_and_its_remark_is_shown(home, judge, tmp_path):
    program = judge(json.dumps({"points": [False, True, True], "say": "Not bad.\x1b[31m"}))
    done = piped(home, "explain", "ring", "--judge", program, lines="The bottleneck")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Not bad.[31m\n" in done.stdout
    assert "\x1b" not in done.stdout
    assert "You made 2 of 3 points.\nTicked by the program that you named." in done.stdout
    assert json.loads((tmp_path / "read").read_text()) == {
        "question": WHY_RING.ask,
        "points": [point.say for point in WHY_RING.points],
        "text": "The bottleneck",
    }
    with Progress(home) as progress:
        assert [row.credit for row in progress.entries("explanation")] == [pytest.approx(2 / 3)]


@pytest.mark.parametrize(
    "prints",
    ["", "[]", "{}", '{"points": [true]}', '{"points": [1, 2, 3]}', '{"points": [true, true, true], "say": 3}', None],
)
def test_a_judge_that_fails_is_reported_and_the_words_tick_the_points(home, judge, prints):
    program = "/no/such/judge" if prints is None else judge(prints)
    done = piped(home, "explain", "ring", "--judge", program, lines="The bottleneck")
    assert done.returncode == 0
    assert f"The judge `{program}` " in " ".join(done.stdout.split()).replace("` `", "`")
    assert "the points are ticked by their words instead." in " ".join(done.stdout.split())
    assert "You made 1 of 3 points." in done.stdout


def test_a_judge_is_asked_in_a_terminal_too(home, judge):
    terminal = sample(home, "explain", "ring", "--judge", judge('{"points": [true, true, true]}'))
    terminal.wait("Why a ring")
    terminal.press("Others\x04", "You made 3 of 3 points")
    terminal.press("q")
    assert terminal.end() == 0
