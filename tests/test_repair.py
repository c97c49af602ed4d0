"""A damaged file, a full disk, a folder that cannot be written, a wrong clock, two sittings at once: on real files."""

import os
import random
import re
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from program import environment, piped
from test_exchange import everything, exported, take_in

from ddpquiz.errors import UserError
from ddpquiz.learning import repair
from ddpquiz.learning.database import FILE, MIGRATIONS, DamagedError
from ddpquiz.learning.log_rows import PointRow
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade, Weights

TESTS = Path(__file__).parent
AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
TOOK = timedelta(seconds=3)
PAGE = 4096


def fill(home, reviews=300):
    """Keep rows of every kind, one of them longer than a page, under two sets of weights; return the rows."""
    with Progress(home) as progress:
        for number in range(reviews):
            progress.review(f"c/{number}", Grade(number % 4 + 1), AT + timedelta(minutes=number), TOOK)
        progress.use(Weights(retention=0.85), AT)
        progress.undo(progress.flag("c/1", "x" * 20_000, AT), AT)
        progress.answer("c/q", 1.0, AT, took=TOOK, given="é", level="easy", chance=0.25, confidence=0.5, calls="c/1")
        progress.explain("c/why", (PointRow("all send", True),), AT, took=TOOK, given="words " * 2000)
        return progress.log()


@pytest.mark.parametrize("damaged", [[1], [2], [3, 4, 5], [1, 2, 3], "tail"])
def test_what_lies_outside_damaged_pages_is_read_and_the_file_is_kept_aside(tmp_path, damaged):
    rows = fill(tmp_path)
    path = tmp_path / FILE
    data = bytearray(path.read_bytes())
    if damaged == "tail":
        del data[len(data) * 3 // 4 :]
    else:
        for page in damaged:
            data[(page - 1) * PAGE : page * PAGE] = random.Random(page).randbytes(PAGE)
    path.write_bytes(data)
    done = repair.repair(path, AT)
    assert done.aside == tmp_path / f"{FILE}.damaged-20260302-090000"
    assert done.aside.read_bytes() == data
    with Progress(tmp_path) as progress:
        kept = progress.log()
        assert {replace(row, weights="") for row in kept} <= {replace(row, weights="") for row in rows}
        assert len(kept) == done.rows >= (len(rows) if damaged == [1] else len(rows) // 3)
        states = everything(progress)
        progress.rebuild()
        assert everything(progress) == states
        progress.review("c/new", Grade.GOOD, AT, TOOK)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [FILE, done.aside.name]


def test_a_file_whose_first_page_is_gone_loses_no_row_and_no_weights(tmp_path):
    fill(tmp_path / "a")
    with Progress(tmp_path / "a") as progress:
        text = exported(progress)
    path = tmp_path / "a" / FILE
    path.write_bytes(b"\xff" * PAGE + path.read_bytes()[PAGE:])
    with pytest.raises(DamagedError, match="is damaged"):
        Progress(tmp_path / "a")
    repair.repair(path, AT)
    with Progress(tmp_path / "a") as saved, Progress(tmp_path / "b") as whole:
        take_in(whole, text)
        assert everything(saved) == everything(whole)


def test_what_was_not_written_back_yet_is_read_too(tmp_path):
    """A process that is killed leaves its last answers in the write-ahead log."""
    script = (
        "import os, signal, sys; sys.path[:0] = sys.argv[2:]; from pathlib import Path; import test_repair;"
        "from ddpquiz.learning.progress import Progress; from ddpquiz.learning.schedule import Grade;"
        "p = Progress(Path(sys.argv[1])); p.review('c/last', Grade.GOOD, test_repair.AT, test_repair.TOOK);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    fill(tmp_path, 50)
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path), str(TESTS)]).returncode == -9
    path = tmp_path / FILE
    path.write_bytes(b"\xff" * PAGE + path.read_bytes()[PAGE:])
    repair.repair(path, AT)
    with Progress(tmp_path) as progress:
        assert "c/last" in progress.memories()


@pytest.mark.parametrize("seed", range(12))
def test_bytes_that_changed_anywhere_never_make_the_repair_fail(tmp_path, seed):
    rows = {row.receipt: row for row in fill(tmp_path, 120)}
    path, dice = tmp_path / FILE, random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(200):
        data[dice.randrange(len(data))] = dice.randrange(256)
    path.write_bytes(data)
    done = repair.repair(path, AT)
    with Progress(tmp_path) as progress:
        assert len(progress.log()) == done.rows
        assert sum(rows.get(row.receipt) == row for row in progress.log()) > len(rows) // 3


@pytest.mark.parametrize("middle", [False, True])
def test_a_command_that_meets_damage_repairs_it_and_says_so_in_one_sentence(tmp_path, middle):
    home = tmp_path / "home"
    piped(home, "study", lines="\n3\n\n1\n")
    fill(home)
    path = home / FILE
    data = bytearray(path.read_bytes())
    pages = len(data) // PAGE
    first, last = (pages // 3, pages * 2 // 3) if middle else (0, 1)
    data[first * PAGE : last * PAGE] = b"\xff" * PAGE * (last - first)
    path.write_bytes(data)
    done = piped(home, "progress", "rebuild")
    assert done.returncode == 1
    aside = next(home.glob(f"{FILE}.damaged-*"))
    assert re.fullmatch(
        f"{path} was damaged: it is kept as {aside}, and \\d+ rows of your log could be read and put in place again; "
        "run the command once more.\n",
        done.stderr,
    )
    assert piped(home, "stats").returncode == 0
    assert aside.read_bytes() == data


LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
sys.argv[:] = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("room", [20, 40, 60])
def test_a_full_disk_is_told_and_every_answer_before_it_is_kept(tmp_path, room):
    """The largest file that the process may write, in kilobytes, stands for the disk."""
    home = tmp_path / "home"
    piped(home, "study", lines="\n3\n")
    program = str(TESTS / "sample_program.py")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(room << 10), program, "study"],
        input="\n3\n" * 8, capture_output=True, text=True, env=environment(home), cwd=TESTS,
    )  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(
        r"The disk with .* (is full|reports a fault), so the last answer was not kept; .*\n", done.stderr
    )
    with Progress(home) as progress:
        assert progress._database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert progress.log()[0].item == "ring/one"
    assert piped(home, "study", lines="\n3\n").returncode == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    piped(tmp_path, "study", lines="\n3\n")
    (tmp_path / FILE).chmod(stat.S_IRUSR)
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        done = piped(tmp_path, "study", lines="\n3\n")
    finally:
        tmp_path.chmod(stat.S_IRWXU)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "set DDPQUIZ_HOME to another folder" in done.stderr


def test_a_repair_without_room_says_so_and_leaves_the_file(tmp_path, monkeypatch):
    fill(tmp_path, 20)
    path = tmp_path / FILE
    path.write_bytes(b"\xff" * PAGE + path.read_bytes()[PAGE:])
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(repair.shutil, "copy2", full)
    with pytest.raises(UserError, match="is damaged and cannot be repaired: No space left on device"):
        repair.repair(path, AT)
    assert path.read_bytes() == before


def test_a_newer_file_is_refused_by_the_command_and_stays_as_it_is(tmp_path):
    piped(tmp_path, "study", lines="\n3\n")
    path = tmp_path / FILE
    with sqlite3.connect(path) as newer:
        newer.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    newer.close()
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}
    for words in (["study"], ["stats"], ["import", str(path)], ["export", "json"], []):
        done = piped(tmp_path, *words)
        assert done.returncode == 1
        assert words[:1] == ["import"] or "was written by a newer ddpquiz" in done.stderr
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before


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
    command = [sys.executable, "-c", MANY, str(TESTS), str(TESTS.parent), at, *words]
    return subprocess.Popen(
        command,
        env=environment(home),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_two_sittings_at_once_keep_every_answer_of_both(tmp_path):
    words = ("study", "ring", "--new", "200", "--limit", "200")
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
        child = many(tmp_path, "study", "ring", "--new", "5", "--limit", "20", at=at)
        assert child.communicate("\n3\n" * 12)[1] == ""
        assert child.returncode == 0
    with Progress(tmp_path) as progress:
        assert sorted({row.day for row in progress.log()}) == ["2026-03-01", "2026-03-20", "2026-04-20"]
        memories = progress.memories()
        assert all(memory.due >= memory.last >= memory.first for memory in memories.values())
        states = everything(progress)
        progress.rebuild()
        assert everything(progress) == states
