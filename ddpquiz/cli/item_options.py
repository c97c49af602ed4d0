"""The options by which `study` and `test` choose items; what they mean is the same in both."""

from __future__ import annotations

from typing import Annotated

import typer

from ddpquiz.cli import completion
from ddpquiz.curriculum.concept import CardLevel, Level

_LEVELS = "|".join(Level)


def _level(text: str) -> Level:
    """The level of a name; that of cards in content files is one too, as it was the only one for `study` once."""
    words = {str(level): level for level in Level} | {str(each): each.level for each in CardLevel}
    found = words.get(text.lower())
    if found is None:
        raise typer.BadParameter(f"`{text}` is not a level; use {', '.join(Level)}.")
    return found


LevelOption = Annotated[
    Level | None,
    typer.Option(
        "--level", parser=_level, metavar=f"<{_LEVELS}>", help="Only this level.", autocompletion=completion.levels
    ),
]
TrackOption = Annotated[str | None, typer.Option("--track", help="Only this track.", autocompletion=completion.tracks)]
