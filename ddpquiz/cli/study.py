"""`ddpquiz study`: recall cards, each just before it would be forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from ddpquiz.cli import completion, sitting
from ddpquiz.cli.item_options import LevelOption, TrackOption
from ddpquiz.cli.typer_options import with_options
from ddpquiz.curriculum import loading
from ddpquiz.learning.study_choice import CARDS_A_SITTING, StudyChoice
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
    count: Annotated[int, typer.Option(min=1, help="The most cards in this sitting.")] = CARDS_A_SITTING
    new: Annotated[
        int | None,
        typer.Option(min=0, help="The most new cards per day. [default: 10; no limit for concepts that you name]"),
    ] = None
    retention: Annotated[
        float | None,
        typer.Option(help="The share of due cards that you want to recall, from now on. [initially: 0.9]"),
    ] = None
    every: Annotated[
        bool,
        typer.Option("--all", help="Also show new cards of concepts that you know well and of unread extra pages."),
    ] = False
    taught: Annotated[bool, typer.Option("--taught", help="Leave out cards that only a lesson's extra pages tell.")] = (
        False
    )
    cram: Annotated[
        bool, typer.Option("--cram", help="Go over all cards seen, due or not; the schedule does not change.")
    ] = False
    two_button: Annotated[bool, typer.Option("--two-button", help="Offer only two grades, forgot and good.")] = False


@with_options(StudyOptions)
def study(*, options: StudyOptions) -> None:
    """Review cards: first those that are due, then new ones.

    A card that you forgot comes back after a few others; a hard one comes back once, at the end. You can quit at any
    time: the next sitting continues where this one ended.
    """
    with sitting.open_sitting(loading.load()) as context:
        ask_cards(context, options, style.console())
