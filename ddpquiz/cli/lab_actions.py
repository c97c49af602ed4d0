"""What the keys of a lab's screen start: the editor, the demo, the run step by step, and what is saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpquiz.cli import lab_commands
from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

    from ddpquiz.curriculum.lab import Lab
    from ddpquiz.ranks.lab_verdict import LabVerdict


class LabScreenActions:
    """The actions for one lab."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def edit(self, file: Path) -> None:
        from ddpquiz.terminal.kit.editor import open_file

        open_file(file)

    def demo(self, concept: str) -> None:
        """Run the first demo of the concept."""
        from ddpquiz.cli.desk import Runs
        from ddpquiz.curriculum import loading

        links = loading.load().concept(concept).demos
        if not links:
            raise UserError(f"The concept {concept} has no demo.")
        Runs().demo(links[0])

    def view(self, verdict: LabVerdict) -> None:
        from ddpquiz.terminal.kit.style import console
        from ddpquiz.terminal.runs.replay import replay

        replay(verdict.events, console())

    def passed(self, verdict: LabVerdict) -> None:
        lab_commands.save_pass(self._lab, verdict)

    def saw_solution(self) -> None:
        lab_commands.save_seen(self._lab)

    def hints(self) -> int:
        from ddpquiz.learning.side_files import load_hints
        from ddpquiz.paths import data_dir

        return min(len(self._lab.hints), load_hints(data_dir()).get(self._lab.id, 0))

    def saw_hints(self, count: int) -> None:
        from ddpquiz.learning.side_files import save_hints
        from ddpquiz.paths import data_dir

        save_hints(data_dir(), self._lab.id, count)
