"""The program from outside: on a pseudo-terminal with keys to press and a screen to look at, or in a pipe."""

import os
import re
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pexpect
import pyte
import pytest

SAMPLE = str(Path(__file__).with_name("sample_program.py"))
ENTER_SCREEN, LEAVE_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
_BEGIN_FRAME, _END_FRAME = "\x1b[?2026h", "\x1b[?2026l"
_NOON = f"NOON{datetime.now(UTC).hour - 12:+}"  # a time zone in which it is noon, so that no study day ends in a test


def environment(home, **more):
    """The variables of a learner whose progress lies in `home`."""
    return {**os.environ, "DDPQUIZ_HOME": str(home), "TZ": _NOON, **more}


class Terminal:
    """A terminal with a program in it, which shows what was painted once a frame is whole."""

    def __init__(self, *command, env, width=80, height=24):
        self.raw = ""
        self._shown = 0  # so many characters of `raw` are on the screen
        self.screen = pyte.HistoryScreen(width, height, history=1000)
        self._stream = pyte.Stream(self.screen)
        self.child = pexpect.spawn(command[0], list(command[1:]), dimensions=(height, width), env=env, encoding="utf-8")
        self.child.delaybeforesend = None

    @property
    def text(self):
        """What the screen shows, without the blanks at the end of a line and the empty lines at the bottom."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    @property
    def lines(self):
        """The lines that have scrolled out at the top, and those of the screen."""
        width = range(self.screen.columns)
        above = ["".join(line[column].data for column in width).rstrip() for line in self.screen.history.top]
        return [*above, *(line.rstrip() for line in self.screen.display)]

    def wait(self, *patterns, seconds=60):
        """Wait until the screen shows all of them at once, and return the screen."""
        end = time.monotonic() + seconds
        while not all(re.search(pattern, self.text, re.MULTILINE) for pattern in patterns):
            assert time.monotonic() < end, f"no {patterns} in\n{self.text}"
            self._take()
        return self.text

    def press(self, keys, *patterns):
        """Type, and wait until the screen shows what is expected then."""
        self.child.send(keys)
        return self.wait(*patterns) if patterns else None

    def read(self, seconds):
        """Take in what is painted, for some seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._take()

    def resize(self, height, width):
        """Be a terminal of another size, which is empty until the program paints it."""
        self.screen.resize(height, width)
        self.screen.reset()
        self.child.setwinsize(height, width)

    def end(self, seconds=60):
        """Wait for the end of the program; return its exit status, or the number of its signal with a minus."""
        end = time.monotonic() + seconds
        while self.child.isalive():
            if time.monotonic() > end:
                self.child.close(force=True)
                pytest.fail(f"it goes on, with\n{self.text}")
            self._take()
        while self._take():
            pass
        self.child.close(force=True)
        return self.child.exitstatus if self.child.signalstatus is None else -self.child.signalstatus

    def _take(self):
        """Take in what the program wrote; return whether that was anything."""
        try:
            self.raw += self.child.read_nonblocking(65536, 0.05)
        except (pexpect.TIMEOUT, pexpect.EOF):
            return False
        opened = self.raw.rfind(_BEGIN_FRAME)
        whole = len(self.raw) if self.raw.rfind(_END_FRAME) >= opened else opened
        if whole > self._shown:
            self._stream.feed(self.raw[self._shown : whole])
            self._shown = whole
        return True


def ddpquiz(*words, home=None, width=80, height=24, **more):
    """`ddpquiz` as it is installed, with its own content."""
    env = environment(home or os.environ["DDPQUIZ_HOME"], **more)
    return Terminal(sys.executable, "-m", "ddpquiz", *words, env=env, width=width, height=height)


def sample(home, *words, width=80, height=24, **more):
    """`ddpquiz` with the two concepts of the sample."""
    return Terminal(sys.executable, SAMPLE, *words, env=environment(home, **more), width=width, height=height)


def piped(home, *words, lines="", **more):
    """Run `ddpquiz` with the two concepts of the sample in a pipe."""
    return subprocess.run(
        [sys.executable, SAMPLE, *words],
        input=lines, capture_output=True, text=True, env=environment(home, **more), timeout=120,
    )  # fmt: skip


def log(home):
    """What is kept of a learner, oldest first: kind, item, grade and credit of each row."""
    with sqlite3.connect(home / "progress.db") as database:
        rows = database.execute("SELECT kind, item, grade, credit FROM log ORDER BY sequence").fetchall()
    database.close()
    return rows
