"""A guesser who has learned all cues together: how many questions it gets right in concepts that it has not seen.

A conditional logit over the options of a question (McFadden 1973), fitted by gradient ascent with a small penalty on
the weights, on all concepts but those of one fold at a time.
"""

import math
from collections.abc import Sequence
from operator import mul

from ddpquiz.curriculum.concept import Question
from ddpquiz.curriculum.cues import FEATURES

FOLDS = 6
_STEPS = 20
_RATE = 1.5
_PENALTY = 0.02  # of a weight's square; the gain is a mean over questions

_Features = list[list[float]]  # of each option, the right one first


def together(questions: Sequence[Question]) -> float:
    """Return the share of questions that the guesser gets right, cross-validated by concept; 0.25 is chance."""
    concepts = sorted({question.concept for question in questions})
    fold_of = {concept: place % FOLDS for place, concept in enumerate(concepts)}
    samples = [(fold_of[question.concept], _features(question)) for question in questions]
    right = 0.0
    for fold in sorted({fold for fold, _ in samples}):
        weights = _fit([features for other, features in samples if other != fold])
        right += sum(_score(features, weights) for other, features in samples if other == fold)
    return right / len(questions) if questions else 0.0


def _features(question: Question) -> _Features:
    """Return each feature of each option as its distance from the mean of the question, scaled to one."""
    columns = []
    for feature in FEATURES.values():
        values = feature(question)
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values)) or 1.0
        columns.append([(value - mean) / spread for value in values])
    rows = [list(row) for row in zip(*columns, strict=True)]
    key = next(at for at, option in enumerate(question.options) if option.right)
    return [rows[key], *rows[:key], *rows[key + 1 :]]


def _fit(samples: Sequence[_Features]) -> list[float]:
    weights = [0.0] * len(FEATURES)
    for _ in range(_STEPS if samples else 0):
        gain = [-_PENALTY * weight for weight in weights]
        for options in samples:
            shares = _shares(options, weights)
            for at, column in enumerate(zip(*options, strict=True)):
                gain[at] += (column[0] - sum(map(mul, shares, column))) / len(samples)
        weights = [weight + _RATE * step for weight, step in zip(weights, gain, strict=True)]
    return weights


def _shares(options: _Features, weights: Sequence[float]) -> list[float]:
    """Return the probability of each option."""
    powers = [math.exp(_worth(option, weights)) for option in options]
    total = sum(powers)
    return [power / total for power in powers]


def _score(options: _Features, weights: Sequence[float]) -> float:
    """Return the chance that the right option, the first, is chosen: among equals, the guesser draws."""
    worths = [round(_worth(option, weights), 9) for option in options]
    return (worths[0] == max(worths)) / worths.count(max(worths))


def _worth(option: Sequence[float], weights: Sequence[float]) -> float:
    return math.fsum(map(mul, weights, option))
