"""The budgets of labs: the sentence about what was measured, and what is allowed or needed."""

from dataclasses import replace
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ddpquiz.curriculum.budget_rule import Limit, read_rule
from ddpquiz.curriculum.lab import Budget, LabRun
from ddpquiz.curriculum.labs import lab_names, load_lab
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_state import RunState
from ddpquiz.lab.phases import Phase, PhaseCall
from ddpquiz.lab.verdict import UNITS, FinishedRun, exceeded

LAB = load_lab("ring-all-reduce")
SEND = Operation("send", (0, 1), 1, ((4,),), "float32", 16, "x.py", 1)


def verdict(rule, **values):
    lab = replace(LAB, budgets=(Budget("limit", "work", read_rule(rule), "Say."),))
    finished = FinishedRun(LabRun(2, (1,)), (), RunState())
    return exceeded(lab, Path("x.py"), finished, [Phase(0, "work", 0, 1, 0.0, values=values)])


@pytest.mark.parametrize(
    ("rule", "values", "sentence", "found"),
    [
        ("kept <= 2 * n", {"kept": 5}, "5 bytes kept; at most 4 are allowed", "5 bytes kept (at most 4 allowed)"),
        ("kept <= 0", {"kept": 1}, "1 byte kept; none is allowed", "1 byte kept (none allowed)"),
        (
            "held <= 10 / 3",
            {"held": 4},
            "4 micro-batches held; at most 3 are allowed",
            "4 micro-batches held (at most 3 allowed)",
        ),
        ("calls >= n", {}, "0 operations called; at least 2 are needed", "0 operations called (at least 2 needed)"),
        ("calls == 1", {}, "0 operations called; exactly 1 is needed", "0 operations called (exactly 1 needed)"),
        ("rounds > 0", {}, "0 rounds of messages; more than 0 are needed", "0 rounds of messages (more than 0 needed)"),
        (
            "calls_send >= 1",
            {"calls_send": 0},
            "0 calls of send; at least 1 is needed",
            "0 calls of send (at least 1 needed)",
        ),
        ("kept < 1", {"kept": 1}, "1 byte kept; fewer than 1 is allowed", "1 byte kept (fewer than 1 allowed)"),
        ("first send before label done", {}, "the first send did not happen", "did not happen"),
    ],
)
def test_a_limit_that_is_not_kept_gets_a_plain_sentence(rule, values, sentence, found):
    said = verdict(rule, **values)
    assert said.sentence == f"Rank 0: {sentence}. Say."
    assert said.values == {0: found}


def test_one_is_not_written_as_several():
    assert "1 call of send; " in verdict("calls_send == 2", calls_send=1).sentence
    assert verdict("calls_send <= 1", calls_send=1) is None


def test_every_amount_that_a_budget_of_a_lab_limits_has_a_unit():
    for lab in map(load_lab, lab_names()):
        for budget in (*lab.budgets, *lab.stars):
            left = budget.rule.left if isinstance(budget.rule, Limit) else ""
            assert not left or left in UNITS or left.startswith("calls_"), f"{lab.id}: {left}"


def test_a_call_that_came_too_late_is_told_with_its_time_and_line(tmp_path):
    file = tmp_path / "x.py"
    late = PhaseCall(SEND._replace(file=str(file), line=7), 1, issued=1.5)
    lab = replace(LAB, budgets=(Budget("limit", "work", read_rule("first send before label done"), "Say."),))
    finished = FinishedRun(LabRun(2, (1,)), (), RunState())
    in_time = Phase(1, "work", 0, 1, 0.0, calls=[replace(late, issued=0.5)], labels=[("done", 1.0)])
    phases = [Phase(0, "work", 0, 1, 0.0, calls=[late], labels=[("done", 1.0)]), in_time]
    said = exceeded(lab, file, finished, phases)
    assert said.sentence == snapshot("Rank 0: the first send (in line 7) came 500 ms after the line `done`. Say.")
    assert said.line == 7
    assert said.values == {0: "500 ms too late", 1: "in this order"}
