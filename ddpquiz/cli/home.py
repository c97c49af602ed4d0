"""`ddpquiz` without a command: what is due, where you stand, and a key for what to do next."""

from __future__ import annotations

from dataclasses import replace

from rich.console import RenderableType

from ddpquiz.cli import clock, learn, session, stats
from ddpquiz.cli.progress_file import open_progress
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Concept
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import study_day
from ddpquiz.learning.standing import Standing, standing
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.kit.screen import is_interactive
from ddpquiz.terminal.sittings.home import Home, page


def home() -> None:
    """Show what is due, where you are strong and weak, and what to do next."""
    known = loading.load()
    with open_progress() as progress:
        if is_interactive():
            screen = Home(
                session.context(known, progress), lambda: look(known, progress), HomeCommands(known, progress)
            )
            session.run_session(screen, style.console())
        else:
            layout.show(style.console(), page(look(known, progress)))


def look(known: Catalog, progress: Progress) -> Standing:
    """Return where the learner stands now."""
    path = learn.PathCommands(known, progress).next_path()
    return replace(standing(progress, known.concepts, study_day(clock.now())), path=path)


class HomeCommands:
    """The commands that the keys of the home screen start."""

    def __init__(self, known: Catalog, progress: Progress) -> None:
        self._known = known
        self._progress = progress

    def study(self, *, ahead: bool, new: int) -> None:
        from ddpquiz.cli import study  # noqa: PLC0415  # the first screen does not wait for it

        session.run_command(lambda: study.sit(study.StudyOptions(cram=ahead, new=new), back_to="home"))

    def learn(self, concept: Concept) -> None:
        session.run_command(lambda: learn.show(self._known, self._progress, concept, "home"))

    def test(self, concept: Concept | None) -> None:
        from ddpquiz.cli import test  # noqa: PLC0415  # the first screen does not wait for it

        session.run_command(
            lambda: test.sit(test.TestOptions(concept=[concept.id] if concept else None), back_to="home")
        )

    def lesson(self, concept: Concept) -> RenderableType:
        return learn.page(self._known, concept)

    def stats(self) -> RenderableType:
        return stats.page(self._known, self._progress)
