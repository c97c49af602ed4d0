"""The state of each card: derived from the log, and stored beside it so that a start is fast."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING

from ddpquiz.learning.log_rows import COUNTS, LAST_YEAR, ORDER, find, find_weights
from ddpquiz.learning.schedule import Grade, Memory, Schedule, Weights, called

if TYPE_CHECKING:
    import sqlite3


_FROM_LOG = "(l.kind = 'review' OR l.kind = 'answer' AND l.calls IS NOT NULL)"  # the rows that change a state
_FROM_CARD = "SELECT item, due, stability, difficulty, first, last, reps, lapses FROM card"
_INTO_CARD = "INTO card (item, due, stability, difficulty, first, last, reps, lapses) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class CardStates:
    """The states in a database. The caller makes transactions and reports faults of the file."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._schedules: dict[str, Schedule] = {}

    def memories(self, concept: str | None = None) -> dict[str, Memory]:
        """Return the memory of each card that was reviewed or made due, of one concept or of all.

        Raises ValueError if there is a state that no log leads to; `rebuild` mends it.
        """
        # in ASCII, 0 follows /
        where, values = ("WHERE item > ? AND item < ?", (f"{concept}/", f"{concept}0")) if concept else ("", ())
        rows = self._database.execute(f"{_FROM_CARD} {where}", values)
        return {item: _memory(*state) for item, *state in rows}

    def derive(self, card: str) -> None:
        """Derive the state of one card from all its rows, as a rebuild does; they are few."""
        self._database.execute("DELETE FROM card WHERE item = ?", (card,))
        memories = self._replay(f"WHERE (l.item = ? OR l.calls = ?) AND {_FROM_LOG} AND {COUNTS} {ORDER}", card, card)
        self._save({card: memories[card]} if card in memories else {})

    def rebuild(self) -> None:
        self._database.execute("DELETE FROM card")
        self._save(self._replay(f"WHERE {_FROM_LOG} AND {COUNTS} {ORDER}"))

    def _replay(self, where: str, *values: object) -> dict[str, Memory]:
        """Return the memories after some rows of the log, each scheduled by the weights that were in use."""
        memories: dict[str, Memory] = {}
        for row in find(self._database, where, *values):
            day = _a_day(row.day)
            if row.kind == "review" and row.grade:
                schedule = self._schedule(row.weights)
                memories[row.item] = schedule.review(row.item, memories.get(row.item), Grade(row.grade), day)
            elif row.calls:
                memories[row.calls] = called(memories.get(row.calls), day)
        return memories

    def _save(self, memories: Mapping[str, Memory]) -> None:
        rows = ((item, *(str(x) if isinstance(x, date) else x for x in astuple(m))) for item, m in memories.items())
        self._database.executemany(f"INSERT {_INTO_CARD}", rows)

    def _schedule(self, version: str) -> Schedule:
        if version not in self._schedules:
            weights, _ = find_weights(self._database).get(version, (Weights(), ""))
            self._schedules[version] = Schedule(weights)
        return self._schedules[version]


def _memory(
    due: str, stability: float | None, difficulty: float | None, first: str | None, last: str | None, *counts: int
) -> Memory:
    """Return the memory that a row of the table `card` describes. Raises ValueError if it describes none."""
    if stability is None or difficulty is None or first is None or last is None:
        if (stability, difficulty, first, last) != (None, None, None, None):
            raise ValueError
        return Memory(_a_day(due))
    memory = Memory(_a_day(due), stability, difficulty, _a_day(first), _a_day(last), *counts)
    if not (0 < stability < math.inf and 1 <= difficulty <= 10 and _a_day(last).year <= LAST_YEAR):
        raise ValueError
    return memory


@lru_cache(maxsize=10_000)
def _a_day(text: str) -> date:
    return date.fromisoformat(text)
