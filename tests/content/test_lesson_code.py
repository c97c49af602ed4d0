"""The code in lessons runs: a block that names its ranks runs on them, and prints what the block after it shows."""

import re

import pytest

from ddpquiz.curriculum.loading import load
from ddpquiz.ranks.content_check import run_listings
from ddpquiz.ranks.content_runner import run_code
from ddpquiz.terminal.pages.lesson_steps import unfit

_RUNNABLE = re.compile(r"^```python ranks=(\d+)\n(.*?)^```\n(?:\s*```output\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
MOST_LINES = 30

BLOCKS = [
    pytest.param(int(ranks), code, shown, id=f"{concept.id}-{number}")
    for concept in load().concepts
    for number, (ranks, code, shown) in enumerate(_RUNNABLE.findall(concept.lesson))
]


@pytest.mark.slow
@pytest.mark.case("listing", lambda ranks, code, shown: [ranks, code, shown])
@pytest.mark.parametrize(("ranks", "code", "shown"), BLOCKS)
def test_the_code_of_a_lesson_runs_and_prints_what_the_lesson_shows(ranks, code, shown):
    seen = run_code(code, ranks, timeout=10.0)
    assert (seen.failed, seen.raised, seen.hung) == ("", "", False)
    assert "\n".join(text for text in seen.printed.values() if text) == shown.strip()


STEPS = [concept for concept in load().concepts if concept.in_steps]


@pytest.mark.slow
@pytest.mark.case("listings", lambda concept: [step.listing for step in concept.steps])
@pytest.mark.parametrize("concept", STEPS, ids=[concept.id for concept in STEPS])
def test_the_listings_of_a_lesson_and_their_changes_print_what_the_lesson_says(concept):
    assert [(ran.step + 1, ran.complaints) for ran in run_listings([concept]) if ran.complaints] == []


@pytest.mark.parametrize("concept", STEPS, ids=[concept.id for concept in STEPS])
def test_every_step_fits_a_screen(concept):
    assert [(number, *each) for number, step in enumerate(concept.steps, 1) for each in unfit(step)] == []


def test_each_listing_is_short_and_each_output_belongs_to_one():
    assert len(BLOCKS) >= 40
    for block in BLOCKS:
        assert block.values[1].count("\n") <= MOST_LINES, block.id
    for concept in load().concepts:
        assert concept.lesson.count("```output") == sum(
            bool(shown) for _, _, shown in _RUNNABLE.findall(concept.lesson)
        )
