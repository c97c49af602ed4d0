"""Several sittings on one progress file, in several processes, and with a clock that was set back."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from places import ROOT, TESTS
from progress_histories import everything
from run_program import environment
from sample import CARDS, PHASES, RING_CARDS, wrong_answer
from sample_sittings import press, screen, studying

from ddpquiz.learning.answers import save_answer
from ddpquiz.learning.progress import Progress

MANY = """
import sys
sys.path[:0] = sys.argv[1:3]
import sample_program
from dataclasses import replace
from datetime import datetime, UTC
from sample import RING, card
from ddpquiz.cli import app, clock
from ddpquiz.curriculum import catalog, loading
ring = replace(RING, cards=tuple(card(str(number)) for number in range(200)))
loading.load = lambda: catalog.Catalog((sample_program.TRACK,), (ring, sample_program.DDP), {})
if sys.argv[3] != "now":
    at = datetime.fromisoformat(sys.argv[3])
    clock.now = lambda: at
sys.argv[1:] = sys.argv[4:]
app.main()
"""


def many(home, *words, at="now", **more):
    command = [sys.executable, "-c", MANY, str(TESTS / "helpers"), str(ROOT), at, *words]
    return subprocess.Popen(
        command,
        env=environment(home),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


OPENS = """
import sys
from pathlib import Path
from ddpquiz.learning.progress import Progress
for line in sys.stdin:
    with Progress(Path(line.strip())):
        print("opened", flush=True)
"""


def test_sittings_that_start_at_once_in_a_new_folder_all_open_its_file(tmp_path):
    """SQLite refuses at once, without waiting, where two connections switch a new file to a write-ahead log."""
    command = [sys.executable, "-c", OPENS]
    children = [subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(3)]
    for number in range(60):
        for child in children:
            child.stdin.write(f"{tmp_path / str(number)}\n")
            child.stdin.flush()
        assert [child.stdout.readline() for child in children] == ["opened\n"] * 3
    for child in children:
        child.communicate(timeout=60)
        assert child.returncode == 0


def test_two_sittings_at_once_keep_every_answer_of_both(tmp_path):
    words = ("study", "ring", "--new", "200", "--count", "200")
    children = [many(tmp_path, *words) for _ in range(2)]
    for child in children:  # both have been dealt their cards before either answers
        while "Card 1/200" not in child.stdout.readline():
            assert child.poll() is None
    with ThreadPoolExecutor() as threads:
        ends = list(threads.map(lambda child: child.communicate("\n3\n" * 200, timeout=120)[1], children))
    assert ends == ["", ""]
    assert [child.returncode for child in children] == [0, 0]
    with Progress(tmp_path) as progress:
        rows = progress.log()
        assert sorted(row.sequence for row in rows) == list(range(1, 401))
        assert {row.item for row in rows} == {f"ring/{number}" for number in range(200)}
        assert all(memory.reps == 2 for memory in progress.memories().values())
        states = everything(progress)
        progress.rebuild()
        assert everything(progress) == states


def test_a_clock_that_was_set_back_loses_nothing_and_never_schedules_before_the_last_review(tmp_path):
    for at in ("2026-03-20T09:00:00+00:00", "2026-03-01T09:00:00+00:00", "2026-04-20T09:00:00+00:00"):
        child = many(tmp_path, "study", "ring", "--new", "5", "--count", "20", at=at)
        assert child.communicate("\n3\n" * 12)[1] == ""
        assert child.returncode == 0
    with Progress(tmp_path) as progress:
        assert sorted({row.day for row in progress.log()}) == ["2026-03-01", "2026-03-20", "2026-04-20"]
        memories = progress.memories()
        assert all(memory.due >= memory.last >= memory.first for memory in memories.values())
        states = everything(progress)
        progress.rebuild()
        assert everything(progress) == states


def test_a_card_that_an_answer_makes_due_meanwhile_is_counted(progress):
    seat = press(studying(progress, CARDS, limit=1), "space", "4")
    assert "Due now: 0. " in screen(seat)
    linked = replace(PHASES, card="one")
    assert (
        save_answer(progress, wrong_answer(linked, seat.context.clock()), RING_CARDS[:1]).made_due_card
        == RING_CARDS[0].key
    )
    assert "Due now: 1. " in screen(seat)
