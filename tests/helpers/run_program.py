"""Runs ddpquiz as a user does: on a pseudo-terminal with keys and a screen, or in a pipe."""

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
_NOON = f"NOON{datetime.now(UTC).hour - 12:+}"  # a time zone in which it is noon now, so that no study day ends during a test


def environment(home, **more):
    """The environment of a learner whose data folder is `home`, with the environment of this Python active."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {**os.environ, "PATH": programs, "DDPQUIZ_HOME": str(home), "TZ": _NOON, **more}


class Terminal:
    """A terminal in which a program runs. It shows only frames that have arrived whole."""

    def __init__(self, *command, env, width=80, height=24):
        self.raw = ""
        self._shown = 0  # characters of `raw` that the screen has processed
        self.screen = pyte.HistoryScreen(width, height, history=1000)
        self._stream = pyte.Stream(self.screen)
        self.child = pexpect.spawn(
            command[0], [*map(str, command[1:])], dimensions=(height, width), env=env, encoding="utf-8"
        )
        self.child.delaybeforesend = None

    @property
    def text(self):
        """The text on the screen, without blanks at the ends of lines and empty lines at the bottom."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    @property
    def lines(self):
        """The lines that have scrolled off the top, then those on the screen."""
        width = range(self.screen.columns)
        above = ["".join(line[column].data for column in width).rstrip() for line in self.screen.history.top]
        return [*above, *(line.rstrip() for line in self.screen.display)]

    def wait(self, *patterns, seconds=60):
        """Wait until the screen matches all patterns at once, and return its text."""
        end = time.monotonic() + seconds
        while not all(re.search(pattern, self.text, re.MULTILINE) for pattern in patterns):
            assert time.monotonic() < end, f"no {patterns} in\n{self.text}"
            self._receive()
        return self.text

    def press(self, keys, *patterns):
        """Type `keys`, and wait until the screen matches `patterns`, if there are any."""
        self.child.send(keys)
        return self.wait(*patterns) if patterns else None

    def read(self, seconds):
        """Read what the program paints for some seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._receive()

    def resize(self, height, width):
        """Change the size of the terminal; it is empty until the program paints it."""
        self.screen.resize(height, width)
        self.screen.reset()
        self.child.setwinsize(height, width)

    def end(self, seconds=60):
        """Wait for the end of the program; return its exit status, or the negative number of its signal."""
        end = time.monotonic() + seconds
        while self.child.isalive():
            if time.monotonic() > end:
                self.child.close(force=True)
                pytest.fail(f"the program is still running, with\n{self.text}")
            self._receive()
        while self._receive():
            pass
        self.child.close(force=True)
        return self.child.exitstatus if self.child.signalstatus is None else -self.child.signalstatus

    def _receive(self):
        """Read what the program has written; return whether there was anything."""
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
    """Start `ddpquiz` with the shipped content."""
    env = environment(home or os.environ["DDPQUIZ_HOME"], **more)
    return Terminal(sys.executable, "-m", "ddpquiz", *words, env=env, width=width, height=height)


def sample(home, *words, width=80, height=24, **more):
    """Start `ddpquiz` with the two concepts of the sample."""
    return Terminal(sys.executable, SAMPLE, *words, env=environment(home, **more), width=width, height=height)


def piped(home, *words, lines="", **more):
    """Run `ddpquiz` with the two concepts of the sample in a pipe."""
    return subprocess.run(
        [sys.executable, SAMPLE, *words],
        input=lines, capture_output=True, text=True, env=environment(home, **more), timeout=120,
    )  # fmt: skip


def log(home):
    """Return kind, item, grade and credit of each row of a learner's log, oldest first."""
    with sqlite3.connect(home / "progress.db") as database:
        rows = database.execute("SELECT kind, item, grade, credit FROM log ORDER BY sequence").fetchall()
    database.close()
    return rows
