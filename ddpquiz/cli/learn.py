"""`ddpquiz learn`: read the lesson of a concept."""

from __future__ import annotations

from typing import Annotated

import typer

from ddpquiz.cli import names


def learn(
    concept: Annotated[str, typer.Argument(help="What to read about.", autocompletion=names.concepts)],
) -> None:
    """Read the lesson of a concept: why, how, real commands, mistakes, and its demos."""
    from ddpquiz.curriculum import catalog
    from ddpquiz.terminal import layout, style
    from ddpquiz.terminal.lesson import lesson

    known = catalog.load()
    chosen = known.concept(concept)
    page = lesson(
        chosen,
        before=[known.concept(need) for need in chosen.needs],
        after=[other for other in known.concepts if chosen.id in other.needs],
    )
    layout.show(style.console(), page)
