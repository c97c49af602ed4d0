"""What a run has shown so far, put together from its events: pure, so it serves a live run and a saved one alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ddpquiz.ranks.events import (
    Began,
    Claimed,
    ClaimText,
    End,
    Ended,
    Event,
    Exited,
    Hung,
    Issued,
    Joining,
    Note,
    Output,
    Raised,
    Result,
)

KEPT = 2000  # lines of each rank, and numbers of each label, that are kept


@dataclass
class Seen:
    """Rows of labelled values with a column a rank, claims, and where each rank is."""

    began: Began | None = None
    rows: dict[str, dict[int, list[str]]] = field(default_factory=dict)  # label -> rank -> its values, oldest first
    lines: list[Output] = field(default_factory=list)  # what has no label
    claims: dict[int, dict[int, bool]] = field(default_factory=dict)  # line -> rank -> whether it held
    waits: dict[int, dict[int, str]] = field(default_factory=dict)  # rank -> open operations, by number
    raised: dict[int, Raised] = field(default_factory=dict)
    exited: dict[int, Exited] = field(default_factory=dict)
    brought: dict[int, Issued] = field(default_factory=dict)  # rank -> the last operation that it called
    got: dict[int, tuple[str, ...]] = field(default_factory=dict)  # rank -> what that operation left there
    notes: list[str] = field(default_factory=list)
    hung: Hung | None = None
    end: End | None = None

    def add(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Began():
                self.began = event
            case Output(label=str(label), rank=rank):
                values = self.rows.setdefault(label, {}).setdefault(rank, [])
                values.append(event.value or "")
                del values[:-KEPT]
            case Output():
                self.lines.append(event)
                del self.lines[:-KEPT]
            case Claimed(line=line, rank=rank, held=held):
                ranks = self.claims.setdefault(line, {})
                ranks[rank] = ranks.get(rank, True) and held
            case Issued(rank=rank, number=number, op=op):
                self.waits.setdefault(rank, {})[number] = op
                self.brought[rank] = event
                self.got.pop(rank, None)
            case Result(rank=rank, number=number, after=after):
                if rank in self.brought and self.brought[rank].number == number:
                    self.got[rank] = after
            case Joining(rank=rank, done=done):
                self.waits.setdefault(rank, {}).update({} if done else {0: "init_process_group"})
                if done:
                    self.waits[rank].pop(0, None)
            case Ended(rank=rank, number=number):
                self.waits.setdefault(rank, {}).pop(number, None)
            case Raised(rank=rank):
                self.raised[rank] = event
            case Exited(rank=rank):
                self.exited[rank] = event
                self.waits.pop(rank, None)
            case Note(text=text):
                if text not in self.notes:  # every rank has the same to say
                    self.notes.append(text)
            case Hung():
                self.hung = event
            case End():
                self.end = event

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.began.ranks if self.began else 0

    def verdicts(self) -> list[tuple[ClaimText, Literal["proven", "broken", "not reached"], list[int]]]:
        """Return each claim with its verdict and the ranks that speak for it."""
        found: list[tuple[ClaimText, Literal["proven", "broken", "not reached"], list[int]]] = []
        for claim in self.began.claims if self.began else ():
            held = self.claims.get(claim.line, {})
            broken = sorted(rank for rank, good in held.items() if not good)
            if broken:
                found.append((claim, "broken", broken))
            elif held:
                found.append((claim, "proven", sorted(held)))
            else:
                found.append((claim, "not reached", []))
        return found

    def waits_in(self, rank: int) -> str:
        """Return the communication that a rank is in, or nothing."""
        waits = self.waits.get(rank)
        return waits[min(waits)] if waits else ""

    def doing(self, rank: int) -> str:
        """Say where a rank is: waiting in an operation, computing, or gone."""
        if rank in self.exited:
            return "done" if self.exited[rank].status == 0 else "failed"
        waits_in = self.waits_in(rank) or "computing"
        return "joining" if waits_in == "init_process_group" else waits_in  # short enough for a column
