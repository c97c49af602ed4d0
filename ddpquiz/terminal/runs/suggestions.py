"""What a script's docstring says to try, as commands to paste."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.text import Text

from ddpquiz.paths import demos_dir
from ddpquiz.terminal.kit.layout import indented, shown_path
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.runs.source import script_text

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from ddpquiz.analysis.events import Began

_LINE = re.compile(r"(?:Try)? +(\S.*?) {2,}(\S.*)")  # of the docstring's paragraph that starts with `Try`
_RANKS = re.compile(r"on (\d+) ranks?(?:, then (\d+))?")  # other numbers of ranks instead of arguments


@dataclass(frozen=True, slots=True)
class Try:
    """One thing to try: the commands for it, and what they show."""

    commands: tuple[str, ...]
    shows: str


def to_try(began: Began | None) -> tuple[Try, ...]:
    """Return what to try with the script of a run."""
    return of_script(began.script, began.module) if began else ()


def of_script(script: str, module: str = "") -> tuple[Try, ...]:
    """Return what to try with a script; nothing if it does not say so, or is not here."""
    found = script_text(script)
    if found is None:
        return ()
    path, text = found
    return _read(text, f"ddpquiz run -m {module}" if module else _command(path))


def tries(found: tuple[Try, ...]) -> list[RenderableType]:
    """Draw them, each command on a line of its own."""
    parts: list[RenderableType] = [Text("Try next" if found else "This script names nothing to try.", style="head")]
    for each in found:
        parts += [indented(Text(plain(command), style="code")) for command in each.commands]
        parts.append(indented(prose(each.shows), 6))
    return parts


def _command(path: Path) -> str:
    is_shipped = path.resolve().parent == demos_dir().resolve()
    return f"ddpquiz demo {path.stem}" if is_shipped else f"ddpquiz run {shown_path(str(path))}"


@lru_cache(1)
def _read(text: str, command: str) -> tuple[Try, ...]:
    try:
        about = ast.get_docstring(ast.parse(text)) or ""
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    said = next((part for part in about.split("\n\n") if part.startswith("Try ")), "")
    lines = [found.groups() for line in said.splitlines() if (found := _LINE.fullmatch(line))]
    return tuple(Try(_commands(command, what), shows) for what, shows in lines)


def _commands(command: str, what: str) -> tuple[str, ...]:
    if ranks := _RANKS.fullmatch(what):
        program, verb, what = command.split(" ", 2)  # options of `run` stand before the script
        start, end = (command, "") if verb == "demo" else (f"{program} {verb}", f" {what}")
        return tuple(f"{start} --nproc {count}{end}" for count in ranks.groups() if count)
    return (f"{command} -- {what}",)
