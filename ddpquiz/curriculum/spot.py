"""The script of a `spot` question: its lines, the one at fault, and the script with that line fixed."""

import ast

from ddpquiz.curriculum.concept import Question


def script_lines(question: Question) -> tuple[str, ...]:
    """Return the lines of the script."""
    return tuple(question.code.splitlines())


def candidates(question: Question) -> tuple[int, ...]:
    """Return the places, from 0, of the lines that can be chosen: all but empty lines and comments."""
    stripped = enumerate(map(str.strip, script_lines(question)))
    return tuple(place for place, line in stripped if line and not line.startswith("#"))


def places_of(question: Question, text: str) -> list[int]:
    """Return the places of the lines that equal a text, apart from indentation."""
    return [place for place in candidates(question) if script_lines(question)[place].strip() == text.strip()]


def fault(question: Question) -> int:
    """Return the place of the line at fault. The reader has checked that there is exactly one."""
    return places_of(question, question.answer)[0]


def fixed_script(question: Question) -> str:
    """Return the script with the line at fault replaced by its fix."""
    return _with(question, fault(question), question.fix)


def without(question: Question, text: str) -> str | None:
    """Return the script with `pass` in place of a line, or None if it must stay, as one that opens a block."""
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
