"""Fitting the scheduler to a learner's reviews."""

import os
import random
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta

import pytest
from inline_snapshot import snapshot

from ddpquiz.cli.optimize import optimize
from ddpquiz.errors import UserError
from ddpquiz.learning import fit
from ddpquiz.learning.log_rows import Row
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import FSRS_6, Grade, Schedule, Weights

DAY = date(2026, 3, 2)
QUICK = Weights((0.05, 0.3, 0.6, 2.0, *FSRS_6[4:]))  # of a learner who forgets four times as fast as FSRS-6 assumes


def learner(cards, reviews, true=QUICK, seed=1):
    """Return what somebody with these true weights recalls, scheduled by the weights that FSRS-6 starts from."""
    dice, known, schedule, truth = random.Random(seed), {}, Schedule(Weights()), Schedule(true)
    for number in range(cards):
        key, day, memory, real = f"c/{number}", DAY, None, None
        for _ in range(reviews):
            recalled = real is None or dice.random() < truth.recall(real, day)
            grade = Grade.GOOD if recalled else Grade.AGAIN
            known.setdefault(key, []).append((day, grade))
            memory, real = schedule.review(key, memory, grade, day), truth.review(key, real, grade, day)
            day = max(memory.due, day + timedelta(days=1))
    return known


def test_only_reviews_on_a_later_day_tell_of_forgetting():
    rows = [
        Row("review", "a/b", "", day, grade=grade)
        for day, grade in (("2026-03-02", 1), ("2026-03-02", 3), ("2026-03-04", 3), ("2026-03-03", 1))
    ]
    known = fit.histories(rows)
    assert known == {"a/b": [(DAY, 1), (DAY, 3), (DAY + timedelta(2), 3), (DAY + timedelta(2), 1)]}
    assert fit.recalls(known) == 1


def test_true_weights_foresee_better_than_others_and_ask_for_more_reviews_of_who_forgets_quickly():
    known = learner(60, 6)
    true, start = fit.look(known, QUICK), fit.look(known, Weights())
    assert true.loss < start.loss
    assert true.a_day > start.a_day
    assert fit.look(known, Weights(retention=0.8)).a_day < start.a_day


def test_too_few_reviews_are_told_with_both_numbers():
    with pytest.raises(UserError) as refused:
        fit.fit(learner(10, 3), 0.9)
    assert str(refused.value) == (
        snapshot(
            "Fitting needs 512 reviews that came on a later day than the one before; there are 20. "
            "Until then the weights of FSRS-6 are best for you."
        )
    )


def test_the_command_says_in_plain_words_that_it_is_too_early(tmp_path, monkeypatch):
    monkeypatch.setenv("DDPQUIZ_HOME", str(tmp_path))
    with pytest.raises(UserError) as refused:
        optimize()
    assert str(refused.value) == (
        snapshot(
            "It is too early: this takes 512 reviews of cards that you had seen on an earlier day, and there are 0. "
            "Until then the usual schedule is best for you; go on with `ddpquiz study`."
        )
    )


def test_a_missing_optimizer_is_told_in_a_sentence(monkeypatch):
    monkeypatch.setattr(fit, "find_spec", lambda name: None if name == "pandas" else object())
    with pytest.raises(UserError) as refused:
        fit.fit(learner(1, 1), 0.9)
    assert str(refused.value) == (
        snapshot(
            "The optimizer of fsrs is not installed (pandas is missing): `pip install 'ddpquiz[optimize]'` brings it."
        )
    )


def test_fitted_weights_foresee_better_and_are_used_from_then_on(tmp_path):
    known = learner(130, 5)
    with Progress(tmp_path) as progress:
        progress.use_weights(Weights(retention=0.85), datetime(2026, 3, 2, 9, tzinfo=UTC))
        reviews = ((card, *one) for card, grades in known.items() for one in grades)
        rows = [
            Row("review", card, f"{day}T10:00:00.000000Z", str(day), "m", n, Weights().version, grade=int(grade))
            for n, (card, day, grade) in enumerate(reviews, 1)
        ]
        progress.merge(rows, {Weights(): ""})
    done = subprocess.run(
        [sys.executable, "-m", "ddpquiz", "optimize"],
        env={**os.environ, "DDPQUIZ_HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == snapshot("520 reviews show what you forget and when. Expected loss (less is better):")
    assert lines[-1] == snapshot("The fitted weights are in use from now on, at a retention of 85%.")
    with Progress(tmp_path) as progress:
        fitted = progress.weights()
        assert fitted.retention == 0.85
        assert fit.look(known, fitted).loss < fit.look(known, Weights()).loss
        assert fitted.parameters[2] < FSRS_6[2]  # good on the first try lasts less long than it is taken to
