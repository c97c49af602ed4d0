"""Numbers as people say them: bytes, seconds, how many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpquiz.analysis.matching import ANYBODY

if TYPE_CHECKING:
    from collections.abc import Collection


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


def few(ranks: Collection[int]) -> str:
    """Name ranks as shortly as can be: `0 2 3`, or `0-7 9`."""
    runs: list[list[int]] = []
    if ANYBODY in ranks:
        return "anybody"
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else " ".join(map(str, run)) for run in runs)


def named(ranks: Collection[int]) -> str:
    """Name ranks with the word: `rank 2`, `ranks 0-3`."""
    return f"rank{'s' * (len(ranks) != 1)} {few(ranks)}"


def seconds(count: float) -> str:
    """Write a duration: `0.8 s`, `12 ms`."""
    return f"{count:.1f} s" if count >= 0.1 else f"{1000 * count:.1f} ms" if count < 0.01 else f"{1000 * count:.0f} ms"
