"""The calls of new_group, which all ranks must make for the same groups in the same order."""

from collections import Counter

from ddpquiz.analysis.events import Forming

LIMIT = 1000  # calls that some rank has not made yet, or that differ


class GroupCalls:
    """Puts the k-th calls of new_group of all ranks together; drops them once all ranks have asked for one group.

    `open` are the others, by number and rank. A call that only the members of its group make does not count. `inside`
    are the ranks that wait in a call, or did when they ended.
    """

    def __init__(self) -> None:
        self.inside: set[int] = set()
        self.open: dict[int, dict[int, Forming]] = {}
        self._counts: Counter[int] = Counter()  # calls of a rank

    def add(self, event: Forming, ranks: int) -> None:
        """Count a call of a run of some ranks when it begins."""
        if event.done:
            self.inside.discard(event.rank)
            return
        self.inside.add(event.rank)
        if not event.members:
            return
        number = self._counts[event.rank]
        self._counts[event.rank] += 1
        if number not in self.open and len(self.open) >= LIMIT:
            return
        calls = self.open.setdefault(number, {})
        calls[event.rank] = event
        if len(calls) == ranks and len({each.members for each in calls.values()}) == 1:
            del self.open[number]

    def restart(self, rank: int) -> None:
        """Note that a rank begins its script again."""
        del self._counts[rank]
        self.inside.discard(rank)
        for calls in self.open.values():
            calls.pop(rank, None)
