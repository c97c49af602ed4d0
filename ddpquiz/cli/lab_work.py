"""The screen that watches the file of a lab, and what its keys start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace as replace_fields
from pathlib import Path

import typer

from ddpquiz.cli import clock, lab_commands
from ddpquiz.cli.progress_file import open_progress
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.lab import Lab
from ddpquiz.curriculum.labs import load_lab, survey_labs, survey_labs_of_pack
from ddpquiz.curriculum.pack_labs import load_pack_lab
from ddpquiz.errors import Complaint, UserError
from ddpquiz.events.event import Began
from ddpquiz.lab.check import prove_lab
from ddpquiz.lab.folder import LabFolder
from ddpquiz.lab.screen import LabScreen
from ddpquiz.lab.verdict import LabVerdict
from ddpquiz.learning.side_files import load_hints, save_hints
from ddpquiz.paths import data_dir
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.kit.screen import is_interactive
from ddpquiz.terminal.kit.style import console
from ddpquiz.terminal.kit.text_area import open_file
from ddpquiz.terminal.runs.replay import replay
from ddpquiz.terminal.sittings.ranks import Ranks

# The screen that watches the file of a lab, and what its keys start.


def work_on(lab: Lab, files: LabFolder, place: str = "") -> None:
    """Watch the learner's file, lab after lab, until the learner leaves; in a pipe, check it once.

    `place` is that of the first lab in a guided path; see SessionContext.
    """
    if not is_interactive():
        lab_commands.check_once(lab, files, json=False)
        return
    now: Lab | None = lab
    while now:
        files.begin(now)
        screen = LabScreen(now, files.file(now), LabScreenActions(now, files.file(now)), place)
        screen.show(style.console())
        if not screen.passed_here:
            typer.echo(f"{files.file(now)}: go on with `ddpquiz lab {now.id}`.")
        now, place = next_lab(now) if screen.wants_next else None, ""


def next_lab(lab: Lab) -> Lab | None:
    """Return the next lab that was not passed; None if all were."""
    known = lab_commands.all_labs()
    with open_progress() as progress:
        passed = {name for name, standing in progress.labs().items() if standing.passed}
    place = next((number for number, each in enumerate(known) if each.id == lab.id), 0)
    return next((each for each in [*known[place + 1 :], *known[:place]] if each.id not in passed), None)


class LabScreenActions:
    """The actions for one lab."""

    def __init__(self, lab: Lab, file: Path) -> None:
        self._lab, self._file = lab, file

    def edit(self, file: Path) -> None:
        open_file(file)

    def demo(self, concept: str) -> None:
        """Run the first demo of the concept."""
        known = loading.load()
        links = known.concept(concept).demos
        if not links:
            raise UserError(f"The concept {concept} has no demo.")
        with open_progress() as progress:
            Ranks(known, progress, clock.now).demo(links[0])

    def view(self, verdict: LabVerdict) -> None:
        """Replay the last run, with the learner's file as its script; one that did not pass opens at its end."""
        began, *rest = verdict.events
        if isinstance(began, Began):  # the learner's file is the one to look at, not the check
            device, _, _ = began.reason.partition(" · ")  # the check chose it
            script = str(self._file.absolute())
            began = replace_fields(began, script=script, title=self._lab.title, look=(), reason=device)
        replay([began, *rest], console(), stay=True, at_end=not verdict.passed)

    def passed(self, verdict: LabVerdict) -> None:
        lab_commands.save_pass(self._lab, verdict)

    def saw_solution(self) -> None:
        lab_commands.save_seen(self._lab)

    def hints(self) -> int:
        return min(len(self._lab.hints), load_hints(data_dir()).get(self._lab.id, 0))

    def saw_hints(self, count: int) -> None:
        save_hints(data_dir(), self._lab.id, count)


# `ddpquiz check --labs`: what the checks of labs must decide, on real ranks.


def chosen_labs(names: list[str], pack: Path | None) -> tuple[list[Lab], list[Complaint]]:
    """Read the labs with these names, or `all`, of the folder of a pack or those that are shipped.

    The name of a lab in a pack that was added begins with the name of the pack.
    """
    wanted = [] if names == ["all"] else names
    if pack:
        return survey_labs_of_pack(pack, [load_lab(name, pack / "labs").id for name in wanted])
    of_packs = [load_pack_lab(name) for name in wanted if "/" in name]
    shipped = [load_lab(name).id for name in wanted if "/" not in name]
    if of_packs and not shipped:
        return of_packs, []
    labs, complaints = survey_labs([concept.id for concept in loading.load().concepts], shipped)
    return [*labs, *of_packs], complaints


def prove_labs(labs: Iterable[Lab]) -> list[str]:
    """Check all attempts of these labs on real ranks, and return a line for each verdict that is wrong."""
    problems: list[str] = []
    for lab in labs:
        for proven in prove_lab(lab):
            verdict = proven.verdict
            what = "passed" if verdict.passed else f"caught by {verdict.caught}"
            typer.echo(f"{lab.id}: {proven.attempt.name}: {what}, {verdict.seconds:.1f} s. {verdict.sentence}")
            if proven.complaint:
                problems.append(f"{lab.folder / 'lab.yaml'}: {proven.complaint}")
    return problems
