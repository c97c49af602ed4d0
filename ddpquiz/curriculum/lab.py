"""What a lab holds, as plain frozen data: its task, its runs, its budgets, and known right and wrong solutions.

A budget has a rule: a comparison such as `sent <= 2 * (n - 1) * chunk`, or an order of two moments. The solution is cut
into the lines that are shown and those that the learner writes, from which the starter follows.
"""

from __future__ import annotations

import operator
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ddpquiz.curriculum import formula


@dataclass(frozen=True, slots=True)
class LabRun:
    """One run of the check: on how many ranks, with which seeds and further arguments."""

    ranks: int
    seeds: tuple[int, ...]
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on what happens in a phase of the check, and the sentence for a learner who exceeds it.

    As a star, it is a target beyond correctness.
    """

    name: str
    phase: str
    rule: Rule
    say: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """A solution that the check must refuse, by a claim or budget in `caught`, or must accept if `caught` is empty.

    Besides claims and budgets, `hang`, `error` (an exception in the learner's file), `no end` and `not awaited` (for an
    asynchronous operation) may catch it.
    """

    name: str
    source: str
    caught: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """One program to write or repair, and how it is checked. `folder` holds solution.py and check.py."""

    id: str
    folder: Path
    title: str
    concept: str
    minutes: int
    needs: tuple[str, ...]
    task: str
    hints: tuple[str, ...]
    runs: tuple[LabRun, ...]
    restarts: int
    seconds: int
    budgets: tuple[Budget, ...]
    stars: tuple[Budget, ...]
    mutants: tuple[Attempt, ...]
    variants: tuple[Attempt, ...]
    solution: LabSolution
    claims: tuple[str, ...]
    origin: str = ""  # of a lab of a pack: the fingerprint of the files that it was read from

    @property
    def file_name(self) -> str:
        """The name of the learner's file."""
        return f"{self.id.replace('/', '_').replace('-', '_')}.py"

    @property
    def item(self) -> str:
        """Its name in the log: like that of a card, the concept and a name of its own."""
        return f"{self.concept}/{self.id.rpartition('/')[2]}"

    @property
    def check(self) -> Path:
        return self.folder / "check.py"


# What the recorder measures on each rank in a phase, besides `calls_NAME` for each operation.
MEASURES = {
    "sent": "bytes that the rank sent; a collective counts as a ring",
    "received": "bytes that the rank received",
    "calls": "operations that the rank called",
    "collectives": "operations other than sends and receives",
    "destinations": "ranks to which the rank sent a message",
    "rounds": "longest chain of messages, over all ranks, each of which had to wait for the one before",
    "in_flight": "most operations that ran in the background at the same time",
    "overlapped": "operations in flight while the rank printed a line `label: value`",
}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_COMPARISON = re.compile(r"([^<>=]+)(<=|>=|==|<|>)([^<>=]+)")
_MOMENT = r"(?:(first|last|\d{1,4}) ([a-z_0-9]+)|label (.+?))"
_ORDER = re.compile(rf"{_MOMENT} before {_MOMENT}")
ROUNDING = 1e-9  # relative; what the floating point of a formula may be off by


@dataclass(frozen=True, slots=True)
class Limit:
    """A comparison of two formulas."""

    text: str
    left: str
    sign: str
    right: str

    def names(self) -> set[str]:
        return formula.names(self.left) | formula.names(self.right)

    def sides(self, values: Mapping[str, float]) -> tuple[float, float]:
        """Both sides. ValueError if a name has no value."""
        known = {
            name: values.get(name, 0.0) if name.startswith("calls_") else values[name] for name in self._known(values)
        }
        return formula.evaluate(self.left, known), formula.evaluate(self.right, known)

    def _known(self, values: Mapping[str, float]) -> set[str]:
        return {name for name in self.names() if name in values or name.startswith("calls_")}

    def holds(self, values: Mapping[str, float]) -> bool:
        left, right = self.sides(values)
        if self.sign != "==" and abs(left - right) <= ROUNDING * max(1.0, abs(right)):
            return "=" in self.sign
        return _COMPARE[self.sign](left, right)


@dataclass(frozen=True, slots=True)
class PhaseMoment:
    """When something happened in a phase: the first, last or `which`-th call of an operation, or a label's line."""

    kind: Literal["call", "label"]
    name: str
    which: str = "first"

    def __str__(self) -> str:
        return f"the line `{self.name}`" if self.kind == "label" else f"{_ordinal(self.which)} {self.name}"


@dataclass(frozen=True, slots=True)
class Order:
    """Something must happen before something else, on each rank."""

    text: str
    earlier: PhaseMoment
    later: PhaseMoment


Rule = Limit | Order


def read_rule(text: str) -> Rule:
    """Read the rule of a budget. ValueError with a sentence if it is not valid."""
    text = " ".join(text.split())
    if match := _ORDER.fullmatch(text):
        return Order(text, _moment(*match.groups()[:3]), _moment(*match.groups()[3:]))
    if match := _COMPARISON.fullmatch(text):
        limit = Limit(text, match[1].strip(), match[2], match[3].strip())
        limit.names()
        return limit
    raise ValueError(
        f"`{text}` is not a rule; write a comparison such as `sent <= 2 * (n - 1) * chunk`,"
        " or an order such as `first all_reduce before label backward done`"
    )


def _moment(which: str | None, op: str | None, label: str | None) -> PhaseMoment:
    return PhaseMoment("label", label) if label else PhaseMoment("call", op or "", which or "first")


def _ordinal(which: str) -> str:
    return f"the {which}" if which in ("first", "last") else f"call {which} of"


_MARKER = re.compile(r"^(?P<indent> *)# lab: (?P<what>write|broken|end)\b[ ]*(?P<text>.*?)\s*$")
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
    words = textwrap.wrap(ask, 116 - len(part.indent))
    comment = "".join(f"{part.indent}# {line}\n" for line in words)
    return f"{comment}{part.indent}raise NotImplementedError({_quoted(ask)})\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
