"""Judge answers: whether they are right and, if not, why; and say how each kind of question is answered.

Numbers may have units as people write them, and are converted. On the site, web/site.js judges by the same rules, but
for units.
"""

import math
import re
from dataclasses import dataclass

from ddpquiz.curriculum import formula
from ddpquiz.curriculum.concept import Kind, Question
from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.curriculum.question_code import choosable_lines, fault_line, numbered_line, places_of, script_lines
from ddpquiz.plural import plural

_ROUNDING = 1e-5  # relative; a learner types as many digits as the screen shows, six
_GROUPS = re.compile(r"(?<=\d)[,_](?=\d{3}(?!\d))")
_NUMBER_AND_UNIT = re.compile(r"((?:sqrt|log2|[-+*/().\de ])*[\d)])\s*(.*)", re.IGNORECASE)
_TIMES_SIGN = re.compile(r"(?<=[\d)])\s*[x×]\s*(?=[\d(])")  # noqa: RUF001
_DECIMAL_COMMA = re.compile(r"(?<![\d.])(?:0,\d|\d+,(?!\d{3}(?!\d)))")
_LITERAL = re.compile(r"[-+]?[\d.]+")
_SAID = re.compile(r"(?P<word>[a-z_]\w*(?:\.\w+)*)|[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?", re.IGNORECASE)
_FILLERS = ("in", "of", "the")
_CONTAINER = re.compile(r"(?<![\w.])[a-z_][\w.]*(?=\()", re.IGNORECASE)  # tried once per name, not once per letter
_AROUND_MARKS = re.compile(r"\s*([\[\](){},:=])\s*")
_LINE = re.compile(r"(?:line\s*)?(\d{1,3})(?:\s*[.:].*)?", re.IGNORECASE | re.ASCII)  # `12`, or as `expected` shows it
_QUOTES = "'\"`"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is right, and what is wrong with it.

    `unclear` is set if the text is not an answer, and says what an answer looks like. `chosen` are the places, from 0,
    of the options or lines that were chosen.
    """

    right: bool
    whys: tuple[str, ...] = ()
    unclear: str = ""
    chosen: tuple[int, ...] = ()


def judge(posed: Posed, given: str) -> Verdict:
    """Judge an answer: places of options or lines as they were shown, a number, or a text."""
    match posed.question.kind:
        case Kind.CHOICE:
            return _choice(posed, given)
        case Kind.CHOICES:
            return _choices(posed, given)
        case Kind.NUMBER:
            return _number(posed, given)
        case Kind.ORDER:
            return _order(posed, given)
        case Kind.OUTPUT:
            return _output(posed.question, given)
        case Kind.SPOT:
            return _spot(posed.question, given)


def chance(question: Question) -> float:
    """The chance that a blind guess is right."""
    match question.kind:
        case Kind.CHOICE:
            return 1 / len(question.options)
        case Kind.CHOICES:
            return 1 / (2.0 ** len(question.options) - 2)
        case Kind.ORDER:
            return 1 / math.factorial(len(question.lines))
        case Kind.SPOT:
            return 1 / len(choosable_lines(question))
        case _:
            return 0.0


def _choice(posed: Posed, given: str) -> Verdict:
    options = posed.question.options
    places = _places(given, len(options))
    if len(places) != 1:  # the text of an option is an answer too: scripts need it, because places are shuffled
        places = [place for place, i in enumerate(posed.shown) if _squeezed(options[i].text) == _squeezed(given)]
    if len(places) != 1:
        return Verdict(right=False, unclear=f"Answer with one number from 1 to {len(options)}.")
    chosen = options[posed.shown[places[0]]]
    return Verdict(chosen.right, () if chosen.right else (chosen.why,), chosen=tuple(places))


def _choices(posed: Posed, given: str) -> Verdict:
    options = posed.question.options
    places = _places(given, len(options))
    if not places:
        return Verdict(
            right=False, unclear=f"Answer with the numbers of all right options, from 1 to {len(options)}, such as 1 3."
        )
    chosen = {posed.shown[place] for place in places}
    wrong = [options[i].why for i in sorted(chosen) if not options[i].right]
    missed = [
        f"{place} is right, too: {f'`{options[i].text}`' if options[i].code else options[i].text}."
        for place, i in enumerate(posed.shown, 1)
        if options[i].right and i not in chosen
    ]
    return Verdict(not wrong and not missed, (*wrong, *missed), chosen=tuple(places))


def _example(lines: int) -> str:
    """An order of so many lines, as it is typed."""
    return " ".join(map(str, (2, 1, *range(3, lines + 1))))


def _order(posed: Posed, given: str) -> Verdict:
    lines = posed.question.lines
    places = _places(given, len(lines))
    if len(places) != len(lines):
        unclear = f"Give each number from 1 to {len(lines)} once, in order, such as {_example(len(lines))}."
        return Verdict(right=False, unclear=unclear)
    for number, place in enumerate(places):
        if posed.shown[place] != number:
            why = f"{_nth(number + 1)} comes: {lines[number].text}"
            return Verdict(right=False, whys=(why,), chosen=tuple(places))
    return Verdict(right=True, chosen=tuple(places))


def answered(posed: Posed, given: str) -> str:
    """An answer as it was read: a number with its unit, and its value if an expression was typed."""
    question, read = posed.question, _read(given)
    if question.kind is Kind.SPOT and (line := chosen_line(question, given)) is not None:
        return numbered_line(question, line)
    if question.kind is Kind.ORDER and (places := _places(given, len(question.lines))):
        return " ".join(str(place + 1) for place in places)
    value = _in_unit(question, read) if read else None
    if question.kind is not Kind.NUMBER or read is None or value is None:
        return given
    said = formula.quantity(given.strip(), "" if read.unit else question.unit)
    as_typed = read.literal and value == read.value
    return said if as_typed else f"{said} = {formula.quantity(formula.format_number(value), question.unit)}"


@dataclass(frozen=True, slots=True)
class _Read:
    """A number and its unit as they were typed; `literal` if it is not an expression."""

    value: float
    unit: str
    literal: bool


def _read(given: str) -> _Read | None:
    """Parse a number or an arithmetic expression, and a unit."""
    typed = given.strip().replace("\N{MINUS SIGN}", "-").replace("^", "**")
    match = _NUMBER_AND_UNIT.fullmatch(_TIMES_SIGN.sub("*", _GROUPS.sub("", typed)))
    if match is None or "," in match[2] or _DECIMAL_COMMA.search(typed):
        return None
    try:
        return _Read(formula.evaluate(match[1], {}), match[2].strip(), bool(_LITERAL.fullmatch(match[1].strip())))
    except ValueError:
        return None


def _in_unit(question: Question, read: _Read) -> float | None:
    return _convert(read.value, read.unit, question.unit) if read.unit else read.value


def _number(posed: Posed, given: str) -> Verdict:
    question, read = posed.question, _read(given)
    if read is None and _DECIMAL_COMMA.search(given):
        return Verdict(right=False, unclear="Write a decimal point, as in 1.8; a comma groups thousands, as in 1,800.")
    if read is None:
        unit = f" (in {question.unit})" if question.unit and not question.unit.startswith("times") else ""
        return Verdict(right=False, unclear=f"Answer with a number{unit}, such as 1800, 1.8e3 or 3/4.")
    value, wanted = _in_unit(question, read), f"in {question.unit}" if question.unit else "without a unit"
    if value is None:
        return Verdict(right=False, unclear=f"Answer {wanted}.")
    right, *wrong = posed.numbers
    if _close(value, right, question.tolerance):
        return Verdict(right=True)
    traps = zip(question.traps, wrong, strict=True)
    whys = [trap.why for trap, number in traps if _close(value, number, question.tolerance)]
    if not whys and not read.unit and _is_slip(value, right, question.unit, question.tolerance):
        return Verdict(right=False, unclear=f"{formula.quantity(given.strip(), question.unit)}? Answer {wanted}.")
    return Verdict(right=False, whys=tuple(whys[:1]))


def _output(question: Question, given: str) -> Verdict:
    if not given.strip():
        return Verdict(right=False, unclear="Type what is printed.")
    if _squeezed(given) == _squeezed(question.answer):
        return Verdict(right=True)
    whys = [trap.why for trap in question.traps if _squeezed(given) == _squeezed(trap.answer)]
    right, lines = not whys and _said(given) == _said(question.answer), len(question.answer.strip().splitlines())
    if not (right or whys):
        whys = [trap.why for trap in question.traps if _said(given) == _said(trap.answer)]
    if not (right or whys) and len(given.replace("\\n", " ").split()) < lines:
        return Verdict(right=False, unclear=f"This prints {lines} lines; type all of them.")
    return Verdict(right, tuple(whys[:1]))


def _spot(question: Question, given: str) -> Verdict:
    line = chosen_line(question, given)
    if line is None:
        last = choosable_lines(question)[-1] + 1
        return Verdict(right=False, unclear=f"Answer with the number of a line of code, from 1 to {last}.")
    text = script_lines(question)[line].strip()
    whys = tuple(trap.why for trap in question.traps if trap.answer.strip() == text)
    return Verdict(line == fault_line(question), whys[:1], chosen=(line,))


def chosen_line(question: Question, given: str) -> int | None:
    """The place, from 0, of the line of a script that an answer names by its number or its text, or None."""
    number = _LINE.fullmatch(given.strip())
    places = [int(number[1]) - 1] if number else places_of(question, given)
    return places[0] if len(places) == 1 and places[0] in choosable_lines(question) else None


def _places(given: str, count: int) -> list[int]:
    """Parse `2 4 1 3`, `2,4,1,3`, `24 13` or `2413` as places from 0; return [] for anything else."""
    words = re.split(r"[\s,;]+", given.strip(" \t\n.,;"))
    digits = words if count > 9 else list("".join(words))
    if not all(digit.isdecimal() and 1 <= int(digit) <= count for digit in digits):
        return []
    places = [int(digit) - 1 for digit in digits]
    return places if len(set(places)) == len(places) else []


def _squeezed(text: str) -> str:
    """Normalize a text: remove outer quotes and unnecessary blanks, and use one kind of quote."""
    text = " ".join(text.replace("\\n", "\n").split())
    if len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES:
        text = text[1:-1]
    return _AROUND_MARKS.sub(r"\1", text.replace('"', "'").strip())


def _said(text: str) -> list[str | float]:
    """The numbers and words of a text, without brackets, commas, names of containers, and words that say nothing."""
    tokens = _SAID.finditer(_CONTAINER.sub("", text.replace("\\n", "\n")))
    said = [token[0].rpartition(".")[2].lower() if token["word"] else float(token[0]) for token in tokens]
    return [each for each in said if each not in _FILLERS]


def _close(value: float, right: float, tolerance: float) -> bool:
    exact = not tolerance and isinstance(right, int)
    return math.isclose(value, right, rel_tol=1e-12 if exact else max(tolerance, _ROUNDING), abs_tol=1e-12)


def _nth(number: int) -> str:
    words = ("First", "Second", "Third", "Fourth", "Fifth", "Sixth", "Seventh", "Eighth", "Ninth")
    return words[number - 1] if number <= len(words) else f"{number}th"


HOW = {
    Kind.CHOICE: "Choose one.",
    Kind.CHOICES: "Choose all that are right, and no others.",
    Kind.NUMBER: "Type a number.",
    Kind.ORDER: "Type the numbers of the lines in the right order.",
    Kind.OUTPUT: "Type the output.",
    Kind.SPOT: "Choose the line that is at fault.",
}


_SPELLED = {"s": "seconds", "%": "percent", "million": "millions", "billion": "billions", "trillion": "trillions"}


def instruction(question: Question) -> str:
    """What the learner has to do, in a sentence."""
    lines = len(question.answer.strip().splitlines())
    if question.kind is Kind.OUTPUT and lines > 1:
        return f"This prints {lines} lines. Type them on one line, separated by spaces."
    if question.kind is Kind.SPOT:
        return f"{HOW[question.kind].removesuffix('.')}, or type its number."
    if question.kind is Kind.ORDER:
        return f"{HOW[question.kind].removesuffix('.')}, such as {_example(len(question.lines))}."
    if not question.tolerance or re.search(r"\b(decimal|whole)\b", question.ask):  # it says itself how exact to be
        return _how_to_type(question)
    digits = math.ceil(1 - math.log10(2 * question.tolerance))  # an answer rounded to so many is near enough
    enough = plural(digits, "significant digit is", "significant digits are")
    return f"{_how_to_type(question).removesuffix('.')}; {enough} enough."


def _how_to_type(question: Question) -> str:
    unit = _SPELLED.get(question.unit, question.unit)
    if unit.startswith("times"):
        return f"Type how many {unit}."
    if re.fullmatch(r"[\w-]{3,}s", question.unit):  # what is counted, such as bytes or steps
        return f"Type the number of {unit}."
    how = HOW[question.kind]
    return f"{how.removesuffix('.')}, in {unit}." if unit else how


_PREFIXES = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15, "m": -3, "u": -6, "n": -9}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}
_PREFIX_WORDS = {
    "kilo": "k", "mega": "M", "giga": "G", "tera": "T", "peta": "P", "milli": "m", "micro": "u", "nano": "n",
}  # fmt: skip
_SYMBOLS = {
    **dict.fromkeys(("B", "byte", "Byte"), "byte"),
    **dict.fromkeys(("b", "bit"), "bit"),
    **dict.fromkeys(("s", "sec", "second"), "second"),
    **dict.fromkeys(("FLOP", "Flop", "flop"), "flop"),
}
_SMALL = ("m", "u", "n")  # prefixes that only seconds have; the others are for amounts
_TIME_UNITS = {"min": 60, "minute": 60, "h": 3600, "hr": 3600, "hour": 3600, "d": 86400, "day": 86400}
_COUNTS = {
    **dict.fromkeys(("k", "K", "thousand"), 1e3),
    **dict.fromkeys(("M", "million", "mio", "mn"), 1e6),
    **dict.fromkeys(("B", "G", "billion", "bn"), 1e9),
    **dict.fromkeys(("T", "trillion"), 1e12),
}
_SAME = {"x": "times", "×": "times", "fold": "times", "percent": "%", "pct": "%"}  # noqa: RUF001
_SI = ("byte", "bit", "second", "flop")
_MEASURE = re.compile(
    rf"(?P<prefix>{'|'.join([*_BINARY, *_PREFIX_WORDS, *filter(None, _PREFIXES)])})?"
    rf"(?P<symbol>{'|'.join(sorted(_SYMBOLS, key=len, reverse=True))})"
    r"[sS]?(?P<rate>(?:/| per |p)s(?:ec(?:ond)?)?)?"
)

_Reading = tuple[float, str]  # a unit as an amount of a plain one; the name is empty for a count such as `million`


def _convert(value: float, unit: str, wanted: str) -> float | None:
    """Convert a value from one unit to another; return None if the units do not match."""
    for have, what in _readings(unit):
        for want, of_what in _readings(wanted):
            if _together(what, of_what) and (wanted or not what):
                return value * have / want
    return value if unit.lower() == wanted.lower() and not _measured(unit) else None  # such as gb


def _is_slip(value: float, right: float, unit: str, tolerance: float) -> bool:
    """Whether a number without a unit is right in another form of it: bytes for MB, a share for a percentage."""
    factors = {0.01} if _named(unit) == "%" else set[float]()
    for amount, what in _readings(unit):
        if amount != 1 or _is_si(what):
            factors |= {amount, *(10.0**power for power in (-12, -9, -6, -3, 3, 6, 9, 12))} - {1.0}
    return bool(right) and any(math.isclose(value, right * factor, rel_tol=max(tolerance, 1e-5)) for factor in factors)


def _readings(unit: str) -> list[_Reading]:
    """The possible meanings of a unit; `B` may be bytes or billions."""
    unit = " ".join(unit.replace("µ", "u").replace("μ", "u").strip(" .").split())  # Unicode has two signs for micro
    first, _, rest = unit.partition(" ")
    readings: list[_Reading] = [measured] if (measured := _measured(unit)) else []
    if count := _COUNTS.get(first) or _COUNTS.get(first.lower().rstrip("s")):
        readings.append((count, _named(rest)))
    return readings or [(1.0, _named(unit))]


def _measured(unit: str) -> _Reading | None:
    """Parse a unit of bytes, bits, seconds or operations, or one of these per second."""
    if seconds := _TIME_UNITS.get(unit.lower().removesuffix("s")):
        return float(seconds), "second"
    match = _MEASURE.fullmatch(unit) or (_MEASURE.fullmatch(unit.lower()) if len(unit) > 4 else None)
    if not match:
        return None
    what, prefix = _SYMBOLS[match["symbol"]], _PREFIX_WORDS.get(match["prefix"] or "", match["prefix"] or "")
    if prefix and (prefix in _SMALL) != (what == "second"):
        return None
    rate = "/second" if match["rate"] else ""
    return (2.0 ** _BINARY[prefix] if prefix in _BINARY else 10.0 ** _PREFIXES[prefix]), what + rate


def _named(unit: str) -> str:
    """The singular of a name, since `step` and `steps` are one unit."""
    words = (_SAME.get(word, word) for word in unit.lower().replace("-", " ").replace("per cent", "%").split())
    return " ".join(word.rstrip("es") or word for word in words)


def _is_si(what: str) -> bool:
    return what.removesuffix("/second") in _SI


def _together(what: str, of_what: str) -> bool:
    """Whether two names mean the same; outside the SI, a name matches the beginning of another."""
    if _is_si(what) or _is_si(of_what):
        return what == of_what
    return what.startswith(of_what) or of_what.startswith(what)
