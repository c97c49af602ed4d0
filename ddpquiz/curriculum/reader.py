"""Read content files as frozen data, or collect every complaint with its file, line and column."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddpquiz.curriculum import completeness
from ddpquiz.curriculum.concept import (
    Card,
    CardLevel,
    Command,
    Concept,
    DemoLink,
    Mistake,
    Point,
    Prompt,
    Question,
    Source,
    Track,
)
from ddpquiz.curriculum.fields import Fields, did_you_mean, peek
from ddpquiz.curriculum.proof_reader import MOST_RANKS
from ddpquiz.curriculum.question_reader import read_question
from ddpquiz.curriculum.yaml_file import YamlFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_ID = re.compile(r"[a-z0-9][a-z0-9-]*")
_ANSWER_WORDS = (40, 120)  # of a model answer to a prompt
_SOURCE_KEY = re.compile(r"[A-Za-z0-9#][A-Za-z0-9._-]*")


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
    if page.root and not _ID.fullmatch(path.stem):
        page.complain_at(1, 1, f"the file name `{path.stem}` must consist of a-z, 0-9 and -")
    return reading


def concept_of(page: YamlFile, concept_id: str, track: str) -> Reading:
    """Read the concept on a page."""
    if page.root is None:
        return Reading(concept_id, track, page, None)
    record = Fields(page, page.root, "a concept")
    concept = Concept(
        id=concept_id,
        track=track,
        title=record.text("title"),
        needs=record.texts("needs", empty=True),
        idea=record.text("idea"),
        why=record.text("why"),
        lesson=record.text("lesson"),
        commands=tuple([_command(entry) for entry in record.records("commands", "a command", optional=True)]),
        mistakes=tuple([_mistake(entry) for entry in record.records("mistakes", "a mistake")]),
        remember=record.texts("remember"),
        demos=tuple([_demo(entry) for entry in record.records("demos", "a demo")]),
        cards=tuple([_card(entry, concept_id) for entry in record.records("cards", "a card")]),
        questions=tuple([read_question(entry, concept_id) for entry in record.records("questions", "a question")]),
        explain=tuple([_prompt(entry, concept_id) for entry in record.records("explain", "a prompt")]),
    )
    record.close()
    for need, node in zip(concept.needs, record.children("needs"), strict=False):
        page.mention("need", need, node)
    _check_ids(record, concept)
    _check_links(record, concept)
    completeness.check_complete(record, concept)
    return Reading(concept_id, track, page, None if page.complaints else concept)


def read_tracks(page: YamlFile) -> tuple[Track, ...]:
    """Read tracks.yaml. Each concept that it names becomes a mention."""
    tracks: list[Track] = []
    if page.root is None:
        return ()
    record = Fields(page, page.root, "the tracks")
    for name in list(record.keys()):
        node = record.find(name)
        if node is None:
            continue
        if not _ID.fullmatch(name):
            page.complain(node, f"the track `{name}` must consist of a-z, 0-9 and -")
        track = Fields(page, node, f"the track `{name}`")
        tracks.append(Track(name, track.text("title"), track.texts("concepts", empty=True)))
        for concept, entry in zip(tracks[-1].concepts, track.children("concepts"), strict=False):
            page.mention("concept", concept, entry, name)
        track.close()
    return tuple(tracks)


def read_sources(page: YamlFile) -> Mapping[str, Source]:
    """Read sources.yaml."""
    sources: dict[str, Source] = {}
    if page.root is None:
        return sources
    record = Fields(page, page.root, "the sources")
    for key in list(record.keys()):
        node = record.find(key)
        if node is None:
            continue
        if not _SOURCE_KEY.fullmatch(key):
            page.complain(node, f"the key `{key}` must consist of letters, digits and . _ -")
        entry = Fields(page, node, f"the source `{key}`")
        texts = {name: entry.text(name, optional=True) for name in ("authors", "year", "address")}
        sources[key] = Source(key, entry.text("title"), **texts)
        entry.close()
    return sources


def _command(record: Fields) -> Command:
    flags: dict[str, str] = {}
    if (node := record.find("flags", optional=True)) is not None:
        given = Fields(record.page, node, "`flags`")
        flags = {name: given.text(name) for name in list(given.keys())}
    command = Command(record.code("run"), record.text("does"), flags, record.code("prints", optional=True))
    record.close()
    return command


def _mistake(record: Fields) -> Mistake:
    mistake = Mistake(record.text("do"), record.text("happens"), record.text("instead"))
    record.close()
    return mistake


def _demo(record: Fields) -> DemoLink:
    link = DemoLink(
        run=record.text("run"),
        look=record.text("look"),
        args=record.texts("args", optional=True, empty=True),
        ranks=record.whole("ranks", 1, MOST_RANKS, optional=True),
        predict=record.text("predict", optional=True),
    )
    record.close()
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
        level=record.one_of("level", CardLevel),
        front=record.text("front"),
        back=record.text("back"),
        source=record.text("source"),
        proof=record.text("proof", optional=True),
    )
    record.close()
    if card.source:
        record.page.mention("source", card.source, record.at("source"))
    if (count := completeness.words(card.back)) > completeness.BACK_WORDS:
        record.complain("back", f"{count} words; {completeness.BACK_WORDS} at most: one fact per card")
    return card


def _prompt(record: Fields, concept: str) -> Prompt:
    points = []
    for entry in record.records("points", "a point"):
        points.append(Point(entry.text("say"), entry.texts("words")))
        entry.close()
    least, most = completeness.POINTS
    if points and not least <= len(points) <= most:
        record.complain("points", f"{len(points)}, but a prompt has {least} to {most}")
    answer = record.text("answer")
    prompt = Prompt(concept, record.id(), record.text("ask"), record.text("hint"), answer, tuple(points))
    record.close()
    least, most = _ANSWER_WORDS
    if answer and not least <= (count := completeness.words(answer)) <= most:
        record.complain("answer", f"{count} words; a model answer has {least} to {most}")
    return prompt


def _check_ids(record: Fields, concept: Concept) -> None:
    seen: dict[str, int] = {}
    groups: list[tuple[str, tuple[Card | Question | Prompt, ...]]] = [
        ("cards", concept.cards),
        ("questions", concept.questions),
        ("explain", concept.explain),
    ]
    for name, items in groups:
        for item, node in zip(items, record.children(name), strict=False):
            place = peek(node, "id")
            if item.id in seen:
                record.page.complain(place, f"the id `{item.id}` is already used in line {seen[item.id]}")
            elif item.id:
                seen[item.id] = place.start_mark.line + 1


def _check_links(record: Fields, concept: Concept) -> None:
    """Complain about a demo or a card that names a question that does not exist or cannot serve."""
    questions = {question.id: question for question in concept.questions}
    links = [("predict", link.predict) for link in concept.demos] + [("proof", card.proof) for card in concept.cards]
    nodes = [*record.children("demos"), *record.children("cards")]
    for (key, wanted), node in zip(links, nodes, strict=False):
        if wanted and wanted not in questions:
            meant = did_you_mean(wanted, list(questions))
            record.page.complain(peek(node, key), f"`{key}`: `{wanted}` is not a question of this file{meant}")
        elif wanted and key == "proof" and questions[wanted].proof is None:
            record.page.complain(peek(node, key), f"`proof`: the question `{wanted}` has no proof; name one that has")
