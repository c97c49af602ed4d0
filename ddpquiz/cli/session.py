"""What `study`, `test` and home share: the choice of concepts, the context, and runs of demos and proofs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Sequence

import typer
from rich.console import Console

from ddpquiz.cli import clock
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Concept, DemoLink
from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.errors import UserError
from ddpquiz.learning.progress import Progress
from ddpquiz.terminal.kit.layout import show
from ddpquiz.terminal.kit.screen import is_interactive
from ddpquiz.terminal.kit.style import console
from ddpquiz.terminal.sittings.sitting import SessionContext, SittingScreen


def chosen(catalog: Catalog, names: Iterable[str] | None, track: str | None) -> Sequence[Concept]:
    """Return the concepts that were named, or all, in learning order; UserError for an unknown name."""
    tracks = {one.id for one in catalog.tracks}
    if track is not None and track not in tracks:
        raise UserError(f"There is no track `{track}`; tracks are {', '.join(sorted(tracks))}.")
    wanted = {catalog.concept(name).id for name in names or ()}
    return [
        concept
        for concept in catalog.concepts
        if (not wanted or concept.id in wanted) and (track is None or concept.track == track)
    ]


def words(*first: str, **options: str | int | None) -> str:
    """Return the words of a command line; options that are None or False are left out, True is an option alone."""
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    return " ".join((*first, *(name if value is True else f"{name} {value}" for name, value in given.items())))


def context(catalog: Catalog, progress: Progress, place: str = "", back_to: str = "") -> SessionContext:
    """Return what every sitting needs; for `place` and `back_to` see SessionContext."""
    concepts = {concept.id: concept for concept in catalog.concepts}
    return SessionContext(progress, concepts, catalog.sources, Runs(), clock.now, place, "stages" if place else back_to)


class Runs:
    """What a sitting can start, on the screen."""

    def warm(self) -> None:
        """Import torch in the background, so that a demo starts at once; if it fails, the demo reports it."""
        from ddpquiz.ranks import launch  # noqa: PLC0415  # the first card does not wait for it

        with contextlib.suppress(UserError):
            launch.warm()

    def demo(self, link: DemoLink, *, answered: str = "", step: bool = False) -> str | None:
        """Ask for a prediction, and run a demo; return None if the learner declines the run.

        The text explains a wrong prediction.
        """
        from ddpquiz.cli.demo_run import visit  # noqa: PLC0415  # the first card does not wait for it
        from ddpquiz.cli.prediction import Before  # noqa: PLC0415

        visited = visit(link, Before(answered=answered), step=step)
        return visited.remark if visited else None

    def prove(self, posed: Posed) -> object:
        """Run a proof."""
        from ddpquiz.cli import prove  # noqa: PLC0415  # the first card does not wait for it

        return prove.visit(posed, console())


def run_command(command: Callable[[], None]) -> None:
    """Run a command from a screen; an interrupt there leads back to the screen."""
    try:
        command()
    except typer.Exit as end:
        if end.exit_code:
            raise KeyboardInterrupt from None


def run_session(sitting: SittingScreen, console: Console, *, lines: bool = False) -> None:
    """Show a sitting, or read its commands from a pipe; its summary stays in the scrollback.

    A stage of a guided path leaves no summary: the path goes on, and has its own.
    """
    interrupted = False
    try:
        if is_interactive() and not lines:
            sitting.show(console)
        else:
            sitting.read(console, sys.stdin, asked=sys.stdin.isatty())
    except KeyboardInterrupt:
        interrupted = True
    if not sitting.context.place:
        show(console, sitting.summary())
    if interrupted:
        raise typer.Exit(130)
