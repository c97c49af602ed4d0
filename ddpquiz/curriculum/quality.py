"""Estimate the score of a guesser who goes by the form of the options, and find other weak items.

A *cue* is a feature of an option's form by which a guesser may find the right one without knowing the subject. Each
*picker* answers a `choice` question by one cue. Where its rule selects several options or none, it guesses among them;
its score is the expected value. Another guesser has learned all cues together, and is asked about concepts that it has
not seen.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import mul

from ddpquiz.curriculum.concept import Card, Concept, Item, Kind, Question
from ddpquiz.curriculum.posed_question import leading_number

MOST = 0.32  # the largest share of questions that a picker may get right; chance is 0.25
GOAL = (0.21, 0.29)  # the share that each picker should get right where its rule selects
GOAL_TOGETHER = 0.30  # the largest share that a guesser should get right who has learned all cues
_STANDS_OUT = 0.6  # of one concept
_FEWEST = 5  # choice questions that a concept needs before its scores are compared
_ALIKE = 0.75  # shared words of two items, over all their words
_HARDEST = 12.0  # the highest school grade that a lesson may require
_LONGEST_TO_SHORTEST = 2.5  # the largest ratio of option lengths, if the longest has more than _SOME characters
_SOME = 24  # characters
_WORDS_OF_A_CARD = 40


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


def measure_quality(concepts: Sequence[Concept]) -> Quality:
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
        f"{card.key}: its back has {len(card.back.split())} words; at most {_WORDS_OF_A_CARD} are allowed"
        for concept in concepts
        for card in concept.cards
        if len(card.back.split()) > _WORDS_OF_A_CARD
    ]
    return Quality(scores, together(choices), rights(concepts), fails, tuple(remarks))


def rights(concepts: Sequence[Concept]) -> dict[str, int]:
    """Count the `choices` questions by how many of how many options are right, as in `2 of 4`."""
    several = [question for concept in concepts for question in concept.questions if question.kind is Kind.CHOICES]
    counts = Counter((len(question.options), sum(option.right for option in question.options)) for question in several)
    return {f"{right} of {options}": count for (options, right), count in sorted(counts.items())}


def _score(rule: str, picker: _Picker, questions: Sequence[Question]) -> GuesserScore:
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
        if len(choices) >= _FEWEST:
            scores = [_score(rule, picker, choices) for rule, picker in PICKERS.items()]
            remarks += [
                f"{concept.id}: {_sentence(score, len(choices))}" for score in scores if score.bank >= _STANDS_OUT
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
        if len(words & others) >= _ALIKE * len(words | others) and min(len(words), len(others)) >= _FEWEST
    ]


def _said(item: Item) -> str:
    if isinstance(item, Card):
        return f"{item.front} {item.back}"
    return " ".join([item.ask, getattr(item, "code", ""), *(option.text for option in getattr(item, "options", ()))])


def _hard_to_read(concepts: Iterable[Concept]) -> list[str]:
    return [
        f"{concept.id}: its lesson requires school grade {grade:.0f}; use shorter sentences and words"
        for concept in concepts
        if (grade := reading_grade(f"{concept.idea}\n\n{concept.why}\n\n{concept.lesson}")) > _HARDEST
    ]


def reading_grade(text: str) -> float:
    """The school grade that prose requires (Kincaid et al. 1975), without drawings, code and tables."""
    lines = re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines()
    prose = " ".join(line for line in lines if not line.startswith(("    ", "|", "#")))
    prose = re.sub(r"`[^`]*`", "name", prose)
    words = re.findall(r"[A-Za-z]+(?:'[a-z]+)?", prose)
    sentences = [sentence for sentence in re.split(r"[.!?:;]+(?:\s|$)", prose) if re.search("[a-z]", sentence)]
    if not words or not sentences:
        return 0.0
    return 0.39 * len(words) / len(sentences) + 11.8 * sum(map(_syllables, words)) / len(words) - 15.59


def _syllables(word: str) -> int:
    """Count the groups of vowels, without a silent final e."""
    groups = len(re.findall(r"[aeiouy]+", word.lower()))
    silent = word.lower().endswith("e") and not word.lower().endswith("le") and groups > 1
    return max(1, groups - silent)


def _form(question: Question) -> list[str]:
    """Return differences in form between the options of a question."""
    texts = [option.text for option in question.options if not option.code]
    if len(texts) < len(question.options) or not texts:
        return [f"{question.key}: some options are code and some are not"] if texts else []
    remarks = []
    sizes = sorted(map(len, texts))
    if sizes[-1] > _SOME and sizes[-1] > _LONGEST_TO_SHORTEST * sizes[0]:
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


_Picker = Callable[[Question], list[int]]

_HEDGED = re.compile(
    r"\b(usually|often|may|might|can|could|sometimes|typically|generally|mostly|about|roughly|likely|unless|depends?|"
    r"tends?|normally|almost|nearly|some)\b",
    re.IGNORECASE,
)
_ABSOLUTE = re.compile(
    r"\b(always|never|all|none|only|every|must|any|no|nothing|everything|cannot|impossible|exactly)\b", re.IGNORECASE
)
_FAILURE = re.compile(
    r"\b(errors?|raises?|raised|fails?|failed|failure|exceptions?|hangs?|hung|wait(s|ing)?|deadlocks?|forever|stuck|"
    r"crash(es|ed)?|dies|died|aborts?|stops?|time-?outs?|refused?|refuses|breaks|\w+Error)\b",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"\b(not|no|never|nothing|none|without|cannot|neither|nobody)\b|n't\b", re.IGNORECASE)
_REASON = re.compile(r"\b(because|since|so|as|therefore|which|that|while|but)\b|[,;:]", re.IGNORECASE)
_TOKEN = re.compile(r"[a-z0-9_]+|[^\sa-z0-9_]", re.IGNORECASE)
_WORD = re.compile(r"[a-z][a-z0-9_]+")
_COMMON = re.compile(
    r"\b(the|and|that|this|with|from|for|are|its?|not|was|were|has|have|which|what|when|how|does|into|each|than|then|"
    r"they|their|there|here|you|your|one|two|can|will|would|only|also|but|all|any|some|more|most|after|before|while)\b"
)


def words(text: str) -> set[str]:
    """The words of a text that carry meaning, without a plural s."""
    return {word.removesuffix("s") for word in _WORD.findall(_COMMON.sub(" ", text.lower()))}


def numbers(question: Question) -> list[float] | None:
    """The number with which each option starts, or None unless all start with different ones."""
    values = [value for option in question.options if (value := leading_number(option.text)) is not None]
    return values if len(set(values)) == len(question.options) else None


def _likeness(question: Question) -> list[float]:
    """How much of each option's words and marks the other options share, from 0 to 1."""
    bags = [Counter(_TOKEN.findall(option.text.lower())) for option in question.options]
    return [
        sum(2 * (bag & other).total() / (bag.total() + other.total()) for other in bags if other is not bag)
        / (len(bags) - 1)
        for bag in bags
    ]


def _lengths(question: Question) -> list[float]:
    return [float(len(option.text)) for option in question.options]


def _like_stem(question: Question) -> list[float]:
    stem = words(question.ask)
    return [float(len(stem & words(option.text))) for option in question.options]


def _places(question: Question) -> list[float]:
    """The place of each number from the smallest, 0, or zeros."""
    values = numbers(question)
    return [float(sorted(values).index(value)) for value in values] if values else [0.0] * len(question.options)


def _middle(question: Question) -> list[float]:
    last = len(question.options) - 1
    return [float(place not in (0, last)) if any(_places(question)) else 0.0 for place in _places(question)]


def _has(pattern: re.Pattern[str]) -> Callable[[Question], list[float]]:
    return lambda question: [float(bool(pattern.search(option.text))) for option in question.options]


_FEATURES: dict[str, Callable[[Question], list[float]]] = {
    "length": _lengths,
    "words of the stem": _like_stem,
    "likeness": _likeness,
    "hedged": _has(_HEDGED),
    "absolute": _has(_ABSOLUTE),
    "failure": _has(_FAILURE),
    "negated": _has(_NEGATED),
    "reason": _has(_REASON),
    "number": _places,
    "middle number": _middle,
}


def _most(values: list[float]) -> list[int]:
    return [at for at, value in enumerate(values) if value == max(values)] if len(set(values)) > 1 else []


def _least(values: list[float]) -> list[int]:
    return _most([-value for value in values])


def _picker(feature: str, select: Callable[[list[float]], list[int]]) -> _Picker:
    return lambda question: select(_FEATURES[feature](question))


def _only(feature: str) -> _Picker:
    def pick(question: Question) -> list[int]:
        picked = _most(_FEATURES[feature](question))
        return picked if len(picked) == 1 else []

    return pick


PICKERS: dict[str, _Picker] = {
    "the longest option": _picker("length", _most),
    "the shortest option": _picker("length", _least),
    "the option most like the stem": _picker("words of the stem", _most),
    "the option most like the others": _picker("likeness", _most),
    "the option least like the others": _picker("likeness", _least),
    "the only hedged option": _only("hedged"),
    "the only absolute option": _only("absolute"),
    "the only option with an error or a hang": _only("failure"),
    "the only negated option": _only("negated"),
    "the only option with a reason": _only("reason"),
    "the largest number": _picker("number", _most),
    "the smallest number": _picker("number", _least),
    "one of the middle numbers": _picker("middle number", _most),
}


def expectation(question: Question, picked: Sequence[int]) -> float:
    """The chance of being right by guessing among the picked options, or among all if none is picked."""
    among = picked or range(len(question.options))
    return sum(question.options[at].right for at in among) / len(among)


_FOLDS = 6
_STEPS = 20
_RATE = 1.5
_PENALTY = 0.02  # of a weight's square; the gain is a mean over questions

_Features = list[list[float]]  # of each option, the right one first


def together(questions: Sequence[Question]) -> float:
    """The share of questions that the guesser gets right, cross-validated by concept; 0.25 is chance."""
    concepts = sorted({question.concept for question in questions})
    fold_of = {concept: place % _FOLDS for place, concept in enumerate(concepts)}
    samples = [(fold_of[question.concept], _features(question)) for question in questions]
    right = 0.0
    for fold in sorted({fold for fold, _ in samples}):
        weights = _fit([features for other, features in samples if other != fold])
        right += sum(_chance(features, weights) for other, features in samples if other == fold)
    return right / len(questions) if questions else 0.0


def _features(question: Question) -> _Features:
    """Each feature of each option as its distance from the mean of the question, scaled to one."""
    columns = []
    for feature in _FEATURES.values():
        values = feature(question)
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values)) or 1.0
        columns.append([(value - mean) / spread for value in values])
    rows = [list(row) for row in zip(*columns, strict=True)]
    key = next(at for at, option in enumerate(question.options) if option.right)
    return [rows[key], *rows[:key], *rows[key + 1 :]]


def _fit(samples: Sequence[_Features]) -> list[float]:
    weights = [0.0] * len(_FEATURES)
    for _ in range(_STEPS if samples else 0):
        gain = [-_PENALTY * weight for weight in weights]
        for options in samples:
            shares = _shares(options, weights)
            for at, column in enumerate(zip(*options, strict=True)):
                gain[at] += (column[0] - sum(map(mul, shares, column))) / len(samples)
        weights = [weight + _RATE * step for weight, step in zip(weights, gain, strict=True)]
    return weights


def _shares(options: _Features, weights: Sequence[float]) -> list[float]:
    """The probability of each option."""
    powers = [math.exp(_worth(option, weights)) for option in options]
    total = sum(powers)
    return [power / total for power in powers]


def _chance(options: _Features, weights: Sequence[float]) -> float:
    """The chance that the right option, the first, is chosen: among equals, the guesser draws."""
    worths = [round(_worth(option, weights), 9) for option in options]
    return (worths[0] == max(worths)) / worths.count(max(worths))


def _worth(option: Sequence[float], weights: Sequence[float]) -> float:
    return math.fsum(map(mul, weights, option))
