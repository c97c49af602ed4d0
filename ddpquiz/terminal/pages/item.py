"""The page of one item: a card or a question with its answer, or as it is asked."""

from __future__ import annotations

import random
from collections.abc import Collection

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.curriculum.catalog import Source
from ddpquiz.curriculum.concept import Card, CodeProof, Item, Kind, Option, Prompt, Proof, Question
from ddpquiz.curriculum.formula import quantity
from ddpquiz.curriculum.posed_question import Posed, expected, pose
from ddpquiz.learning.judge import instruction
from ddpquiz.terminal.kit.layout import Barred, bullets, columns, indented, numbered, section
from ddpquiz.terminal.kit.style import code, numbered_code, plain, prose

MARK_WORDS = {"suspend": "hidden", "bury": "hidden until tomorrow", "flag": "flagged"}  # kinds of log rows, as text


def item_page(item: Item, source: Source | None = None, marks: Collection[str] = ()) -> Group:
    """Draw an item with its answer; a `number` question gets the same values each time."""
    match item:
        case Card():
            sort = f"card · {item.level}"
            parts = [*_head(named(item.key, sort, marks), item.front), Text(), prose(item.back)]
        case Prompt():
            points = (prose(point) for point in item.points)
            parts = [
                *_head(named(item.key, "explain", marks), item.ask),
                *section("A model answer", prose(item.answer)),
                *section("A good answer makes these points", bullets(points)),
            ]
        case _:
            parts = _question_page(item, marks)
    return Group(*parts, *(section("Source", Text(plain(source.line))) if source else []))


def sample(question: Question) -> Posed:
    """Pose a question with the same values each time."""
    return pose(question, random.Random(question.key))  # noqa: S311  # dice, not secrets


def asks(item: Item) -> str:
    """What an item asks."""
    if isinstance(item, Question):
        return sample(item).question.ask
    return item.front if isinstance(item, Card) else item.ask


def named(name: str, sort: str, marks: Collection[str] = ()) -> Text:
    """Draw the name of an item, its type, and the learner's marks."""
    words = [*([Text(sort, style="quiet")] if sort else []), *(Text(MARK_WORDS[mark], style="warn") for mark in marks)]
    return Text.assemble((plain(name), "code"), "  ", Text(" · ", style="quiet").join(words))


def _head(name: Text, ask: str) -> list[RenderableType]:
    return [name, Text(), prose(ask, "bold")]


def _question_page(question: Question, marks: Collection[str]) -> list[RenderableType]:
    posed = sample(question)
    asked = posed.question
    parts = _head(named(question.key, f"question · {question.kind} · {question.level}", marks), asked.ask)
    if asked.kind is Kind.SPOT:
        parts += [Text(), Barred(numbered_code(asked.code), "quiet")]
    elif asked.code:
        parts += [Text(), Barred(code(asked.code), "quiet")]
    parts += [Text(), *_answer(question, posed)]
    if asked.steps:
        parts += section("Steps", numbered(map(prose, asked.steps)))
    if asked.check:
        parts += section("Cross-check", prose(asked.check))
    if asked.proof:
        parts += section("Proof", *_proof(asked.proof), Text(f"ddpquiz prove {question.key}", style="code"))
    return parts


def _answer(question: Question, posed: Posed) -> list[RenderableType]:
    asked = posed.question
    match question.kind:
        case Kind.CHOICE | Kind.CHOICES:
            return [_options(asked.options)]
        case Kind.ORDER:
            return [numbered(code(line.text) for line in asked.lines)]
        case Kind.NUMBER:
            drawn = ", ".join(f"{name} = {quantity(value)}" for name, value in posed.values.items())
            answer = Text(plain(expected(posed)), style="good")
            right = Group(answer, Text(plain(f"{question.answer} with {drawn}"), style="quiet"))
        case Kind.OUTPUT:
            right = Group(Text(plain(asked.answer), style="good"))
        case Kind.SPOT:
            right = Group(Text(plain(expected(posed)), style="good"), Text("fixed:", style="quiet"), code(asked.fix))
    shown = quantity if question.kind is Kind.NUMBER else str
    traps = (Group(Text(plain(shown(trap.answer))), indented(prose(trap.why, "quiet"))) for trap in asked.traps)
    return [columns([(Text("right", style="good"), right), *((Text("wrong", style="bad"), trap) for trap in traps)])]


def _options(options: tuple[Option, ...]) -> RenderableType:
    rows: list[tuple[Text, RenderableType]] = []
    for option in options:
        text = code(option.text) if option.code else prose(option.text)
        label = Text("right", style="good") if option.right else Text("wrong", style="bad")
        rows.append((label, Group(text, *([indented(prose(option.why, "quiet"))] if option.why else []))))
    return columns(rows)


def asked_view(item: Card | Question) -> list[RenderableType]:
    """Draw a card or a question without its answer; options and lines are numbered."""
    if isinstance(item, Card):
        return [prose(item.front, "bold"), Text("Recall it.", style="quiet")]
    posed = sample(item)
    asked = posed.question
    parts: list[RenderableType] = [prose(asked.ask, "bold"), Text(plain(instruction(asked)), style="quiet")]
    if asked.code:
        parts.append(indented(numbered_code(asked.code) if asked.kind is Kind.SPOT else code(asked.code)))
    choices: list[Text] = []
    if asked.options:
        options = [asked.options[place] for place in posed.shown]
        choices = [code(option.text) if option.code else prose(option.text) for option in options]
    elif asked.lines:
        choices = [prose(asked.lines[place].text) for place in posed.shown]
    return [*parts, *([numbered(choices)] if choices else [])]


def answer_in_words(item: Card | Question) -> str:
    """The back of a card, or the right answer to a question as `asked_view` draws it."""
    if isinstance(item, Card):
        return item.back
    posed = sample(item)
    if not item.options:
        return expected(posed)
    options = [(number, posed.question.options[place]) for number, place in enumerate(posed.shown, 1)]
    return "; ".join(f"{number}, {option.text}" for number, option in options if option.right)


def ranks_of(proof: Proof) -> str:
    """Write on how many ranks a proof runs; the number may be a formula."""
    return f"{proof.ranks} rank{'' if proof.ranks == '1' else 's'}"


def _proof(proof: Proof) -> list[RenderableType]:
    ranks = ranks_of(proof)
    if isinstance(proof, CodeProof):
        what = "this code" if proof.code else "the question's own code"
        if proof.fixed:
            what += ", as it is and with the line fixed,"
        shown: list[RenderableType] = [Barred(code(proof.code), "quiet")] if proof.code else []
        return [Text(f"{what} on {ranks}"), *shown]
    words = " ".join((proof.demo, *proof.args))
    return [Text(plain(f"what the demo {words} prints as `{proof.label}` on {ranks}"))]
