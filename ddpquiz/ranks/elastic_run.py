"""Begins every run; with restarts, torchrun's agent stands between: it starts the ranks, and starts them again."""

from dataclasses import replace

from ddpquiz.events.event import End, Event, Exited, Output, Started
from ddpquiz.ranks.forks import signal_if_handled
from ddpquiz.ranks.messages import PipeData, RankExited
from ddpquiz.ranks.processes import Processes
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

AGENT = -1  # the number of the agent among the ranks that it starts


def begin(request: Request) -> Run:
    """Start a run, under torchrun's agent if failed ranks may be restarted."""
    return ElasticRun(request) if request.restarts else Run(request)


class _ElasticProcesses(Processes):
    """The agent, which the server starts, and the ranks, which the agent starts."""

    def _members(self, ranks: int) -> list[int]:
        return [*range(ranks), AGENT]

    def _members_started(self) -> list[int]:
        return [AGENT]

    def living_ranks(self) -> list[int]:
        """The ranks whose processes live."""
        return [rank for rank in self.pids if rank != AGENT]

    def signal(self, number: int, ranks: tuple[int, ...] | None = None) -> None:
        """Send a signal to some ranks, or to all."""
        for rank in self.living_ranks() if ranks is None else ranks:
            signal_if_handled(self.pids[rank], number)


class ElasticRun(Run):
    """The ranks of a run that torchrun's agent leads; the agent ends it when no restart is left."""

    processes_class = _ElasticProcesses

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._agent_lines: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._agent_status = 0

    def _events_of(self, message: PipeData | RankExited) -> list[Event]:
        events = super()._events_of(message)
        if message.rank != AGENT or getattr(message, "pipe", "") == "events":
            return [self._completed(event) for event in events]
        for event in [*events, *self._reader.rest(AGENT)]:
            if isinstance(event, Output):
                self._agent_lines[event.stream].append(event.text)
            elif isinstance(event, Exited):
                self._agent_status = 0 if self._stopped else event.status
        return []

    def _completed(self, event: Event) -> Event:
        """Add to an exit, which the rank's parent reports, what only the launcher knows."""
        if not isinstance(event, Exited):
            return event
        stopped = event.stopped or bool(self._stopped)
        stack, memory = self._watchdog.crash_stack(event.rank), self._ran_out(event.status)
        return replace(event, stack=stack, memory=memory, stopped=stopped)

    def _note(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Started):
                self._processes.add_rank(event.rank, event.pid)
                if event.restart > self.seen.restart:  # whatever failed, the agent has started the ranks again
                    self._failed_at = None
            elif isinstance(event, Exited):
                self._processes.remove_rank(event.rank)
            super()._note([event])

    def _watch(self) -> list[Event]:
        """Find out at the end whether a hang made the last ranks fail: there are no more restarts."""
        if self._processes.over and self.began.restarts and self._failed_at is not None and not self._stopped:
            return self._hang_that_failed()
        return super()._watch()

    def _end(self) -> End:
        end = super()._end()
        if end.why or not self._agent_status:
            return end
        lines = [line for line in self._agent_lines["stderr"] if line.strip()]
        how = f"signal {-self._agent_status}" if self._agent_status < 0 else f"exit status {self._agent_status}"
        return replace(end, ok=False, why=f"torchrun's agent has failed: {(lines or [how])[-1]}")
