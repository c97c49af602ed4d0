"""The user's own editor: a text that is written in it (`edit`), and a file that is opened in it (`open_file`)."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ddpquiz.errors import UserError
from ddpquiz.terminal.kit.screen import is_interactive

_LINE = "# ------ Write below this line; the lines above it are ignored. ------"


def edit(ask: str, text: str) -> str:
    """Let the user answer `ask`, starting from `text`; UserError if there is no editor or it fails."""
    editor = _editor()
    asked = textwrap.fill(" ".join(ask.split()), 88, initial_indent="# ", subsequent_indent="# ")
    try:
        with tempfile.TemporaryDirectory(prefix="ddpquiz-") as folder:
            file = Path(folder) / "explain.txt"
            file.write_text(f"{asked}\n{_LINE}\n{text}\n", "utf-8")
            _run(editor, file)
            written = file.read_text("utf-8", errors="replace")
    except OSError:
        raise UserError(
            "The file for the editor cannot be written; free some disk space, or set TMPDIR to another folder."
        ) from None
    return written.partition(_LINE)[2].strip() if _LINE in written else written.strip()


def open_file(file: Path) -> None:
    """Open a file in the user's editor, and wait until it is closed; UserError if there is no editor or it fails."""
    _run(_editor(), file)


_USUAL = ("nano", "editor", "vim", "vi")  # the first of them names its keys on the screen
_HOW_TO_LEAVE = {  # by what the name of a program begins with
    ("nano", "pico"): "Ctrl+o and enter save, ctrl+x leaves.",
    ("vi", "nvim"): "Press i to type; esc, then :wq and enter, saves and leaves.",
    ("emacs",): "Ctrl+x ctrl+s saves, ctrl+x ctrl+c leaves.",
    ("micro",): "Ctrl+s saves, ctrl+q leaves.",
}


def _editor() -> str:
    editor = _set_editor() or next(filter(shutil.which, _USUAL), None)
    if not editor:
        raise UserError("No editor is set, and none of the usual ones is installed; set EDITOR.")
    return editor


def _set_editor() -> str | None:
    return os.environ.get("VISUAL") or os.environ.get("EDITOR")


_introduced: set[str] = set()  # the editors that were opened: whoever opens one again knows


@contextmanager
def _introduction(editor: str) -> Iterator[None]:
    """Say which editor opens, how to leave it, and how to choose another; wait for a learner who has not chosen it.

    Nothing of that stays on the terminal: it must not stand above the next prompt of the shell.
    """
    words = _words(editor)
    if not words or not is_interactive() or editor in _introduced:
        yield
        return
    program = words[0]
    program = os.path.realpath(shutil.which(program) or program) if program == "editor" else program
    name = Path(program).name.partition(".")[0]  # such as vim.basic
    how = next((how for names, how in _HOW_TO_LEAVE.items() if name.startswith(names)), "Save the file, and close it.")
    waits = not _set_editor()
    said = f"\n{name} opens. {how}\nTo use another editor, set EDITOR. "
    said += "Press enter to open this one. " if waits else ""
    columns = shutil.get_terminal_size().columns
    rows = said.count("\n") + sum(len(line) // columns for line in said.splitlines())
    try:
        print(said, end="", flush=True)
        if waits:
            sys.stdin.readline()
            rows += 1
        _introduced.add(editor)
        yield
    finally:
        print(f"\x1b[{rows}A\r\x1b[J", end="", flush=True)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # to start it says so
        return []


def _run(editor: str, file: Path) -> None:
    with _introduction(editor):
        before = signal.signal(signal.SIGINT, lambda *_: None)  # ctrl+c is for the editor
        try:
            subprocess.run([*shlex.split(editor), str(file)], check=True)
        except (OSError, ValueError):
            raise UserError(f"The editor `{editor}` cannot be started; set EDITOR to another one.") from None
        except subprocess.CalledProcessError as failed:
            raise UserError(
                f"The editor `{editor}` ended with status {failed.returncode}, so your text was not read."
            ) from None
        finally:
            signal.signal(signal.SIGINT, before)
