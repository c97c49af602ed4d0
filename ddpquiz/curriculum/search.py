"""Find concepts, demos, labs, cards and questions by words, in any of their forms or by synonyms of this field."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from ddpquiz.curriculum.concept import Concept
from ddpquiz.curriculum.demo_scripts import read_demo
from ddpquiz.errors import UserError
from ddpquiz.paths import demo_file

_WHOLE, _FORM, _PART = 1.0, 0.7, 0.4  # the same word, one that means the same, a word that it is a part of
_HEADING = 3.0  # how much more a word counts in a heading than below it
_FIRST = 1.2  # how much more it counts there as the first word
_EXPLAINED = 1.0  # how much more a term counts in the lesson that explains it
_PHRASE = 2.0  # how much more a text counts that has all the words one after the other
_KINDS = {"concept": 2.2, "demo": 1.8, "lab": 1.8, "card": 1.0, "question": 0.9}
_RELEVANT = 0.27  # of the best hit's score; less is noise
_TERM = re.compile(r"(?<![*\w])\*([^*\n]{2,40})\*(?![*\w])")  # a term where a lesson explains it
_SHORT = {
    "dp": "data parallelism", "tp": "tensor parallelism", "pp": "pipeline", "cp": "context parallelism",
    "ep": "expert parallelism", "sp": "sequence parallelism", "ps": "parameter server",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that a search found: its key, what it is, the concept that it belongs to, and its text."""

    key: str
    kind: Literal["concept", "demo", "lab", "card", "question"]
    concept: Concept
    heading: str
    more: str

    @property
    def is_prose(self) -> bool:
        """True if `more` is prose; otherwise it is lines, one of them the answer."""
        return self.kind != "question"


def search(concepts: Sequence[Concept], demos: Path, words: str, labs: Sequence[Hit] = ()) -> tuple[Hit, ...]:
    """Everything that contains some of the words, the best match first: rare words and headings count most."""
    phrase = " ".join(words.lower().replace('"', " ").split())
    terms = [_Term(word) for word in dict.fromkeys(phrase.split())]
    hits = [*_searchable(concepts, demos), *labs] if terms else []
    scores = [0.0] * len(hits)
    texts = [(_heading(hit), _explained(hit), hit.more.lower()) for hit in hits]
    for term in terms:
        closest = [
            max(_HEADING * term.closeness_in_heading(heading), term.closeness(more))
            + _EXPLAINED * term.closeness_of_term(explained)
            for heading, explained, more in texts
        ]
        rare = math.log(1 + len(hits) / (1 + sum(map(bool, closest))))
        scores = [score + rare * close for score, close in zip(scores, closest, strict=True)]
    if len(terms) > 1:
        together = [any(phrase in " ".join(part.split()) for part in (heading, more)) for heading, _, more in texts]
        scores = [score * (_PHRASE if is_phrase else 1.0) for score, is_phrase in zip(scores, together, strict=True)]
    scored = [(score * _KINDS[hit.kind], hit) for score, hit in zip(scores, hits, strict=True) if score]
    least = _RELEVANT * max((score for score, _ in scored), default=0.0)
    return tuple(hit for score, hit in sorted(scored, key=lambda pair: -pair[0]) if score >= least)


def _heading(hit: Hit) -> str:
    """The words of a hit that say what it is about."""
    sort = hit.kind if hit.kind in ("demo", "lab") else ""  # of the others, everything would be found
    return f"{hit.key} {hit.key.replace('_', ' ')} {sort} {hit.heading}".lower()


def _explained(hit: Hit) -> list[str]:
    """The terms that a lesson explains."""
    return _TERM.findall(hit.concept.lesson.lower()) if hit.kind == "concept" else []


class _Term:
    """A word to look for."""

    def __init__(self, word: str) -> None:
        self._word = word
        self._means = meaning(word)
        self._spelled = {re.sub("[-_]", joint, word) for joint in "-_ "}  # world_size is also `world size`
        self._whole = re.compile(rf"(?:{'|'.join(map(_beginning, self._spelled))})(?!\w)")
        self._beginnings = _beginnings_of(word)
        self._forms = re.compile(rf"(?:{'|'.join(map(_beginning, self._beginnings))})\w*")
        self._in_full = [_Term(long_word) for long_word in _SHORT.get(word, "").split()]

    def closeness_in_heading(self, heading: str) -> float:
        """How close the closest word of a heading is; its first word counts more."""
        return self.closeness(heading) * (_FIRST if heading.startswith(self._word) else 1.0)

    def closeness_of_term(self, explained: Sequence[str]) -> float:
        """How close the closest of some terms is; a longer term is another one."""
        return max((self.closeness(each) for each in explained if len(each.split()) == 1), default=0.0)

    def closeness(self, text: str) -> float:
        """How close the closest word of a text is to this word, or to what this word is short for, up to 1.0."""
        if self._in_full and (in_full := min(each.closeness(text) for each in self._in_full)):
            return in_full
        part = _PART if any(each in text for each in self._spelled) else 0.0
        if part and self._whole.search(text):
            return _WHOLE
        if any(each in text for each in self._beginnings):
            return max([part, *(_FORM for found in self._forms.findall(text) if _meaning(found) == self._means)])
        return part


def _beginning(of_word: str) -> str:
    """An expression for text at the beginning of a word. What stands before it is looked at last, which is fast."""
    text = re.escape(of_word)
    return rf"{text}(?<!\w{text})"


def _searchable(concepts: Sequence[Concept], demos: Path) -> Iterator[Hit]:
    seen = set()
    for concept in concepts:
        more = "\n".join((concept.idea, concept.why, concept.lesson, *concept.remember))
        yield Hit(concept.id, "concept", concept, concept.title, more)
        for name in dict.fromkeys(link.run for link in concept.demos):
            if name not in seen:
                seen.add(name)
                with contextlib.suppress(UserError):  # a demo that cannot be read is not found
                    demo = read_demo(demo_file(name, demos))
                    yield Hit(name, "demo", concept, demo.summary, demo.about)
        for card in concept.cards:
            yield Hit(card.key, "card", concept, card.front, card.back)
        for question in concept.questions:
            answers = [option.text for option in question.options] + [line.text for line in question.lines]
            yield Hit(question.key, "question", concept, question.ask, "\n".join((question.code, *answers)))


_IRREGULAR = {
    "sent": "send", "kept": "keep", "held": "hold", "grew": "grow", "grown": "grow", "made": "make", "took": "take",
    "taken": "take", "ran": "run", "fell": "fall", "fallen": "fall", "lost": "lose", "met": "meet", "done": "do",
    "died": "die", "dies": "die", "hung": "hang",
}  # fmt: skip
_SYNONYMS = (  # the words of a line mean the same in this field
    "replica copy replicate clone",
    "gradient grad",
    "parameter param",
    "synchronize sync synchronization",
    "whole full entire",
    "identical same",
    "machine node host",
    "shard partition",
    "piece chunk slice",
    "send transfer transmit",
    "wait stall",
    "stale old outdated",
    "diverge drift",
    "straggler slowest",
    "crash die",
    "hang stuck deadlock",
    "memory vram",
)


def stem(word: str) -> str:
    """The text that the forms of a word share, such as `copies` and `copied`, or `averages` and `averaging`."""
    word = _IRREGULAR.get(word, word)
    if len(word) <= 3 or not word.isalpha():
        return word
    word = re.sub(r"iz(?=(e|ed|es|ing|ation)s?$)", "is", word).replace("our", "or")
    if word.endswith("ies"):
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ied", "ing", "ed", "ion", "ly"):
        rest = word.removesuffix(ending)
        if rest == word or len(rest) < 3 or not re.search("[aeiouy]", rest):
            continue
        if ending == "ied":
            word = rest + "y"
        elif ending in ("ing", "ed"):
            word = rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "lsz" else rest
        elif ending == "ly" or rest[-1] in "st":
            word = rest
        break
    return word.removesuffix("e") if len(word) > 3 else word


_SAME = {stem(word): stem(line.split()[0]) for line in _SYNONYMS for word in line.split()}


def meaning(word: str) -> str:
    """The stem of a word or of its first synonym; for a number, its digits."""
    bare = stem(word.removesuffix("'s").replace(",", "").replace("_", ""))
    return _SAME.get(bare, bare)


def _beginnings_of(word: str) -> tuple[str, ...]:
    """The beginnings of all words that mean the same as this one."""
    means = meaning(word)
    same = {stem(word), *(text for text in (*_SAME, *_IRREGULAR) if meaning(text) == means)}
    return tuple(sorted({text.removesuffix("y") if len(text) > 3 else text for text in same}))


_meaning = lru_cache(meaning)
