"""How DDP's gradients were synchronised: in which backward passes, and between which steps of an optimizer."""

from __future__ import annotations

from dataclasses import dataclass, field

from ddpquiz.analysis.events import Event, Issued, Marked


@dataclass(slots=True)
class RankGradients:
    """The synchronised backward passes of one rank."""

    steps: int = 0  # of optimizers, after a synchronised backward pass
    early: int = 0  # synchronised passes before the last one of their step
    early_bytes: int = 0
    inside: int = 0  # passes that were synchronised inside no_sync
    early_place: tuple[str, int] = ("", 0)  # the line of such a pass
    inside_place: tuple[str, int] = ("", 0)
    _since_step: list[int] = field(default_factory=list)  # bytes of each pass since the last step
    _place: tuple[str, int] = ("", 0)  # the line of the last pass
    _bucket: int = -1
    _in_no_sync: bool = False

    def reduce(self, event: Issued, bucket: int) -> None:
        """Count a bucket that DDP all-reduces."""
        if bucket <= self._bucket or not self._since_step:
            if self._since_step and not self.early_place[1]:
                self.early_place = self._place
            self._place = (event.operation.file, event.operation.line)
            self._since_step.append(0)
            if self._in_no_sync:
                self.inside += 1
                self.inside_place = self._place
        self._bucket = bucket
        self._since_step[-1] += event.operation.bytes

    def mark(self, what: str) -> None:
        """Count a step of the optimizer, or note that no_sync begins or ends."""
        if what != "step":
            self._in_no_sync = what == "no_sync"
        elif self._since_step:
            self.steps += 1
            self.early += len(self._since_step) - 1
            self.early_bytes += sum(self._since_step[:-1])
            self._since_step, self._bucket = [], -1


@dataclass
class Gradients:
    """The synchronised backward passes of all ranks."""

    ranks: dict[int, RankGradients] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Add the next event of the run."""
        match event:
            case Issued(rank=rank) if event.operation.bucket is not None:
                self.ranks.setdefault(rank, RankGradients()).reduce(event, event.operation.bucket)
            case Marked(rank=rank, what=what):
                self.ranks.setdefault(rank, RankGradients()).mark(what)
