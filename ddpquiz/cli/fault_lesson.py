"""The lesson that explains a fault of a job, as a page for `run` and `diagnose`.

The curriculum is loaded when somebody asks for it.
"""

from __future__ import annotations

from functools import cache

from rich.console import RenderableType


@cache
def lesson_of(concept: str) -> RenderableType:
    """Draw the lesson of a concept."""
    from ddpquiz.curriculum import loading  # noqa: PLC0415  # few runs need it
    from ddpquiz.terminal.sittings.lesson_page import lesson_page  # noqa: PLC0415

    known = loading.load()
    return lesson_page(known, known.concept(concept))
