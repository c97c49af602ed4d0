"""The live view of a real run in a real terminal: the keys of looking, pausing, another size, and the end."""

import re
import signal

import passed
import pytest
from real_run import HEAD
from run_program import LEAVE_SCREEN, ddpquiz

from ddpquiz.events import saved_run

pytestmark = passed.COMMANDS

SCRIPT = """\
import os, sys, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
print(f"rank {rank} complains", file=sys.stderr)
step = 0
while True:
    time.sleep(0.05)
    x = torch.ones(2) * (-1 if os.path.exists(sys.argv[1]) else 1)
    dist.all_reduce(x, op=dist.ReduceOp.MIN)
    if x[0] < 0:
        break
    step += 1
    print(f"step: {step}")
"""
WAITING = SCRIPT.index("dist.all_reduce")
LINE = SCRIPT[:WAITING].count("\n") + 1


@pytest.fixture
def stop(tmp_path):
    """Let the run come to its end."""
    return (tmp_path / "stop").touch


@pytest.fixture
def terminal(tmp_path):
    """`ddpquiz run` of a script that goes on until it is let go."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    opened = ddpquiz("run", "--no-stay", "--nproc", "2", str(script), str(tmp_path / "stop"))
    yield opened
    opened.child.close(force=True)


def step(terminal):
    label = r"^step +\*?(\d+)"
    return int(re.search(label, terminal.wait(label), re.MULTILINE)[1])


def test_a_digit_shows_all_lines_of_that_rank_and_goes_back(terminal):
    terminal.wait("^step .*\n(.*\n)*.* v source · [?] help$")
    terminal.press("1", r"^ +[\d.]+ +step: \d+\n(.*\n)*rank 1\nesc back · tab next rank · ↑ ↓ scroll · home top")
    terminal.wait("more above")
    terminal.press("\x1b[H")  # home: from here on it no longer follows
    terminal.wait(r"^ +[\d.]+  err .*rank 1 complains")
    terminal.read(0.5)
    assert "rank 1 complains" in terminal.text
    terminal.press("\t", "^rank 0\n")
    terminal.press("0", "^doing ")
    terminal.press("1", "^rank 1\n")
    terminal.press("\x1b", "^doing ")


def test_v_shows_the_script_with_marks_where_the_ranks_are(terminal):
    terminal.wait("^step ")
    terminal.press("v", rf"^(▶|▷) [01].* {LINE}     dist.all_reduce\(x")
    terminal.wait("waits in this line")
    terminal.press("q", "^doing ")  # leaves the source, not the run


def test_f_freezes_the_picture_while_the_run_goes_on(terminal):
    step(terminal)
    terminal.press("f", "^frozen, the run goes on · space go on")
    held = step(terminal)
    terminal.read(1.0)
    assert step(terminal) == held
    terminal.press("1", "^frozen, the run goes on · esc back")  # the log stands still too
    terminal.press("1", "^frozen, the run goes on · space go on")
    terminal.press(" ", "^f freeze")
    assert step(terminal) > held


def test_a_run_that_ends_while_the_picture_is_held_changes_nothing_until_it_is_let_go(terminal, stop):
    step(terminal)
    terminal.press("f", "^frozen, the run goes on")
    held = step(terminal)
    stop()
    terminal.read(2)
    assert step(terminal) == held
    assert "done in" not in terminal.text
    terminal.press("x", "^x does nothing here; [?] lists the keys[.] · space go on")
    terminal.press(" ")
    assert terminal.end() == 0
    assert re.search("^done in ", terminal.text, re.MULTILINE)


def test_keys_of_the_picture_do_nothing_where_it_is_not_looked_at(terminal):
    terminal.wait("^step ")
    terminal.press("v", "waits in this line")
    terminal.press(" r\r\x1b[C")
    terminal.press("v", "^f freeze")


def test_a_page_explains_the_signs_and_the_keys(terminal):
    terminal.wait("^step ")
    terminal.press("?", "^f +freeze the picture while the run goes on$")
    terminal.wait("^  input +what the rank gave to its last operation")
    terminal.press("?", "^f freeze")


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_a_run_is_stopped_at_a_key_and_says_so(terminal, key):
    terminal.wait("^step ")
    terminal.press(key)
    assert terminal.end() == 130
    assert re.search("^You stopped the run.$", terminal.text, re.MULTILINE)


def test_who_stops_ranks_in_unlike_calls_is_told_what_differs(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group()\n"
        "if dist.get_rank() == 0:\n"
        "    dist.barrier()\n"
        "dist.all_reduce(torch.ones(2))\n"
    )
    terminal = ddpquiz("run", "--nproc", "3", "--timeout", "600", str(script))
    terminal.wait("calls differ")
    terminal.press("q")
    assert terminal.end() == 130
    assert "Only rank 0 called barrier at script.py:4" in " ".join(terminal.text.split())


@pytest.mark.parametrize("key", ["", "f", "1"])
def test_sigterm_ends_a_run_with_its_report_whatever_is_shown(terminal, key):
    terminal.wait("^step ")
    terminal.press(key)
    terminal.child.kill(signal.SIGTERM)
    assert terminal.end() == 143
    assert re.search("^SIGTERM ended the run.$", terminal.text, re.MULTILINE)


def test_a_run_that_ends_while_its_log_is_read_waits_for_the_reader(terminal, stop):
    terminal.wait("^step ")
    terminal.press("1", "^rank 1\n")
    stop()
    terminal.read(2)
    terminal.press("\x1b", "^done in .*\n→ step through · enter leave · r again")
    terminal.press("d", "^There is no demo here; [?] lists the keys[.] · → step through")
    terminal.press("\r")
    assert terminal.end() == 0


def test_a_run_without_a_call_can_be_stepped_through_too(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("for number in range(40): print('a line of text')\nraise ValueError('bad')\n")
    terminal = ddpquiz("run", "--nproc", "1", str(script))
    terminal.wait("^ended after .*\n→ step through · enter leave")
    terminal.press("\x1b[D", "call 0 of 0")
    terminal.press("\x1b[D\x1b[C", "call 0 of 0")
    terminal.press("q", "^ended after .*\n→ step through · enter leave")
    terminal.press("q")  # as it ends whatever else is looked at
    assert terminal.end() == 1


def test_a_frame_follows_the_size_of_the_terminal(terminal, stop):
    terminal.wait("^f freeze.*\\Z")
    terminal.resize(40, 120)
    terminal.wait("^time ", "\\A(.*\n){39}f freeze.*\\Z")  # a frame of the old size may still be on its way
    stop()
    assert terminal.end() == 0


def test_the_last_frame_is_left_with_the_ranks_over_the_whole_run(terminal, stop):
    terminal.wait("^step ")
    stop()
    assert terminal.end() == 0
    left = re.sub(r"\x1b\[[\d;]*m", "", terminal.raw.rpartition(LEAVE_SCREEN)[2])  # after the alternate screen
    assert len(re.findall(r"^time    ━ compute", left, re.MULTILINE)) == 1
    assert "f freeze" not in left
    assert re.search(r"^done in ", left, re.MULTILINE)


SUGGESTS = '''"""A title.

Try    --fast 3    it says 3
       on 1 rank, then 3   other numbers of ranks
"""
import sys, time
print(f"words: {' '.join(sys.argv[1:])}")
print("\\n".join(f"line {number}" for number in range(40)))
time.sleep(60 if len(sys.argv) == 1 else 0)
'''


def test_a_digit_starts_what_the_script_suggests(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SUGGESTS)
    saved = tmp_path / "run.json"
    terminal = ddpquiz("run", "--save", saved, str(script), "--nproc", "2", width=160)
    terminal.wait("^words ")
    terminal.press("t", r"^  1 ddpquiz run \S+script.py -- --fast 3$", "1-3 start · esc back")  # the run may end now
    terminal.press("1", "^words( +--fast 3){4}$", "→ step through")
    terminal.press("t", "1-3 start")
    terminal.press("3", "^ +rank 0 +rank 1 +rank 2$")
    terminal.press("q")
    assert terminal.end() == 130
    began = saved_run.read(saved)[0]
    assert (began.ranks, began.args) == (4, ("--nproc", "2"))  # the run that was asked for


@pytest.mark.parametrize(
    ("first", "second", "kept"), [("good", "endless", "good"), ("bad", "good", "good"), ("bad", "endless", "endless")]
)
def test_a_repeat_is_saved_only_if_no_earlier_try_succeeded(tmp_path, first, second, kept):
    script, does = tmp_path / "script.py", tmp_path / "does"
    script.write_text(
        f"import sys, time\ndoes = open({str(does)!r}).read()\nprint(f'does: {{does}}')\n"
        "time.sleep(60 if does == 'endless' else 0)\nsys.exit(does == 'bad')\n"
    )
    for ending in ".json", ".svg":  # one is made of the events, one of the last state
        saved = tmp_path / f"run{ending}"
        does.write_text(first)
        terminal = ddpquiz("run", "--save", saved, str(script), "--nproc", "1")
        terminal.wait(f"^does +{first}", "r again")
        does.write_text(second)
        terminal.press("r", f"^does +{second}", "q stop" if second == "endless" else "r again")
        terminal.press("q")
        assert terminal.end() == (130 if second == "endless" else 0)
        assert [does for does in ("good", "bad", "endless") if re.search(rf"\b{does}\b", saved.read_text())] == [kept]


def test_a_page_that_is_read_stays_when_the_run_ends(tmp_path):
    script, end = tmp_path / "script.py", tmp_path / "end"
    loop = f"import os, time\nprint('words: yes')\nwhile not os.path.exists({str(end)!r}):\n    time.sleep(0.05)\n"
    script.write_text(loop)
    terminal = ddpquiz("run", str(script), "--nproc", "2")
    terminal.wait("^words ")
    terminal.press("v", " 4 +time.sleep", "^esc back")
    end.touch()
    terminal.wait("^the run has ended · esc back", " 4 +time.sleep")
    terminal.press("\x1b", "^done in .*\n→ step through")
    terminal.press("q")
    assert terminal.end() == 0


def test_ctrl_c_on_a_page_ends_the_run_and_leaves(terminal):
    terminal.wait("^step ")
    terminal.press("v", "waits in this line")
    terminal.press("\x03")
    assert terminal.end() == 130


def test_asserts_of_a_script_are_not_shown_as_claims_unless_they_fail(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("assert 1 != 2, 'outputs are not equal'\nprint('mine: 1')\n")
    terminal = ddpquiz("run", "--no-stay", "--nproc", "2", str(script))
    assert terminal.end() == 0
    assert "claim" not in terminal.text
    assert "outputs" not in terminal.text


def test_a_run_stays_on_its_last_page_with_its_steps_logs_source_and_summary(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(HEAD + "dist.all_reduce(x)\nprint('mine: 1')\ndist.destroy_process_group()\n")
    terminal = ddpquiz("run", "--nproc", "2", str(script))
    terminal.wait("^done in .*\n→ step through · enter leave · r again · 0-1 log · s summary")
    terminal.press("s", "^Time by rank", "script.py:5  all_reduce  1 x 2")
    terminal.press("v", "dist.all_reduce")
    terminal.press("1", "mine: 1")
    terminal.press("\x1b", "^done in ")
    terminal.press("\x1b[C", "call 0 of 2")
    terminal.press("q", "^done in ")
    terminal.press("q")
    assert terminal.end() == 0
    assert "mine" in terminal.text


def test_enter_walks_through_a_run_and_leaves_at_its_end(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(HEAD + "dist.all_reduce(x)\nprint('mine: 1')\ndist.destroy_process_group()\n")
    for options in ["--stay"], ["--step"]:
        terminal = ddpquiz("run", *options, "--nproc", "2", str(script))
        if options == ["--stay"]:
            terminal.wait("→ step through")
            terminal.press("\x1b[C")
        terminal.wait("^call 0 of 2")
        terminal.press("\r", "^call 1 of 2")
        terminal.press("\r", "call 2 of 2")
        terminal.press("\r")
        assert terminal.end() == 0


@pytest.mark.parametrize("lines", [1, 60], ids=["fits", "is too tall"])
@pytest.mark.parametrize("options", [["--no-stay"], ["--plain"]])
def test_a_run_does_not_wait_for_a_key_where_nobody_asks_for_that(tmp_path, options, lines):
    script = tmp_path / "script.py"
    script.write_text(f"for number in range({lines}):\n    print(f'label {{number}}: 1')\n")
    terminal = ddpquiz("run", *options, "--nproc", "2", str(script))
    assert terminal.end() == 0
