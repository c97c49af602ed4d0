"""What the check of a lab found out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ddpquiz.analysis.events import Event, RankPosition
from ddpquiz.curriculum.lab import LabRun

Outcome = Literal["passed", "unwritten", "claim", "budget", "error", "hang", "no end", "no wait"]


@dataclass(frozen=True, slots=True)
class LabFigure:
    """A figure of a run with all ranks: of the rank where it is highest, for the learner and for the reference."""

    name: str
    unit: str
    yours: float
    reference: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LabVerdict:
    """Whether a file passes, and if not, the first thing that is wrong with it.

    `sentence` says it with rank, line and numbers, and `advice` what to do. `caught` is the claim or the budget that
    failed, or the outcome. `values` is what each rank found, by rank. `repeat` is the command that shows the failure
    again; `run` is this run, or the last one, and `events` are its events. `stars` names the targets that
    were met.
    """

    outcome: Outcome
    seconds: float
    runs: int
    sentence: str = ""
    advice: str = ""
    caught: str = ""
    rank: int | None = None
    line: int = 0
    seed: int | None = None
    ranks: int = 0
    run: LabRun | None = None
    values: Mapping[int, str] = field(default_factory=dict)
    waits: tuple[RankPosition, ...] = ()
    repeat: str = ""
    stars: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"
