"""What is saved of a learner's work on labs: passes, solutions that were seen, and hints that were shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ddpquiz.curriculum.lab import Lab
from ddpquiz.lab.verdict import LabVerdict
from ddpquiz.learning.lab_passes import LabStanding
from ddpquiz.learning.log_rows import LabRow
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import study_day
from ddpquiz.learning.side_files import load_hints, save_hints


@dataclass(frozen=True, slots=True)
class LabHistory:
    """The history in a data folder. The log is open only while it is read or written, for a lab may take days."""

    home: Path
    clock: Callable[[], datetime]

    def standings(self) -> Mapping[str, LabStanding]:
        """What was reached in each lab, by its name."""
        with Progress(self.home) as progress:
            return progress.labs()

    def save_pass(self, lab: Lab, verdict: LabVerdict) -> None:
        """Save a pass; a second one on the same day only if it has a star that was not met before."""
        at = self.clock()
        with Progress(self.home) as progress:
            before = progress.labs().get(lab.id)
            if before and before.passed == study_day(at) and set(verdict.stars) <= set(before.stars):
                return
            progress.lab(LabRow(item=lab.item, passed=True, stars=verdict.stars), at)

    def save_seen(self, lab: Lab) -> None:
        """Save that the solution was seen, once."""
        with Progress(self.home) as progress:
            before = progress.labs().get(lab.id)
            if not (before and before.seen):
                progress.lab(LabRow(item=lab.item, passed=False), self.clock())

    def hints_shown(self, lab: Lab) -> int:
        return min(len(lab.hints), load_hints(self.home).get(lab.id, 0))

    def save_hints(self, lab: Lab, count: int) -> None:
        save_hints(self.home, lab.id, count)

    def next_lab(self, lab: Lab, known: Sequence[Lab]) -> Lab | None:
        """The first lab after this one that was not passed, or else before it; None if all were."""
        passed = {name for name, standing in self.standings().items() if standing.passed}
        place = next((number for number, each in enumerate(known) if each.id == lab.id), 0)
        return next((each for each in [*known[place + 1 :], *known[:place]] if each.id not in passed), None)
