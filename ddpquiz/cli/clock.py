"""The time, read in one place so that tests can set it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """Return the time, in the learner's time zone."""
    return datetime.now(UTC).astimezone()
