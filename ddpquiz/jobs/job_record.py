"""What is known of a job, as plain data: what its ranks recorded, whoever started it, and what its logs say."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ddpquiz.events.event import Began, Event
from ddpquiz.jobs.log_file import JobLog
from ddpquiz.jobs.ras import RasReport
from ddpquiz.jobs.stacks import JobStacks


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The events of a job in the order in which they happened, and what is not known.

    `present` are the ranks whose files were read; `source` says what recorded the job. `clock_error` bounds in seconds
    how far the clocks of two ranks may be apart. `until` is how long nothing else happened: None if the last event is
    the end of what is known, infinity if the job is stuck for good. `seen` says it for single ranks, where their
    records end at different times. `notes` are sentences on what could not be read, and those that ranks wrote. `log`
    holds what plain logs say, `stacks` where ranks stood when somebody looked, and `ras` what NCCL knew of its
    communicators then. `cut` are the ranks whose files end within a line, and `unread` those whose files cannot be
    read.
    """

    events: tuple[Event, ...]
    ranks: int
    present: tuple[int, ...]
    source: str
    clock_error: float = 0.0
    until: float | None = None
    seen: Mapping[int, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    log: JobLog | None = None
    stacks: JobStacks | None = None
    ras: RasReport | None = None
    cut: tuple[int, ...] = ()
    unread: tuple[int, ...] = ()

    @property
    def is_unrecorded(self) -> bool:
        """Whether nothing of the job was recorded: there are only logs, stacks, or reports of RAS."""
        return len(self.events) <= 1 and any(each is not None for each in (self.log, self.stacks, self.ras))

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks without a file."""
        return tuple(rank for rank in range(self.ranks) if rank not in self.present)


def record_of_stacks(seen: JobStacks, source: str) -> JobRecord:
    """A job of which nothing is known but where its ranks stand; `source` says where that was read."""
    began = Began("", (), max(1, seen.ranks), "cpu", "unknown", "as stacks of the job say")
    return JobRecord((began,), seen.ranks, tuple(seen.of), source, stacks=seen)
