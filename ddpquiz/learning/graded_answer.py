"""A graded answer to a quiz question: the credit that it earns, with and without hints."""

from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta

from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.learning.judge import Verdict

_HINTED = 0.5  # the credit of a right answer after a hint


@dataclass(frozen=True, slots=True)
class Answer:
    """An answered question; `solved` is true if the learner asked for the solution instead."""

    posed: Posed
    given: str
    verdict: Verdict
    at: datetime
    took: timedelta
    _: KW_ONLY
    hints: int = 0
    solved: bool = False
    late: bool = False  # the time was over; with an empty text it is not an answer, and only the verdict is shown
    confidence: float | None = None

    @property
    def right(self) -> bool:
        return self.verdict.right and not self.solved

    @property
    def credit(self) -> float:
        """The credit from 0 to 1: with any number of hints, a right answer earns half."""
        if not self.right:
            return 0.0
        return _HINTED if self.hints else 1.0
