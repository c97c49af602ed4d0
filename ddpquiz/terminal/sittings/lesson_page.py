"""The whole lesson of a concept as one page, with what comes before and after it, and what was measured here."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Concept

COSTS = "comm-cost-model"  # the concept whose lesson shows what `ddpquiz bench` measured


def lesson_page(catalog: Catalog, concept: Concept) -> RenderableType:
    """Draw the lesson of a concept, with what comes before and after it."""
    from ddpquiz.terminal.pages.lesson import lesson  # lessons in steps do not need it

    return lesson(
        concept,
        before=[catalog.concept(need) for need in concept.needs],
        after=[later for later in catalog.concepts if concept.id in later.needs],
        labs=catalog.labs_about(concept.id),
        here=_measured_here() if concept.id == COSTS else (),
    )


def _measured_here() -> Sequence[Text]:
    """What `ddpquiz bench` found about this machine."""
    from ddpquiz.bench.bench_page import lines_on_machine
    from ddpquiz.bench.saved_bench import load_bench  # only one lesson needs it

    return lines_on_machine(load_bench())
