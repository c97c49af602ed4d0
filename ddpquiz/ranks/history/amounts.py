"""Numbers as people say them: bytes, seconds, how many."""

from __future__ import annotations


def size(bytes_: float) -> str:
    """Say a number of bytes: `96 bytes`, `1.2 KiB`, `25 MiB`."""
    if bytes_ < 1024:
        return count(round(bytes_), "byte")
    for unit in ("KiB", "MiB", "GiB"):
        bytes_ /= 1024
        if bytes_ < 1000:
            return f"{_brief(bytes_)} {unit}"
    return f"{_brief(bytes_ / 1024)} TiB"


def time(seconds: float) -> str:
    """Say a number of seconds: `340 µs`, `1.2 ms`, `3.4 s`."""
    for unit, scale in (("µs", 1e6), ("ms", 1e3)):
        if seconds * scale < 999.5:
            return f"{_brief(seconds * scale)} {unit}"
    return f"{_brief(seconds)} s"


def count(number: int, one: str, more: str = "") -> str:
    """Say how many: `1 barrier`, `2,000 barriers`."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def _brief(number: float) -> str:
    return f"{number:,.{0 if number >= 99.5 else 1 if number >= 9.95 else 2}f}"
