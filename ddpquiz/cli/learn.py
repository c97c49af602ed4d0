"""`ddpquiz learn`: read the lesson of a concept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ddpquiz.cli import completion

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddpquiz.curriculum.catalog import Catalog
    from ddpquiz.curriculum.concept import Concept


def learn(
    concept: Annotated[str, typer.Argument(help="What to read about.", autocompletion=completion.concepts)],
) -> None:
    """Read the lesson of a concept: why, how, real commands, mistakes, and its demos."""
    from ddpquiz.curriculum import loading
    from ddpquiz.terminal.kit import pager, style

    known = loading.load()
    pager.show(style.console(), page(known, known.concept(concept)))


def page(known: Catalog, concept: Concept) -> RenderableType:
    """Draw the lesson of a concept, with what comes before and after it."""
    from ddpquiz.curriculum.lab_titles import labs_about
    from ddpquiz.terminal.pages.lesson import lesson

    return lesson(
        concept,
        before=[known.concept(need) for need in concept.needs],
        after=[other for other in known.concepts if concept.id in other.needs],
        labs=labs_about(concept.id),
    )
