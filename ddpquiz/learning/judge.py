"""Whether an answer is right, and what to say about it: one judge for each kind of question."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddpquiz.curriculum import formula
from ddpquiz.curriculum.concept import Kind, Question

if TYPE_CHECKING:
    from ddpquiz.curriculum.pose import Posed

_ROUNDING = 1e-5  # relative; content spells numbers with six digits
_GROUPS = re.compile(r"(?<=\d)[,_](?=\d{3}(?!\d))")
_NUMBER_AND_UNIT = re.compile(r"((?:sqrt|log2|[-+*/().\de ])*[\d)])\s*(.*)", re.IGNORECASE)
_NUMBERS = re.compile(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?", re.IGNORECASE)
_AROUND_MARKS = re.compile(r"\s*([\[\](){},:=])\s*")
_QUOTES = "'\"`"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is right, and why what is wrong with it is wrong.

    `unclear` is set when what was given cannot be read as an answer: then it says what would be one, so ask again.
    `chosen` are the places, from 0, of the options or lines that were given.
    """

    right: bool
    whys: tuple[str, ...] = ()
    unclear: str = ""
    chosen: tuple[int, ...] = ()


def judge(posed: Posed, given: str) -> Verdict:
    """Judge what a learner gave: places of options or lines as they were shown, a number, or a text."""
    match posed.question.kind:
        case Kind.CHOICE:
            return _choice(posed, given)
        case Kind.CHOICES:
            return _choices(posed, given)
        case Kind.NUMBER:
            return _number(posed.question, given)
        case Kind.ORDER:
            return _order(posed, given)
        case Kind.OUTPUT:
            return _output(posed.question, given)


def expected(posed: Posed) -> str:
    """Return the right answer, in the form in which it is given."""
    question = posed.question
    match question.kind:
        case Kind.CHOICE | Kind.CHOICES:
            return " ".join(str(place) for place, i in enumerate(posed.shown, 1) if question.options[i].right)
        case Kind.ORDER:
            return " ".join(str(posed.shown.index(i) + 1) for i in range(len(question.lines)))
        case Kind.NUMBER:
            return f"{question.answer} {question.unit}".strip()
        case Kind.OUTPUT:
            return question.answer


def chance(question: Question) -> float:
    """Return the chance that a blind guess is right."""
    match question.kind:
        case Kind.CHOICE:
            return 1 / len(question.options)
        case Kind.CHOICES:
            return 1 / (2.0 ** len(question.options) - 2)
        case Kind.ORDER:
            return 1 / math.factorial(len(question.lines))
        case _:
            return 0.0


def _choice(posed: Posed, given: str) -> Verdict:
    options = posed.question.options
    places = _places(given, len(options))
    if len(places) != 1:  # its text does it too, which scripts like because places are shuffled
        places = [place for place, i in enumerate(posed.shown) if _squeezed(options[i].text) == _squeezed(given)]
    if len(places) != 1:
        return Verdict(right=False, unclear=f"Answer with one number from 1 to {len(options)}.")
    chosen = options[posed.shown[places[0]]]
    return Verdict(chosen.right, () if chosen.right else (chosen.why,), chosen=tuple(places))


def _choices(posed: Posed, given: str) -> Verdict:
    options = posed.question.options
    places = _places(given, len(options))
    if not places:
        return Verdict(right=False, unclear=f"Answer with all numbers that are right, from 1 to {len(options)}: 1 3.")
    chosen = {posed.shown[place] for place in places}
    wrong = [options[i].why for i in sorted(chosen) if not options[i].right]
    missed = [
        f"{place} is right too." for place, i in enumerate(posed.shown, 1) if options[i].right and i not in chosen
    ]
    return Verdict(not wrong and not missed, (*wrong, *missed), chosen=tuple(places))


def _order(posed: Posed, given: str) -> Verdict:
    lines = posed.question.lines
    places = _places(given, len(lines))
    if len(places) != len(lines):
        return Verdict(right=False, unclear=f"Give each number from 1 to {len(lines)} once, in order, such as 2 1 3.")
    for number, place in enumerate(places):
        if posed.shown[place] != number:
            why = f"{_nth(number + 1)} comes: {lines[number].text}"
            return Verdict(right=False, whys=(why,), chosen=tuple(places))
    return Verdict(right=True, chosen=tuple(places))


def _number(question: Question, given: str) -> Verdict:
    typed = given.strip().replace("\N{MINUS SIGN}", "-").replace("^", "**")
    found = _NUMBER_AND_UNIT.fullmatch(_GROUPS.sub("", typed))
    try:
        value = formula.evaluate(found[1], {}) if found else None
    except ValueError:
        value = None
    if found is None or value is None or "," in found[2]:
        unit = f" of {question.unit}" if question.unit else ""
        return Verdict(right=False, unclear=f"Answer with a number{unit}, such as 1800, 1.8e3 or 3/4.")
    if found[2] and _unit(found[2]) != _unit(question.unit):
        return Verdict(
            right=False, unclear=f"Answer in {question.unit}." if question.unit else "Answer without a unit."
        )
    if _close(value, question.answer, question.tolerance):
        return Verdict(right=True)
    whys = [trap.why for trap in question.traps if _close(value, trap.answer, question.tolerance)]
    return Verdict(right=False, whys=tuple(whys[:1]))


def _output(question: Question, given: str) -> Verdict:
    if not given.strip():
        return Verdict(right=False, unclear="Type what is printed.")
    if _squeezed(given) == _squeezed(question.answer):
        return Verdict(right=True)
    whys = [trap.why for trap in question.traps if _squeezed(given) == _squeezed(trap.answer)]
    numbers = _figures(given)
    if not whys and numbers and numbers == _figures(question.answer):
        return Verdict(right=False, unclear="The numbers are right; write them as Python prints them.")
    return Verdict(right=False, whys=tuple(whys[:1]))


def _places(given: str, count: int) -> list[int]:
    """Read `2 4 1 3`, `2,4,1,3`, `24 13` or `2413` as places from 0; nothing when it is none of these."""
    words = re.split(r"[\s,;]+", given.strip(" \t\n.,;"))
    digits = words if count > 9 else list("".join(words))
    if not all(digit.isdecimal() and 1 <= int(digit) <= count for digit in digits):
        return []
    places = [int(digit) - 1 for digit in digits]
    return places if len(set(places)) == len(places) else []


def _squeezed(text: str) -> str:
    """Take out what the eye does not see: quotes around it, kinds of quotes, and blanks that separate nothing."""
    text = " ".join(text.replace("\\n", "\n").split())
    if len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES:
        text = text[1:-1]
    return _AROUND_MARKS.sub(r"\1", text.replace('"', "'").strip())


def _figures(text: str) -> list[float]:
    return [float(number) for number in _NUMBERS.findall(text)]


def _close(value: float, answer: str, tolerance: float) -> bool:
    right = float(answer)
    exact = not tolerance and right.is_integer()
    return math.isclose(value, right, rel_tol=1e-12 if exact else max(tolerance, _ROUNDING), abs_tol=1e-12)


def _unit(text: str) -> str:
    text = text.strip(" .")
    return text if len(text) <= 4 else text.lower().removesuffix("s")  # GB and Gb differ, byte and Bytes do not


def _nth(number: int) -> str:
    return {1: "First", 2: "Second", 3: "Third"}.get(number, f"{number}th")
