"""What the ranks of a job recorded, each in a file of its own, put together: one run, whoever started it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ddpquiz.events.event import Event


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The events of a job in the order in which they happened, and what is not known.

    `present` are the ranks whose files were read; `source` says what recorded the job. `clock_error` bounds in seconds
    how far the clocks of two ranks may be apart. `until` is how long nothing else happened: None if the last event is
    the end of what is known, infinity if the job is stuck for good. `seen` says it for single ranks, where their
    records end at different times. `notes` are sentences on what could not be read.
    """

    events: tuple[Event, ...]
    ranks: int
    present: tuple[int, ...]
    source: str
    clock_error: float = 0.0
    until: float | None = None
    seen: Mapping[int, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks without a file."""
        return tuple(rank for rank in range(self.ranks) if rank not in self.present)
