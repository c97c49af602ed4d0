"""Numbers that a run prints again and again, as curves."""

import pytest
from drawn_run import QUIET, drawn, said, seen
from inline_snapshot import snapshot

from ddpquiz.terminal.runs.values import scale, sparkline


def test_a_label_whose_numbers_repeat_becomes_a_curve():
    picture = seen(*(said(0, "loss", str(value)) for value in (4, 3, 2, 0)))
    assert "0       -\n        █▆▄▁" in drawn(picture)
    counter = seen(*(said(0, "step", str(value)) for value in range(9)), began=QUIET)
    assert drawn(counter).splitlines()[2:] == ["        rank 0  rank 1", "step    8       -"]


def test_numbers_that_are_no_longer_finite_are_drawn_too():
    assert "inf     -\n        ▄█!" in drawn(seen(*(said(0, "loss", value) for value in ("1", "2", "inf"))))


def test_a_long_series_gets_a_chart_with_the_ranks_at_the_ends_of_their_lines():
    events = [said(rank, "loss", str(9 - at + rank * at * at / 9)) for at in range(10) for rank in (0, 1)]
    assert drawn(seen(*events, began=QUIET), 44).splitlines()[2:] == snapshot(
        [
            "        rank 0  rank 1",
            "loss    0.0     9.0",
            "",
            "   loss",
            "9 ┤▀▚▄▄▖                ▄▄▞▀ rank 1",
            "  │    ▝▀▜▛▀▀▄▄▄▄▄▞▀▀▀▀▀",
            "  │       ▝▀▀▄▄▖",
            "  │            ▝▀▀▚▄▖",
            "  │                 ▝▚▄▄",
            "0 ┤                     ▀▀▚▄ rank 0",
            "  └─────────── value 1 to 10",
        ]
    )


CURVES = {
    (0, 1, 2, 3): "▁▃▆█",
    (1, 1): "██",
    (0, 0): "▁▁",
    (1, float("inf"), 2): "▄!█",
    (-1, 0, 1): "▁▄█",
    (78, 62, 62, 62): "█▇▇▇",
    tuple(range(100)): "▁▂▄▇█",
    (9, 9, 9, 0, 9, 9, 9, 9, 0, 9): "█▁██▁",
    (0, 0, 0, 0, 0, 0, 5): "▁▁▁▁█",
}


@pytest.mark.parametrize("numbers", CURVES, ids=str)
def test_a_curve_fits_its_width_and_starts_from_0(numbers):
    assert sparkline([float(number) for number in numbers], 5, *scale([numbers])) == CURVES[numbers]


def test_the_curves_of_all_ranks_have_one_scale():
    picture = seen(*(said(rank, "loss", str(value * (1 + 3 * rank))) for rank in (0, 1) for value in (4, 3, 2, 0)))
    assert "0       0\n        ▂▂▁▁    █▆▄▁" in drawn(picture)


def test_the_name_of_a_line_that_all_ranks_share_stands_there_once():
    events = [said(rank, "left", str((9 - at) ** 2)) for at in range(10) for rank in (0, 1)]
    assert drawn(seen(*events, began=QUIET), 44).splitlines()[-2].endswith(" ranks 0 and 1")


def test_one_number_that_is_not_finite_makes_no_curve():
    assert "!" not in drawn(seen(said(0, "loss", "inf"), began=QUIET))
    assert "!" in drawn(seen(*(said(0, "loss", value) for value in ("1", "inf", "3")), began=QUIET))
