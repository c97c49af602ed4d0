"""The operations of a run that are not finished, and those that failed."""

from ddpquiz.analysis.collective import Collective

LIMIT = 2000  # failed operations that stay in memory


class Unfinished:
    """Operations that some rank is in or has not entered yet, and those that failed on all ranks that had entered."""

    def __init__(self) -> None:
        self.open: dict[Collective, None] = {}  # in the order of their first calls
        self.failed: dict[Collective, None] = {}

    @property
    def in_order(self) -> list[Collective]:
        """All of them, in the order of their first calls."""
        return sorted({**self.failed, **self.open}, key=lambda each: min(call.issued for call in each.calls.values()))

    def fail(self, collective: Collective) -> None:
        self.open.pop(collective, None)
        self.failed[collective] = None
        if len(self.failed) > LIMIT:
            del self.failed[next(iter(self.failed))]

    def drop_rank(self, rank: int) -> None:
        """Remove the operations that a rank had entered before it was restarted."""
        for each in (self.open, self.failed):
            for collective in [collective for collective in each if rank in collective.calls]:
                del each[collective]
