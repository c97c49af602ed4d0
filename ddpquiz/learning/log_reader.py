"""Queries of the log: what a learner did, without what was undone."""

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from ddpquiz.learning.backups import FILE
from ddpquiz.learning.card_states import CardStates
from ddpquiz.learning.database import connect, reported_faults, transaction
from ddpquiz.learning.lab_passes import LabStanding, evidence, lab_standings
from ddpquiz.learning.log_rows import COLUMNS, COUNTS, MOMENT, ORDER, Row, find, find_weights, row_of
from ddpquiz.learning.schedule import Grade, Memory, Weights

_PAUSE = 120_000  # milliseconds; the time of a longer answer is counted only up to this


class LogReader:
    """The log in a data folder, for reading. Raises UserError for faults of the file, the folder or the disk."""

    def __init__(self, home: Path) -> None:
        self.path = home / FILE
        self._database = connect(home)
        self._states = CardStates(self._database)

    def memories(self, concept: str | None = None) -> dict[str, Memory]:
        """Return the memory of each card that was reviewed or made due, of one concept or of all."""
        with reported_faults(self.path):
            try:
                return self._states.memories(concept)
            except ValueError:  # something else changed the states; they are derived from the log
                with transaction(self._database):
                    self._states.rebuild()
                return self._states.memories(concept)

    def entries(self, *kinds: str) -> list[Row]:
        """Return the rows of some kinds that count, oldest first."""
        return self._rows(f"WHERE l.kind IN ({', '.join('?' * len(kinds))}) AND {COUNTS} {ORDER}", *kinds)

    def log(self) -> list[Row]:
        """Return every row, oldest first: also undos, what was undone, and what means nothing here."""
        return self._rows(ORDER)

    def count(self) -> int:
        return int(self._select("SELECT count(*) FROM log")[0][0])

    def has_called(self, item: str, day: date) -> bool:
        """Return whether a wrong answer to a question made a card due on a day."""
        which = f"WHERE l.kind = 'answer' AND l.item = ? AND l.day = ? AND l.calls IS NOT NULL AND {COUNTS}"
        return bool(self._rows(which, item, str(day)))

    def hidden(self, day: date) -> frozenset[str]:
        """Return the items that are not asked on a day: those hidden for good, and those hidden on that day."""
        return frozenset(row.item for row in self._hiding(day))

    def _hiding(self, day: date) -> list[Row]:
        buried = self._rows(f"WHERE l.kind = 'bury' AND l.day >= ? AND {COUNTS}", str(day))
        return [*self.entries("suspend"), *buried]

    def grades(self, day: date) -> dict[str, tuple[Grade, ...]]:
        """Return the grades of each card that was reviewed on a study day, oldest first."""
        found: dict[str, tuple[Grade, ...]] = {}
        since = str(day - timedelta(days=2))  # by UTC, a study day may begin more than a day early
        which = f"WHERE l.kind = 'review' AND l.at >= ? AND l.day = ? AND {COUNTS} {ORDER}"
        for row in self._rows(which, since, str(day)):
            found[row.item] = (*found.get(row.item, ()), Grade(row.grade or 0))
        return found

    def last_answers(self) -> list[Row]:
        """Return the answer to each question that strength depends on: the first of the last day on which it was asked.

        After the first answer the solution was shown. Retries do not count. The labs that were passed come last.
        """
        which = f"WHERE l.kind = 'answer' AND NOT l.retry AND {COUNTS} GROUP BY l.item, l.day"
        firsts = f"SELECT {COLUMNS}, min({MOMENT}) FROM log AS l {which}"  # noqa: S608  SQLite returns that row's columns
        last = self._select(f"SELECT {COLUMNS}, max(l.day) FROM ({firsts}) AS l GROUP BY l.item")  # noqa: S608
        return [*(row_of(found[:-1]) for found in last), *evidence(self.entries("lab"))]

    def labs(self) -> dict[str, LabStanding]:
        """Return the standing of each lab that was passed or whose solution was seen, by its name."""
        return lab_standings(self.entries("lab"))

    def days(self) -> list[tuple[str, int, int]]:
        """Return each study day, how many rows it has, and their milliseconds; long pauses are cut."""
        # A plus before `kind`, here and below, makes SQLite read the log from end to end, which is much faster than
        # reading most of it through an index
        took = f"sum(max(0, min(coalesce(l.took, 0), {_PAUSE})))"  # it is negative if the clock was set back
        kinds = "('review', 'answer', 'explanation', 'lab')"
        which = f"WHERE +l.kind IN {kinds} AND {COUNTS} GROUP BY l.day ORDER BY l.day"
        return self._select(f"SELECT l.day, count(*), {took} FROM log AS l {which}")  # noqa: S608

    def first_grades(self) -> Iterator[tuple[str, str, int]]:
        """Yield the item, day and first grade of each card on each day on which it was reviewed, in that order."""
        first = "SELECT l.item, l.day, l.grade, min(l.at) FROM log AS l "  # SQLite returns the grade of that row
        which = f"WHERE +l.kind = 'review' AND {COUNTS} GROUP BY l.item, l.day ORDER BY l.item, l.day"
        with reported_faults(self.path):
            yield from (found[:3] for found in self._database.execute(first + which))

    def sureness(self) -> list[tuple[float, int, int]]:
        """Return for each confidence how many answers had it, and how many of them were right."""
        which = f"WHERE l.kind = 'answer' AND l.confidence IS NOT NULL AND NOT l.retry AND {COUNTS}"
        return self._select(
            f"SELECT l.confidence, count(*), sum(l.credit > 0) FROM log AS l {which} GROUP BY 1 ORDER BY 1"  # noqa: S608
        )

    def wrong(self) -> list[tuple[str, str, int]]:
        """Return each wrong answer: the question, the text, and how often it was submitted."""
        which = f"WHERE l.kind = 'answer' AND l.credit = 0 AND l.given != '' AND {COUNTS}"
        return self._select(
            f"SELECT l.item, l.given, count(*) FROM log AS l {which} GROUP BY l.item, l.given ORDER BY max(l.at)"  # noqa: S608
        )

    def weights(self) -> Weights:
        """Return the weights in use: those of FSRS-6 when none were fitted."""
        known = self._weights()
        return max(known.values(), key=lambda each: each[1])[0] if known else Weights()

    def all_weights(self) -> dict[Weights, str]:
        """Return every set of weights that the log refers to, with the time from which it is in use."""
        return dict(self._weights().values())

    def _weights(self) -> dict[str, tuple[Weights, str]]:
        with reported_faults(self.path):
            return find_weights(self._database)

    def _select(self, query: str, *values: object) -> list[Any]:
        with reported_faults(self.path):
            return self._database.execute(query, values).fetchall()

    def _rows(self, where: str, *values: object) -> list[Row]:
        with reported_faults(self.path):
            return list(find(self._database, where, *values))
