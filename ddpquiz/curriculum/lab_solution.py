"""The solution of a lab, cut at its markers: what is shown and what the learner writes; the starter follows from it."""

import re
import textwrap
from dataclasses import dataclass
from typing import Literal

_MARKER = re.compile(r"^(?P<indent> *)# lab: (?P<what>write|broken|end)\b[ ]*(?P<text>.*?)\s*$")
_COLUMNS = 80  # of a terminal
_COMMENT = re.compile(r"^(\s*)# ?(.*)$")


@dataclass(frozen=True, slots=True)
class Part:
    """A passage of the solution: one that is shown as it is, or one that the learner writes.

    `text` are its lines; of one to write, `ask` says what to write, and `broken` is what the learner gets instead, if
    that is faulty code to repair. `line` is where it begins.
    """

    text: str
    written: bool = False
    ask: str = ""
    broken: str = ""
    indent: str = ""
    line: int = 1


class MarkerError(ValueError):
    """A marker is in a wrong place; `line` says where."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


@dataclass(frozen=True, slots=True)
class LabSolution:
    """The solution in its parts, from top to bottom."""

    parts: tuple[Part, ...]

    @property
    def source(self) -> str:
        """The solution without markers."""
        return "".join(part.text for part in self.parts)

    @property
    def starter(self) -> str:
        """What the learner begins with: an error in place of what is to be written, or the faulty lines."""
        return "".join(_started(part) for part in self.parts)

    @property
    def written(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.written)

    def replaced(self, texts: tuple[str, ...]) -> str:
        """The solution with other code in place of the parts that are written, in order."""
        rest = iter(texts)
        return "".join(
            textwrap.indent(textwrap.dedent(next(rest)).strip("\n"), part.indent) + "\n" if part.written else part.text
            for part in self.parts
        )


def edit(source: str, old: str, new: str) -> str | None:
    """A source with one passage replaced, as deep as it stands there; None unless it stands there once.

    Both texts may be indented less than the passage: they move to the right together.
    """
    old, new = textwrap.dedent(old).strip("\n"), textwrap.dedent(new).strip("\n")
    if "\n" not in old:
        return _edited_line(source, old, new)
    edited = {source.replace(textwrap.indent(old, pad), textwrap.indent(new, pad)) for pad in _indents(source, old)}
    return edited.pop() if len(edited) == 1 else None


def _edited_line(source: str, old: str, new: str) -> str | None:
    if source.count(old) != 1:
        return None
    line = source[source.rfind("\n", 0, source.find(old)) + 1 :]
    pad = line[: len(line) - len(line.lstrip())]
    first, newline, rest = new.partition("\n")
    return source.replace(old, first + newline + textwrap.indent(rest, pad))


def _indents(source: str, old: str) -> list[str]:
    pads = [" " * width for width in range(0, 41, 4)]
    lines = f"\n{source}\n"
    return [pad for pad in pads if lines.count(f"\n{textwrap.indent(old, pad)}\n") == 1]


def read_solution(text: str) -> LabSolution:
    """Cut a solution at its markers. MarkerError if they do not fit together."""
    parts: list[Part] = []
    lines: list[str] = []
    wrong: list[str] = []
    opened: tuple[str, str, int] | None = None
    state: Literal["shown", "write", "broken"] = "shown"
    start = 1
    for number, line in enumerate(text.splitlines(), 1):
        marker = _MARKER.match(line)
        if not marker:
            (wrong if state == "broken" else lines).append(line)
            continue
        match marker["what"], state:
            case "write", "shown":
                parts.append(Part(_joined(lines), line=start))
                opened, state, start = (marker["text"], marker["indent"], number), "write", number
            case "broken", "write":
                state = "broken"
                continue
            case "end", "write" | "broken" if opened:
                ask, indent, at = opened
                parts.append(Part(_joined(lines), True, ask, _uncommented(wrong, at), indent, at))
                wrong, state, start = [], "shown", number + 1
            case what, _:
                raise MarkerError(number, f"`# lab: {what}` is out of order; the order is write, broken if any, end")
        lines = []
    if state != "shown":
        raise MarkerError(start, "`# lab: write` has no `# lab: end`")
    parts.append(Part(_joined(lines), line=start))
    if len(parts) == 1:
        raise MarkerError(1, "there is no `# lab: write`: nothing is left for the learner")
    return LabSolution(tuple(parts))


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _uncommented(lines: list[str], at: int) -> str:
    code = []
    for line in lines:
        comment = _COMMENT.match(line)
        if not comment:
            raise MarkerError(at, "each line under `# lab: broken` must be a comment: `# x = 1`")
        code.append(f"{comment[1]}{comment[2]}".rstrip())
    return _joined(code)


def _started(part: Part) -> str:
    if not part.written:
        return part.text
    if part.broken:
        return part.broken
    ask = part.ask or "write this part"
    line = f"{part.indent}raise NotImplementedError({_quoted(ask)})\n"
    if len(line) <= _COLUMNS:
        return line
    *words, last = textwrap.wrap(ask, _COLUMNS - len(f'{part.indent}    " "\n'))
    message = "".join(f"{part.indent}    {_quoted(each)}\n" for each in [*(f"{word} " for word in words), last])
    return f"{part.indent}raise NotImplementedError(\n{message}{part.indent})\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
