"""Writing in the user's own editor, by way of a temporary file, or on a file that exists."""

import os
import shlex
import signal
import subprocess
import tempfile
import textwrap
from pathlib import Path

from ddpquiz.errors import UserError

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


def _editor() -> str:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise UserError("No editor is set; set EDITOR, for example to nano or vim.")
    return editor


def _run(editor: str, file: Path) -> None:
    before = signal.signal(signal.SIGINT, lambda *_: None)  # ctrl+c is for the editor
    try:
        subprocess.run([*shlex.split(editor), str(file)], check=True)
    except (OSError, ValueError):
        raise UserError(f"The editor `{editor}` cannot be started; set EDITOR to another one.") from None
    except subprocess.CalledProcessError as failed:
        raise UserError(
            f"The editor `{editor}` ended with status {failed.returncode}; its text was not read."
        ) from None
    finally:
        signal.signal(signal.SIGINT, before)
