"""How amounts, durations, ranks, shapes, places and the messages of exceptions are written on every screen."""

import re
from collections.abc import Collection, Iterable
from pathlib import PurePath

from ddpquiz.events.operation import ANY_SOURCE
from ddpquiz.plural import plural

_MOST_PARTS = 12  # of a list of ranks that is written out
_MOST_ARGUMENTS = 120  # characters of arguments that a message quotes
_WRONG_ARGUMENTS = re.compile(
    r"(?P<name>\w*)\(\): incompatible (?:function|constructor) arguments\..*?\nInvoked with: (?P<given>.*)", re.DOTALL
)
_OBJECT = re.compile(r"^<[^<>]* object at 0x[0-9a-f]+>(?:, )?")


def format_bytes(amount: float) -> str:
    """Write a number of bytes: `96 bytes`, `1.2 KiB`, `25 MiB`."""
    if amount < 1024:
        return plural(round(amount), "byte")
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 999.5:
            return f"{_three_digits(amount)} {unit}"
    return f"{_three_digits(amount / 1024)} TiB"


def format_seconds(seconds: float) -> str:
    """Write a duration: `340 µs`, `1.2 ms`, `3.4 s`."""
    for unit, scale in (("µs", 1e6), ("ms", 1e3)):
        if 0 < seconds * scale < 999.5:
            return f"{_three_digits(seconds * scale)} {unit}"
    return f"{_three_digits(seconds)} s"


def _three_digits(number: float) -> str:
    """Write a number with three digits at least, and without zeros at the end of a fraction."""
    text = f"{number:,.{0 if number >= 99.95 else 1 if number >= 9.995 else 2}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def list_ranks(ranks: Collection[int]) -> str:
    """Write ranks without the word: `2`, `0-3`, `0 and 1`, `0, 2 and 5-7`."""
    if ANY_SOURCE in ranks:
        return "any rank"
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [part for run in runs for part in ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else map(str, run))]
    if len(parts) > _MOST_PARTS:
        return f"{', '.join(parts[:_MOST_PARTS])} and others, {len(ranks):,} in all"
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)


def format_ranks(ranks: Collection[int]) -> str:
    """Write ranks with the word: `rank 2`, `ranks 0-3`, `ranks 0, 2 and 5-7`, `no rank`."""
    return f"rank{'s' * (len(ranks) != 1)} {list_ranks(ranks)}" if ranks else "no rank"


def format_shapes(shapes: Iterable[tuple[int, ...]]) -> str:
    """Write the shapes of tensors: `2x3 4`; a scalar is `1`."""
    return " ".join("x".join(map(str, shape)) or "1" for shape in shapes)


def format_place(file: str, line: int) -> str:
    """Write a line of a file without its folder: `train.py:12`."""
    return f"{PurePath(file).name}:{line}"


def in_one_line(message: str) -> str:
    """The message of an exception in a line: its first one, unless that stops before what is wrong.

    A function of torch in C++ first lists the types that it takes, and then how it was called; a check of arguments in
    torch says in its second line what it got.
    """
    message = message.strip()
    if found := _WRONG_ARGUMENTS.match(message):
        given = _OBJECT.sub("", " ".join(found["given"].split()))
        given = given if len(given) <= _MOST_ARGUMENTS else f"{given[:_MOST_ARGUMENTS]}..."
        name = "a function of torch" if found["name"] in ("", "__init__") else f"{found['name']}()"
        return f"{name} does not take arguments of these types: {given}"
    first, _, rest = message.partition("\n")
    second = rest.partition("\n")[0].strip()
    return f"{first} {second}" if second.startswith("but got ") else first
