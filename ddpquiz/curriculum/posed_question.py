"""A question ready to be asked: values drawn, texts filled in, options shuffled."""

import itertools
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import isclose

from ddpquiz.curriculum import formula
from ddpquiz.curriculum.concept import DemoProof, Kind, Proof, Question
from ddpquiz.curriculum.question_code import fault_line, numbered_line

ON_MACHINE = "(These are figures of your machine, measured by `ddpquiz bench`.)"
_BRACES = re.compile(r"\{\{|\}\}|\{(=?)([^{}]*)\}|[{}]")
_NUMBER = re.compile(r"\s*([-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Posed:
    """A question ready to be shown.

    In `question` every text is filled in. `values` is the draw of a `number` question, and `numbers` are the values of
    its answer and of its traps, in this order, which the texts round. `shown[place]` is the index into
    `question.options` or `question.lines` of the entry at that place.
    """

    question: Question
    values: Mapping[str, str]
    shown: tuple[int, ...]
    numbers: tuple[float, ...] = ()

    @property
    def ranks(self) -> int:
        """On how many ranks its proof runs; 1 if it has none."""
        proof = self.question.proof
        return int(evaluate_drawn(proof.ranks, self.values)) if proof else 1


def pose(question: Question, dice: random.Random) -> Posed:
    """Draw the values of a question, fill them in, and shuffle its options or lines."""
    if question.kind is not Kind.NUMBER:
        return Posed(question, {}, _shuffled(question, dice))
    values = {variable.name: dice.choice(variable.values) for variable in question.variables}
    return pose_with(question, values)


def pose_with(question: Question, values: Mapping[str, str]) -> Posed:
    """A `number` question with a draw. ValueError with a sentence if it has no answer with these values."""
    numbers = tuple(
        evaluate_drawn(expression, values)
        for expression in (question.answer, *(trap.answer for trap in question.traps))
    )
    answer, *wrong = map(formula.format_number, numbers)
    traps = zip(question.traps, wrong, strict=True)
    filled = replace(
        question,
        ask=_fill_prose(question.ask, values),
        code=fill(question.code, values),
        answer=answer,
        traps=tuple(replace(trap, answer=number, why=_fill_prose(trap.why, values)) for trap, number in traps),
        hints=tuple(_fill_prose(hint, values) for hint in question.hints),
        steps=tuple(_fill_prose(step, values) for step in question.steps),
        check=_fill_prose(question.check, values),
        proof=_filled_proof(question.proof, values),
    )
    return Posed(filled, values, (), numbers)


def expected(posed: Posed) -> str:
    """The right answer, in the form in which a learner writes it."""
    question = posed.question
    match question.kind:
        case Kind.CHOICE | Kind.CHOICES:
            return " ".join(str(place) for place, i in enumerate(posed.shown, 1) if question.options[i].right)
        case Kind.ORDER:
            return " ".join(str(posed.shown.index(i) + 1) for i in range(len(question.lines)))
        case Kind.NUMBER:
            return formula.quantity(question.answer, question.unit)
        case Kind.OUTPUT:
            return question.answer
        case Kind.SPOT:
            return numbered_line(question, fault_line(question))


def on_machine(question: Question, figures: Mapping[str, str]) -> Question:
    """A `number` question with the figures of the learner's machine, where it asks for such and they are known.

    It stays as it is if one is missing, or if a wrong way would give the right answer with them.
    """
    wanted = {variable.measured for variable in question.variables if variable.measured}
    if not wanted or not figures.keys() >= wanted:
        return question
    variables = tuple(
        replace(variable, values=(figures[variable.measured],) if variable.measured else variable.values)
        for variable in question.variables
    )
    changed = replace(question, variables=variables, ask=f"{question.ask} {ON_MACHINE}")
    names = [variable.name for variable in variables]
    for values in itertools.product(*(variable.values for variable in variables)):
        draw = dict(zip(names, values, strict=True))
        answer = evaluate_drawn(question.answer, draw)
        if any(
            isclose(evaluate_drawn(trap.answer, draw), answer, rel_tol=question.tolerance) for trap in question.traps
        ):
            return question
    return changed


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace `{name}` by its value, `{=expression}` by its result, and `{{` and `}}` by plain braces.

    ValueError with a sentence if a placeholder cannot be filled.
    """
    if "{" not in text and "}" not in text:
        return text
    return _BRACES.sub(lambda brace: _replacement(brace, values), text)


def _fill_prose(text: str, values: Mapping[str, str]) -> str:
    """Fill a text that is read, not run: numbers outside of backticks have separators of thousands."""
    parts = text.split("`")
    parts[::2] = [_BRACES.sub(lambda brace: formula.quantity(_replacement(brace, values)), part) for part in parts[::2]]
    parts[1::2] = [fill(part, values) for part in parts[1::2]]
    return "`".join(parts)


def evaluate_drawn(expression: str, values: Mapping[str, str]) -> float:
    """The value of an expression with the values of a draw; an int if it is whole. ValueError if it has none."""
    numbers = {name: parse_number(value) for name, value in values.items()}
    return formula.whole_if_close(formula.evaluate(expression, numbers))


def parse_number(text: str) -> float:
    """Parse a number; whole numbers become int, so that large ones stay exact."""
    return int(text) if text.lstrip("+-").isdecimal() else float(text)


def placeholders(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the text in each pair of braces, and True if it is an expression. A single brace yields itself."""
    for brace in _BRACES.finditer(text):
        if brace[0] in ("{{", "}}"):
            continue
        yield (brace[0], False) if brace[2] is None else (brace[2].strip(), bool(brace[1]))


def _replacement(brace: re.Match[str], values: Mapping[str, str]) -> str:
    if brace[0] in ("{{", "}}"):
        return brace[0][0]
    if brace[2] is None:
        raise ValueError(f"a single `{brace[0]}`; write `{brace[0] * 2}` for a plain brace")
    name = brace[2].strip()
    if brace[1]:
        return formula.format_number(evaluate_drawn(name, values))
    if name not in values:
        raise formula.unknown_name(name, values)
    return values[name]


def _filled_proof(proof: Proof | None, values: Mapping[str, str]) -> Proof | None:
    if proof is None:
        return None
    ranks = formula.format_number(evaluate_drawn(proof.ranks, values))
    if isinstance(proof, DemoProof):
        return replace(proof, ranks=ranks, args=tuple(fill(argument, values) for argument in proof.args))
    return replace(proof, ranks=ranks)


def _shuffled(question: Question, dice: random.Random) -> tuple[int, ...]:
    places = list(range(len(question.options) or len(question.lines)))
    dice.shuffle(places)
    if question.kind is Kind.ORDER:
        while len(places) > 1 and places == sorted(places):
            dice.shuffle(places)
        return tuple(places)
    sizes = [leading_number(option.text) for option in question.options]
    if all(size is not None for size in sizes):
        places.sort(key=lambda place: sizes[place] or 0.0)  # stable: equal numbers stay shuffled
    return tuple(places)


def leading_number(text: str) -> float | None:
    """The number with which a text begins, or None."""
    number = _NUMBER.match(text)
    return float(number[1].replace(",", "")) if number else None
