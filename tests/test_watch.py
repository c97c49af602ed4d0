"""The live view of a real run in a real terminal: the keys of looking, pausing, another size, and the end."""

import os
import re
import sys
import time

import pexpect
import pyte
import pytest

ENV = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")} | {
    "TERM": "xterm-256color"
}
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


class Terminal:
    """`ddpquiz run` of a script that goes on until `stop` is called, and what is on its screen."""

    def __init__(self, folder, height=24, width=80):
        self.stopper = folder / "stop"
        script = folder / "script.py"
        script.write_text(SCRIPT)
        words = ["-m", "ddpquiz", "run", str(script), "--nproc", "2", "--", str(self.stopper)]
        self.child = pexpect.spawn(sys.executable, words, dimensions=(height, width), env=ENV, encoding="utf-8")
        self.painted = ""
        self.screen = pyte.Screen(width, height)
        self.stream = pyte.Stream(self.screen)

    def _take(self, painted):
        self.painted += painted
        self.stream.feed(painted)

    def press(self, keys):
        self.child.send(keys)

    def read(self, seconds):
        """Take in what is painted, for some seconds."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                self._take(self.child.read_nonblocking(65536, timeout=left))
            except pexpect.TIMEOUT:
                return
            except pexpect.EOF:
                break

    def shows(self, pattern):
        """Wait until the screen shows what fits a pattern, and return the match."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if found := re.search(pattern, self.text, re.MULTILINE):
                return found
            self.read(0.1)
        pytest.fail(f"{pattern} is not on the screen:\n{self.text}")

    @property
    def text(self):
        return "\n".join(line.rstrip() for line in self.screen.display)

    def stop(self):
        self.stopper.touch()

    def end(self):
        self.child.expect(pexpect.EOF, timeout=30)
        self._take(self.child.before)
        self.child.close()
        return self.child.exitstatus


@pytest.fixture
def terminal(tmp_path):
    opened = Terminal(tmp_path)
    yield opened
    opened.child.close(force=True)


def step(terminal):
    return int(terminal.shows(r"^step +\*?(\d+)")[1])


def test_a_digit_shows_all_lines_of_that_rank_and_goes_back(terminal):
    terminal.shows("^step .*\n(.*\n)*.* v source · [?] help$")
    terminal.press("1")
    terminal.shows(r"^ +[\d.]+ +step: \d+\n(.*\n)*rank 1\nesc back · tab next rank · ↑ ↓ scroll · home top")
    terminal.shows("more above")
    terminal.press("\x1b[H")  # home: from here on it no longer follows
    assert "rank 1 complains" in terminal.shows(r"^ +[\d.]+  err .*")[0]
    terminal.read(0.5)
    assert "rank 1 complains" in terminal.text
    terminal.press("\t")
    terminal.shows("^rank 0\n")
    terminal.press("0")
    terminal.shows("^doing ")
    terminal.press("1")
    terminal.shows("^rank 1\n")
    terminal.press("\x1b")
    terminal.shows("^doing ")


def test_v_shows_the_script_with_marks_where_the_ranks_are(terminal):
    terminal.shows("^step ")
    terminal.press("v")
    terminal.shows(rf"^(▶|▷) [01].* {LINE}     dist.all_reduce\(x")
    terminal.shows("waits in this line")
    terminal.press("q")  # leaves the source, not the run
    terminal.shows("^doing ")


def test_space_holds_the_picture_while_the_run_goes_on(terminal):
    step(terminal)
    terminal.press(" ")
    terminal.shows("^paused, the run goes on · space go on")
    held = step(terminal)
    terminal.read(1.0)
    assert step(terminal) == held
    terminal.press("1")  # the log stands still too
    terminal.shows("^paused, the run goes on · esc back")
    terminal.press("1")
    terminal.shows("^paused, the run goes on · space go on")
    terminal.press(" ")
    terminal.shows("^space pause")
    assert step(terminal) > held


def test_a_run_that_ends_while_the_picture_is_held_changes_nothing_until_it_is_let_go(terminal):
    step(terminal)
    terminal.press(" ")
    terminal.shows("^paused, the run goes on")
    held = step(terminal)
    terminal.stop()
    terminal.read(2)
    assert step(terminal) == held
    assert "done in" not in terminal.text
    terminal.press("x\r")  # nothing but space goes on
    terminal.shows("^paused, the run has ended · space go on")
    terminal.press(" ")
    assert terminal.end() == 0
    assert re.search("^done in ", terminal.text, re.MULTILINE)


def test_keys_of_the_picture_do_nothing_where_it_is_not_looked_at(terminal):
    terminal.shows("^step ")
    terminal.press("v")
    terminal.shows("waits in this line")
    terminal.press(" r\r\x1b[C")
    terminal.press("v")
    terminal.shows("^space pause")


def test_a_page_explains_the_signs_and_the_keys(terminal):
    terminal.shows("^step ")
    terminal.press("?")
    terminal.shows("^space  hold the picture while the run goes on, or let it go$")
    terminal.shows("^  brings +what a rank gives to its last operation")
    terminal.press("?")
    terminal.shows("^space pause")


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_a_run_is_stopped_at_a_key_and_says_so(terminal, key):
    terminal.shows("^step ")
    terminal.press(key)
    assert terminal.end() == 130
    assert re.search("^You stopped the run.$", terminal.text, re.MULTILINE)


def test_a_run_that_ends_while_its_log_is_read_waits_for_the_reader(terminal):
    terminal.shows("^step ")
    terminal.press("1")
    terminal.shows("^rank 1\n")
    terminal.stop()
    terminal.read(2)
    terminal.press("\x1b")
    terminal.shows("^done in .*\nenter go on · ← → step through · r again")
    terminal.press(" qd")  # none of these is named
    terminal.shows("^done in .*\nenter go on")
    terminal.press("\r")
    assert terminal.end() == 0


def test_a_frame_follows_the_size_of_the_terminal(terminal):
    terminal.shows("^space pause.*\\Z")
    terminal.screen.resize(40, 120)
    terminal.screen.reset()
    terminal.child.setwinsize(40, 120)
    terminal.shows("\n+time .*\n(.*\n)+space pause.*\\Z")
    assert len(terminal.text.splitlines()) == 40
    terminal.stop()
    assert terminal.end() == 0


def test_the_last_frame_is_left_with_the_ranks_over_the_whole_run(terminal):
    terminal.shows("^step ")
    terminal.stop()
    assert terminal.end() == 0
    left = re.sub(r"\x1b\[[\d;]*m", "", terminal.painted.rpartition("\x1b[?1049l")[2])  # after the alternate screen
    assert len(re.findall(r"^time    ━ compute", left, re.MULTILINE)) == 1
    assert "space pause" not in left
    assert re.search(r"^done in ", left, re.MULTILINE)
