"""Whether a rank that an operation blocks is waiting, or communicating."""

from dataclasses import dataclass

from ddpquiz.analysis.collective import Call, Collective


@dataclass(slots=True)
class Block:
    """A time during which a rank could not go on, because of a call; without one, it formed a group in `op`.

    The rank is *waiting* until the last member has entered the operation, and *communicating* from then until the
    operation is done. A member that leaves before the last one has entered (the root of a broadcast may) did not wait.
    Where a GPU works, its times count and not those of the calls.
    """

    start: float
    end: float | None = None
    collective: Collective | None = None
    call: Call | None = None
    op: str = ""

    def is_final(self, on_gpu: bool) -> bool:
        """Return True if no later event changes it."""
        failed = self.call is not None and self.call.failed
        return self.end is not None and (self.collective is None or failed or is_known(self.collective, on_gpu))

    def waits_until(self, start: float, end: float) -> float:
        """Return when the rank stops waiting, if it is blocked from `start` to `end` as far as is known."""
        if self.collective is None or self.call is None:
            return end
        started = self.collective.started
        if self.call.failed or (self.end is None and (started is None or self.collective.differs)):
            return end  # it never communicated
        return max(started, start) if started is not None and started <= end else start


def is_known(collective: Collective, on_gpu: bool) -> bool:
    """Return True if it is known when the last member entered; GPUs report that when an operation ends."""
    return collective.complete and (not on_gpu or collective.ended is not None)
