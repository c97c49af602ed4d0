"""Everything there is to learn: all concepts, cross-checked, in the order in which they are learned, searchable."""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ddpquiz.curriculum.crosscheck import Surroundings, check_mentions, check_tracks
from ddpquiz.curriculum.page import Page, shown
from ddpquiz.curriculum.reader import Reading, read_concept, read_sources, read_tracks
from ddpquiz.curriculum.record import did_you_mean, nearest
from ddpquiz.errors import Complaint, ContentError, UserError
from ddpquiz.shipped import content_dir, demos_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ddpquiz.curriculum.concept import Card, Concept, Item, Question, Source, Track

_BESIDE = ("tracks.yaml", "sources.yaml")


@dataclass(frozen=True, slots=True)
class Hit:
    """A concept or an item that a search found: its key, the concept that it belongs to, and its text."""

    key: str
    concept: Concept
    heading: str
    more: str


@dataclass(frozen=True)
class Catalog:
    """All concepts, in the order in which they are learned."""

    tracks: tuple[Track, ...]
    concepts: tuple[Concept, ...]
    sources: Mapping[str, Source]
    demos: Path = field(default_factory=demos_dir)  # the folder of the scripts that the concepts name

    @cached_property
    def _concepts(self) -> dict[str, Concept]:
        return {concept.id: concept for concept in self.concepts}

    @cached_property
    def _items(self) -> dict[str, Item]:
        return {item.key: item for concept in self.concepts for item in concept.items()}

    def concept(self, concept_id: str) -> Concept:
        """Return a concept; raises UserError, with the nearest name, when there is none."""
        if concept_id in self._concepts:
            return self._concepts[concept_id]
        meant = did_you_mean(concept_id, self._concepts) or "; see `ddpquiz list`"
        raise UserError(f"There is no concept `{concept_id}`{meant}")

    def item(self, key: str) -> Item:
        """Return a card, question or prompt by `concept/id`; raises UserError when there is none."""
        if key in self._items:
            return self._items[key]
        concept_id, slash, item_id = key.partition("/")
        if not slash:
            raise UserError(f"`{key}` is no item; an item is called `concept/id`, see `ddpquiz list {concept_id}`")
        concept = self.concept(concept_id)
        meant = nearest(item_id, [item.id for item in concept.items()])
        advice = f"did you mean `{concept_id}/{meant}`?" if meant else f"see `ddpquiz list {concept_id}`"
        raise UserError(f"There is no item `{key}`; {advice}")

    def cards(self) -> tuple[Card, ...]:
        """Return every card, in learning order."""
        return tuple(card for concept in self.concepts for card in concept.cards)

    def questions(self) -> tuple[Question, ...]:
        """Return every question, in learning order."""
        return tuple(question for concept in self.concepts for question in concept.questions)

    def path(self, concept_id: str) -> tuple[Concept, ...]:
        """Return what to learn to understand a concept, in order; the concept itself is the last."""
        wanted: set[str] = set()
        pending = [self.concept(concept_id)]
        while pending:
            concept = pending.pop()
            if concept.id not in wanted:
                wanted.add(concept.id)
                pending += [self.concept(need) for need in concept.needs]
        return tuple(concept for concept in self.concepts if concept.id in wanted)

    def search(self, words: str) -> tuple[Hit, ...]:
        """Return what holds all the words, the best first."""
        wanted = words.lower().split()
        if not wanted:
            return ()
        texts = (text for concept in self.concepts for text in _searchable(concept))
        hits = ((_score(wanted, text), text) for text in texts)
        return tuple(text for score, text in sorted(hits, key=lambda hit: -hit[0]) if score)


@dataclass(frozen=True, slots=True)
class Survey:
    """A catalog as far as it could be read, and everything that is wrong with it."""

    catalog: Catalog
    complaints: tuple[Complaint, ...]


def load(folder: Path | None = None, *, thorough: bool = False) -> Catalog:
    """Load the content of a folder, by default what is shipped; raises ContentError with all complaints."""
    found = survey(folder, thorough=thorough)
    if found.complaints:
        raise ContentError(found.complaints)
    return found.catalog


def survey(path: Path | None = None, *, thorough: bool = False) -> Survey:
    """Read a content folder, or one concept file with the content around it, and note what is wrong.

    The demos are those in the folder `demos` beside the content, or else those that are shipped. A thorough survey also
    compiles the Python in it, tries out every draw, and looks into the demos.
    """
    path = path or content_dir()
    whole = os.path.isdir(path)  # noqa: PTH112 - False for a path that may not be looked at, where Path raises
    folder = path if whole else path.absolute().parent.parent
    if not whole and not os.path.isfile(folder / _BESIDE[0]):  # noqa: PTH113 - the same
        folder = content_dir()
    with _collector_off():
        return _survey(folder, None if whole else path, thorough=thorough)


def _survey(folder: Path, only: Path | None, *, thorough: bool) -> Survey:
    files, strays = ([only], []) if only else _files(folder)
    beside = folder.absolute().parent / "demos"
    demos = beside if beside.is_dir() else demos_dir()
    tracks_page, sources_page = Page.open(folder / _BESIDE[0]), Page.open(folder / _BESIDE[1])
    tracks, sources = read_tracks(tracks_page), read_sources(sources_page)
    readings = [read_concept(file, thorough=thorough) for file in files]
    around = Surroundings(tracks if tracks_page.root else None, sources if sources_page.root else None, demos, thorough)
    check_mentions(readings, around)
    if tracks_page.root:
        check_tracks(readings, tracks_page, around, whole=only is None)
    complaints = [complaint for reading in readings for complaint in reading.page.complaints]
    complaints += tracks_page.complaints + sources_page.complaints if only is None else []
    wrong = "a concept lies in <track>/<concept>.yaml; move it or rename it"
    complaints += [Complaint(shown(file), 1, 1, wrong) for file in strays]
    if not readings:
        complaints.append(Complaint(shown(folder), 1, 1, "there is no concept in this folder"))
    catalog = Catalog(tracks, _in_order(readings, tracks), sources, demos)
    return Survey(catalog, tuple(sorted(set(complaints))))


def _files(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the concept files of a folder, and files that look like some but lie or are called wrong."""
    found = {path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml")}
    good = {path for path in found if path.suffix == ".yaml" and path.parent.parent == folder}
    return sorted(good), sorted(found - good - {folder / name for name in _BESIDE})


def _in_order(readings: Sequence[Reading], tracks: Sequence[Track]) -> tuple[Concept, ...]:
    order = [concept for track in tracks for concept in track.concepts]
    places = {concept: place for place, concept in enumerate(order)}
    concepts = [reading.concept for reading in readings if reading.concept]
    return tuple(sorted(concepts, key=lambda concept: places.get(concept.id, len(places))))


@contextmanager
def _collector_off() -> Iterator[None]:
    """Keep the garbage collector from going over hundreds of thousands of nodes that all stay alive."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _searchable(concept: Concept) -> Iterator[Hit]:
    more = "\n".join((concept.idea, concept.why, concept.lesson, *concept.remember))
    yield Hit(concept.id, concept, concept.title, more)
    for card in concept.cards:
        yield Hit(card.key, concept, card.front, card.back)
    for question in concept.questions:
        answers = [option.text for option in question.options] + [line.text for line in question.lines]
        yield Hit(question.key, concept, question.ask, "\n".join((question.code, *answers)))


def _score(words: Sequence[str], hit: Hit) -> float:
    """Count how well words fit: more in a heading than below it, more in a concept than in an item; 0 is a miss."""
    heading, more = f"{hit.key} {hit.heading}".lower(), hit.more.lower()
    scores = [3.0 if word in heading else 1.0 if word in more else 0.0 for word in words]
    return sum(scores) * (2.0 if hit.key == hit.concept.id else 1.0) if all(scores) else 0.0
