"""Cues: features of the form of an option by which a guesser may find the right one without knowing the subject.

Each *picker* answers a `choice` question by one cue. Where its rule selects several options or none, it guesses among
them; its score is the expected value.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence

from ddpquiz.curriculum.concept import Question

Picker = Callable[[Question], list[int]]

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
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
_TOKEN = re.compile(r"[a-z0-9_]+|[^\sa-z0-9_]", re.IGNORECASE)
_WORD = re.compile(r"[a-z][a-z0-9_]+")
_COMMON = re.compile(
    r"\b(the|and|that|this|with|from|for|are|its?|not|was|were|has|have|which|what|when|how|does|into|each|than|then|"
    r"they|their|there|here|you|your|one|two|can|will|would|only|also|but|all|any|some|more|most|after|before|while)\b"
)


def words(text: str) -> set[str]:
    """Return the words of a text that carry meaning, without a plural s."""
    return {word.removesuffix("s") for word in _WORD.findall(_COMMON.sub(" ", text.lower()))}


def numbers(question: Question) -> list[float] | None:
    """Return the number with which each option starts, or None unless all start with different ones."""
    found = [_NUMBER.match(option.text.strip()) for option in question.options]
    values = [float(one[0].replace(",", "")) for one in found if one]
    return values if len(values) == len(found) == len(set(values)) else None


def likeness(question: Question) -> list[float]:
    """Return how much of each option's words and marks the other options share, from 0 to 1."""
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
    """Return the place of each number from the smallest, 0, or zeros."""
    values = numbers(question)
    return [float(sorted(values).index(value)) for value in values] if values else [0.0] * len(question.options)


def _middle(question: Question) -> list[float]:
    last = len(question.options) - 1
    return [float(place not in (0, last)) if any(_places(question)) else 0.0 for place in _places(question)]


def _has(pattern: re.Pattern[str]) -> Callable[[Question], list[float]]:
    return lambda question: [float(bool(pattern.search(option.text))) for option in question.options]


FEATURES: dict[str, Callable[[Question], list[float]]] = {
    "length": _lengths,
    "words of the stem": _like_stem,
    "likeness": likeness,
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


def _picker(feature: str, select: Callable[[list[float]], list[int]]) -> Picker:
    return lambda question: select(FEATURES[feature](question))


def _only(feature: str) -> Picker:
    def pick(question: Question) -> list[int]:
        found = _most(FEATURES[feature](question))
        return found if len(found) == 1 else []

    return pick


PICKERS: dict[str, Picker] = {
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
    """Return the chance of being right by guessing among the picked options, or among all if none is picked."""
    among = picked or range(len(question.options))
    return sum(question.options[at].right for at in among) / len(among)
