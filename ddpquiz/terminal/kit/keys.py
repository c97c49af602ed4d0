"""Single keys from the terminal, which are not echoed, lost, or joined with the next one. Pasted text is one key."""

import codecs
import contextlib
import errno
import os
import re
import select
import signal
import sys
import termios
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any, Self

from ddpquiz.errors import UserError

_ESCAPE_WAIT = 0.05  # seconds after which an escape character is the key escape
_PASTE_WAIT = 3.0  # seconds of silence that end a paste whose end was lost
_MARK_PASTES, _LEAVE_PASTES = b"\x1b[?2004h", b"\x1b[?2004l"  # the terminal marks the start and end of a paste
URGENT = ("ctrl+c", "ctrl+z", "q", "eof")  # count even when typed before a prompt was painted


class Keys:
    """The keyboard as single keys while the `with` lasts; afterwards the terminal is in its former mode.

    `away` surrounds the time when another program uses the terminal: pass `Screen.suspended`.
    """

    def __init__(self, away: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext) -> None:
        self._away = away
        self._fd = 0
        self._before: list[Any] = []
        self._raw = False
        self._typed: deque[str] = deque()
        self._rest = ""  # the start of a sequence that is not complete yet
        self._rest_until = 0.0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._signals: dict[signal.Signals, Any] = {}
        self._ending = 0  # the exit status, once a signal has asked for the end
        self._wake: tuple[int, int] = (-1, -1)  # a pipe into which Python writes the number of each signal
        self._other_wake = -1  # what signals wrote into before

    def __enter__(self) -> Self:
        try:
            self._fd = sys.stdin.fileno()
            self._before = termios.tcgetattr(self._fd)
        except (OSError, ValueError, termios.error):
            raise UserError("This needs a terminal to read keys from, and standard input is not a terminal.") from None
        self._wake = os.pipe()
        os.set_blocking(self._wake[1], False)
        # A handler runs only when `select` has returned, and a signal that comes just before does not interrupt it
        self._other_wake = signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        for noted in (signal.SIGWINCH, signal.SIGTSTP):
            self._handle(noted, lambda *_: None)  # Python writes the number only if there is a handler
        self._handle(signal.SIGCONT, self._continued)
        for ending in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            self._handle(ending, self._end)
        self._enter_raw()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave_raw()
        with contextlib.suppress(termios.error):
            termios.tcflush(self._fd, termios.TCIFLUSH)  # keys typed here must not reach the shell
        for number, before in self._signals.items():
            signal.signal(number, before)
        self._signals.clear()
        signal.set_wakeup_fd(self._other_wake)
        for end in self._wake:
            os.close(end)

    def get(self, timeout: float | None = None) -> str | None:
        """The next key, or None after `timeout` seconds without one.

        A key is a character, or one of enter, space, escape, backspace, delete, tab, up, down, left, right, home, end,
        pageup, pagedown, ctrl+c, ctrl+d and so on, or a paste (see `pasted`); "resize" asks for a repaint, and "eof"
        means that the terminal is gone. Ctrl-Z stops the program here, and is a "resize" once it continues.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._typed:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not self._wait(left) and left == 0:
                return None
        key = self._typed.popleft()
        if key != "ctrl+z":
            return key
        self._stop()
        return "resize"

    def waiting(self) -> bool:
        """Whether another key has come already, so that a frame for the previous one would be wasted."""
        while not self._typed and self._wait(0):
            pass
        return bool(self._typed)

    def discard(self, but: tuple[str, ...] = URGENT) -> None:
        """Discard what was typed so far: call it before a new prompt is painted, which nobody can have answered."""
        while "eof" not in self._typed and (self._wait(_ESCAPE_WAIT if self._rest else 0) or self._rest):
            pass
        self._typed = deque(key for key in self._typed if key in (*but, "resize"))

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Put the terminal into its former mode for another program."""
        self._leave_raw()  # before the screen is left, so that nothing is written after that
        try:
            with self._away():
                yield
        finally:
            self._enter_raw()

    def _wait(self, timeout: float | None) -> bool:
        """Wait for keys or a signal, and store them; return whether anything came."""
        if self._rest:
            left = max(0.0, self._rest_until - time.monotonic())
            timeout = left if timeout is None else min(timeout, left)
        ready, _, _ = select.select([self._fd, self._wake[0]], [], [], timeout)
        if self._wake[0] in ready:
            numbers = os.read(self._wake[0], 1024)
            if self._ending:  # the exit was raised where Python ignores it, such as in a destructor
                sys.exit(self._ending)
            if signal.SIGTSTP in numbers:
                self._typed.append("ctrl+z")
            elif signal.SIGWINCH in numbers or signal.SIGCONT in numbers:
                self._typed.append("resize")
        elif self._fd in ready:
            self._read()
        elif self._rest and time.monotonic() >= self._rest_until:
            if self._rest.startswith(PASTE_BEGINS):
                self._typed.append(_key_of_paste(self._rest))
            else:  # nothing followed: it was the key escape
                self._typed += ["escape", *split(self._rest[1:])[0]]
            self._rest = ""
        return bool(ready)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 4096)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            self._typed.append("eof")
            return
        keys, self._rest = split(self._rest + self._decoder.decode(data))
        self._rest_until = time.monotonic() + (_PASTE_WAIT if self._rest.startswith(PASTE_BEGINS) else _ESCAPE_WAIT)
        self._typed += keys

    def _enter_raw(self) -> None:
        self._raw = True
        with contextlib.suppress(termios.error):  # a terminal that is gone is an "eof" later
            mode = termios.tcgetattr(self._fd)
            mode[0] &= ~termios.IXON  # ctrl+s must not freeze the screen
            mode[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
            mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0  # OPOST stays: a line feed returns the carriage
            _set_mode(self._fd, mode)
        self._send(_MARK_PASTES)

    def _leave_raw(self) -> None:
        self._raw = False
        self._send(_LEAVE_PASTES)
        with contextlib.suppress(termios.error):
            _set_mode(self._fd, self._before)

    def _send(self, data: bytes) -> None:
        """Write to the terminal, not to standard output, which may be a file."""
        with contextlib.suppress(OSError):  # it is gone, or open for reading only, and marks no pastes
            os.write(self._fd, data)

    def _stop(self) -> None:
        """Stop as ctrl+z does, and return when the shell continues the program."""
        if signal.SIGTSTP not in self._signals:  # our parent ignores the signal
            return
        with self.suspended():
            ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(0, signal.SIGTSTP)  # the whole job, as the terminal does it
            signal.signal(signal.SIGTSTP, ours)

    def _end(self, number: int, _: object) -> None:
        """End the program by an exception, so that every `with` restores its part."""
        self._ending = 128 + number
        sys.exit(self._ending)

    def _continued(self, *_: object) -> None:
        if self._raw:  # SIGSTOP: the shell has set its own mode since then
            self._enter_raw()

    def _handle(self, number: signal.Signals, handler: Callable[[int, FrameType | None], object]) -> None:
        if signal.getsignal(number) is not signal.SIG_IGN:  # such as nohup asks for
            self._signals[number] = signal.signal(number, handler)


def _set_mode(fd: int, mode: list[Any]) -> None:
    """Set the terminal's mode; try again after a signal."""
    while True:
        try:
            return termios.tcsetattr(fd, termios.TCSANOW, mode)
        except termios.error as error:
            if error.args[0] != errno.EINTR:
                raise


# The names of keys, read from the characters that a terminal sends

PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
_PASTE = "paste:"  # prefix of a key that is a paste; its text follows
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # control characters except tab and line feed
_SEQUENCE = re.compile(r"\x1b(?:\[\[.|\[[0-?]*[ -/]*[@-Z\\-~]|O[0-9;]*[@-~])", re.DOTALL)
_UNFINISHED = re.compile(r"\x1b(?:\[\[|\[[0-?]*[ -/]*|O[0-9;]*)?", re.DOTALL)
_FINAL = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end"}
_TILDE = {"1": "home", "3": "delete", "4": "end", "5": "pageup", "6": "pagedown", "7": "home", "8": "end"}
_NAMED = {
    "\r": "enter",
    "\n": "enter",
    " ": "space",
    "\t": "tab",
    "\x1b": "escape",
    "\x7f": "backspace",
    "\b": "backspace",
}


def split(text: str) -> tuple[list[str], str]:
    """Split typed or pasted text into names of keys, and a rest that may be the start of a longer sequence."""
    keys, at = [], 0
    while at < len(text):
        if text.startswith(PASTE_BEGINS, at):
            start, end = at + len(PASTE_BEGINS), text.find(PASTE_ENDS, at)
            if end < 0:
                break
            keys.append(_key_of_paste(text[start:end]))
            at = end + len(PASTE_ENDS)
        elif sequence := _SEQUENCE.match(text, at):
            keys += _of_sequence(sequence[0])
            at = sequence.end()
        elif _UNFINISHED.fullmatch(text, at):
            break
        else:
            keys.append(_of_character(text[at]))
            at += 1
    return keys, text[at:]


def pasted(key: str) -> str | None:
    """The text of a key that is a paste; None for any other key."""
    return key.removeprefix(_PASTE) if key.startswith(_PASTE) else None


def typed(key: str) -> str:
    """The text that a key adds to a line: a character, a paste without its line ends, or nothing."""
    text = pasted(key)
    if text is not None:
        return " ".join(text.split())
    return " " if key == "space" else key if len(key) == 1 else ""


def _key_of_paste(text: str) -> str:
    """The key that stands for a pasted text."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # terminals send either for a new line
    return _PASTE + _UNSEEN.sub("", _SEQUENCE.sub("", text))


def _of_sequence(sequence: str) -> list[str]:
    """The name of the key that sends a sequence; an empty list for keys that have no use here."""
    numbers, final = sequence[2:-1], sequence[-1]
    name = _TILDE.get(numbers.split(";")[0]) if final == "~" else _FINAL.get(final)
    return [name] if name and not numbers.startswith("[") else []


def _of_character(character: str) -> str:
    if name := _NAMED.get(character):
        return name
    return f"ctrl+{chr(ord(character) + 64).lower()}" if character < " " else character
