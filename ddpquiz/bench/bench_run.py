"""Measures collectives on ranks of this machine: starts them in the warm server and collects their samples."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ddpquiz.errors import UserError
from ddpquiz.events.event import Output
from ddpquiz.ranks import device, inside
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run
from ddpquiz.ranks.server_connection import server

_SCRIPT = Path(inside.__file__).with_name("collective_bench.py")


@dataclass(slots=True)
class BenchSamples:
    """The samples of one number of ranks so far: seconds by operation and size, and why operations cannot run."""

    ranks: int
    device: str
    backend: str
    reason: str
    torch: str
    seconds: defaultdict[tuple[str, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    refused: dict[str, str] = field(default_factory=dict)

    def add(self, op: str, size: int, seconds: Sequence[float], error: str) -> None:
        """Add the seconds of some calls, or why it could not be called."""
        if error:
            self.refused[op] = error
        else:
            self.seconds[op, size] += seconds

    def of_op(self, op: str) -> dict[int, list[float]]:
        """The samples of an operation by size, the smaller sizes first."""
        return {size: each for (name, size), each in sorted(self.seconds.items()) if name == op}


class BenchRun:
    """One number of ranks, measured; `samples` has all that was measured so far, also after an interruption."""

    def __init__(self, wanted: str, ranks: int, ops: Sequence[str], sizes: Sequence[int], seconds: float) -> None:
        machine = server().machine
        chosen = device.choose_device(wanted, ranks, machine)
        self.samples = BenchSamples(ranks, chosen.kind, chosen.backend, chosen.reason, machine.torch)
        args = (chosen.kind, ",".join(ops), ",".join(map(str, sizes)), str(seconds))
        self._request = Request(_SCRIPT, args=args, ranks=ranks, device=chosen.kind, timeout=None, is_watched=False)

    def follow(self) -> Iterator[str]:
        """Measure, and yield often what is measured; UserError if the ranks fail. Stops them if it is closed."""
        run = Run(self._request)
        doing = "starting ranks"
        try:
            while not run.over:
                for event in run.read(0.2):
                    if isinstance(event, Output) and event.stream == "stdout" and event.text.startswith("["):
                        op, size, seconds, error = json.loads(event.text)
                        self.samples.add(op, size, seconds, error)
                        doing = op
                yield doing
        finally:
            run.close("The measurement was stopped.")
        if run.seen.end and not run.seen.end.ok:
            raise UserError(f"The ranks that measure have failed: {run.seen.end.why} Run `ddpquiz doctor`.")


def default_counts(wanted: str) -> list[int]:
    """The numbers of ranks that are measured by default: 2 and 4, or 2 and one for each GPU."""
    machine = server().machine
    return sorted({2, 4 if wanted == "cpu" else device.default_ranks(machine)})
