"""The current time, in one place so that tests can set it."""

from datetime import UTC, datetime


def now() -> datetime:
    """The current time in the local time zone; in UTC if TZ names one that is a day or more away from it."""
    utc = datetime.now(UTC)
    try:
        return utc.astimezone()
    except ValueError:
        return utc
