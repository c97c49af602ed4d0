"""Estimate the score of a guesser who goes by the form of the options, and find other weak items."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ddpquiz.curriculum.concept import Card, Concept, Item, Kind, Question
from ddpquiz.curriculum.cue_model import together
from ddpquiz.curriculum.cues import PICKERS, Picker, expectation, words

MOST = 0.32  # the largest share of questions that a picker may get right; chance is 0.25
GOAL = (0.21, 0.29)  # the share that each picker should get right where its rule selects
GOAL_TOGETHER = 0.30  # the largest share that a guesser should get right who has learned all cues
STANDS_OUT = 0.6  # of one concept
FEWEST = 5  # choice questions that a concept needs before its scores are compared
ALIKE = 0.75  # shared words of two items, over all their words
HARDEST = 12.0  # the highest school grade that a lesson may require
LONGEST_TO_SHORTEST = 2.5  # the largest ratio of option lengths, if the longest has more than SOME characters
SOME = 24  # characters
WORDS_OF_A_CARD = 40


@dataclass(frozen=True, slots=True)
class GuesserScore:
    """The share that a picker gets right: of all `choice` questions, and of those to which its rule applies."""

    rule: str
    bank: float
    where_it_applies: float
    applies: int

    @property
    def meets_goal(self) -> bool:
        """True if the share is near chance where the rule applies."""
        return GOAL[0] <= self.where_it_applies <= GOAL[1]


@dataclass(frozen=True, slots=True)
class Quality:
    """The scores, also of all cues `together`, and how many `choices` questions have each number of right options.

    `fails` are violations of the rules; `remarks` should be reviewed by a person.
    """

    scores: tuple[GuesserScore, ...]
    together: float
    rights: Mapping[str, int]
    fails: tuple[str, ...]
    remarks: tuple[str, ...]


def quality(concepts: Sequence[Concept]) -> Quality:
    """Measure the quality of all items by their form."""
    choices = [question for concept in concepts for question in concept.questions if question.kind is Kind.CHOICE]
    scores = tuple(_score(rule, picker, choices) for rule, picker in PICKERS.items())
    fails = tuple(
        f"{_sentence(score, len(choices))}; at most {MOST:.0%} is allowed"
        for score in scores
        if choices and score.bank > MOST
    )
    remarks = [*_standing_out(concepts), *_near_duplicates(concepts), *_hard_to_read(concepts)]
    remarks += [remark for concept in concepts for question in concept.questions for remark in _form(question)]
    remarks += [
        f"{card.key}: its back has {len(card.back.split())} words; at most {WORDS_OF_A_CARD} are allowed"
        for concept in concepts
        for card in concept.cards
        if len(card.back.split()) > WORDS_OF_A_CARD
    ]
    return Quality(scores, together(choices), rights(concepts), fails, tuple(remarks))


def rights(concepts: Sequence[Concept]) -> dict[str, int]:
    """Count the `choices` questions by how many of how many options are right, as in `2 of 4`."""
    several = [question for concept in concepts for question in concept.questions if question.kind is Kind.CHOICES]
    found = Counter((len(each.options), sum(option.right for option in each.options)) for each in several)
    return {f"{right} of {options}": count for (options, right), count in sorted(found.items())}


def _score(rule: str, picker: Picker, questions: Sequence[Question]) -> GuesserScore:
    picks = [(question, picker(question)) for question in questions]
    bank = [expectation(question, picked) for question, picked in picks]
    applies = [expectation(question, picked) for question, picked in picks if picked]
    return GuesserScore(rule, _mean(bank), _mean(applies), len(applies))


def _sentence(score: GuesserScore, questions: int) -> str:
    return f"picking {score.rule} answers {score.bank:.0%} of {questions} choice questions correctly"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _standing_out(concepts: Iterable[Concept]) -> list[str]:
    remarks = []
    for concept in concepts:
        choices = [question for question in concept.questions if question.kind is Kind.CHOICE]
        if len(choices) >= FEWEST:
            scores = [_score(rule, picker, choices) for rule, picker in PICKERS.items()]
            remarks += [
                f"{concept.id}: {_sentence(score, len(choices))}" for score in scores if score.bank >= STANDS_OUT
            ]
    return remarks


def _near_duplicates(concepts: Iterable[Concept]) -> list[str]:
    """Compare items of the same type: a card may ask the same as a question, two cards may not."""
    sorts: dict[str, list[tuple[str, frozenset[str]]]] = defaultdict(list)
    for concept in concepts:
        for item in concept.items():
            sorts[type(item).__name__].append((item.key, frozenset(words(_said(item)))))
    return [
        f"{one} and {other} say nearly the same"
        for items in sorts.values()
        for (one, words), (other, others) in combinations(items, 2)
        if len(words & others) >= ALIKE * len(words | others) and min(len(words), len(others)) >= FEWEST
    ]


def _said(item: Item) -> str:
    if isinstance(item, Card):
        return f"{item.front} {item.back}"
    return " ".join([item.ask, getattr(item, "code", ""), *(option.text for option in getattr(item, "options", ()))])


def _hard_to_read(concepts: Iterable[Concept]) -> list[str]:
    return [
        f"{concept.id}: its lesson requires school grade {grade:.0f}; use shorter sentences and words"
        for concept in concepts
        if (grade := reading_grade(f"{concept.idea}\n\n{concept.why}\n\n{concept.lesson}")) > HARDEST
    ]


def reading_grade(text: str) -> float:
    """Return the school grade that prose requires (Kincaid et al. 1975), without drawings, code and tables."""
    lines = re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines()
    prose = " ".join(line for line in lines if not line.startswith(("    ", "|", "#")))
    prose = re.sub(r"`[^`]*`", "name", prose)
    words = re.findall(r"[A-Za-z]+(?:'[a-z]+)?", prose)
    sentences = [each for each in re.split(r"[.!?:;]+(?:\s|$)", prose) if re.search("[a-z]", each)]
    if not words or not sentences:
        return 0.0
    return 0.39 * len(words) / len(sentences) + 11.8 * sum(map(_syllables, words)) / len(words) - 15.59


def _syllables(word: str) -> int:
    """Count the groups of vowels, without a silent final e."""
    found = len(re.findall(r"[aeiouy]+", word.lower()))
    silent = word.lower().endswith("e") and not word.lower().endswith("le") and found > 1
    return max(1, found - silent)


def _form(question: Question) -> list[str]:
    """Return differences in form between the options of a question."""
    texts = [option.text for option in question.options if not option.code]
    if len(texts) < len(question.options) or not texts:
        return [f"{question.key}: some options are code and some are not"] if texts else []
    remarks = []
    sizes = sorted(map(len, texts))
    if sizes[-1] > SOME and sizes[-1] > LONGEST_TO_SHORTEST * sizes[0]:
        remarks.append(f"{question.key}: its longest option has {sizes[-1]} characters, its shortest {sizes[0]}")
    for looks, what in (
        (lambda text: text.endswith("."), "end with a full stop"),
        (_begins_large, "start with a capital"),
    ):
        odd = sum(map(looks, texts))
        if odd in (1, len(texts) - 1) and len(texts) > 2:
            remarks.append(f"{question.key}: {odd} of {len(texts)} options {what}")
    bare = [bool(re.fullmatch(r"[\d.,]+", text.strip())) for text in texts]
    if any(bare) and not all(bare):
        remarks.append(f"{question.key}: some options have a unit and some are bare numbers")
    return remarks


def _begins_large(text: str) -> bool:
    return text[:1].isupper() or not text[:1].isalpha()
