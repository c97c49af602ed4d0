"""`ddpquiz learn`: follow the guided path through a concept, or read its lesson."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group

from ddpquiz.cli import completion, sitting
from ddpquiz.curriculum import loading
from ddpquiz.errors import UserError
from ddpquiz.learning.guided_path import pick_track
from ddpquiz.terminal.kit import layout, pager, style
from ddpquiz.terminal.kit.screen import is_interactive
from ddpquiz.terminal.sittings.lesson_page import lesson_page
from ddpquiz.terminal.sittings.look import path_to_go_on
from ddpquiz.terminal.sittings.path_screen import PathScreen, path_of, stages
from ddpquiz.terminal.sittings.sitting import run_sitting


def learn(
    concept: Annotated[
        str | None,
        typer.Argument(
            help="What to learn. Without it, go on where you left off: along the core route (what to learn "
            "first), then the tracks that you picked.",
            autocompletion=completion.concepts,
        ),
    ] = None,
    track: Annotated[
        str | None,
        typer.Option(
            help="Go on with this track now, and later after the core route.", autocompletion=completion.tracks
        ),
    ] = None,
    lesson: Annotated[bool, typer.Option("--lesson", help="Only show the lesson.")] = False,
) -> None:
    """Learn a concept step by step: read, answer and run each step, then go over cards and build a lab.

    You can leave at any point and continue there next time. In a pipe, print the lesson and the stages.
    """
    if lesson and concept is None:
        raise typer.BadParameter("name a concept; `ddpquiz list` lists them.", param_hint="--lesson")
    if track and concept:
        raise typer.BadParameter("name a concept or a track, not both", param_hint="--track")
    known = loading.load()
    of_track = known.choose(None, track) if track else ()
    named = known.concept(concept) if concept is not None else None
    if lesson and named:
        pager.show_paged(style.console(), lesson_page(known, named))
        return
    with sitting.open_sitting(known) as context:
        if track:
            pick_track(context.progress, track, context.clock())
        path = path_of(context, named) if named else path_to_go_on(context, of_track)
        if path is None and track:
            raise UserError(f"You have finished the track {track}. `ddpquiz learn` goes on with what comes after it.")
        if path is None:
            raise UserError("You have finished all concepts. Name one to see it again.")
        if is_interactive():
            run_sitting(PathScreen(context, path.concept), style.console())
        else:
            section = layout.section("Step by step", stages(path, path.current))
            layout.show(style.console(), Group(lesson_page(known, path.concept), *section))
