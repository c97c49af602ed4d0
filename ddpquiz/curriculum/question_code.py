"""The code of a question: an option in the place of `<option>`, and the lines of a script one of which is at fault."""

import ast
import re

from ddpquiz.curriculum.concept import Question

_OPTION_LINE = re.compile(r"^([ ]*)<option>[ ]*$", re.MULTILINE)


def has_option_line(code: str) -> bool:
    """True if this code has a line `<option>`."""
    return _OPTION_LINE.search(code) is not None


def with_option(code: str, option: str) -> str:
    """Replace the line `<option>` with the code of an option, indented like that line."""

    def indented(line: re.Match[str]) -> str:
        return "\n".join(line[1] + part if part.strip() else part for part in option.split("\n"))

    return _OPTION_LINE.sub(indented, code)


def script_lines(question: Question) -> tuple[str, ...]:
    """The lines of the script."""
    return tuple(question.code.splitlines())


def choosable_lines(question: Question) -> tuple[int, ...]:
    """The places, from 0, of the lines that can be chosen: all but empty lines and comments."""
    stripped = enumerate(map(str.strip, script_lines(question)))
    return tuple(place for place, line in stripped if line and not line.startswith("#"))


def places_of(question: Question, text: str) -> list[int]:
    """The places of the lines that equal a text, apart from indentation."""
    return [place for place in choosable_lines(question) if script_lines(question)[place].strip() == text.strip()]


def fault_line(question: Question) -> int:
    """The place of the line at fault. The reader has checked that there is exactly one."""
    return places_of(question, question.answer)[0]


def numbered_line(question: Question, place: int) -> str:
    """A line of the script with its number, as a learner sees it."""
    return f"line {place + 1}: {script_lines(question)[place].strip()}"


def fixed_script(question: Question) -> str:
    """The script with the line at fault replaced by its fix."""
    return _with(question, fault_line(question), question.fix)


def without_line(question: Question, text: str) -> str | None:
    """The script with `pass` in place of a line, or None if it must stay, as one that opens a block."""
    place = places_of(question, text)[0]
    line = script_lines(question)[place]
    script = _with(question, place, line[: len(line) - len(line.lstrip())] + "pass")
    try:
        ast.parse(script)
    except SyntaxError:
        return None
    return script


def _with(question: Question, place: int, replacement: str) -> str:
    lines = list(script_lines(question))
    lines[place] = replacement
    return "\n".join(lines) + "\n"
