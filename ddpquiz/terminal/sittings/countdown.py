"""The clock of a question: how much time is left, and when that is to be painted again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from datetime import timedelta

_HURRY = 5  # seconds; from then on the clock is marked


def remaining(left: timedelta) -> Text:
    """Draw the time that is left, in whole seconds; the last second shows as 1, since at 0 the time is over."""
    seconds = math.ceil(left.total_seconds())
    minutes = f"{seconds // 60}:{seconds % 60:02}" if seconds >= 60 else f"{seconds} s"
    return Text(f"{minutes} left", style="warn" if seconds <= _HURRY else "quiet")


def until_change(left: timedelta) -> float:
    """Return the seconds until the clock shows another number, or is over."""
    seconds = left.total_seconds()
    return max(0.01, seconds - (math.ceil(seconds) - 1))
