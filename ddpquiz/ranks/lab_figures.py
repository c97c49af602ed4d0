"""The figures of a file that passed, beside those of the reference solution in the same run."""

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from ddpquiz.analysis.events import Event
from ddpquiz.analysis.phases import find_phases
from ddpquiz.curriculum.lab import Lab
from ddpquiz.ranks.lab_check import follow_check
from ddpquiz.ranks.lab_verdict import LabFigure, LabVerdict

_SUMS = {  # over all phases of a rank
    "sent": ("sent", "bytes"),
    "received": ("received", "bytes"),
    "calls": ("operations", "calls"),
}
_HIGHEST = {"rounds": ("longest chain of messages", "rounds"), "peak": ("memory at the peak", "bytes")}


def compare(lab: Lab, verdict: LabVerdict, stop: Callable[[], bool] | None = None) -> tuple[LabFigure, ...]:
    """Run the solution as the learner's file ran last, and return the figures of both; of each the highest rank."""
    if verdict.run is None:
        return ()
    with tempfile.TemporaryDirectory(prefix="ddpquiz-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / lab.file_name
        file.write_text(lab.solution.source, encoding="utf-8")
        reference = _figures(follow_check(lab, file, verdict.run, stop).events)
    yours = _figures(verdict.events)
    named = {**_SUMS, **_HIGHEST}
    return tuple(LabFigure(*named[key], yours[key], reference[key]) for key in named if key in yours.keys() & reference)


def _figures(events: Iterable[Event]) -> dict[str, float]:
    """Return each figure of the rank where it is highest."""
    sums: dict[tuple[str, int], float] = {}
    found: dict[str, float] = {}
    for phase in find_phases(events):
        measures = phase.measures()
        for key in _SUMS:
            sums[key, phase.rank] = sums.get((key, phase.rank), 0.0) + measures[key]
        for key in _HIGHEST:
            if key in measures:
                found[key] = max(found.get(key, 0.0), measures[key])
    for (key, _), amount in sums.items():
        found[key] = max(found.get(key, 0.0), amount)
    return found
