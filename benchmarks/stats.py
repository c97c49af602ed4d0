"""How long `ddpquiz stats` takes with many reviews in the log.

    python benchmarks/stats.py [--reviews 1000000] [--cards 20000]

A log is generated in a temporary folder: cards that no content has, reviewed at growing intervals, and an answer for
every tenth review. Then the whole command is timed, and each of its queries.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ddpquiz.learning.log_rows import STORED_NAMES, Row
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Weights, study_day

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = 3


def rows(reviews: int, cards: int) -> Iterator[Row]:
    """Generate a log: each card is reviewed at growing intervals, and forgotten one time in ten."""
    dice = random.Random(1)
    today = datetime.now(UTC)
    number, each = 0, reviews // cards
    for card in range(cards):
        at = today - timedelta(days=dice.uniform(400, 1000))
        for turn in range(each):
            number += 1
            at += timedelta(days=dice.uniform(0.5, 1.5) * 1000 / each**2 * (turn + 1) / 2)
            name = {"at": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "day": str(study_day(at))}
            row = {"device": "bench", "sequence": number, "weights": Weights().version, "took": 9000, **name}
            if number % 10:
                yield Row("review", f"c/{card}", grade=1 if dice.random() < 0.1 else 3, **row)
            else:
                right = float(dice.random() < 0.7)
                yield Row("answer", f"c{card % 50}/{card}", credit=right, chance=0.25, level="easy", given="2", **row)


def fill(home: Path, reviews: int, cards: int) -> None:
    """Write the log and the state of the cards; not through `merge`, which checks each row."""
    with Progress(home) as progress:
        progress.merge((), {Weights(): ""})
        database = progress._database  # noqa: SLF001
        names = ", ".join(STORED_NAMES.values())
        marks = ", ".join("?" * len(STORED_NAMES))
        database.execute("PRAGMA cache_size = -500000")
        database.execute("BEGIN")
        values = ([getattr(row, name) for name in STORED_NAMES] for row in rows(reviews, cards))
        database.executemany(f"INSERT INTO log ({names}) VALUES ({marks})", values)
        due = date.today()  # noqa: DTZ011
        cards_of = (
            (f"c/{n}", str(due + timedelta(days=n % 40)), 20.0, 5.0, str(due), str(due), 9, 1) for n in range(cards)
        )
        database.executemany("INSERT INTO card VALUES (?, ?, ?, ?, ?, ?, ?, ?)", cards_of)
        database.execute("COMMIT")


def timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def main() -> None:
    """Generate the log, time the queries and the command, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--reviews", type=int, default=1_000_000)
    parser.add_argument("--cards", type=int, default=20_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ddpquiz-bench-") as folder:
        home = Path(folder)
        print(f"generating {given.reviews:,} rows: {timed(lambda: fill(home, given.reviews, given.cards)):.0f} s")
        print(f"file: {(home / 'progress.db').stat().st_size / 1e6:.0f} MB")
        with Progress(home) as progress:
            queries: dict[str, Callable[[], object]] = {
                "days": progress.days,
                "first grades": lambda: sum(1 for _ in progress.first_grades()),
                "sureness": progress.confidences,
                "wrong": progress.wrong,
                "last answers": progress.last_answers,
                "memories": progress.memories,
            }
            for name, ask in queries.items():
                print(f"{name:14} {statistics.median(timed(ask) for _ in range(ROUNDS)):6.2f} s")
        environment = {**os.environ, "DDPQUIZ_HOME": folder}
        command = [sys.executable, "-m", "ddpquiz", "stats", "--json"]
        took = [
            timed(lambda: subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True))
            for _ in range(ROUNDS)
        ]
        print(f"{'ddpquiz stats':14} {statistics.median(took):6.2f} s (min {min(took):.2f}, max {max(took):.2f})")


if __name__ == "__main__":
    main()
