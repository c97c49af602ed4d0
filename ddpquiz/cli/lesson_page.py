"""The page of a lesson, with what comes before and after its concept."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Concept
from ddpquiz.terminal.pages.lesson import lesson

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
    from ddpquiz.cli.bench_file import load_bench  # noqa: PLC0415  # only one lesson needs it
    from ddpquiz.terminal.pages.bench_page import lines_on_machine  # noqa: PLC0415

    return lines_on_machine(load_bench())
