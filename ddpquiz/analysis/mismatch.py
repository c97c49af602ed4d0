"""Calls that should be the same operation and are not: which ranks, which operations, which lines."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ddpquiz.analysis.collective import PAIRED, ROOTED
from ddpquiz.analysis.matching import ANYBODY

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddpquiz.analysis.collective import Collective, What
    from ddpquiz.analysis.events import Hung

MOST = 100  # mismatches that are told
NEAR = 64  # collectives of a group within which a swapped pair is looked for
ALIKE = ("all_reduce", "all_gather", "reduce", "broadcast")  # begin the names of operators that need equal shapes

Kind = Literal["missing", "operator", "reduce", "root", "dtype", "shape", "order"]


@dataclass(frozen=True, slots=True)
class Side:
    """What some ranks do: the operator, its line, what is special about it in words, and what they do `then`."""

    ranks: tuple[int, ...]
    op: str
    file: str = ""
    line: int = 0
    detail: str = ""
    then: Side | None = None

    def __str__(self) -> str:
        """Say it: `rank 2: broadcast with root 0 (train.py:12)`."""
        return f"{named(self.ranks)}: {self.doing()}"

    def doing(self) -> str:
        """Say what they do."""
        place = f"({Path(self.file).name}:{self.line})" if self.line else ""
        said = " ".join(part for part in (self.op, self.detail, place) if part)
        return f"{said}, then {self.then.doing()}" if self.then else said


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An operation, the `index`-th of its group from 0, for which the ranks ask in ways that do not fit."""

    kind: Kind
    group: str
    members: tuple[int, ...]
    index: int
    sides: tuple[Side, ...]

    def __str__(self) -> str:
        """Say it in a sentence."""
        where = "" if self.group in ("", "0") else f" (group {self.group})"
        return f"{_SAYS[self.kind]}{where}: {'; '.join(map(str, self.sides))}."


_SAYS: dict[Kind, str] = {
    "missing": "Some ranks are in an operation that others never enter",
    "operator": "Ranks meet in different operations",
    "reduce": "Ranks reduce with different operators",
    "root": "Ranks name different roots",
    "dtype": "Ranks bring different element types",
    "shape": "Ranks bring different shapes",
    "order": "Ranks issue the same operations in another order",
}


@dataclass
class Mismatches:
    """Finds them, one collective after the other; `text` returns a line of a file, or nothing when it is not there."""

    text: Callable[[str, int], str]
    _found: dict[tuple[str, tuple[int, ...], int], Mismatch] = field(default_factory=dict)
    _swaps: list[tuple[Collective, Collective]] = field(default_factory=list)
    _unlike: dict[tuple[str, tuple[int, ...]], deque[Collective]] = field(default_factory=dict)
    _agreed: set[tuple[str, tuple[int, ...], str, int]] = field(default_factory=set)

    def look(self, collective: Collective) -> None:
        """Compare the calls of a collective; it has at least one, and a new one."""
        calls = iter(collective.calls.values())
        what = next(calls).what
        if all(call.what == what for call in calls):
            if collective.complete:
                self._agreed.add((collective.group, collective.members, what.file, what.line))
            return
        key = (collective.group, collective.members, collective.index)
        found = compare(collective)
        if found is not None and (key in self._found or len(self._found) < MOST):
            self._found[key] = found
        if collective.complete and collective.sample.op not in PAIRED:
            self._look_for_swap(collective)

    def _look_for_swap(self, collective: Collective) -> None:
        unlike = self._unlike.setdefault((collective.group, collective.members), deque(maxlen=NEAR))
        for other in unlike:
            if self._are_swapped(other, collective) and len(self._swaps) < MOST:
                self._swaps.append((other, collective))
                return
        unlike.append(collective)

    def _are_swapped(self, first: Collective, second: Collective) -> bool:
        """Whether two ranks issue the same two operations, one in this and one in the other order."""
        return any(
            self._is_same(call.what, second.calls[other].what)
            and self._is_same(its.what, second.calls[one].what)
            and not self._is_same(call.what, its.what)
            for one, call in first.calls.items()
            for other, its in first.calls.items()
        )

    def _is_same(self, one: What, other: What) -> bool:
        """Whether two calls ask for the same in the same line, or in lines that read the same."""
        if one == other:
            return True
        if one._replace(file=other.file, line=other.line) != other:
            return False
        return bool(read := self.text(one.file, one.line).strip()) and read == self.text(other.file, other.line).strip()

    def told(self) -> list[Mismatch]:
        """Return those found so far."""
        swaps = [swap for swap in self._swaps if not self._is_choice(*swap)]
        explained = {(each.group, each.members, each.index) for swap in swaps for each in swap}
        rest = [mismatch for key, mismatch in self._found.items() if key not in explained]
        return [_swapped(*swap) for swap in swaps] + rest

    def _is_choice(self, *swap: Collective) -> bool:
        """Whether the ranks choose freely between two lines: then they have also met in one of them."""
        return any(
            (each.group, each.members, call.file, call.line) in self._agreed
            for each in swap
            for call in each.calls.values()
        )


def compare(collective: Collective) -> Mismatch | None:
    """Return the first thing in which calls differ that must not."""
    whats = {rank: collective.calls[rank].what for rank in collective.arrived}
    if collective.sample.op in PAIRED:
        asked = {rank: (what.dtype, _elements(what)) for rank, what in whats.items()}
        kind: Kind = "dtype" if len({dtype for dtype, _ in asked.values()}) > 1 else "shape"
        return _mismatch(kind, collective, whats, _shape) if len(set(asked.values())) > 1 else None
    aspects: list[tuple[Kind, Callable[[What], object], Callable[[What], str]]] = [
        ("operator", lambda what: what.op, lambda _: ""),
        ("reduce", lambda what: what.reduce, lambda what: what.reduce),
        ("root", lambda what: what.peer if what.op in ROOTED else None, lambda what: f"with root {what.peer}"),
        ("dtype", lambda what: what.dtype, lambda what: f"of {what.dtype}"),
        ("shape", lambda what: _essence(what) if what.op.startswith(ALIKE) else None, _shape),
    ]
    for kind, aspect, detail in aspects:
        if len({aspect(what) for what in whats.values()}) > 1:
            return _mismatch(kind, collective, whats, detail)
    return None


def missing(collective: Collective, gone: dict[int, int], hung: Hung | None) -> Mismatch | None:
    """Return that others never enter an operation: they have ended well (`gone`: rank to status), or all hang."""
    standing = {each.rank: each for each in hung.ranks} if hung else {}
    awaited = collective.awaited
    if not awaited or any(gone.get(rank) != 0 and rank not in standing and rank != ANYBODY for rank in awaited):
        return None
    if awaited == (ANYBODY,) and not (hung or gone):
        return None
    sides = list(_sides({rank: collective.calls[rank].what for rank in collective.arrived}, lambda _: ""))
    for rank in awaited:
        if rank == ANYBODY:
            sides.append(Side((), "send", detail="that fits"))
        elif gone.get(rank) == 0:
            sides.append(Side((rank,), "", detail="has ended"))
        else:
            each = standing[rank]
            detail = "" if each.waits_in else "in no communication"
            sides.append(Side((rank,), each.waits_in, each.file, each.line, detail))
    return Mismatch("missing", collective.group, collective.members, collective.index, tuple(sides))


def named(ranks: tuple[int, ...]) -> str:
    """Name ranks: `rank 1`, `ranks 0, 2`."""
    if not ranks:
        return "no rank"
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, sorted(ranks)))}"


def _mismatch(kind: Kind, collective: Collective, whats: dict[int, What], detail: Callable[[What], str]) -> Mismatch:
    return Mismatch(kind, collective.group, collective.members, collective.index, tuple(_sides(whats, detail)))


def _sides(whats: dict[int, What], detail: Callable[[What], str]) -> list[Side]:
    ranks: dict[tuple[str, str, int, str], list[int]] = {}
    for rank, what in sorted(whats.items()):
        ranks.setdefault((what.op, what.file, what.line, detail(what)), []).append(rank)
    return [Side(tuple(these), *side) for side, these in ranks.items()]


def _swapped(first: Collective, second: Collective) -> Mismatch:
    ranks: dict[tuple[What, What], list[int]] = {}
    for rank in first.members:
        ranks.setdefault((first.calls[rank].what, second.calls[rank].what), []).append(rank)
    sides = tuple(
        Side(tuple(these), a.op, a.file, a.line, then=Side(tuple(these), b.op, b.file, b.line))
        for (a, b), these in ranks.items()
    )
    return Mismatch("order", first.group, first.members, first.index, sides)


def _essence(what: What) -> tuple[tuple[int, ...], ...]:
    """Return the shapes without dimensions of one element: a scalar meets a tensor of one element well."""
    return tuple(tuple(length for length in shape if length != 1) for shape in what.shapes)


def _elements(what: What) -> int:
    return sum(prod(shape) for shape in what.shapes)


def _shape(what: What) -> str:
    return "of " + " ".join("x".join(map(str, shape)) or "1" for shape in what.shapes) + f" {what.dtype}"
