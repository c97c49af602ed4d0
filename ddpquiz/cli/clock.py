"""The current time, in one place so that tests can set it."""

from datetime import UTC, datetime


def now() -> datetime:
    """The current time in the local time zone."""
    return datetime.now(UTC).astimezone()
