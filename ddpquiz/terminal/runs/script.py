"""The script of a run: with a mark at the line of each rank, and what its docstring suggests to try next."""

import ast
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from ddpquiz.events.event import Began
from ddpquiz.events.run_frame import RunFrame
from ddpquiz.events.source_text import read_source
from ddpquiz.paths import demo_file, demo_name, demos_dir
from ddpquiz.terminal.kit.grid import StyledText, TextLines
from ddpquiz.terminal.kit.layout import indented, shown_path
from ddpquiz.terminal.kit.style import console, plain, prose

_MARGIN = 8  # columns for the marks, at least
_NUMBER = 5  # columns for line numbers
_COLUMNS = re.compile(r"^\s|\S {2}")  # matches lines that are set in columns
_HANGS = 4  # columns by which a folded line is indented further than its start
_LINE = re.compile(r"(?:Try)? +(\S.*?) {2,}(\S.*)")  # of the docstring's paragraph that starts with `Try`
_RANKS = re.compile(r"on (\d+) ranks?(?:, then (\d+))?")  # other numbers of ranks instead of arguments


def source(shown: RunFrame, width: int) -> tuple[TextLines, int]:
    """Draw the script with marks; return it with the number of the line to look at, counted from 0.

    That is the line where most ranks are, or the first one after a run that went well. Ranks that are in another file
    are listed above the script.
    """
    script, marks = shown.began.script if shown.began else "", shown.marks
    margin = max([_MARGIN, *map(len, marks.values())])
    above: list[list[StyledText]] = [[(sentence, "warn")] for sentence in shown.elsewhere]
    read = script_text(script)
    lines = _drawn(read[1], width - margin - _NUMBER) if read else []
    if not lines:
        above.append([(f"The script {script} cannot be read here.", "warn")])
    drawn, look_at = above, 0
    for number, parts in enumerate(lines, 1):
        look_at = len(drawn) if number == shown.current else look_at
        style = "head" if number in marks else "quiet"
        margins: list[StyledText] = [(marks.get(number, "").ljust(margin), "warn"), (f"{number:4} ", style)]
        below: list[StyledText] = [(" " * (margin + _NUMBER), "")]
        drawn += [[*(below if place else margins), *part] for place, part in enumerate(parts)]
    return TextLines(drawn), 0 if shown.ended_well else look_at


def script_text(script: str) -> tuple[Path, str] | None:
    """The path and the text of a script, if it can be read; demos of saved runs are looked up among ours."""
    for path in (Path(script), demos_dir() / Path(script).name):
        if (text := read_source(path)) is not None:
            return path, text
    return None


@lru_cache(1)
def _drawn(text: str, width: int) -> list[list[list[StyledText]]]:
    """The lines in colors, each folded to a width; a paragraph of the docstring stands in its first line."""
    from ddpquiz.terminal.kit.highlight import python

    lines: list[Text | None] = [*python(text).split("\n", allow_blank=True)]
    explanation = range(_end_of_docstring(text))
    if any(line and line.cell_len > width for line in lines[: len(explanation)]):
        _join_paragraphs(lines, explanation)
    return [
        [[(piece.text, piece.style or "") for piece in part.render(console())] for part in parts]
        for parts in (
            _folded(line, width, 0 if at in explanation and _is_prose(line) else _HANGS) if line is not None else []
            for at, line in enumerate(lines)
        )
    ]


def _end_of_docstring(text: str) -> int:
    """The number of the last line of the script's docstring; 0 if it has none."""
    try:
        script = ast.parse(text)
    except (SyntaxError, ValueError):
        return 0
    return 0 if ast.get_docstring(script) is None else script.body[0].end_lineno or 0


def _join_paragraphs(lines: list[Text | None], among: range) -> None:
    """Move each paragraph into its first line, to be folded as a whole; lines that are set in columns stay."""
    head: Text | None = None
    for at in among:
        line = lines[at]
        if line is None or not _is_prose(line):
            head = None
        elif head is None:
            head = line
        else:
            head.append(" ").append_text(line)
            lines[at] = None


def _is_prose(line: Text) -> bool:
    return bool(line.plain) and not _COLUMNS.search(line.plain)


def _folded(line: Text, width: int, hangs: int) -> list[Text]:
    """Fold a line between words; what follows is indented `hangs` columns further than its start."""
    if line.cell_len <= width:
        return [line]
    first = line.wrap(console(), width)[0]
    rest = line[len(first.plain) :]
    rest = rest[len(rest.plain) - len(rest.plain.lstrip()) :]
    hang = " " * min(len(line.plain) - len(line.plain.lstrip()) + hangs, width // 2)
    return [first, *(Text(hang).append_text(part) for part in rest.wrap(console(), width - len(hang)))]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A run to try: its command, its arguments, its number of ranks, and what it shows."""

    command: str
    args: tuple[str, ...] = ()
    ranks: int | None = None
    shows: str = ""


def suggestions(began: Began | None) -> tuple[Suggestion, ...]:
    """What to try with the script of a run."""
    return of_script(began.script, began.module) if began else ()


def of_script(script: str, module: str = "") -> tuple[Suggestion, ...]:
    """What to try with a script; nothing where the script suggests nothing or cannot be read here."""
    read = script_text(script)
    if read is None:
        return ()
    path, text = read
    name = demo_name(path)
    if not module and path.resolve() == demo_file(name).resolve():
        return _parse(text, f"ddpquiz demo {name}{{}}")
    return _parse(text, f"ddpquiz run{{}} {f'-m {module}' if module else shown_path(str(path))}")


def tries(suggested: Sequence[Suggestion], *, numbered: bool = False) -> list[RenderableType]:
    """Draw suggestions, each command on a line of its own; `numbered` puts the key before it that starts it."""
    title = "Try next" if suggested else "This script suggests nothing to try."
    parts: list[RenderableType] = [Text(title, style="head")]
    for number, suggestion in enumerate(suggested, 1):
        key = f"{number} " if numbered and number <= 9 else ""
        parts.append(indented(Text.assemble((key, "key"), (plain(suggestion.command), "code"))))
        parts += [indented(prose(suggestion.shows), 6)] if suggestion.shows else []
    return parts


@lru_cache(1)
def _parse(text: str, command: str) -> tuple[Suggestion, ...]:
    try:
        about = ast.get_docstring(ast.parse(text)) or ""
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    paragraph = next((part for part in about.split("\n\n") if part.startswith("Try ")), "")
    lines: list[tuple[str, str]] = []
    for line in paragraph.splitlines():
        if words := _LINE.fullmatch(line):
            lines.append((words[1], words[2]))
        elif lines:  # it goes on with what the line before says
            lines[-1] = lines[-1][0], f"{lines[-1][1]} {line.strip()}"
    return tuple(run for what, shows in lines for run in _runs(command, what, shows))


def _runs(command: str, what: str, shows: str) -> list[Suggestion]:
    """The runs that a line suggests; `command` has a place for options of ours."""
    if ranks := _RANKS.fullmatch(what):
        counts = [int(count) for count in ranks.groups() if count]
        runs = [Suggestion(command.format(f" --nproc {count}"), ranks=count) for count in counts]
        return [*runs[:-1], replace(runs[-1], shows=shows)]
    try:
        args = tuple(shlex.split(what))
    except ValueError:  # a quotation mark that is never closed
        return []
    return [Suggestion(f"{command.format('')} -- {what}", args, shows=shows)]
