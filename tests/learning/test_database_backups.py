"""Backups and damaged files, a full disk, and a folder that cannot be written."""

import os
import random
import re
import sqlite3
import stat
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from places import TESTS
from progress_histories import AT, TOOK, everything, exported, import_text
from run_program import environment, piped
from sample import answer_row

from ddpquiz.errors import UserError
from ddpquiz.learning.database import FILE, FOLDER, DamagedError, list_backups, restore_backup
from ddpquiz.learning.log_rows import ExplanationRow, PointRow
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade, Weights
from ddpquiz.learning.schema import MIGRATIONS
from ddpquiz.learning.statistics import statistics

HELPERS = TESTS / "helpers"
PAGE = 4096


def fill(home, reviews=300):
    """Keep rows of every kind, one of them longer than a page, under two sets of weights; return the rows."""
    with Progress(home) as progress:
        for number in range(reviews):
            progress.review(f"c/{number}", Grade(number % 4 + 1), AT + timedelta(minutes=number), TOOK)
        progress.use_weights(Weights(retention=0.85), AT)
        progress.undo(progress.flag("c/1", "x" * 20_000, AT), AT)
        progress.answer(answer_row("c/q", 1.0, given="é", confidence=0.5, made_due_card="c/1"), AT)
        progress.explain(
            ExplanationRow(item="c/why", took=TOOK, given="words " * 2000, points=(PointRow("all send", True),)), AT
        )
        return progress.log()


def damaged(home, dice, changes=40):
    """Overwrite some bytes of the file, all of them on a few pages."""
    path = home / FILE
    data = bytearray(path.read_bytes())
    pages = [dice.randrange(len(data) // PAGE) * PAGE for _ in range(dice.choice((1, 1, 3)))]
    for _ in range(changes):
        data[dice.choice(pages) + dice.randrange(PAGE)] = dice.randrange(256)
    path.write_bytes(data)
    return bytes(data)


def test_each_day_with_a_write_has_a_backup_and_the_last_ten_stay(tmp_path):
    for day in range(12):
        with Progress(tmp_path) as progress:
            progress.review("c/1", Grade.GOOD, AT + timedelta(days=day), TOOK)
    with Progress(tmp_path) as progress:
        progress.review("c/2", Grade.GOOD, AT + timedelta(days=11), TOOK)  # no second backup on one day
    with Progress(tmp_path):  # nothing is written, so there is nothing to back up
        pass
    found = list(list_backups(tmp_path))
    assert [(one.name, one.rows) for one in found] == [
        (str((AT + timedelta(days=day)).date()), day + 1) for day in range(11, 1, -1)
    ]
    assert sorted(path.name for path in (tmp_path / FOLDER).iterdir()) == sorted(one.path.name for one in found)


def test_the_progress_is_readable_by_its_owner_alone(home):
    old = os.umask(0o022)
    try:
        piped(home, "study", lines="\n3\n")
        piped(home, "explain", "ring", lines="The bottleneck")
        with Progress(home) as progress:
            progress.review("c/1", Grade.GOOD, AT, TOOK)
            modes = {
                path: stat.S_IMODE(path.stat().st_mode)
                for path in (home, *home.rglob("*"))
                if "cache" not in path.parts
            }
    finally:
        os.umask(old)
    assert {path.name for path in modes} >= {FILE, f"{FILE}-wal", f"{FILE}-shm", FOLDER}
    assert {path: mode for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)} == {}


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path):
    Progress(tmp_path).close()
    (tmp_path / FILE).chmod(0o644)
    Progress(tmp_path).close()
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_a_backup_that_cannot_be_written_is_reported_and_the_answers_are_saved(tmp_path):
    (tmp_path / FOLDER).write_text("in the way")
    progress = Progress(tmp_path)
    progress.review("c/1", Grade.GOOD, AT, TOOK)
    with pytest.raises(UserError, match="Your answers are saved, but the backup of 2026-03-02 cannot be written to"):
        progress.close()
    (tmp_path / FOLDER).unlink()
    with Progress(tmp_path) as progress:
        assert progress.count() == 1


def test_damage_offers_the_newest_good_backup_and_restoring_it_sets_the_file_aside(tmp_path):
    home = tmp_path / "home"
    piped(home, "study", lines="\n3\n\n1\n")
    fill(home)
    (good, *_) = list_backups(home)
    (home / FOLDER / "progress-2099-01-01.db").write_bytes(b"SQLite format 3" + bytes(9000))  # newer, but not sound
    data = damaged(home, random.Random(3), changes=2000)
    done = piped(home, "stats")
    assert done.returncode == 1
    assert re.fullmatch(
        f"{home / FILE} is damaged \\(.*\\). `ddpquiz progress restore-backup` sets it aside and restores the backup of "
        f"{good.name}, which holds {good.rows:,} rows? of your log.\n",
        done.stderr,
    )
    listed = piped(home, "progress", "restore-backup", "--list").stdout.splitlines()
    assert listed[0].startswith(f"{good.name}  {good.rows} rows")
    assert (home / FILE).read_bytes() == data
    done = piped(home, "progress", "restore-backup")
    assert (done.returncode, done.stderr) == (0, "")
    (aside,) = (path for path in home.glob(f"{FILE}.replaced-*") if not path.name.endswith("-wal"))
    assert done.stdout == (
        f"The backup of {good.name} with {good.rows} rows is restored.\nYour earlier progress is kept as {aside}.\n"
    )
    assert aside.read_bytes() == data
    with Progress(home) as progress:
        assert progress.count() == good.rows
        states = everything(progress)
        progress.rebuild()
        assert everything(progress) == states
    assert piped(home, "stats").returncode == 0


def test_a_sound_file_can_be_replaced_too_and_its_rows_can_still_be_imported(tmp_path):
    with Progress(tmp_path) as progress:
        progress.review("c/1", Grade.GOOD, AT, TOOK)
    with Progress(tmp_path) as progress:
        progress.review("c/2", Grade.GOOD, AT + TOOK, TOOK)
        text = exported(progress)
    aside = restore_backup(next(list_backups(tmp_path)), tmp_path / FILE, AT)
    with Progress(tmp_path) as progress:
        assert [row.item for row in progress.log()] == ["c/1"]
        progress.review("c/3", Grade.GOOD, AT + 2 * TOOK, TOOK)
        assert import_text(progress, text) == 1
        assert [row.item for row in progress.log()] == ["c/1", "c/2", "c/3"]
    assert aside.exists()


def test_what_was_not_written_back_yet_is_set_aside_with_the_file(tmp_path):
    """A process that is killed leaves its last answers in the write-ahead log."""
    script = (
        "import os, signal, sys; sys.path[:0] = sys.argv[2:]; from pathlib import Path; import test_database_backups;"
        "from ddpquiz.learning.progress import Progress; from ddpquiz.learning.schedule import Grade;"
        "p = Progress(Path(sys.argv[1])); p.review('c/last', Grade.GOOD, test_database_backups.AT, test_database_backups.TOOK);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    fill(tmp_path, 5)
    places = [str(Path(__file__).parent), str(HELPERS)]
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path), *places]).returncode == -9
    aside = restore_backup(next(list_backups(tmp_path)), tmp_path / FILE, AT)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for end in ("", "-wal"):
        aside.with_name(aside.name + end).rename(elsewhere / (FILE + end))
    with Progress(elsewhere) as progress:
        assert "c/last" in progress.memories()


def test_without_a_backup_the_sentence_says_so_and_there_is_nothing_to_restore(home):
    home.mkdir()
    (home / FILE).write_bytes(b"no database" * 1000)
    done = piped(home, "stats")
    assert done.stderr == (
        f"{home / FILE} is damaged (file is not a database), and there is no backup. Move it away to start afresh.\n"
    )
    done = piped(home, "progress", "restore-backup")
    assert (done.returncode, done.stderr) == (1, f"{home / FOLDER} has no backup that can be restored.\n")


def test_a_file_that_was_emptied_is_not_taken_for_a_new_one(tmp_path):
    fill(tmp_path, 3)
    (tmp_path / FILE).write_bytes(b"")
    with pytest.raises(DamagedError, match=r"is damaged \(it is empty\)"):
        Progress(tmp_path)


def test_a_file_that_is_missing_beside_its_backups_is_not_made_anew_before_they_are_moved_away(home):
    fill(home, 3)
    (home / FILE).unlink()
    done = piped(home, "stats")
    assert (done.returncode, done.stderr) == (
        1,
        (
            f"{home / FILE} is missing, but there is a backup of 2026-03-02 with 7 rows of your log; `ddpquiz progress "
            f"restore-backup` restores it. To start afresh, move {home / FOLDER} away too.\n"
        ),
    )
    assert not (home / FILE).exists()
    (home / FOLDER).rename(home.parent / "away")
    assert piped(home, "stats").returncode == 0
    for file in home.glob(f"{FILE}*"):
        file.unlink()
    (home.parent / "away").rename(home / FOLDER)
    assert piped(home, "progress", "restore-backup").stdout == snapshot(
        "The backup of 2026-03-02 with 7 rows is restored.\n"
    )
    with Progress(home) as progress:
        assert progress.count() == 7


@pytest.mark.parametrize("seed", range(30))
def test_bytes_that_changed_anywhere_are_reported_and_nothing_is_lost_in_silence(tmp_path, seed):
    rows = fill(tmp_path, 60)
    damaged(tmp_path, random.Random(seed), changes=1 + 4 * (seed % 10))
    said = ""
    try:
        with Progress(tmp_path) as progress:
            assert len(progress.log()) == len(rows)
            statistics(progress, [], AT.date())
            progress.rebuild()
            progress.review("c/new", Grade.GOOD, AT, TOOK)
    except UserError as error:
        said = str(error)
    assert re.fullmatch(rf"({tmp_path / FILE}.*)?", said)


def change(home, statement):
    """Change a sound file in a way that SQLite itself permits."""
    with sqlite3.connect(home / FILE) as database:
        database.execute("PRAGMA ignore_check_constraints = ON")
        database.execute("DROP TRIGGER IF EXISTS log_is_fixed")
        database.execute(statement)
        fixed = (
            "CREATE TRIGGER log_is_fixed BEFORE UPDATE ON log BEGIN SELECT raise(ABORT, 'the log is append-only'); END"
        )
        database.execute(fixed)
    database.close()


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE log SET credit = 2 WHERE kind = 'answer'", "CHECK constraint failed in log"),
        ("DROP TABLE card", "its tables are not those of ddpquiz"),
        ("ALTER TABLE log RENAME COLUMN given TO got", "its tables are not those of ddpquiz"),
        ("PRAGMA user_version = 1", "its tables are not those of ddpquiz"),
        ("PRAGMA user_version = 0", "its version is 0"),
        ("PRAGMA user_version = -5", "its version is -5"),
    ],
)
def test_a_file_that_no_version_of_ddpquiz_has_written_is_damaged_and_its_backup_is_named(home, statement, problem):
    fill(home, 5)
    change(home, statement)
    before = (home / FILE).read_bytes()
    done = piped(home, "stats")
    assert (done.returncode, done.stderr) == (
        1,
        (
            f"{home / FILE} is damaged ({problem}). `ddpquiz progress restore-backup` sets it aside and restores the backup "
            "of 2026-03-02, which holds 9 rows of your log.\n"
        ),
    )
    assert (home / FILE).read_bytes() == before
    assert piped(home, "progress", "restore-backup").returncode == 0
    assert piped(home, "stats").returncode == 0


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
    program = str(HELPERS / "sample_program.py")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(room << 10), program, "study"],
        input="\n3\n" * 8, capture_output=True, text=True, env=environment(home), cwd=HELPERS,
    )  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(
        r"The disk with .* (is full|reports a fault), so (the last step was not saved|your progress cannot be opened); .*\n",
        done.stderr,
    )
    with Progress(home) as progress:
        assert progress._database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert progress.log()[0].item == "ring/one"
    assert piped(home, "study", lines="\n3\n").returncode == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_reported(tmp_path):
    piped(tmp_path, "study", lines="\n3\n")
    (tmp_path / FILE).chmod(stat.S_IRUSR)
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        done = piped(tmp_path, "study", lines="\n3\n")
    finally:
        tmp_path.chmod(stat.S_IRWXU)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "set DDPQUIZ_HOME to another folder" in done.stderr


def test_a_newer_file_is_refused_by_the_command_and_stays_as_it_is(tmp_path):
    piped(tmp_path, "study", lines="\n3\n")
    path = tmp_path / FILE
    with sqlite3.connect(path) as newer:
        newer.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    newer.close()
    before = {entry: entry.read_bytes() for entry in tmp_path.rglob("*") if entry.is_file()}
    for words in (["study"], ["stats"], ["import", str(path)], ["export", "json"], []):
        done = piped(tmp_path, *words)
        assert done.returncode == 1
        assert words[:1] == ["import"] or "was written by a newer ddpquiz" in done.stderr
    assert {entry: entry.read_bytes() for entry in tmp_path.rglob("*") if entry.is_file()} == before
