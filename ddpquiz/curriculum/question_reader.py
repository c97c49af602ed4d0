"""Read a question from a content file: the keys of all kinds, and those of each kind."""

import re
from collections.abc import Callable
from typing import Any

from yaml import Node

from ddpquiz.curriculum.concept import Kind, Level, Line, Option, Question, Trap
from ddpquiz.curriculum.draws import check_numbers, read_variables
from ddpquiz.curriculum.fields import Fields, peek
from ddpquiz.curriculum.proof_reader import a, judge, read_proof, read_shows
from ddpquiz.curriculum.snippet import check_snippet
from ddpquiz.curriculum.spot import fixed_script, places_of

_TOLERANCE = re.compile(r"0?\.\d+|0")
_CHOICES = range(4, 7)
_SCRIPT = range(8, 26)  # lines of a script in which one is at fault


def read_question(record: Fields, concept: str) -> Question:
    """Read a question. Complaints go to the page of the record."""
    kind = record.one_of("kind", Kind, Kind.CHOICE)
    known = record.fits("kind", Kind)
    question = Question(
        concept=concept,
        id=record.id(),
        level=record.one_of("level", Level),
        kind=kind,
        ask=record.text("ask"),
        code=record.code("code", optional=kind not in (Kind.OUTPUT, Kind.SPOT)),
        hints=record.sentences("hints"),
        steps=record.sentences("steps"),
        check=record.text("check"),
        proof=read_proof(record),
        source=record.text("source", optional=True),
        card=record.text("card", optional=True),
        **(_OWN[kind](record, kind) if known else {}),
    )
    record.close(_KEYS_OF_KINDS, f"{a(kind)} question does not have it" if known else "")
    if question.source:
        record.page.mention("source", question.source, record.at("source"))
    if question.proof is None and not question.source and not {"proof", "source"} & set(record.keys()):
        record.page.complain(record.node, "a question needs a `proof`, or a `source` if no proof is possible here")
    if not known:
        return question
    if kind is Kind.SPOT and not _names_lines(record, question):
        return question
    judge(record, question)
    if kind is Kind.NUMBER:
        check_numbers(record, question)
    else:
        check_snippet(record.page, record.at("code"), "code", question.code)
    return question


def _options(record: Fields, kind: Kind) -> dict[str, Any]:
    options = record.records("options", "an option", _option)
    right = sum(option.right for option in options)
    if not options:
        return {}
    if kind is Kind.CHOICE:
        if len(options) != 4:
            record.complain("options", f"a `choice` question has four options, not {len(options)}")
        if right != 1:
            record.complain("options", f"exactly one option must be `right: true`, not {right}")
    else:
        if len(options) not in _CHOICES:
            record.complain("options", f"a `choices` question has four to six options, not {len(options)}")
        if right < 2 or right == len(options):
            record.complain("options", f"two or more options, but not all, must be `right: true`, not {right}")
    _refuse_duplicates(record, "options", [option.text for option in options])
    return {"options": options}


def _option(record: Fields) -> Option:
    is_code = "code" in record
    text = record.code("code") if is_code else record.text("text")
    right = record.flag("right")
    why = record.text("why", optional=right)
    shows = read_shows(record.page, record.find("shows", optional=True), "shows")
    record.close(("text",), "an option has either `text` or `code`")
    return Option(text, right, why, is_code, shows)


def _numbers(record: Fields, _kind: Kind) -> dict[str, Any]:
    tolerance = record.text("tolerance", optional=True)
    if tolerance and not _TOLERANCE.fullmatch(tolerance):
        record.complain("tolerance", f"expected a fraction such as 0.01, got `{tolerance}`")
        tolerance = ""
    return {
        "variables": read_variables(record),
        "answer": record.text("answer"),
        "unit": record.text("unit", optional=True),
        "tolerance": float(tolerance or 0),
        "traps": _traps(record),
    }


def _lines(record: Fields, _kind: Kind) -> dict[str, Any]:
    lines = record.records("lines", "a line", _line)
    if lines and len(lines) < 3:
        record.complain("lines", f"an `order` question has three or more lines, not {len(lines)}")
    _refuse_duplicates(record, "lines", [line.text for line in lines])
    return {"lines": lines}


def _line(record: Fields) -> Line:
    return Line(record.code("text"), record.code("shows", optional=True) or None)


def _output(record: Fields, _kind: Kind) -> dict[str, Any]:
    answer, traps = record.code("answer"), _traps(record)
    for trap, entry in zip(traps, record.children("traps"), strict=False):
        if trap.answer == answer:
            record.page.complain(entry, "this trap equals the right answer")
    return {"answer": answer, "rank": record.whole("rank", 0, 15, optional=True), "traps": traps}


def _spot(record: Fields, _kind: Kind) -> dict[str, Any]:
    return {"answer": record.text("answer"), "fix": record.code("fix"), "traps": _traps(record)}


def _names_lines(record: Fields, question: Question) -> bool:
    """Complain if the answer and the traps are not different lines of the script; return whether they are."""
    lines = len(question.code.splitlines())
    if lines not in _SCRIPT:
        record.complain("code", f"the script of a `spot` question has 8 to 25 lines, not {lines}")
    before = len(record.page.complaints)
    seen: set[str] = set()
    given = [(question.answer, record.at("answer")), *_trap_nodes(record, question)]
    for text, node in given:
        count = len(places_of(question, text))
        if count != 1:
            found = f"{count} lines of `code` are" if count else "no line of `code` is"
            record.page.complain(node, f"`answer`: {found} `{text}`; name exactly one line")
        elif text.strip() in seen:
            record.page.complain(node, "`answer`: this line is named twice")
        seen.add(text.strip())
    if len(record.page.complaints) > before or not question.answer:
        return False
    if fixed_script(question).splitlines() == question.code.splitlines():
        record.complain("fix", "it is the line as it is; write what should stand there, with its indentation")
    check_snippet(record.page, record.at("fix"), "fix", fixed_script(question))
    return True


def _trap_nodes(record: Fields, question: Question) -> list[tuple[str, Node]]:
    entries = record.children("traps")
    return [(trap.answer, peek(entry, "answer")) for trap, entry in zip(question.traps, entries, strict=False)]


def _traps(record: Fields) -> tuple[Trap, ...]:
    return record.records("traps", "a trap", lambda entry: Trap(entry.code("answer"), entry.text("why")))


def _refuse_duplicates(record: Fields, name: str, texts: list[str]) -> None:
    for place, (text, node) in enumerate(zip(texts, record.children(name), strict=False)):
        if text and text in texts[:place]:
            record.page.complain(node, f"`{name}`: the same text appears twice")


_OWN: dict[Kind, Callable[[Fields, Kind], dict[str, Any]]] = {
    Kind.CHOICE: _options,
    Kind.CHOICES: _options,
    Kind.NUMBER: _numbers,
    Kind.ORDER: _lines,
    Kind.OUTPUT: _output,
    Kind.SPOT: _spot,
}
_KEYS_OF_KINDS = ("options", "vars", "measured", "answer", "unit", "tolerance", "traps", "lines", "rank", "fix")
