"""Checks of a learner's file in the background: one at a time, and a newer one ends the one before."""

import threading
from dataclasses import dataclass
from pathlib import Path

from ddpquiz.curriculum.lab import Lab, LabRun
from ddpquiz.errors import UserError
from ddpquiz.ranks.lab_check import Stopped, check_file
from ddpquiz.ranks.lab_figures import compare
from ddpquiz.ranks.lab_verdict import LabFigure, LabVerdict
from ddpquiz.ranks.launch import server

BRIEF = 0.05  # seconds


@dataclass(frozen=True, slots=True)
class CheckState:
    """How far a check is: the run that goes on, then the verdict, then the figures; or why the check did not finish."""

    running: bool = False
    doing: str = ""
    verdict: LabVerdict | None = None
    figures: tuple[LabFigure, ...] = ()
    fault: str = ""


class LabChecker:
    """Checks a file in a thread. `state` is replaced whole, so that the screen may read it at any time."""

    def __init__(self, lab: Lab, file: Path) -> None:
        self._lab, self._file = lab, file
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()  # asks the thread to end
        self.state = CheckState()

    def start(self) -> None:
        """Begin a check; one that still runs is ended first."""
        self.stop()
        self._ended = threading.Event()
        self.state = CheckState(running=True, doing="begins")
        self._thread = threading.Thread(target=self._check, args=(self._ended,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the check that runs, if there is one, and all its ranks."""
        self._ended.set()
        if self._thread:
            self._thread.join()
            self._thread = None
        if self.state.running:
            self.state = CheckState()

    def _check(self, ended: threading.Event) -> None:
        verdict = None
        try:
            if not self._loads_torch(ended):
                return
            verdict = check_file(self._lab, self._file, report=self._report, stop=ended.is_set)
            self.state = CheckState(verdict=verdict)
            if verdict.passed:
                self.state = CheckState(verdict=verdict, figures=compare(self._lab, verdict, ended.is_set))
        except Stopped:
            if verdict is None:
                self.state = CheckState()
        except UserError as error:
            self.state = CheckState(fault=str(error))

    def _loads_torch(self, ended: threading.Event) -> bool:
        """Wait until ranks can start; return False if the check was ended meanwhile."""
        serving = server()
        if not serving.is_ready(0):
            self.state = CheckState(running=True, doing="loading torch")
        while not serving.is_ready(BRIEF):
            if ended.is_set():
                return False
        return True

    def _report(self, number: int, of: int, run: LabRun) -> None:
        ranks = f"{run.ranks} rank{'s' * (run.ranks != 1)}"
        self.state = CheckState(running=True, doing=f"run {number} of {of}, on {ranks}")
