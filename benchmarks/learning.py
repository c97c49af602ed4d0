"""How long study takes with many cards and a long history, and whether a kill loses an answer.

    python benchmarks/learning.py [--cards 100000] [--reviews 1000000] [--times 1000] [--only log|start|kill]

`log`: queries of a sitting over a long log. `start`: the first card, with ever more items; warm is the second start.
`kill`: kill -9 at random moments of a sitting in a pseudo-terminal; every acknowledged answer must be in the log.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pexpect

from ddpquiz.curriculum.concept import Card, CardLevel
from ddpquiz.curriculum.loading import load
from ddpquiz.learning import study
from ddpquiz.learning.database import FILE
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade, study_day

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
NOW = datetime(2026, 6, 1, 9, tzinfo=UTC)
TOOK = timedelta(seconds=3)
# ddpquiz on the content of another folder
ELSEWHERE = """
import sys
from pathlib import Path
from ddpquiz.curriculum import loading
from ddpquiz.cli import app
folder = Path(sys.argv.pop(1))
if folder.name:
    from ddpquiz.curriculum import survey
    loading.content_dir = survey.content_dir = lambda: folder
app.main()
"""


def timed(name: str, act: Callable[[], object], rounds: int = 5) -> None:
    """Print the median milliseconds of a function."""
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        act()
        took.append(1000 * (time.perf_counter() - began))
    print(f"  {name:58} {statistics.median(took):10.2f} ms", flush=True)


def long_log(cards: int, reviews: int) -> None:
    """Make a long log, and time what a sitting does with it."""
    keys = [f"c{n // 20}/i{n % 20}" for n in range(cards)]
    dice = random.Random(1)
    grades = [1, 2, 3, 3, 3, 3, 3, 3, 4]
    with tempfile.TemporaryDirectory(prefix="ddpquiz-bench-") as folder, Progress(Path(folder)) as progress:
        progress.undo(progress.review(keys[0], Grade.GOOD, NOW - timedelta(days=400), TOOK), NOW - timedelta(days=400))
        (first, *_) = progress.log()
        rows = []
        for number in range(reviews):
            at = NOW - timedelta(days=380 * (1 - number / reviews), seconds=1)
            item = keys[number % cards]
            when = at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            rows.append(
                (first.device, number + 3, when, str(study_day(at)), "review", item, first.weights, dice.choice(grades))
            )
        into = "INSERT INTO log (device, sequence, at, day, kind, item, weights, grade) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        database = sqlite3.connect(Path(folder) / FILE)
        with contextlib.closing(database), database:
            database.executemany(into, rows)
        del rows
        print(f"{cards:,} cards, {reviews:,} reviews")
        timed("rebuild", progress.rebuild, 1)
        day = study_day(NOW)
        catalog = [Card(*key.split("/"), CardLevel.BEGINNER, "?", "!", "") for key in keys]
        timed("memories", progress.memories)
        timed("hidden items, and today's grades", lambda: (progress.hidden(day), progress.grades(day)))
        timed("last answer to each question", progress.last_answers)
        memories = progress.memories()
        timed("choose cards", lambda: study.choose_cards(catalog, memories, day, study.QueueRules(limit=20, new=10)))
        receipts = []
        timed("save a review", lambda: receipts.append(progress.review(keys[7], Grade.GOOD, NOW, TOOK)), 20)
        timed("undo it", lambda: progress.undo(receipts.pop(), NOW), 20)
        print(f"  file {sum(f.stat().st_size for f in Path(folder).iterdir()) / 1e6:,.0f} MB")
    print(
        f"  memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB, with what made the log"
    )


def synthetic(folder: Path, items: int) -> Path:
    """Write content with this many items: copies of a shipped concept under other names."""
    text = (ROOT / "content/collectives/all-reduce-ring.yaml").read_text("utf-8")
    text = re.sub(r"(?m)^needs: .*$", "needs: []", text)
    each = len(re.findall(r"(?m)^  - id: ", text))
    names = [f"concept-{n}" for n in range(max(1, round(items / each)))]
    for number, name in enumerate(names):
        file = folder / f"t{number // 100}" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    parts = [names[at : at + 100] for at in range(0, len(names), 100)]  # a list may have at most 200 entries
    tracks = (f"t{n}:\n  title: T{n}\n  concepts: [{', '.join(part)}]\n" for n, part in enumerate(parts))
    (folder / "tracks.yaml").write_text("".join(tracks), "utf-8")
    (folder / "sources.yaml").write_bytes((ROOT / "content/sources.yaml").read_bytes())
    return folder


def first_card(content: str, home: str) -> tuple[float, int]:
    """The seconds until `study` has shown its first card to a pipe, and the megabytes it took."""
    environment = {**os.environ, "DDPQUIZ_HOME": home}
    began = time.perf_counter()
    command = [sys.executable, "-c", ELSEWHERE, content, "study"]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, cwd=ROOT)
    with child:
        said = child.stdout.read() if child.stdout else b""
        _, _, used = os.wait4(child.pid, 0)
        child.returncode = 0
    if b"Card 1/" not in said:
        sys.exit(f"no card was shown for {content}")
    return time.perf_counter() - began, used.ru_maxrss // 1024


def starts(rounds: int) -> None:
    """Print how long the first card takes, for different numbers of items."""
    with tempfile.TemporaryDirectory(prefix="ddpquiz-bench-") as folder:
        contents = {"as shipped": ""} | {
            f"{items:,} items": str(synthetic(Path(folder) / str(items), items)) for items in (100, 1_000, 10_000)
        }
        homes = {name: tempfile.mkdtemp(dir=folder) for name in contents}
        cold = {name: first_card(content, homes[name])[0] for name, content in contents.items()}
        warm: dict[str, list[float]] = {name: [] for name in contents}
        used = dict.fromkeys(contents, 0)
        for _ in range(rounds):
            for name, content in contents.items():
                seconds, used[name] = first_card(content, homes[name])
                warm[name].append(seconds)
    print(f"{'first card, seconds':20} {'cold':>8} {'warm':>8} {'min':>8} {'MB':>6} {'against 100 items':>18}")
    for name, took in warm.items():
        ratio = statistics.median(one / other for one, other in zip(took, warm["100 items"], strict=True))
        print(
            f"{name:20} {cold[name]:8.2f} {statistics.median(took):8.3f} {min(took):8.3f} {used[name]:6} {ratio:18.2f}"
        )


def killed(home: Path, program: list[str], dice: random.Random) -> tuple[int, int]:
    """Kill a study sitting in a pseudo-terminal at a random moment; return how many grades were shown and saved."""
    environment = {**os.environ, "DDPQUIZ_HOME": str(home), "TERM": "xterm-256color"}
    words = ["study", *(concept.id for concept in load().concepts), "--new", "1000", "--count", "1000"]
    child = pexpect.spawn(program[0], [*program[1:], *words], env=environment, dimensions=(24, 80), timeout=60)
    child.delaybeforesend = None
    child.expect_exact("Card 1/")
    acknowledged, until = 0, time.monotonic() + dice.uniform(0, 0.6)
    while time.monotonic() < until:
        child.send(" ")
        child.expect_exact(" forgot")
        child.send(str(dice.choice((1, 3, 3, 4))))
        if dice.random() < 0.2:  # killed before it has said anything: kept or not, both are right
            time.sleep(dice.uniform(0, 0.03))
            break
        child.expect(r"see again|comes again|set aside|Done")
        acknowledged += 1
    child.kill(9)
    child.wait()  # the process may be waiting for the disk
    child.close()
    with contextlib.closing(sqlite3.connect(home / FILE)) as database:
        kept = database.execute("SELECT count(*) FROM log WHERE kind = 'review'").fetchone()[0]
        whole = database.execute("PRAGMA integrity_check").fetchone()[0]
    if whole != "ok":
        sys.exit(f"the database is damaged: {whole}")
    with Progress(home) as progress:
        before = progress.memories()
        progress.rebuild()
        if progress.memories() != before:
            sys.exit("the state of the cards does not match the log")
    return acknowledged, kept


def kills(times: int, seed: int = 1, program: list[str] | None = None) -> None:
    """Kill sittings, and print whether anything was lost; exit with status 1 if it was."""
    dice = random.Random(seed)
    program = program or [sys.executable, "-m", "ddpquiz"]
    acknowledged = kept = 0
    with tempfile.TemporaryDirectory(prefix="ddpquiz-bench-") as folder:
        for number in range(times):
            home = Path(folder) / str(number // 20)  # several kills use one database
            before = kept_in(home)
            said, there = killed(home, program, dice)
            acknowledged, kept = acknowledged + said, kept + there - before
            if there - before < said:
                sys.exit(f"kill {number + 1}: {said} grades were acknowledged, {there - before} were saved")
    print(f"{times:,} kills: {acknowledged:,} grades acknowledged, {kept:,} saved, none lost, no database damaged")


def kept_in(home: Path) -> int:
    """How many reviews the database in a folder has."""
    if not (home / FILE).exists():
        return 0
    with contextlib.closing(sqlite3.connect(home / FILE)) as database:
        return int(database.execute("SELECT count(*) FROM log WHERE kind = 'review'").fetchone()[0])


def main() -> None:
    """Run the chosen measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cards", type=int, default=100_000)
    parser.add_argument("--reviews", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=("log", "start", "kill"))
    wanted = parser.parse_args()
    if wanted.only in (None, "log"):
        long_log(wanted.cards, wanted.reviews)
    if wanted.only in (None, "start"):
        starts(wanted.rounds)
    if wanted.only in (None, "kill"):
        kills(wanted.times)


if __name__ == "__main__":
    main()
