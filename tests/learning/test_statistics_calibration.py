"""Sureness against right answers."""

import random

import pytest

from ddpquiz.learning.statistics import Band, Bias, calibration, confidence_keys


def test_no_answers_have_no_calibration():
    assert calibration([]) is None


def test_what_was_said_and_what_was_right_are_told_by_band():
    told = calibration([(0.95, True), (0.5, False), (0.95, False), (0.5, True)])
    assert told.bands == (Band(0.5, 2, 1), Band(0.95, 2, 1))
    assert (told.answers, told.said, told.right) == (4, pytest.approx(0.725), 0.5)
    assert told.brier == pytest.approx((0.05**2 + 0.95**2 + 0.5**2 + 0.5**2) / 4)


@pytest.mark.parametrize(
    ("said", "right", "answers", "lean"),
    [
        (0.95, 4, 9, None),
        (0.95, 9, 10, None),
        (0.95, 28, 29, None),
        (0.95, 29, 30, Bias.NONE),
        (0.95, 8, 10, Bias.OVER),
        (0.5, 5, 10, None),
        (0.5, 8, 10, Bias.UNDER),
        (0.25, 10, 10, Bias.UNDER),
    ],
)
def test_a_lean_is_told_only_when_chance_does_not_explain_it(said, right, answers, lean):
    assert calibration([(said, number < right) for number in range(answers)]).bias is lean


def test_somebody_who_is_right_as_often_as_they_say_is_seldom_called_anything_else():
    dice, leans = random.Random(1), 0
    for _ in range(400):
        sure = [dice.choice([0.25, 0.5, 0.75, 0.95]) for _ in range(30)]
        leans += calibration([(said, dice.random() < said) for said in sure]).bias is not Bias.NONE
    assert leans < 0.2 * 400


@pytest.mark.parametrize(("chance", "guess"), [(0.25, 0.25), (1 / 3, 0.25), (0.5, 0.5), (1 / 14, 0.0), (0.0, 0.0)])
def test_a_guess_is_as_sure_as_a_blind_one_would_be(chance, guess):
    assert confidence_keys(chance) == {1: guess, 2: 0.5, 3: 0.75, 4: 0.95}
