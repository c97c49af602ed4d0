"""How a count and its noun are written, on every screen and in every message."""


def plural(count: int, one: str, many: str = "") -> str:
    """Write a count with its noun: `1 card`, `2,000 cards`; `many` is the plural where it is not `one` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
