"""The page of a lesson, with what comes before and after its concept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.cli import clock, completion, session
from ddpquiz.cli.progress_file import open_progress
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Concept, DemoLink
from ddpquiz.errors import UserError
from ddpquiz.learning.guided_path import GuidedPath, PathHistory, StageName, guided_path, load_history, next_path
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import study_day
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.kit.screen import is_interactive
from ddpquiz.terminal.pages.lesson import lesson
from ddpquiz.terminal.sittings.path import DemoVisit, PathScreen, stages

# The page of a lesson, with what comes before and after its concept.

COSTS = "comm-cost-model"  # the concept whose lesson shows what `ddpquiz bench` measured


def page(known: Catalog, concept: Concept) -> RenderableType:
    """Draw the lesson of a concept, with what comes before and after it."""
    return lesson(
        concept,
        before=[known.concept(need) for need in concept.needs],
        after=[other for other in known.concepts if concept.id in other.needs],
        labs=known.labs_about(concept.id),
        here=_measured_here() if concept.id == COSTS else (),
    )


def _measured_here() -> Sequence[Text]:
    """Return what `ddpquiz bench` found about this machine."""
    from ddpquiz.benchmark.file import load_bench  # noqa: PLC0415  # only one lesson needs it
    from ddpquiz.benchmark.page import lines_on_machine  # noqa: PLC0415

    return lines_on_machine(load_bench())


# The guided path of `ddpquiz learn` and home: what each stage starts.


def follow(known: Catalog, concept: Concept | None) -> None:
    """Follow the path through a concept, by default through the one to go on with; in a pipe, print it."""
    with open_progress() as progress:
        actions = PathCommands(known, progress)
        if concept is None:
            path = actions.next_path()
            if path is None:
                raise UserError("You have finished the paths of all concepts. Name one to see it again.")
            concept = path.concept
        if is_interactive():
            show(known, progress, concept)
            return
        section = layout.section("Step by step", stages(actions.path(concept)))
        layout.show(style.console(), Group(page(known, concept), *section))


def show(known: Catalog, progress: Progress, concept: Concept, back_to: str = "") -> None:
    """Show the path through a concept until the learner leaves; for `back_to` see SessionContext."""
    screen = PathScreen(session.context(known, progress, back_to=back_to), PathCommands(known, progress), concept)
    session.run_session(screen, style.console())


class PathCommands:
    """The commands that the stages of a path start."""

    def __init__(self, known: Catalog, progress: Progress) -> None:
        self._known = known
        self._progress = progress

    def path(self, concept: Concept) -> GuidedPath:
        return guided_path(concept, self._known.labs_about(concept.id), self._history())

    def next_path(self) -> GuidedPath | None:
        return next_path(self._known.concepts, self._known.labs, self._history())

    def _history(self) -> PathHistory:
        return load_history(self._progress, study_day(clock.now()))

    def lesson(self, concept: Concept) -> RenderableType:
        return page(self._known, concept)

    def demo(self, path: GuidedPath, link: DemoLink, *, predict: bool) -> DemoVisit | None:
        """Run a demo, after a prediction if one is wanted; it opens at its first operation once it has ended."""
        from ddpquiz.cli.demo_run import visit  # noqa: PLC0415  # the lesson does not wait for it
        from ddpquiz.cli.prediction import Before  # noqa: PLC0415

        asked = Before(concept=path.concept.id, place=path.place(StageName.PREDICTION) if predict else "")
        return visit(link, asked, ask=predict, step=True, place=path.place(StageName.DEMO))

    def study(self, path: GuidedPath) -> None:
        from ddpquiz.cli import study  # noqa: PLC0415  # the lesson does not wait for it

        session.run_command(
            lambda: study.sit(study.StudyOptions(concept=[path.concept.id], every=True), path.place(StageName.CARDS))
        )

    def test(self, path: GuidedPath, count: int) -> None:
        from ddpquiz.cli import test  # noqa: PLC0415  # the lesson does not wait for it

        session.run_command(
            lambda: test.sit(test.TestOptions(concept=[path.concept.id], count=count), path.place(StageName.QUESTIONS))
        )

    def lab(self, path: GuidedPath) -> None:
        from ddpquiz.cli import lab, lab_work  # noqa: PLC0415  # the lesson does not wait for it

        if path.lab:
            lab_work.work_on(lab.load(path.lab.id), lab.folder_of(None), path.place(StageName.LAB))


# `ddpquiz learn`: follow the guided path through a concept, or read its lesson.


def learn(
    concept: Annotated[
        str | None,
        typer.Argument(help="What to learn. Without it, go on where you left off.", autocompletion=completion.concepts),
    ] = None,
    lesson: Annotated[bool, typer.Option("--lesson", help="Only show the lesson.")] = False,
) -> None:
    """Learn a concept step by step: lesson, prediction, demo, cards, questions, lab.

    You can leave at any point; the next time goes on there. In a pipe, print the lesson and the stages.
    """
    if lesson and concept is None:
        raise typer.BadParameter("name a concept; `ddpquiz list` lists them.", param_hint="--lesson")
    known = loading.load()
    named = known.concept(concept) if concept is not None else None
    if lesson and named:
        layout.show_paged(style.console(), page(known, named))
    else:
        follow(known, named)
