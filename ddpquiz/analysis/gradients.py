"""How DDP's gradients were synchronised: in which backward passes, and between which steps of an optimizer."""

from __future__ import annotations

from dataclasses import dataclass, field

from ddpquiz.analysis.events import Event, Issued, Marked


@dataclass(slots=True)
class Rank:
    """What one rank has seen so far."""

    steps: int = 0  # of optimizers, after a backward pass that was synchronised
    early: int = 0  # backward passes that were synchronised before the last one of their step
    early_bytes: int = 0
    inside: int = 0  # passes that were synchronised inside no_sync
    early_place: tuple[str, int] = ("", 0)  # the line of such a pass
    inside_place: tuple[str, int] = ("", 0)
    _since: list[int] = field(default_factory=list)  # bytes of each pass since the last step
    _place: tuple[str, int] = ("", 0)  # the line of the last pass
    _bucket: int = -1
    _off: bool = False

    def reduce(self, event: Issued, bucket: int) -> None:
        """DDP all-reduces a bucket."""
        if bucket <= self._bucket or not self._since:
            if self._since and not self.early_place[1]:
                self.early_place = self._place
            self._place = (event.file, event.line)
            self._since.append(0)
            if self._off:
                self.inside += 1
                self.inside_place = self._place
        self._bucket = bucket
        self._since[-1] += event.bytes

    def mark(self, what: str) -> None:
        """The script passes a point."""
        if what != "step":
            self._off = what == "no_sync"
        elif self._since:
            self.steps += 1
            self.early += len(self._since) - 1
            self.early_bytes += sum(self._since[:-1])
            self._since, self._bucket = [], -1


@dataclass
class Gradients:
    """What each rank has seen."""

    ranks: dict[int, Rank] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Issued(bucket=int(bucket), rank=rank):
                self.ranks.setdefault(rank, Rank()).reduce(event, bucket)
            case Marked(rank=rank, what=what):
                self.ranks.setdefault(rank, Rank()).mark(what)
