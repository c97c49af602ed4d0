"""Which operations of several dumps belong together, after each rank's ring buffer has dropped its oldest entries.

The analysis counts the operations of a group on each member from 0. So an operation stays only if every member that
has issued it still has an entry of it.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ddpquiz.analysis.operation import POINT_TO_POINT
from ddpquiz.analysis.records.dump_entry import COALESCED, Dump, DumpedCall, DumpEntry

Channel = tuple[int, int]  # from which rank to which


@dataclass(slots=True, eq=False)
class DumpedGroup:
    """A process group, and what its present members did in it. `is_inferred` if no dump names the members.

    `last` is the number of the last collective that a member is known to have issued, `latest` when the last member
    issued a collective, in nanoseconds, by its number. `aligned` are the collectives that stay, and all present members
    have issued those up to `least`.
    """

    name: str
    members: tuple[int, ...]
    is_inferred: bool
    last: dict[int, int] = field(default_factory=dict)
    latest: dict[int, int] = field(default_factory=dict)
    aligned: frozenset[int] = frozenset()
    least: int = 0
    _holders: Counter[int] = field(default_factory=Counter)  # how many members have an entry of a collective
    _channels: defaultdict[Channel, dict[int, list[DumpEntry]]] = field(default_factory=lambda: defaultdict(dict))
    _last_succeeded: int = 0

    def add(self, rank: int, entries: Sequence[DumpEntry]) -> None:
        """Count the entries of a member."""
        held = set()
        for entry in entries:
            if entry.point_to_point:
                self._add_to_channel(rank, entry)
                continue
            sequence = entry.sequence
            self.last[rank] = max(self.last.get(rank, 0), sequence)
            self.latest[sequence] = max(self.latest.get(sequence, 0), entry.created)
            if entry.may_have_succeeded:
                self._last_succeeded = max(self._last_succeeded, sequence)
            if entry.retained:
                held.add(sequence)
        self._holders.update(held)

    def peer(self, call: DumpedCall) -> int | None:
        """Return the other rank of a send or receive, if the dump names it."""
        return None if call.peer is None or call.peer >= len(self.members) else self.members[call.peer]

    def align(self, dumps: Mapping[int, Dump]) -> None:
        """Find the operations that every present member which issued them still has."""
        present = [rank for rank in self.members if rank in dumps]
        for rank in present:
            if rank not in self.last and not dumps[rank].is_whole:
                self.last[rank] = self._last_succeeded  # a collective that has succeeded was issued by all
        self.least = min(self.last.get(rank, 0) for rank in present)
        lasts = sorted(self.last.values())
        self.aligned = frozenset(
            sequence
            for sequence, holders in self._holders.items()
            if holders == len(lasts) - bisect_left(lasts, sequence)
        )
        for ends, entries in self._channels.items():
            if all(rank in dumps for rank in ends) and not all(dumps[rank].is_whole for rank in ends):
                _align_ends([entries.get(rank, []) for rank in ends])

    def _add_to_channel(self, rank: int, entry: DumpEntry) -> None:
        peer = self.peer(entry.call)
        if peer is not None and entry.call.op in POINT_TO_POINT:
            channel = (rank, peer) if entry.call.op == "send" else (peer, rank)
            self._channels[channel].setdefault(rank, []).append(entry)


def _align_ends(sides: Sequence[Sequence[DumpEntry]]) -> None:
    """Leave as many ended operations on each side of a channel, the last ones."""
    ended = [[entry for entry in side if entry.has_ended] for side in sides]
    fewest = min(map(len, ended))
    for side in ended:
        for entry in side[: len(side) - fewest]:
            entry.retained = False


def join_coalesced(dump: Dump) -> None:
    """Give the operations that were started together the end of the entry that closes them, and drop that entry.

    The first of them may be lost: then what is left of them is not retained.
    """
    parts: defaultdict[tuple[str, bool, int], list[DumpEntry]] = defaultdict(list)
    kept: list[DumpEntry] = []
    first = None if dump.is_whole or not dump.entries else dump.entries[0]
    for entry in dump.entries:
        together = parts[entry.group, entry.point_to_point, entry.sequence]
        if entry.call.op != COALESCED:
            together.append(entry)
            kept.append(entry)
        elif together:
            for part in together:
                part.completed, part.retired = entry.completed, entry.retired
                part.retained = first not in together
        elif not entry.point_to_point:  # before version 2.7 the collectives themselves have no entries
            entry.retained = entry is not first
            kept.append(entry)
    dump.entries[:] = kept


def find_groups(dumps: Mapping[int, Dump], ranks: int) -> dict[tuple[int, str], DumpedGroup]:
    """Return the group of each name on each rank that used it."""
    users: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for rank, dump in dumps.items():
        for key in dict.fromkeys((entry.group, entry.description) for entry in dump.entries):
            users[key].append(rank)
    known: dict[tuple[str, tuple[int, ...]], DumpedGroup] = {}
    groups: dict[tuple[int, str], DumpedGroup] = {}
    everyone = tuple(range(ranks))
    for (name, description), using in users.items():
        recorded = {members for dump in dumps.values() if (members := dump.groups.get(name))}
        for rank in using:
            own = [dumps[rank].groups.get(name, ()), *sorted(recorded)]
            members = next((each for each in own if rank in each), ())
            inferred = members or (everyone if description == "default_pg" else tuple(using))
            group = known.setdefault((name, inferred), DumpedGroup(name, inferred, is_inferred=not members))
            groups[rank, name] = group
    return groups
