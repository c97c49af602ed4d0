"""Calls that should be the same operation and are not: which ranks, which operations, which lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from ddpquiz.events.collective import Collective
from ddpquiz.events.event import Hung
from ddpquiz.events.formatting import format_place, format_ranks, format_shapes
from ddpquiz.events.operation import ANY_SOURCE, POINT_TO_POINT, ROOTED, Operation

_Aspect = tuple["Kind", Callable[[Operation], object], Callable[[Operation], str]]

LIMIT = 100  # mismatches that are reported
_NEAR = 64  # collectives of a group within which a swapped pair is looked for
EQUAL_SHAPES = (
    "all_reduce",
    "all_gather",
    "reduce",
    "broadcast",
    "gather",
)  # how operators begin that need equal shapes

Kind = Literal["missing", "operator", "reduce", "root", "dtype", "shape", "order", "parts"]


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
        """Return it in words: `rank 2: broadcast with root 0 (train.py:12)`."""
        return f"{format_ranks(self.ranks)}: {self.action()}"

    def action(self) -> str:
        place = f"({format_place(self.file, self.line)})" if self.line else ""
        text = " ".join(part for part in (self.op, self.detail, place) if part)
        return f"{text}, then {self.then.action()}" if self.then else text


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An operation, the `index`-th of its group from 0, for which the calls of the ranks do not match."""

    kind: Kind
    group: str
    members: tuple[int, ...]
    index: int
    sides: tuple[Side, ...]

    def __str__(self) -> str:
        """Return it as a sentence."""
        where = "" if self.group in ("", "0") else f" (group {self.group})"
        what = _SENTENCES[self.kind] if len(self.sides) > 1 else "Ranks wait for each other"
        return f"{what}{where}: {'; '.join(map(str, self.sides))}."


_SENTENCES: dict[Kind, str] = {
    "missing": "Some ranks wait in an operation that others never call",
    "operator": "Ranks call different operations",
    "reduce": "Ranks reduce with different operators",
    "root": "Ranks name different roots",
    "dtype": "Ranks pass tensors of different dtypes",
    "shape": "Ranks pass tensors of different shapes",
    "order": "Ranks call the same operations in a different order",
    "parts": "A rank sends a different number of elements than the receiver expects",
}


def _lengths(operation: Operation) -> tuple[tuple[int, ...], ...]:
    """The shapes without dimensions of one element: a scalar may meet a tensor of one element."""
    return tuple(tuple(length for length in shape if length != 1) for shape in operation.shapes)


def _of(operation: Operation) -> str:
    return f"of {format_shapes(operation.shapes)} {operation.dtype}"


# In what calls of the same operation must agree, and how it is written
_ASPECTS: tuple[_Aspect, ...] = (
    ("operator", lambda call: call.op, lambda _: ""),
    ("reduce", lambda call: call.reduce, lambda call: call.reduce),
    ("root", lambda call: call.peer if call.op in ROOTED else None, lambda call: f"with root {call.peer}"),
    ("dtype", lambda call: call.dtype, lambda call: f"of {call.dtype}"),
    ("shape", lambda call: _lengths(call) if call.op.startswith(EQUAL_SHAPES) else None, _of),
)
_PAIR_ASPECTS: tuple[_Aspect, ...] = (
    ("dtype", lambda call: call.dtype, _of),
    ("shape", lambda call: sum(map(prod, call.shapes)), _of),
)


@dataclass
class Mismatches:
    """Finds mismatches, one collective after the other; `text` returns a line of a file, or an empty text."""

    text: Callable[[str, int], str]
    _found: dict[tuple[str, tuple[int, ...], int], Mismatch] = field(default_factory=dict)
    _collectives: dict[tuple[str, tuple[int, ...], int], Collective] = field(default_factory=dict)  # of those found
    _swaps: list[tuple[Collective, Collective]] = field(default_factory=list)
    _unlike: dict[tuple[str, tuple[int, ...]], deque[Collective]] = field(default_factory=dict)
    _agreed: set[tuple[str, tuple[int, ...], str, int]] = field(default_factory=set)

    def compare(self, collective: Collective, rank: int) -> None:
        """Compare the calls of a collective that a rank has just entered."""
        calls, key = iter(collective.calls.values()), _key(collective)
        operation = next(calls).operation
        if collective.complete and operation.parts and (unlike := unlike_parts(collective)):
            self._found.setdefault(key, _first_unlike_part(collective, *unlike[0]))
            self._collectives[key] = collective
            return
        if not collective.complete and collective.calls[rank].operation == operation and key not in self._found:
            return
        if all(call.operation == operation for call in calls):
            if collective.complete:
                self._agreed.add((collective.group, collective.members, operation.file, operation.line))
            return
        mismatch = _first_difference(collective)
        if mismatch is not None and (key in self._found or len(self._found) < LIMIT):
            self._found[key], self._collectives[key] = mismatch, collective
        if collective.complete and operation.op not in POINT_TO_POINT:
            self._look_for_swap(collective)

    def _look_for_swap(self, collective: Collective) -> None:
        unlike = self._unlike.setdefault((collective.group, collective.members), deque(maxlen=_NEAR))
        for other in unlike:
            if self._are_swapped(other, collective) and len(self._swaps) < LIMIT:
                self._swaps.append((other, collective))
                return
        unlike.append(collective)

    def _are_swapped(self, first: Collective, second: Collective) -> bool:
        """True if two ranks call the same two operations, one rank in this and one in the other order."""
        pairs = {(call.operation, second.calls[rank].operation) for rank, call in first.calls.items()}
        return any(
            self._are_same(early, other_late) and self._are_same(other_early, late)
            and not self._are_same(early, other_early)
            for early, late in pairs
            for other_early, other_late in pairs
        )  # fmt: skip

    def _are_same(self, one: Operation, other: Operation) -> bool:
        """True if two calls ask for the same in the same line, or in lines that read the same."""
        if one == other:
            return True
        if one._replace(file=other.file, line=other.line) != other:
            return False
        return bool(read := self.text(one.file, one.line).strip()) and read == self.text(other.file, other.line).strip()

    def found(self, unfinished: Iterable[Collective], exits: dict[int, int], hung: Hung | None) -> list[Mismatch]:
        """The mismatches found so far, and those of unfinished collectives; each text once."""
        swaps = [swap for swap in self._swaps if not self._is_choice(*swap)]
        explained = {_key(each) for swap in swaps for each in swap}
        found = [_swapped(*swap) for swap in swaps]
        found += [mismatch for key, mismatch in self._found.items() if key not in explained]
        known = explained | {*self._found}
        for collective in unfinished:
            if len(found) >= LIMIT:
                break
            if _key(collective) not in known and (mismatch := missing(collective, exits, hung)):
                found.append(mismatch)
        return list({str(mismatch): mismatch for mismatch in reversed(found)}.values())[::-1]

    def unlike(self) -> list[tuple[Mismatch, Collective]]:
        """The collectives whose calls do not match; of two in swapped order, each as one of its own kind."""
        swapped = {_key(each): _swapped(*swap) for swap in self._swaps for each in swap}
        return [(swapped.get(key, mismatch), self._collectives[key]) for key, mismatch in self._found.items()]

    def _is_choice(self, *swap: Collective) -> bool:
        """True if ranks choose freely between two lines: the calls fit, and they have met in one of them."""
        if any(_key(collective) in self._found for collective in swap):
            return False
        return any(
            (each.group, each.members, call.operation.file, call.operation.line) in self._agreed
            for each in swap
            for call in each.calls.values()
        )


def unlike_parts(collective: Collective) -> list[tuple[int, int, int, int]]:
    """Of an all_to_all: pairs of ranks, what the first one sends to the second, and what that one expects from it."""
    members = collective.members
    parts = {rank: call.operation.parts for rank, call in collective.calls.items()}
    if any(len(each) != 2 or {*map(len, each)} != {len(members)} for each in parts.values()):
        return []
    return [
        (source, to, sent, expected)
        for at, source in enumerate(members)
        for other, to in enumerate(members)
        if source in parts and to in parts
        and (sent := parts[source][0][other]) != (expected := parts[to][1][at])
    ]  # fmt: skip


def _first_unlike_part(collective: Collective, source: int, to: int, sent: int, expected: int) -> Mismatch:
    calls = [(collective.calls[source].operation, f"sends {sent:,} elements to rank {to}"),
             (collective.calls[to].operation, f"expects {expected:,} elements from rank {source}")]  # fmt: skip
    sides = [Side((rank,), call.op, call.file, call.line, detail)
             for rank, (call, detail) in zip((source, to), calls, strict=True)]  # fmt: skip
    return Mismatch("parts", collective.group, collective.members, collective.index, tuple(sides))


def missing(collective: Collective, exits: dict[int, int], hung: Hung | None) -> Mismatch | None:
    """Return that some members never call an operation: they have exited with status 0, or wait elsewhere in a hang.

    A rank that is late in a hang may still come.
    """
    positions = {each.rank: each for each in hung.ranks} if hung else {}
    awaited = collective.awaited
    alive = [rank for rank in awaited if exits.get(rank) != 0 and rank != ANY_SOURCE]
    if not awaited or any(rank not in positions or not positions[rank].waits_in for rank in alive):
        return None
    if awaited == (ANY_SOURCE,) and not (hung or exits):
        return None
    sides = _sides({rank: collective.calls[rank].operation for rank in collective.arrived}, lambda _: "")
    for rank in awaited:
        if rank == ANY_SOURCE:
            sides.append(Side((), "send", detail="that matches"))
        elif exits.get(rank) == 0:
            sides.append(Side((rank,), "", detail="finished"))
        else:
            position = positions[rank]
            sides.append(Side((rank,), position.waits_in, position.file, position.line))
    sides.sort(key=lambda side: side.ranks or (ANY_SOURCE,))
    return Mismatch("missing", collective.group, collective.members, collective.index, tuple(_joined(sides)))


def _key(collective: Collective) -> tuple[str, tuple[int, ...], int]:
    return collective.group, collective.members, collective.index


def _first_difference(collective: Collective) -> Mismatch | None:
    """The first aspect in which the calls differ and must not."""
    operations = {rank: collective.calls[rank].operation for rank in collective.arrived}
    aspects = _PAIR_ASPECTS if collective.op == "send" else _ASPECTS
    for kind, aspect, detail in aspects:
        found = {aspect(operation) for operation in operations.values()}
        if kind == "reduce":
            found.discard("")  # torch did not tell the recorder
        if len(found) > 1:
            sides = tuple(_sides(operations, detail))
            return Mismatch(kind, collective.group, collective.members, collective.index, sides)
    return None


def _sides(operations: dict[int, Operation], detail: Callable[[Operation], str]) -> list[Side]:
    return _joined(
        Side((rank,), operation.op, operation.file, operation.line, detail(operation))
        for rank, operation in sorted(operations.items())
    )


def _joined(sides: Iterable[Side]) -> list[Side]:
    """Put ranks that do the same on one side."""
    ranks: dict[Side, tuple[int, ...]] = {}
    for side in sides:
        alike = Side((), side.op, side.file, side.line, side.detail, side.then)
        ranks[alike] = ranks.get(alike, ()) + side.ranks
    return [Side(these, side.op, side.file, side.line, side.detail, side.then) for side, these in ranks.items()]


def _swapped(first: Collective, second: Collective) -> Mismatch:
    sides = [(rank, first.calls[rank].operation, second.calls[rank].operation) for rank in first.members]
    alike = any(early.place == late.place for _, early, late in sides)  # a loop over tensors

    def side(rank: int, early: Operation, late: Operation) -> Side:
        before, after = (_of(call) if alike else "" for call in (early, late))
        return Side((rank,), early.op, early.file, early.line, before, Side((), late.op, late.file, late.line, after))

    joined = _joined(side(*each) for each in sides)
    return Mismatch("order", first.group, first.members, first.index, tuple(joined))
