"""The rule of a budget: a comparison such as `sent <= 2 * (n - 1) * chunk`, or an order of two moments."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from ddpquiz.curriculum import formula

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
