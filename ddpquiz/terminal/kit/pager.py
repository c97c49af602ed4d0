"""Printing a page through the user's pager, if it is longer than the terminal."""

import os
import shlex
import signal
import subprocess
import sys

from rich.console import Console, RenderableType

from ddpquiz.terminal.kit.layout import show
from ddpquiz.terminal.kit.screen import is_interactive

# The page stays, ctrl+c quits. In less, `?` searches backward, so its line names the key that explains the others.
_LESS = "-X -K -Ps?eb page back, h help, q quit:space next page, b page back, h help, q quit.$"


def show_paged(console: Console, page: RenderableType) -> None:
    """Print a page into the scrollback; one that is longer than the terminal goes through the user's pager."""
    try:
        pager = shlex.split(os.environ.get("PAGER", "less"))
    except ValueError:  # a quotation mark that is never closed
        pager = []
    if not is_interactive() or not pager:
        show(console, page)
        return
    with console.capture() as captured:
        show(console, page)
    text = captured.get()
    if text.count("\n") < console.height or not _read(pager, text):
        console.file.write(text)


def _read(pager: list[str], text: str) -> bool:
    """Show a text in a pager, and wait until it ends; return False if the pager cannot be started."""
    environment = {**os.environ, "LESS": f"-R {os.environ.get('LESS', _LESS)}"}  # -R shows colors as colors
    try:
        process = subprocess.Popen(
            pager, stdin=subprocess.PIPE, encoding=sys.stdout.encoding, errors="replace", env=environment
        )
    except OSError:
        return False
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl+c is for the pager
    try:
        process.communicate(text)
    finally:
        signal.signal(signal.SIGINT, before)
    return True
