"""What DDP's complaint about models of different sizes means: which ranks have how many parameters."""

import re
from collections import defaultdict
from collections.abc import Iterable

from ddpquiz.analysis.formatting import format_ranks, plural

_COUNTS = re.compile(
    r"DDP expects same model across all ranks, but Rank (\d{1,6}) has (\d{1,12}) params, "
    r"while rank (\d{1,6}) has inconsistent (\d{1,12}) params"
)
MEND = "DDP needs the same model on every rank. Find out what makes it depend on the rank there."


def different_models(
    message: str, messages: Iterable[str], ranks: int, where: str
) -> tuple[int | None, str, str] | None:
    """Return the rank at fault if there is one, what differs, and what to do; None if a message says nothing of it.

    `messages` are those of the exceptions of all ranks: each names the numbers of two of them.
    """
    if not _COUNTS.search(message):
        return None
    counts: dict[int, int] = {}
    for text in messages:
        for one, mine, other, theirs in _COUNTS.findall(text):
            counts.update({int(one): int(mine), int(other): int(theirs)})
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for rank in sorted(counts):
        groups[counts[rank]].append(rank)
    usual = max(groups, key=lambda count: len(groups[count]))
    odd = [rank for rank, count in counts.items() if count != usual]
    parts = [
        f"{format_ranks(members)} {'has' if len(members) == 1 else 'have'} {plural(count, 'parameter')}"
        for count, members in sorted(groups.items(), key=lambda group: len(group[1]))
    ]
    whole = len(counts) == ranks and len(parts) == 2 and len(groups[usual]) > len(odd)
    if whole:
        parts[-1] = f"the {'others' if len(groups[usual]) > 1 else 'other'} {usual:,}"
    at_fault = odd[0] if len(odd) == 1 and len(groups[usual]) > 1 else None
    return at_fault, f"The models differ at {where}: {', '.join(parts)}.", MEND
