"""What a lab holds, as plain frozen data: its task, its runs, its budgets, and known right and wrong solutions."""

from dataclasses import dataclass
from pathlib import Path

from ddpquiz.curriculum.budget_rule import Rule
from ddpquiz.curriculum.lab_solution import LabSolution


@dataclass(frozen=True, slots=True)
class LabRun:
    """One run of the check: on how many ranks, with which seeds and further arguments."""

    ranks: int
    seeds: tuple[int, ...]
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on what happens in a phase of the check, and the sentence for a learner who exceeds it.

    As a star, it is a target beyond correctness.
    """

    name: str
    phase: str
    rule: Rule
    say: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """A solution that the check must refuse, by a claim or budget in `caught`, or must accept if `caught` is empty.

    Besides claims and budgets, `hang`, `error` (an exception in the learner's file), `no end` and `not awaited` (for an
    asynchronous operation) may catch it.
    """

    name: str
    source: str
    caught: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """One program to write or repair, and how it is checked. `folder` holds solution.py and check.py."""

    id: str
    folder: Path
    title: str
    concept: str
    minutes: int
    needs: tuple[str, ...]
    task: str
    hints: tuple[str, ...]
    runs: tuple[LabRun, ...]
    restarts: int
    seconds: int
    budgets: tuple[Budget, ...]
    stars: tuple[Budget, ...]
    mutants: tuple[Attempt, ...]
    variants: tuple[Attempt, ...]
    solution: LabSolution
    claims: tuple[str, ...]
    origin: str = ""  # of a lab of a pack: the fingerprint of the files that it was read from

    @property
    def file_name(self) -> str:
        """The name of the learner's file."""
        return f"{self.id.replace('/', '_').replace('-', '_')}.py"

    @property
    def item(self) -> str:
        """Its name in the log: like that of a card, the concept and a name of its own."""
        return f"{self.concept}/{self.id.rpartition('/')[2]}"

    @property
    def check(self) -> Path:
        return self.folder / "check.py"
