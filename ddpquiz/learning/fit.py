"""Fit the scheduler's weights to a learner's own reviews, with the optimizer of fsrs, which is an extra.

The optimizer needs torch, so it runs in a process of its own: `python -m ddpquiz.learning.fit` reads reviews as JSON
and writes weights.
"""

import json
import math
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from importlib.util import find_spec
from itertools import pairwise

from ddpquiz.errors import UserError
from ddpquiz.learning.log_rows import Row
from ddpquiz.learning.schedule import Grade, Memory, Schedule, Weights

ENOUGH = 512  # recalls on a later day; with fewer, fsrs returns the weights that it starts from
_NEEDED = ("pandas", "tqdm", "torch")  # what fsrs's optimizer imports

Histories = dict[str, list[tuple[date, Grade]]]  # the grades of each card, oldest first


@dataclass(frozen=True, slots=True)
class FittedWeights:
    """Weights, and how well they predict what was recalled."""

    weights: Weights
    loss: float  # nats per recall; guessing at random has 0.69
    a_day: float  # reviews a day, for the cards known so far

    @property
    def says(self) -> str:
        return f"{self.loss:.4f}, about {self.a_day:.1f} reviews a day"


def histories(rows: Iterable[Row]) -> Histories:
    """The grades of each card from reviews, oldest first; days stay in order even if the clock was set back."""
    found: Histories = defaultdict(list)
    for row in rows:
        of_card, day = found[row.item], date.fromisoformat(row.day)
        of_card.append((max(day, of_card[-1][0]) if of_card else day, Grade(row.grade or 0)))
    return dict(found)


def recalls(known: Histories) -> int:
    """How many grades show something about forgetting: those on a later day than the grade before."""
    return sum(day > before for grades in known.values() for (before, _), (day, _) in pairwise(grades))


def look(known: Histories, weights: Weights) -> FittedWeights:
    """How well weights predict these grades, and how many reviews a day they lead to."""
    schedule, loss = Schedule(weights), 0.0
    stability = []
    for card, grades in known.items():
        memory: Memory | None = None
        for day, grade in grades:
            if memory and memory.last and day > memory.last:
                chance = min(max(schedule.recall(memory, day), 1e-6), 1 - 1e-6)
                loss -= math.log(1 - chance if grade.forgot else chance)
            memory = schedule.review(card, memory, grade, day)
        stability.append(memory.stability if memory and memory.stability else 1.0)
    a_day = sum(1 / max(1.0, days * weights.stretch) for days in stability)
    return FittedWeights(weights, loss / max(1, recalls(known)), a_day)


def fit(known: Histories, retention: float) -> Weights:
    """The weights that predict these grades best. Raises UserError if there are too few, or no optimizer."""
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise UserError(
            f"The optimizer of fsrs is not installed ({', '.join(missing)} is missing): "
            "`pip install 'ddpquiz[optimize]'` brings it."
        )
    if (count := recalls(known)) < ENOUGH:
        raise UserError(
            f"Fitting needs {ENOUGH} reviews that came on a later day than the one before; there are {count:,}. "
            "Until then the weights of FSRS-6 are best for you."
        )
    text = json.dumps([[(str(day), int(grade)) for day, grade in grades] for _, grades in sorted(known.items())])
    command = [sys.executable, "-m", __name__]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # its tensors are tiny: more threads only wait for each other
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=False, env=alone)
    if done.returncode:
        raise UserError(f"The optimizer ended with status {done.returncode}; nothing was changed.")
    return Weights(tuple(json.loads(done.stdout)), retention)


def _main() -> None:
    """Read grades from standard input and write weights to standard output."""
    from fsrs import Optimizer, Rating, ReviewLog

    grades: Sequence[Sequence[tuple[str, int]]] = json.load(sys.stdin)
    logs = [
        ReviewLog(number, Rating(grade), datetime.combine(date.fromisoformat(day), time(), UTC), None)
        for number, of_card in enumerate(grades)
        for day, grade in of_card
    ]
    fitted = Optimizer(logs).compute_optimal_parameters(verbose=sys.stderr.isatty())
    print(json.dumps([round(float(weight), 6) for weight in fitted]))


if __name__ == "__main__":
    _main()
