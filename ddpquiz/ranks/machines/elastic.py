"""A run under torchrun's agent: what is different when it starts the ranks, here and on other machines."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ddpquiz.analysis import root_cause
from ddpquiz.analysis.events import Exited, Output, Started
from ddpquiz.curriculum.demo_scripts import read_demo
from ddpquiz.ranks.machines.cluster import AGENT, Cluster
from ddpquiz.ranks.run import Run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ddpquiz.analysis.events import Event
    from ddpquiz.analysis.mismatch import Mismatch
    from ddpquiz.ranks.launch import Request

LOST = "Rank {rank} lost another node: its ranks have failed, or it is gone ({message})."
ELSEWHERE = "A rank on another node may be the one that does not come: look there. --timeout says how long to wait."
LOOK = "Look at what the other node says; the reason is there."


def begin(request: Request) -> Run:
    """Start a run, under torchrun's agent if several machines or restarts are asked for."""
    return ElasticRun(request) if request.cluster else Run(request)


def of_demo(path: Path) -> Cluster | None:
    """Return what torchrun's agent does for a demo whose own command has restarts; None where there is no agent."""
    restarts = read_demo(path).restarts
    return Cluster(restarts=restarts) if restarts else None


class ElasticRun(Run):
    """The ranks of this machine in a run that torchrun's agent leads; it says when a failed rank ends the run."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._cluster = request.cluster or Cluster()
        self._said: dict[str, list[str]] = {"stdout": [], "stderr": []}  # by the agent
        self._status = 0  # with which it ended

    def _understand(self, rank: int, carries: str, data: bytes) -> list[Event]:
        events = super()._understand(rank, carries, data)
        if rank != AGENT or carries == "events":
            return [self._with_last_words(event) for event in events]
        for event in [*events, *self._outputs(AGENT, math.inf)]:
            if isinstance(event, Output):
                self._said[event.stream].append(event.text)
            elif isinstance(event, Exited):
                self._status = event.status
        return []

    def _with_last_words(self, event: Event) -> Event:
        """Add to an exit, of which the rank's shepherd tells, what only we know."""
        if not isinstance(event, Exited):
            return event
        killed = event.status == -9 and self._processes.memory_ran_out()
        stopped = event.stopped or bool(self._stopped)
        return replace(event, stack=self._watchdog.last_words(event.rank), memory=killed, stopped=stopped)

    def _note(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Started):
                self._processes.came(event.rank, event.pid)
                if event.restart > self.seen.restart:  # whatever was before, the agent has started the ranks again
                    self._failed_at = None
            elif isinstance(event, Exited):
                self._processes.went(event.rank)
            super()._note([event])

    def _watch(self) -> list[Event]:
        """Find out in the end whether a hang made the last ranks fail: there are no more restarts."""
        if self._processes.over and self.began.restarts and self._failed_at is not None and not self._stopped:
            return self._gave_up()
        return super()._watch()

    def _cause(self, unlike: Sequence[Mismatch]) -> root_cause.Cause:
        found = super()._cause(unlike)
        raised = self.seen.raised.get(found.rank) if found.rank is not None else None
        if self._status > 0 and (said := self._said["stdout"]):
            return root_cause.Cause(why=said[-1])
        if self._cluster.nodes > 1 and raised and root_cause.CONSEQUENCE.search(raised.message):
            message = raised.message.strip().partition("\n")[0]
            return root_cause.Cause(found.rank, LOST.format(rank=found.rank, message=message), LOOK)
        if self._cluster.nodes > 1 and self.seen.hung:
            return replace(found, mend=ELSEWHERE)
        if not found.why and self._status > 0:
            last = [line for line in self._said["stderr"] if line.strip()][-1:] or [f"exit status {self._status}"]
            return root_cause.Cause(why=f"torchrun's agent has failed: {last[0]}")
        return found
