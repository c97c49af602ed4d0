"""Read the proof of an answer, and check that it can tell the right answer from the wrong ones."""

import re

from yaml import MappingNode, Node, ScalarNode

from ddpquiz.curriculum import formula
from ddpquiz.curriculum.concept import CodeProof, DemoProof, Kind, Proof, Question, Shows
from ddpquiz.curriculum.fields import Fields, peek, scalar
from ddpquiz.curriculum.snippet import OPTION, check_snippet, has_option_line, with_option
from ddpquiz.curriculum.yaml_file import YamlFile

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


def read_proof(question: Fields) -> Proof | None:
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
    if _LABEL.fullmatch(label):
        page.mention("label", label, record.at("label"), demo)
    elif label:
        record.complain("label", "use at most 40 of a-z, 0-9, spaces and _/()-, and start with a letter")
    return DemoProof(ranks, demo, label, args)


def judge(record: Fields, question: Question) -> None:
    """Complain about a proof that does not fit its kind of question, or cannot tell right answers from wrong ones."""
    proof, kind = question.proof, question.kind
    if proof is None:
        if "proof" not in record:
            _refuse_shows(record, question, "`shows` is for a `proof`, and this question has none")
        return
    _judge_ranks(record, question, proof)
    if isinstance(proof, DemoProof):
        if kind in _BY_CODE:
            _complain_in_proof(record, "demo", f"{a(kind)} question is proven by code, not by a demo")
        elif kind is not Kind.NUMBER:
            _judge_options(record, question)
    elif kind is Kind.SPOT:
        _judge_spot(record, proof)
    elif proof.fixed:
        _complain_in_proof(record, "fixed", "only a `spot` question has it")
    elif kind is Kind.OUTPUT and proof.code is not None:
        _complain_in_proof(record, "code", "an `output` question is proven by its own `code`; remove this")
    elif kind is not Kind.OUTPUT and proof.code is None:
        record.complain("proof", f"{a(kind)} question needs `code` or `demo` in it")
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
        why = "must appear once, alone on its line" if chosen else f"does not go with {a(question.kind)} question"
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
            record, "ranks", f"expected a whole number from 1 to {MOST_RANKS}, got {formula.spell(ranks)}"
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


def _alike(one: Shows, other: Shows) -> bool:
    if one.raises and other.raises:
        return one.raises.startswith(other.raises) or other.raises.startswith(one.raises)
    if one.everywhere is not None and other.by_rank:
        one, other = other, one
    if one.by_rank and other.everywhere is not None:
        return set(one.by_rank.values()) == {other.everywhere}
    return one == other


def _misplaced(kind: Kind) -> str:
    if kind in (Kind.NUMBER, Kind.OUTPUT):
        return f"{a(kind)} question is proven by its `answer`; remove this"
    return f"this needs a line `{OPTION}` in the code; without one, use `shows` in the options"


def a(kind: Kind) -> str:
    """Return a kind with its article, for a sentence."""
    return f"an `{kind}`" if kind in (Kind.ORDER, Kind.OUTPUT) else f"a `{kind}`"
