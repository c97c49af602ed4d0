"""What `study`, `test` and home share: the choice of concepts, the desk, and runs of demos and proofs."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import typer

from ddpquiz.cli import clock
from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from ddpquiz.curriculum.catalog import Catalog
    from ddpquiz.curriculum.concept import Concept, DemoLink
    from ddpquiz.curriculum.posed import Posed
    from ddpquiz.learning.progress import Progress
    from ddpquiz.terminal.sittings.sitting import Desk, SittingScreen


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


def desk(catalog: Catalog, progress: Progress) -> Desk:
    """Return what every sitting needs."""
    from ddpquiz.terminal.sittings.sitting import Desk

    concepts = {concept.id: concept for concept in catalog.concepts}
    return Desk(progress, concepts, catalog.sources, Runs(), clock.now)


class Runs:
    """What a sitting can start, on the screen."""

    def warm(self) -> None:
        """Import torch in the background, so that a demo starts at once; if it fails, the demo reports it."""
        from ddpquiz.ranks import launch

        with contextlib.suppress(UserError):
            launch.warm()

    def demo(self, link: DemoLink, *, answered: str = "", step: bool = False) -> str | None:
        """Ask for a prediction, and run a demo; return None if the learner declines the run.

        The text explains a wrong prediction.
        """
        from ddpquiz.cli import demo, prediction
        from ddpquiz.curriculum.demo_scripts import read_demo
        from ddpquiz.ranks.elastic.elastic_run import begin
        from ddpquiz.ranks.request import Request
        from ddpquiz.terminal.kit import screen, style
        from ddpquiz.terminal.runs import plain_lines, watch
        from ddpquiz.terminal.runs.frame import Hint
        from ddpquiz.terminal.sittings.prediction import NoRun

        console, script, predicted = style.console(), demo.script_of(link.run), None
        if screen.is_interactive():
            try:
                predicted = prediction.ask(link.run, link.args, link.ranks, console, answered=answered)
            except NoRun:
                return None
        ranks = predicted.link.ranks if predicted else link.ranks
        restarts = read_demo(script).restarts
        request = Request(script, args=link.args, ranks=ranks, timeout=demo.PATIENCE, restarts=restarts)
        if screen.is_interactive():
            hint = predicted.hint if predicted else Hint(link.look)
            state = watch.live(begin, request, console, watch.LiveOptions(hint=hint, stay=True, step=step))
        else:
            state = plain_lines.print_run(begin(request), console)
        demo.save_time(script, link.args, state)
        return prediction.note(predicted, state) if predicted else ""

    def prove(self, posed: Posed) -> object:
        """Run a proof."""
        from ddpquiz.cli import prove
        from ddpquiz.terminal.kit.style import console

        return prove.visit(posed, console())


def sit_down(sitting: SittingScreen, console: Console, *, lines: bool = False) -> None:
    """Show a sitting, or read its commands from a pipe; its summary stays in the scrollback."""
    from ddpquiz.terminal.kit.layout import show
    from ddpquiz.terminal.kit.screen import is_interactive

    interrupted = False
    try:
        if is_interactive() and not lines:
            sitting.show(console)
        else:
            sitting.read(console, sys.stdin, asked=sys.stdin.isatty())
    except KeyboardInterrupt:
        interrupted = True
    show(console, sitting.summary())
    if interrupted:
        raise typer.Exit(130)
