"""Which calls on different ranks are the same operation."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ddpquiz.analysis.collective import PAIRED, Call, Collective

if TYPE_CHECKING:
    from ddpquiz.analysis.events import Issued

ANYBODY = -1  # stands among the members of a receive until it is known who sends

Group = tuple[int, str, tuple[int, ...]]  # how often the rank has joined, the group's name, its members


class Matching:
    """Puts each call where it belongs.

    The k-th collective that each member issues in a group is the same one; so is the k-th send from a to b with the
    k-th receive on b from a. A receive from anybody is one of these once it has ended, when it is known who sent.
    """

    def __init__(self) -> None:
        self.here: frozenset[int] = frozenset()  # ranks that can be heard; without any, all can
        self._joins: dict[int, int] = {}  # a group that is made anew may have the name of an old one
        self._counts: dict[tuple[Group, int], int] = {}  # collectives that a rank has issued in a group
        self._coming: dict[tuple[Group, int], Collective] = {}  # collectives that some member has not entered
        self._channels: dict[tuple[Group, int, int], deque[Collective]] = {}  # sends, or receives, without the other
        self._from_anybody: dict[tuple[int, int], Group] = {}  # receives of which it is not known, by rank and number

    def join(self, rank: int) -> None:
        """A rank makes its groups anew."""
        self._joins[rank] = self._joins.get(rank, 0) + 1

    def place(self, event: Issued, call: Call) -> tuple[Collective, bool]:
        """Put a call into the collective to which it belongs, and return that, and whether it is a new one."""
        group: Group = (self._joins.get(event.rank, 0), event.group, event.members)
        found = self._partner(event, group) if call.op in PAIRED else self._coming_one(event, group)
        collective = found or self._new(event, call, group)
        collective.enter(event.rank, call)
        if collective.complete and call.op not in PAIRED:
            del self._coming[group, collective.index]
        return collective, found is None

    def _coming_one(self, event: Issued, group: Group) -> Collective | None:
        index = self._counts.get((group, event.rank), 0)
        self._counts[group, event.rank] = index + 1
        return self._coming.get((group, index))

    def _new(self, event: Issued, call: Call, group: Group) -> Collective:
        if call.op not in PAIRED:
            index = self._counts[group, event.rank] - 1
            made = self._coming[group, index] = Collective(event.group, self._heard(event.members), index)
            return made
        source, to = _ends(event)
        made = Collective(event.group, self._heard((source, to)), 0)
        if len(made.members) < 2:
            return made
        if source == ANYBODY:
            self._from_anybody[to, call.number] = group
        else:
            self._channel(group, source, to).append(made)
        return made

    def _partner(self, event: Issued, group: Group) -> Collective | None:
        """Return the other half of a point-to-point operation, if it was issued already."""
        source, to = _ends(event)
        return self._other_half(self._channel(group, source, to), event.rank) if source != ANYBODY else None

    def _heard(self, members: tuple[int, ...]) -> tuple[int, ...]:
        """Leave out the ranks of other machines, of which nothing is heard."""
        return tuple(rank for rank in members if rank in self.here or rank == ANYBODY) if self.here else members

    def resolve(self, collective: Collective, rank: int, call: Call, source: int) -> Collective | None:
        """A receive from anybody has got something from `source`; return the send that it belongs to, if there is one.

        The two are one operation from then on.
        """
        group = self._from_anybody.pop((rank, call.number), None)
        if group is None:
            return None
        channel = self._channel(group, source, rank)
        send = self._other_half(channel, rank)
        collective.members = self._heard((source, rank))
        if send is None and len(collective.members) == 2:
            channel.append(collective)
        if send is None:
            return None
        send.enter(rank, call)
        collective.calls = send.calls
        collective.refresh()
        return send

    def _channel(self, group: Group, source: int, to: int) -> deque[Collective]:
        return self._channels.setdefault((group, source, to), deque())

    @staticmethod
    def _other_half(channel: deque[Collective], rank: int) -> Collective | None:
        return channel.popleft() if channel and rank not in channel[0].calls else None


def _ends(event: Issued) -> tuple[int, int]:
    peer = ANYBODY if event.peer is None or event.peer < 0 else event.peer
    return (event.rank, peer) if event.op == "send" else (peer, event.rank)
