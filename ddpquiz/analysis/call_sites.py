"""Which call sites of one run are those of another, although lines of the script may have moved between the runs."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

MOST = (
    1_000_000  # pairs of call sites of one file that are weighed; beyond that, only sites in the same line are paired
)


@dataclass(frozen=True, order=True, slots=True)
class CallSite:
    """A line that calls an operator; `file` is the name without a folder, and empty for the script itself."""

    file: str
    line: int
    op: str


Pair = tuple[CallSite | None, CallSite | None]


def pair(first: Iterable[CallSite], second: Iterable[CallSite]) -> list[Pair]:
    """Return the call sites of two runs in pairs; a site that only one run has stands alone.

    Sites of a file keep their order and operator; of all ways to pair them, the one with the most pairs is taken, and
    among these the one with the most sites that did not move (a longest common subsequence, with weights).
    """
    files: dict[str, tuple[list[CallSite], list[CallSite]]] = defaultdict(lambda: ([], []))
    for number, sites in enumerate((first, second)):
        for site in sorted(sites):
            files[site.file][number].append(site)
    return [found for sites in files.values() for found in _pair_file(*sites)]


def _pair_file(first: list[CallSite], second: list[CallSite]) -> list[Pair]:
    if len(first) * len(second) > MOST:
        both = set(first) & set(second)
        alone: list[Pair] = [(site, None) for site in first if site not in both]
        return [*((site, site) for site in both), *alone, *((None, site) for site in second if site not in both)]
    best = _weigh(first, second)
    pairs: list[Pair] = []
    at, other = 0, 0
    while at < len(first) or other < len(second):
        if at < len(first) and best[at][other] == best[at + 1][other]:
            pairs.append((first[at], None))
            at += 1
        elif other < len(second) and best[at][other] == best[at][other + 1]:
            pairs.append((None, second[other]))
            other += 1
        else:
            pairs.append((first[at], second[other]))
            at, other = at + 1, other + 1
    return pairs


def _weigh(first: list[CallSite], second: list[CallSite]) -> list[list[int]]:
    """Return, for each place in both lists, what the best pairs from there on weigh."""
    pairs = len(first) + len(second) + 1  # one more pair outweighs any number of sites that did not move
    best = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for at in range(len(first) - 1, -1, -1):
        for other in range(len(second) - 1, -1, -1):
            mine, theirs = first[at], second[other]
            weight = pairs + (mine.line == theirs.line) if mine.op == theirs.op else -1
            best[at][other] = max(best[at + 1][other], best[at][other + 1], weight + best[at + 1][other + 1])
    return best
