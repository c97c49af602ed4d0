"""Read a concept file as frozen data, or collect every complaint with its line and column."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from yaml import Node, ScalarNode

from ddpquiz.curriculum.concept import Card, CardLevel, Command, Concept, DemoLink, Level, Mistake, Prompt
from ddpquiz.curriculum.lesson_reader import demos_of_steps, is_in_steps, picture_of_more, read_steps
from ddpquiz.curriculum.question_reader import MOST_RANKS, mention_earlier_keys, read_question
from ddpquiz.curriculum.yaml_file import ID, Fields, YamlFile, did_you_mean, peek, scalar

_COUNTS = {  # key: minimum and maximum
    "cards": (6, 12), "questions": (9, 24), "explain": (2, 2), "remember": (3, 6), "mistakes": (2, 9), "demos": (1, 9),
}  # fmt: skip
_IN_STEPS = {"remember": (0, 6), "mistakes": (0, 9), "demos": (1, 9)}  # where the lesson is steps
_LESSON_WORDS = (1, 1_000)  # of a lesson in one text, outside of code blocks
_BACK_WORDS = 40
_ANSWER_WORDS = (40, 120)  # of a model answer to a prompt
_POINTS = (3, 5)  # of a prompt
_KINDS = 4
_FENCE = re.compile(r"^ *(```|~~~)", re.MULTILINE)
_FENCED = re.compile(r"^ *(```|~~~).*?^ *\1[`~]*[ ]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading a concept file. `concept` is None if the page has complaints."""

    id: str
    track: str
    page: YamlFile
    concept: Concept | None


def read_concept(path: Path, *, thorough: bool = False) -> Reading:
    """Read a concept file. Its name is the id of the concept, and its folder the id of the track.

    A thorough reading also compiles the Python in it and tries every draw of every number.
    """
    page = YamlFile.open(path, thorough=thorough)
    reading = concept_of(page, path.stem, path.absolute().parent.name)
    if page.root and not ID.fullmatch(path.stem):
        page.complain_at(1, 1, f"the file name `{path.stem}` must consist of a-z, 0-9 and -")
    return reading


def concept_of(page: YamlFile, concept_id: str, track: str) -> Reading:
    """Read the concept in a file that was parsed."""
    if page.root is None:
        return Reading(concept_id, track, page, None)
    record = Fields(page, page.root, "a concept")
    steps, in_steps = read_steps(record), is_in_steps(record)
    concept = Concept(
        id=concept_id,
        track=track,
        title=record.text("title"),
        needs=record.texts("needs", empty=True),
        idea=record.text("idea"),
        why=record.text("why", optional=in_steps),
        steps=steps,
        more=record.text("more", optional=True),
        picture=picture_of_more(record) if in_steps else "",
        able=record.text("able", optional=True),
        commands=record.records("commands", "a command", _command, optional=True),
        mistakes=record.records("mistakes", "a mistake", _mistake, optional=in_steps),
        remember=record.texts("remember", optional=in_steps),
        demos=record.records("demos", "a demo", _demo, optional=in_steps),
        cards=record.records("cards", "a card", lambda entry: _card(entry, concept_id)),
        questions=record.records("questions", "a question", lambda entry: read_question(entry, concept_id)),
        explain=record.records("explain", "a prompt", lambda entry: _prompt(entry, concept_id)),
    )
    record.close()
    for need, node in zip(concept.needs, record.children("needs"), strict=False):
        page.mention("need", need, node)
    _check_ids(record, concept)
    _check_links(record, concept)
    if in_steps:
        concept = replace(concept, demos=_with_demos_of_steps(concept))
    _check_complete(record, concept, in_steps=in_steps)
    return Reading(concept_id, track, page, None if page.complaints else concept)


def _with_demos_of_steps(concept: Concept) -> tuple[DemoLink, ...]:
    """The demos of the steps, in their order, then those that only the concept names.

    Where both name a run, it is as the concept names it.
    """
    named = {(link.run, link.args): link for link in concept.demos}
    asked = [question.id for question in concept.questions]
    of_steps = {(link.run, link.args): link for link in demos_of_steps(concept.steps, asked)}
    return tuple({**of_steps, **named}.values())


def _command(record: Fields) -> Command:
    flags: dict[str, str] = {}
    if (node := record.find("flags", optional=True)) is not None:
        given = Fields(record.page, node, "`flags`")
        flags = {name: given.text(name) for name in list(given.keys())}
    return Command(record.code("run"), record.text("does"), flags, record.code("prints", optional=True))


def _mistake(record: Fields) -> Mistake:
    return Mistake(record.text("do"), record.text("happens"), record.text("instead"))


def _demo(record: Fields) -> DemoLink:
    link = DemoLink(
        run=record.text("run"),
        look=record.text("look"),
        args=record.texts("args", optional=True, empty=True),
        ranks=record.whole("ranks", 1, MOST_RANKS, optional=True),
        predict=record.text("predict", optional=True),
    )
    if link.run:
        record.page.mention("demo", link.run, record.at("run"))
    for argument in link.args:
        record.page.mention("argument", argument, record.at("args"), link.run)
    if link.predict and "ranks" not in record:
        record.complain("predict", "it needs `ranks`, the number of ranks that the prediction is about")
    return link


def _card(record: Fields, concept: str) -> Card:
    card = Card(
        concept=concept,
        id=record.id(),
        level=record.one_of("level", CardLevel).level,
        front=record.text("front"),
        back=record.text("back"),
        source=record.text("source"),
        proof=record.text("proof", optional=True),
    )
    mention_earlier_keys(record, card.key)
    if card.source:
        record.page.mention("source", card.source, record.at("source"))
    if (count := _words(card.back)) > _BACK_WORDS:
        record.complain("back", f"{count} words; at most {_BACK_WORDS} are allowed, for one fact")
    return card


def _prompt(record: Fields, concept: str) -> Prompt:
    points = tuple([_point(record, node) for node in record.entries("points")])
    answer = record.text("answer")
    _check_count(record, "points", len(points), _POINTS, "points")
    _check_count(record, "answer", _words(answer), _ANSWER_WORDS, "words")
    return Prompt(concept, record.id(), record.text("ask"), record.text("hint"), answer, points)


def _point(record: Fields, node: Node) -> str:
    """What a good answer says. Packs of 0.1 write `{say, words}`, and ticked a point by its words; no one does now."""
    if isinstance(node, ScalarNode):
        return scalar(record.page, node, "points").strip()
    entry = Fields(record.page, node, "a point")
    say, _ = entry.text("say"), entry.find("words", optional=True)
    entry.close()
    return say


def _check_ids(record: Fields, concept: Concept) -> None:
    seen: dict[str, int] = {}
    nodes = [node for name in ("cards", "questions", "explain") for node in record.children(name)]
    for item, node in zip(concept.items(), nodes, strict=False):
        place = peek(node, "id")
        if item.id in seen:
            record.page.complain(place, f"the id `{item.id}` is already used in line {seen[item.id]}")
        elif item.id:
            seen[item.id] = place.start_mark.line + 1


def _check_links(record: Fields, concept: Concept) -> None:
    """Complain about links to questions and cards that do not exist, and to a proof where the question has none."""
    questions = {question.id: question for question in concept.questions}
    cards = [card.id for card in concept.cards]
    links = [
        *(("ask", step.ask, "question or card", [*questions, *cards]) for step in concept.steps),
        *(("predict", link.predict, "question", questions) for link in concept.demos),
        *(("proof", card.proof, "question", questions) for card in concept.cards),
        *(("card", question.card, "card", cards) for question in concept.questions),
    ]
    lesson = record.children("lesson") if is_in_steps(record) else [record.node]  # one text asks nothing
    nodes = [*lesson, *(node for name in ("demos", "cards", "questions") for node in record.children(name))]
    for (key, wanted, what, known), node in zip(links, nodes, strict=False):
        if wanted and wanted not in known:
            meant = did_you_mean(wanted, list(known))
            record.page.complain(peek(node, key), f"`{key}`: `{wanted}` is not a {what} of this file{meant}")
        elif wanted and key == "proof" and questions[wanted].proof is None:
            record.page.complain(peek(node, key), f"`proof`: the question `{wanted}` has no proof; name one that has")


def _check_complete(record: Fields, concept: Concept, *, in_steps: bool) -> None:
    """Complain about everything of which a concept has too little or too much."""
    for name, span in {**_COUNTS, **(_IN_STEPS if in_steps else {})}.items():
        _check_count(record, name, len(getattr(concept, name)), span, "entries")
    if not in_steps:
        _check_count(record, "lesson", _words(concept.steps[0].text), _LESSON_WORDS, "words outside code blocks")
    texts = [("why", concept.why, record.at("why")), ("more", concept.more, record.at("more"))]
    lesson = record.children("lesson") if in_steps else [record.at("lesson")]
    texts += [("lesson", step.text, peek(node, "text")) for step, node in zip(concept.steps, lesson, strict=False)]
    for name, text, node in texts:
        if _FENCE.search(_FENCED.sub("", text)):
            record.page.complain(node, f"`{name}`: a code block is never closed")
    if not concept.questions:
        return
    missing = [str(level) for level in Level if level not in {question.level for question in concept.questions}]
    if missing:
        record.complain("questions", f"no question is {' or '.join(missing)}; a concept needs all three levels")
    kinds = sorted({str(question.kind) for question in concept.questions})
    if len(kinds) < _KINDS:
        record.complain("questions", f"only {len(kinds)} kinds ({', '.join(kinds)}); a concept needs at least {_KINDS}")


def _words(markdown: str) -> int:
    """Count the words of a Markdown text without its code blocks."""
    return len(_FENCED.sub("", markdown).split())


def _check_count(record: Fields, name: str, count: int, span: tuple[int, int], unit: str) -> None:
    """Complain about a value that is too short or too long; a missing one has a complaint already."""
    least, most = span
    if count and not least <= count <= most:
        wanted = str(least) if least == most else f"{least:,} to {most:,}"
        record.complain(name, f"expected {wanted} {unit}, got {count:,}")
