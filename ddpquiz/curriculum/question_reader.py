"""Read a question of a content file: the keys of all kinds, those of each kind, and its proof.

A proof must be able to tell the right answer from the wrong ones. A `number` question is tried with every draw of its
variables.
"""

import itertools
import keyword
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from yaml import MappingNode, Node, ScalarNode

from ddpquiz.curriculum import formula
from ddpquiz.curriculum.concept import (
    OPTION,
    CodeProof,
    DemoProof,
    Kind,
    Level,
    Line,
    Option,
    Proof,
    Question,
    Shows,
    Trap,
    Variable,
)
from ddpquiz.curriculum.posed_question import evaluate_drawn, fill, placeholders
from ddpquiz.curriculum.question_code import fixed_script, has_option_line, places_of, with_option
from ddpquiz.curriculum.yaml_file import ID, Fields, YamlFile, check_snippet, peek, scalar

_TOLERANCE = re.compile(r"0?\.\d+|0")
_KEY = re.compile(f"{ID.pattern}/{ID.pattern}")
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
        proof=_read_proof(record),
        source=record.text("source", optional=True),
        card=record.text("card", optional=True),
        **(_OWN[kind](record, kind) if known else {}),
    )
    mention_earlier_keys(record, question.key)
    record.close(_KEYS_OF_KINDS, f"{_named(kind)} question does not have it" if known else "")
    if question.source:
        record.page.mention("source", question.source, record.at("source"))
    if question.proof is None and not question.source and not {"proof", "source"} & set(record.keys()):
        record.page.complain(record.node, "a question needs a `proof`, or a `source` if no proof is possible here")
    if not known:
        return question
    if kind is Kind.SPOT and not _names_lines(record, question):
        return question
    _judge(record, question)
    if kind is Kind.NUMBER:
        _check_numbers(record, question)
    else:
        check_snippet(record.page, record.at("code"), "code", question.code)
    return question


def mention_earlier_keys(record: Fields, key: str) -> None:
    """Read the keys, as concept/id, under which the log may know the item that has this key now."""
    earlier = record.texts("was", optional=True)
    for name, node in zip(earlier, record.children("was"), strict=False):
        if _KEY.fullmatch(name):
            record.page.mention("was", name, node, key)
        elif name:
            record.page.complain(node, f"`was`: `{name}` is not the name of an item, concept/id")


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
        "variables": _read_variables(record),
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


MOST_RANKS = 16
_SHOWN = ("prints", "raises", "hangs")
_BY_CODE = (Kind.ORDER, Kind.OUTPUT, Kind.SPOT)  # proven by code only
_LABEL = re.compile(r"[a-z][a-z0-9 _/()-]{0,39}")
_RANK = re.compile(r"\d{1,3}")


def read_shows(page: YamlFile, node: Node | None, name: str) -> Shows | None:
    """Read what a proof must observe: a text, a map of ranks to texts, `{raises: text}` or `{hangs: true}`."""
    if node is None:
        return None
    if isinstance(node, ScalarNode):
        return Shows(everywhere=scalar(page, node, name).rstrip())
    record = Fields(page, node, f"`{name}`")
    if not isinstance(node, MappingNode):
        return None
    if "raises" in record or "hangs" in record:
        return _close_shows(record, name)
    by_rank: dict[int, str] = {}
    for key in list(record.keys()):
        if not _RANK.fullmatch(key):
            page.complain(node, f"`{name}`: expected a text, a map of ranks to texts, raises or hangs; got `{key}`")
            return None
        by_rank[int(key)] = record.code(key)
    if not by_rank:
        page.complain(node, f"`{name}`: the mapping is empty")
    return Shows(by_rank=by_rank)


def _close_shows(record: Fields, name: str) -> Shows | None:
    shows = _raises_or_hangs(record)
    record.close()
    if shows is None or (shows.raises and shows.hangs):
        record.page.complain(record.node, f"`{name}`: write either `raises: text` or `hangs: true`")
        return None
    return shows


def _raises_or_hangs(record: Fields) -> Shows | None:
    raises, hangs = record.text("raises", optional=True), record.flag("hangs")
    return Shows(raises=raises or None, hangs=hangs) if raises or hangs else None


def _read_proof(question: Fields) -> Proof | None:
    """Read the key `proof` of a question."""
    node = question.find("proof", optional=True)
    if node is None:
        return None
    record = Fields(question.page, node, "`proof`")
    if not isinstance(node, MappingNode):
        return None
    ranks = record.text("ranks")
    if "demo" in record:
        return _read_demo_proof(record, ranks)
    code = record.code("code", optional=True) or None
    given = [name for name in _SHOWN if name in record]
    if len(given) > 1:
        record.complain(given[1], f"a proof can have only one of {', '.join(_SHOWN)}")
    prints = read_shows(record.page, record.find("prints", optional=True), "prints")
    shows = _raises_or_hangs(record) or prints
    fixed = read_shows(record.page, record.find("fixed", optional=True), "fixed")
    record.close(("args", "label"), "it goes with `demo`")
    return CodeProof(ranks, code, shows, fixed)


def _read_demo_proof(record: Fields, ranks: str) -> DemoProof:
    page, demo, label = record.page, record.text("demo"), record.text("label")
    args = record.texts("args", optional=True, empty=True)
    record.close(("code", "fixed", *_SHOWN), "a proof has either `code` or `demo`")
    page.mention("demo", demo, record.at("demo"))
    for argument in args:
        page.mention("argument", argument, record.at("args"), demo)
    mention_label(page, label, record.at("label"), demo)
    return DemoProof(ranks, demo, label, args)


def mention_label(page: YamlFile, label: str, node: Node, demo: str) -> None:
    """Record that a file names a label that a demo prints, or complain that it cannot be one."""
    if _LABEL.fullmatch(label):
        page.mention("label", label, node, demo)
    elif label:
        page.complain(node, "`label`: use at most 40 of a-z, 0-9, spaces and _/()-, and start with a letter")


def _judge(record: Fields, question: Question) -> None:
    """Complain about a proof that does not fit its kind of question, or cannot tell right answers from wrong ones."""
    proof, kind = question.proof, question.kind
    if proof is None:
        if "proof" not in record:
            _refuse_shows(record, question, "`shows` is for a `proof`, and this question has none")
        return
    _judge_ranks(record, question, proof)
    if isinstance(proof, DemoProof):
        if kind in _BY_CODE:
            _complain_in_proof(record, "demo", f"{_named(kind)} question is proven by code, not by a demo")
        elif kind is not Kind.NUMBER:
            _judge_options(record, question)
    elif kind is Kind.SPOT:
        _judge_spot(record, proof)
    elif proof.fixed:
        _complain_in_proof(record, "fixed", "only a `spot` question has it")
    elif kind is Kind.OUTPUT and proof.code is not None:
        _complain_in_proof(record, "code", "an `output` question is proven by its own `code`; remove this")
    elif kind is not Kind.OUTPUT and proof.code is None:
        record.complain("proof", f"{_named(kind)} question needs `code` or `demo` in it")
    else:
        _judge_code(record, question, proof)


def _judge_spot(record: Fields, proof: CodeProof) -> None:
    code = proof.code or OPTION
    if code.count(OPTION) != 1 or not has_option_line(code):
        _complain_in_proof(record, "code", f"`{OPTION}`, which stands for the script, must be one line of it")
    if proof.shows is None:
        record.complain("proof", "it needs `prints`, `raises` or `hangs`: what the script shows as it is")
    elif proof.fixed is None:
        record.complain("proof", "it needs `fixed`: what the script prints with the line fixed")
    elif proof.fixed.hangs or proof.fixed.raises:
        _complain_in_proof(record, "fixed", "a script that is fixed prints something")
    elif _alike(proof.shows, proof.fixed):
        _complain_in_proof(record, "fixed", "it is the same as without the fix, so the proof cannot decide")
    check_snippet(record.page, peek(record.at("proof"), "code"), "code", with_option(code, "pass"))


def _judge_code(record: Fields, question: Question, proof: CodeProof) -> None:
    code, node = proof.code or "", record.at("proof")
    chosen = question.kind in (Kind.CHOICE, Kind.CHOICES, Kind.ORDER)
    marked = chosen and has_option_line(code)
    if not marked and (extra := [name for name in _SHOWN if peek(node, name) is not node]):
        _complain_in_proof(record, extra[0], _misplaced(question.kind))
    if OPTION in code and not (marked and code.count(OPTION) == 1):
        why = "must appear once, alone on its line" if chosen else f"does not go with {_named(question.kind)} question"
        _complain_in_proof(record, "code", f"`{OPTION}` {why}")
    elif marked:
        _judge_option_line(record, question, proof)
    elif question.kind is Kind.ORDER:
        _judge_lines(record, question)
    elif chosen:
        _judge_options(record, question)
    lines = "\n".join(line.text for line in question.lines) or "pass"
    check_snippet(record.page, peek(node, "code"), "code", with_option(code, lines))


def _judge_option_line(record: Fields, question: Question, proof: CodeProof) -> None:
    if proof.shows is None:
        record.complain("proof", f"with `{OPTION}` it needs `prints`, `raises` or `hangs`")
    _refuse_shows(record, question, f"`shows` has no effect with `{OPTION}`; the proof says what right options give")
    for option, node in zip(question.options, record.children("options"), strict=False):
        if option.code:
            check_snippet(record.page, peek(node, "code"), "code", option.text)
        else:
            record.page.complain(node, f"the proof has `{OPTION}`, so each option needs `code` in place of `text`")


def _judge_options(record: Fields, question: Question) -> None:
    places = list(zip(question.options, record.children("options"), strict=False))
    right = [option.shows for option in question.options if option.right and option.shows]
    for option, node in places:
        if option.shows is None:
            if peek(node, "shows") is node:
                record.page.complain(
                    node, "this option needs `shows`: what the proof would observe if the option were right"
                )
        elif question.kind is Kind.CHOICES and (option.shows.everywhere is None or "\n" in option.shows.everywhere):
            record.page.complain(peek(node, "shows"), "`shows`: in a `choices` question it is one line of text")
        elif not option.right and any(_alike(option.shows, other) for other in right):
            record.page.complain(
                peek(node, "shows"), "`shows`: a right option shows the same, so the proof cannot decide"
            )


def _judge_lines(record: Fields, question: Question) -> None:
    seen: set[str] = set()
    for line, node in zip(question.lines, record.children("lines"), strict=False):
        if line.shows is None:
            record.page.complain(node, f"this line needs `shows`, or the proof a line `{OPTION}`")
        elif line.shows in seen:
            record.page.complain(
                peek(node, "shows"), "`shows`: another line shows the same, so the proof cannot decide"
            )
        seen.add(line.shows or "")


def _judge_ranks(record: Fields, question: Question, proof: Proof) -> None:
    if not proof.ranks:
        return
    try:
        used = formula.names(proof.ranks)
        if unknown := used - {variable.name for variable in question.variables}:
            _complain_in_proof(record, "ranks", f"`{min(unknown)}` is not one of the question's `vars`")
        elif not used:
            _judge_count(record, question, formula.evaluate(proof.ranks, {}))
    except ValueError as problem:
        _complain_in_proof(record, "ranks", str(problem))


def _judge_count(record: Fields, question: Question, ranks: float) -> None:
    if ranks not in range(1, MOST_RANKS + 1):
        _complain_in_proof(
            record, "ranks", f"expected a whole number from 1 to {MOST_RANKS}, got {formula.format_number(ranks)}"
        )
        return
    named = {question.rank or 0}
    named |= {rank for option in question.options if option.shows for rank in option.shows.by_rank or ()}
    if isinstance(question.proof, CodeProof) and question.proof.shows:
        named |= set(question.proof.shows.by_rank or ())
    if isinstance(question.proof, CodeProof) and question.proof.fixed:
        named |= set(question.proof.fixed.by_rank or ())
    if max(named) >= ranks:
        _complain_in_proof(record, "ranks", f"rank {max(named)} is asked for, but the last rank is {int(ranks) - 1}")


def _refuse_shows(record: Fields, question: Question, why: str) -> None:
    shown = [item.shows is not None for item in question.options or question.lines]
    for given, node in zip(shown, record.children("options") or record.children("lines"), strict=False):
        if given:
            record.page.complain(peek(node, "shows"), why)


def _complain_in_proof(record: Fields, name: str, text: str) -> None:
    record.page.complain(peek(record.at("proof"), name), f"`{name}`: {text}")


def _alike(first: Shows, second: Shows) -> bool:
    if first.raises and second.raises:
        return first.raises.startswith(second.raises) or second.raises.startswith(first.raises)
    if first.everywhere is not None and second.by_rank:
        first, second = second, first
    if first.by_rank and second.everywhere is not None:
        return set(first.by_rank.values()) == {second.everywhere}
    return first == second


def _misplaced(kind: Kind) -> str:
    if kind in (Kind.NUMBER, Kind.OUTPUT):
        return f"{_named(kind)} question is proven by its `answer`; remove this"
    return f"this needs a line `{OPTION}` in the code; without one, use `shows` in the options"


def _named(kind: Kind) -> str:
    """A kind with its article, for a sentence."""
    return f"an `{kind}`" if kind in (Kind.ORDER, Kind.OUTPUT) else f"a `{kind}`"


_Value = TypeVar("_Value")
_MOST_DRAWS = 1_000
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_FIGURE = re.compile(r"ranks|[a-z_]+\.(alpha|beta)")  # what `ddpquiz bench` finds, by name
_FIGURES = "`ranks`, or an operation with `.alpha` (µs) or `.beta` (µs per MB), such as `all_reduce.alpha`"
_DEFINED = formula.FUNCTIONS | {"os", "torch", "dist", "rank", "world_size"}  # by the code that precedes every proof


def _read_variables(record: Fields) -> tuple[Variable, ...]:
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
    figure_of = {name: figures.text(name) for name in list(figures.keys())}
    for name, figure in figure_of.items():
        if name not in given:
            figures.complain(name, f"it is not one of `vars`: {', '.join(given.keys())}")
        if figure and not _FIGURE.fullmatch(figure):
            figures.complain(name, f"expected {_FIGURES}, got `{figure}`")
    return figure_of


def _check_numbers(record: Fields, question: Question) -> None:
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
    answer = _attempt(evaluate_drawn, question.answer, values)
    if isinstance(answer, ValueError):
        yield record.at("answer"), str(answer)
        return
    if not question.tolerance and not math.isclose(answer, float(formula.format_number(answer)), rel_tol=1e-9):
        yield record.at("answer"), f"the answer is {answer!r}, which a learner cannot type exactly; add a `tolerance`"
    for trap, node in zip(question.traps, record.children("traps"), strict=False):
        wrong = _attempt(evaluate_drawn, trap.answer, values)
        if isinstance(wrong, ValueError):
            yield node, str(wrong)
        elif math.isclose(wrong, answer, rel_tol=max(question.tolerance, 1e-9), abs_tol=1e-12):
            yield node, "this trap equals the right answer; change it or the `vars`"
    for name, node, text in _texts(record, question):
        if isinstance(filled := _attempt(fill, text, values), ValueError):
            yield node, f"`{name}`: {filled}"
    if question.proof:
        ranks = _attempt(evaluate_drawn, question.proof.ranks, values)
        if ranks not in range(1, MOST_RANKS + 1):
            yield peek(record.at("proof"), "ranks"), f"`ranks` is not a whole number from 1 to {MOST_RANKS}"


def _attempt(
    function: Callable[[str, dict[str, str]], _Value], text: str, values: dict[str, str]
) -> _Value | ValueError:
    try:
        return function(text, values)
    except ValueError as problem:
        return problem
