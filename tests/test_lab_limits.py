"""The budgets of labs: the sentence about what was measured, and what is allowed or needed."""

from dataclasses import replace
from pathlib import Path

import pytest

from ddpquiz.analysis.phases import Phase
from ddpquiz.analysis.run_state import RunState
from ddpquiz.curriculum.budget_rule import read_rule
from ddpquiz.curriculum.lab import Budget, LabRun
from ddpquiz.curriculum.labs import load_lab
from ddpquiz.ranks.lab_failure import FinishedRun
from ddpquiz.ranks.lab_limits import exceeded

LAB = load_lab("ring-all-reduce")


def verdict(rule, **values):
    lab = replace(LAB, budgets=(Budget("limit", "work", read_rule(rule), "Say."),))
    finished = FinishedRun(LabRun(2, (1,)), (), RunState())
    return exceeded(lab, Path("x.py"), finished, [Phase(0, "work", 0, 1, 0.0, values=values)])


@pytest.mark.parametrize(
    ("rule", "values", "sentence", "found"),
    [
        ("kept <= 2 * n", {"kept": 5}, "5 kept; at most 4 are allowed", "5 (at most 4 allowed)"),
        ("kept <= 0", {"kept": 1}, "1 kept; none is allowed", "1 (none allowed)"),
        ("kept <= 100 / 3", {"kept": 40}, "40 kept; at most 33 are allowed", "40 (at most 33 allowed)"),
        ("calls >= n", {}, "0 operations called; at least 2 are needed", "0 (at least 2 needed)"),
        ("calls == 1", {}, "0 operations called; exactly 1 is needed", "0 (exactly 1 needed)"),
        ("rounds > 0", {}, "0 rounds of messages; more than 0 are needed", "0 (more than 0 needed)"),
        ("calls_send >= 1", {"calls_send": 0}, "0 calls of send; at least 1 is needed", "0 (at least 1 needed)"),
        ("kept < 1", {"kept": 1}, "1 kept; fewer than 1 is allowed", "1 (fewer than 1 allowed)"),
        ("first send before label done", {}, "the first send did not happen", "not in this order"),
    ],
)
def test_a_limit_that_is_not_kept_gets_a_plain_sentence(rule, values, sentence, found):
    said = verdict(rule, **values)
    assert said.sentence == f"Rank 0: {sentence}. Say."
    assert said.values == {0: found}


def test_one_is_not_written_as_several():
    assert "1 call of send; " in verdict("calls_send == 2", calls_send=1).sentence
    assert verdict("calls_send <= 1", calls_send=1) is None
