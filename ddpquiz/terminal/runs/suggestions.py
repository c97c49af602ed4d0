"""What a script's docstring suggests to try next, as commands."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.text import Text

from ddpquiz.paths import demos_dir
from ddpquiz.terminal.kit.layout import indented, shown_path
from ddpquiz.terminal.kit.style import plain, prose
from ddpquiz.terminal.runs.source import script_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddpquiz.analysis.events import Began

_LINE = re.compile(r"(?:Try)? +(\S.*?) {2,}(\S.*)")  # of the docstring's paragraph that starts with `Try`
_RANKS = re.compile(r"on (\d+) ranks?(?:, then (\d+))?")  # other numbers of ranks instead of arguments


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A run to try: its command, its arguments, its number of ranks, and what it shows."""

    command: str
    args: tuple[str, ...] = ()
    ranks: int | None = None
    shows: str = ""


def suggestions(began: Began | None) -> tuple[Suggestion, ...]:
    """Return what to try with the script of a run."""
    return of_script(began.script, began.module) if began else ()


def of_script(script: str, module: str = "") -> tuple[Suggestion, ...]:
    """Return what to try with a script; nothing where the script suggests nothing or cannot be read here."""
    found = script_text(script)
    if found is None:
        return ()
    path, text = found
    if not module and path.resolve().parent == demos_dir().resolve():
        return _parse(text, f"ddpquiz demo {path.stem}{{}}")
    return _parse(text, f"ddpquiz run{{}} {f'-m {module}' if module else shown_path(str(path))}")


def tries(found: tuple[Suggestion, ...], *, numbered: bool = False) -> list[RenderableType]:
    """Draw suggestions, each command on a line of its own; `numbered` puts the key before it that starts it."""
    parts: list[RenderableType] = [Text("Try next" if found else "This script suggests nothing to try.", style="head")]
    for number, each in enumerate(found, 1):
        key = f"{number} " if numbered and number <= 9 else ""
        parts.append(indented(Text.assemble((key, "key"), (plain(each.command), "code"))))
        parts += [indented(prose(each.shows), 6)] if each.shows else []
    return parts


@lru_cache(1)
def _parse(text: str, command: str) -> tuple[Suggestion, ...]:
    try:
        about = ast.get_docstring(ast.parse(text)) or ""
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    paragraph = next((part for part in about.split("\n\n") if part.startswith("Try ")), "")
    lines = [found.groups() for line in paragraph.splitlines() if (found := _LINE.fullmatch(line))]
    return tuple(each for what, shows in lines for each in _runs(command, what, shows))


def _runs(command: str, what: str, shows: str) -> list[Suggestion]:
    """Return the runs that a line suggests; `command` has a place for options of ours."""
    if ranks := _RANKS.fullmatch(what):
        counts = [int(count) for count in ranks.groups() if count]
        runs = [Suggestion(command.format(f" --nproc {count}"), ranks=count) for count in counts]
        return [*runs[:-1], replace(runs[-1], shows=shows)]
    try:
        args = tuple(shlex.split(what))
    except ValueError:  # a quotation mark that is never closed
        return []
    return [Suggestion(f"{command.format('')} -- {what}", args, shows=shows)]
