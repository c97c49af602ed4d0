"""Everything there is to learn: all concepts, cross-checked, in the order in which they are learned, searchable."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ddpquiz.errors import UserError
from ddpquiz.paths import demos_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ddpquiz.curriculum.concept import Card, Concept, Item, Question, Source, Track


@dataclass(frozen=True, slots=True)
class Hit:
    """A concept or an item that a search found: its key, the concept that it belongs to, and its text."""

    key: str
    concept: Concept
    heading: str
    more: str
    is_prose: bool = True  # what `more` holds; else it is lines


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
        from ddpquiz.curriculum.fields import nearest

        told = (hit.concept.id for hit in self.search(concept_id))
        meant = nearest(concept_id, self._concepts) or next(told, "")
        advice = f"did you mean `{meant}`?" if meant else "see `ddpquiz list`"
        raise UserError(f"There is no concept `{concept_id}`; {advice}")

    def item(self, key: str) -> Item:
        """Return a card, question or prompt by `concept/id`; raises UserError when there is none."""
        if key in self._items:
            return self._items[key]
        concept_id, slash, item_id = key.partition("/")
        if not slash:
            raise UserError(f"`{key}` is no item; an item is called `concept/id`{self._item_meant(key)}")
        concept = self.concept(concept_id)
        from ddpquiz.curriculum.fields import nearest

        meant = nearest(item_id, [item.id for item in concept.items()])
        advice = f"did you mean `{concept_id}/{meant}`?" if meant else f"see `ddpquiz list {concept_id}`"
        raise UserError(f"There is no item `{key}`; {advice}")

    def _item_meant(self, word: str) -> str:
        from ddpquiz.curriculum.fields import nearest

        meant = nearest(word, [*self._concepts, *(item.id for item in self._items.values())])
        if meant in self._concepts:
            return f", see `ddpquiz list {meant}`"
        keys = [f"`{item.key}`" for item in self._items.values() if item.id == meant]
        return f"; did you mean {' or '.join(keys)}?" if keys else ", see `ddpquiz list`"

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


def _searchable(concept: Concept) -> Iterator[Hit]:
    more = "\n".join((concept.idea, concept.why, concept.lesson, *concept.remember))
    yield Hit(concept.id, concept, concept.title, more)
    for card in concept.cards:
        yield Hit(card.key, concept, card.front, card.back)
    for question in concept.questions:
        answers = [option.text for option in question.options] + [line.text for line in question.lines]
        yield Hit(question.key, concept, question.ask, "\n".join((question.code, *answers)), is_prose=False)


def _score(words: Sequence[str], hit: Hit) -> float:
    """Count how well words fit: more in a heading than below it, more in a concept than in an item; 0 is a miss."""
    heading, more = f"{hit.key} {hit.heading}".lower(), hit.more.lower()
    scores = [3.0 if word in heading else 1.0 if word in more else 0.0 for word in words]
    return sum(scores) * (2.0 if hit.key == hit.concept.id else 1.0) if all(scores) else 0.0
