"""Ranks, bytes and seconds in words."""

import pytest

from ddpquiz.events.formatting import list_ranks


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ((0, 2, 3), "0, 2 and 3"),
        ((1,), "1"),
        ((0, 1, 2, 5, 6), "0-2, 5 and 6"),
        (range(0, 64, 2), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22 and others, 32 in all"),
    ],
)
def test_lists_of_ranks_are_short(ranks, said):
    assert list_ranks(ranks) == said
