"""All content: the concepts in learning order, with their tracks and sources, found by name or by search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ddpquiz.curriculum.concept import Card, Concept, Item, Question
from ddpquiz.errors import UserError
from ddpquiz.paths import demos_dir

if TYPE_CHECKING:
    from ddpquiz.curriculum.search import Hit


@dataclass(frozen=True, slots=True)
class Track:
    """A folder of concepts, in learning order."""

    id: str
    title: str
    concepts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a fact."""

    key: str
    title: str
    authors: str = ""
    year: str = ""
    address: str = ""

    @property
    def line(self) -> str:
        """What is known of it, in one line."""
        return " · ".join(filter(None, (self.title, self.authors, self.year, self.address)))


@dataclass(frozen=True, slots=True)
class LabTitle:
    """A lab as a list names it."""

    id: str
    concept: str
    title: str
    minutes: int


@dataclass(frozen=True)
class Catalog:
    """All concepts, in learning order (those of the core route, then the others), and the labs about them, by name."""

    tracks: tuple[Track, ...]
    concepts: tuple[Concept, ...]
    sources: Mapping[str, Source]
    demos: Path = field(default_factory=demos_dir)  # the folder of the scripts that the concepts name
    labs: tuple[LabTitle, ...] = ()
    core: tuple[str, ...] = ()  # the core route: the concepts to learn first, by name
    moved: Mapping[str, str] = field(default_factory=dict)  # earlier keys of items, and their keys now

    @cached_property
    def _concepts(self) -> dict[str, Concept]:
        return {concept.id: concept for concept in self.concepts}

    @cached_property
    def _items(self) -> dict[str, Item]:
        return {item.key: item for concept in self.concepts for item in concept.items()}

    def concept(self, concept_id: str) -> Concept:
        """A concept by its id. UserError with the one that is probably meant if no concept has this id."""
        if concept_id in self._concepts:
            return self._concepts[concept_id]
        hits = sorted(self.search(concept_id), key=lambda hit: hit.kind != "concept")
        first_hit = next((hit.concept.id for hit in hits), "")
        meant = _nearest(concept_id, self._concepts, 0.7) or first_hit or _nearest(concept_id, self._concepts)
        raise UserError(f"No concept named '{concept_id}'. {_advice(meant, 'ddpquiz list')}")

    def choose(self, names: Iterable[str] | None, track: str | None) -> tuple[Concept, ...]:
        """The concepts with these names, or all, that are in a track, if it is named. UserError for an unknown name."""
        tracks = {track.id for track in self.tracks}
        if track is not None and track not in tracks:
            raise UserError(f"There is no track `{track}`; tracks are {', '.join(sorted(tracks))}.")
        wanted = {self.concept(name).id for name in names or self._concepts}
        return tuple(
            concept for concept in self.concepts if concept.id in wanted and (track is None or concept.track == track)
        )

    def item(self, key: str) -> Item:
        """A card, question or prompt by `concept/id`, now or earlier. UserError if no item has this name."""
        key = self.moved.get(key, key)
        if key in self._items:
            return self._items[key]
        concept_id, slash, item_id = key.rpartition("/")  # the name of a pack's concept has a slash of its own
        if not slash or key in self._concepts:
            raise UserError(f"'{key}' is no card or question; their names are concept/id. {self._advice_on_word(key)}")
        concept = self.concept(concept_id)
        meant = _nearest(item_id, [item.id for item in concept.items()])
        advice = _advice(meant and f"{concept_id}/{meant}", f"ddpquiz list {concept_id}")
        raise UserError(f"No item named '{key}'. {advice}")

    def _advice_on_word(self, word: str) -> str:
        """Return advice for a word that may be the name of a concept, or of an item without its concept."""
        meant = _nearest(word, [*self._concepts, *(item.id for item in self._items.values())])
        if meant in self._concepts:
            return _advice("", f"ddpquiz list {meant}")
        return _advice("' or '".join(item.key for item in self._items.values() if item.id == meant), "ddpquiz list")

    def cards(self) -> tuple[Card, ...]:
        return tuple(card for concept in self.concepts for card in concept.cards)

    def questions(self) -> tuple[Question, ...]:
        return tuple(question for concept in self.concepts for question in concept.questions)

    def labs_about(self, concept_id: str) -> tuple[LabTitle, ...]:
        """The labs that belong to a concept."""
        return tuple(lab for lab in self.labs if lab.concept == concept_id)

    def path(self, concept_id: str) -> tuple[Concept, ...]:
        """The concepts to learn before a concept, in order, and last the concept itself."""
        wanted: set[str] = set()
        pending = [self.concept(concept_id)]
        while pending:
            concept = pending.pop()
            if concept.id not in wanted:
                wanted.add(concept.id)
                pending += [self.concept(need) for need in concept.needs]
        return tuple(concept for concept in self.concepts if concept.id in wanted)

    def search(self, words: str) -> tuple[Hit, ...]:
        """Everything that contains some of the words, the best match first."""
        from ddpquiz.curriculum.search import Hit, search

        labs: list[Hit] = []
        for concept in self.concepts:
            for lab in self.labs_about(concept.id):
                about = f"Write a program that is checked on real ranks: {lab.minutes} minutes, after"
                labs.append(Hit(lab.id, "lab", concept, lab.title, f'{about} "{concept.title}".'))
        return search(self.concepts, self.demos, words, labs)


def _advice(meant: str, command: str) -> str:
    return f"Did you mean '{meant}'?" if meant else f"See `{command}`."


def _nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    from ddpquiz.curriculum.yaml_file import nearest  # it loads the YAML parser, which most starts do not need

    return nearest(word, known, cutoff)
