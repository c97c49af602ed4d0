"""The values of a `number` question: read them, and check the question for every draw."""

import itertools
import keyword
import math
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from yaml import MappingNode, Node

from ddpquiz.curriculum import formula
from ddpquiz.curriculum.concept import DemoProof, Question, Variable
from ddpquiz.curriculum.fields import Fields, peek
from ddpquiz.curriculum.posed_question import fill, placeholders, worth
from ddpquiz.curriculum.proof_reader import MOST_RANKS
from ddpquiz.curriculum.snippet import check_snippet

_Value = TypeVar("_Value")
_MOST_DRAWS = 1_000
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
FIGURE = re.compile(r"ranks|[a-z_]+\.(alpha|beta)")  # what `ddpquiz bench` finds, by name
FIGURES = "`ranks`, or an operation with `.alpha` (µs) or `.beta` (µs per MB), such as `all_reduce.alpha`"
_DEFINED = formula.FUNCTIONS | {"os", "torch", "dist", "rank", "world_size"}  # by the code that precedes every proof


def read_variables(record: Fields) -> tuple[Variable, ...]:
    """Read `vars`: a mapping of names to lists of numbers; and `measured`, of some of the names to figures."""
    node = record.find("vars")
    if node is None:
        return ()
    given = Fields(record.page, node, "`vars`")
    if isinstance(node, MappingNode) and not node.value:
        record.complain("vars", "the mapping is empty")
    measured = _read_measured(record, given)
    variables = []
    for name in list(given.keys()):
        values = given.texts(name)
        if not name.isidentifier() or keyword.iskeyword(name) or name in _DEFINED:
            given.complain(name, "choose another name: it must be a Python name that is not in use")
        for value, entry in zip(values, given.children(name), strict=False):
            if value and not _is_number(value):
                given.page.complain(entry, f"`{name}`: expected a number, got `{value}`")
        if len(set(values)) < len(values):
            given.complain(name, "a value is listed twice")
        variables.append(Variable(name, values, measured.get(name, "")))
    return tuple(variables)


def _read_measured(record: Fields, given: Fields) -> dict[str, str]:
    node = record.find("measured", optional=True)
    if node is None:
        return {}
    figures = Fields(record.page, node, "`measured`")
    found = {name: figures.text(name) for name in list(figures.keys())}
    for name, figure in found.items():
        if name not in given:
            figures.complain(name, f"it is not one of `vars`: {', '.join(given.keys())}")
        if figure and not FIGURE.fullmatch(figure):
            figures.complain(name, f"expected {FIGURES}, got `{figure}`")
    return found


def check_numbers(record: Fields, question: Question) -> None:
    """Complain about expressions and placeholders of a question whose value is missing or cannot be used."""
    known = sorted(variable.name for variable in question.variables)
    if not known:
        return
    before = len(record.page.complaints)
    for node, expression in _expressions(record, question):
        _check_names(record, node, expression, known)
    seen: set[str] = set()
    for name, node, text in _texts(record, question):
        seen |= _check_placeholders(record, name, node, text, known)
    for name in sorted(set(known) - seen):
        record.complain("vars", f"`{name}` is in neither `ask` nor `code`, so a learner cannot know it")
    numbers = all(variable.values and all(map(_is_number, variable.values)) for variable in question.variables)
    if record.page.thorough and len(record.page.complaints) == before and numbers and question.answer:
        _try_all(record, question)


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def _expressions(record: Fields, question: Question) -> Iterator[tuple[Node, str]]:
    yield record.at("answer"), question.answer
    for trap, node in zip(question.traps, record.children("traps"), strict=False):
        yield node, trap.answer


def _texts(record: Fields, question: Question) -> Iterator[tuple[str, Node, str]]:
    for name, text in (("ask", question.ask), ("code", question.code), ("check", question.check)):
        yield name, record.at(name), text
    for name, texts in (("hints", question.hints), ("steps", question.steps)):
        for text, node in zip(texts, record.children(name), strict=False):
            yield name, node, text
    for trap, node in zip(question.traps, record.children("traps"), strict=False):
        yield "why", node, trap.why
    if isinstance(question.proof, DemoProof):
        for text in question.proof.args:
            yield "args", record.at("proof"), text


def _check_names(record: Fields, node: Node, expression: str, known: list[str]) -> None:
    if not expression:
        return
    try:
        unknown = formula.names(expression) - set(known)
    except ValueError as problem:
        record.page.complain(node, str(problem))
        return
    if unknown:
        record.page.complain(node, f"`{min(unknown)}` is not one of `vars`: {', '.join(known)}")


def _check_placeholders(record: Fields, name: str, node: Node, text: str, known: list[str]) -> set[str]:
    """Complain about wrong placeholders in a text; return the variables whose values a learner sees in it."""
    seen: set[str] = set()
    for inside, is_expression in placeholders(text):
        if inside in ("{", "}"):
            record.page.complain(node, f"`{name}`: a single `{inside}`; write `{inside * 2}` for a plain brace")
        elif is_expression:
            _check_names(record, node, inside, known)
            seen |= {variable for variable in known if re.search(rf"\b{variable}\b", inside)}
        elif inside in known:
            seen.add(inside)
        else:
            of = ", ".join(known)
            record.page.complain(node, f"`{name}`: `{{{inside}}}` is not one of `vars`: {of}; a plain brace is `{{{{`")
    return seen if name in ("ask", "code") else set()


def _try_all(record: Fields, question: Question) -> None:
    draws = math.prod(len(variable.values) for variable in question.variables)
    if draws > _MOST_DRAWS:
        record.complain("vars", f"{draws:,} draws; at most {_MOST_DRAWS:,} are allowed, because each is checked")
        return
    faults: dict[int, tuple[Node, str]] = {}  # the first draw that each place fails for
    for values in _draws(question):
        drawn = ", ".join(f"{name} = {value}" for name, value in values.items())
        for node, fault in _try(record, question, values):
            faults.setdefault(id(node), (node, f"with {drawn}: {fault}"))
    for node, fault in faults.values():
        record.page.complain(node, fault)
    if not faults:
        check_snippet(record.page, record.at("code"), "code", fill(question.code, next(_draws(question))))


def _draws(question: Question) -> Iterator[dict[str, str]]:
    names = [variable.name for variable in question.variables]
    for values in itertools.product(*(variable.values for variable in question.variables)):
        yield dict(zip(names, values, strict=True))


def _try(record: Fields, question: Question, values: dict[str, str]) -> Iterator[tuple[Node, str]]:
    answer = _attempt(worth, question.answer, values)
    if isinstance(answer, ValueError):
        yield record.at("answer"), str(answer)
        return
    if not question.tolerance and not math.isclose(answer, float(formula.spell(answer)), rel_tol=1e-9):
        yield record.at("answer"), f"the answer is {answer!r}, which a learner cannot type exactly; add a `tolerance`"
    for trap, node in zip(question.traps, record.children("traps"), strict=False):
        wrong = _attempt(worth, trap.answer, values)
        if isinstance(wrong, ValueError):
            yield node, str(wrong)
        elif math.isclose(wrong, answer, rel_tol=max(question.tolerance, 1e-9), abs_tol=1e-12):
            yield node, "this trap equals the right answer; change it or the `vars`"
    for name, node, text in _texts(record, question):
        if isinstance(filled := _attempt(fill, text, values), ValueError):
            yield node, f"`{name}`: {filled}"
    if question.proof:
        ranks = _attempt(worth, question.proof.ranks, values)
        if ranks not in range(1, MOST_RANKS + 1):
            yield peek(record.at("proof"), "ranks"), f"`ranks` is not a whole number from 1 to {MOST_RANKS}"


def _attempt(
    function: Callable[[str, dict[str, str]], _Value], text: str, values: dict[str, str]
) -> _Value | ValueError:
    try:
        return function(text, values)
    except ValueError as problem:
        return problem
