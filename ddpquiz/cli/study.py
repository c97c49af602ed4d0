"""`ddpquiz study`: recall cards, each just before it would be forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from ddpquiz.cli import completion, sitting
from ddpquiz.cli.item_options import LevelOption, TrackOption
from ddpquiz.cli.typer_options import with_options
from ddpquiz.curriculum import loading
from ddpquiz.learning.standing import CARDS_A_SITTING, StudyChoice
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.sittings.study_screen import ask_cards


@dataclass(frozen=True, kw_only=True)
class StudyOptions(StudyChoice):
    """The options of `study`."""

    concept: Annotated[
        list[str] | None, typer.Argument(help="Only cards of these concepts.", autocompletion=completion.concepts)
    ] = None
    level: LevelOption = None
    track: TrackOption = None
    count: Annotated[int, typer.Option(min=1, help="Cards in this sitting, at most.")] = CARDS_A_SITTING
    new: Annotated[
        int | None,
        typer.Option(min=0, help="New cards per day, at most. [default: 10; no limit for concepts that you name]"),
    ] = None
    retention: Annotated[
        float | None,
        typer.Option(help="From now on, the share of due cards that you want to recall. [at first: 0.9]"),
    ] = None
    every: Annotated[
        bool, typer.Option("--all", help="Also new cards of concepts proven strong, and of further pages not read.")
    ] = False
    cram: Annotated[
        bool, typer.Option("--cram", help="Go over all cards seen, due or not; the schedule does not change.")
    ] = False
    two_button: Annotated[bool, typer.Option("--two-button", help="Grade with forgot and good only.")] = False


@with_options(StudyOptions)
def study(*, options: StudyOptions) -> None:
    """Recall cards: those that are due, then new ones.

    A forgotten card comes again after a few others, a hard one once more at the end. You can quit at any time: the next
    sitting goes on where this one ended.
    """
    with sitting.open_sitting(loading.load()) as context:
        ask_cards(context, options, style.console())
