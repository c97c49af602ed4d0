"""The progress file: sittings at the same time, kills, damage, full disks, and migrations."""

import json
import os
import re
import sqlite3
import stat
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from places import DATA
from progress_histories import AT, TOOK, states

from ddpquiz.errors import UserError
from ddpquiz.learning import database, schema
from ddpquiz.learning.database import FILE, list_backups
from ddpquiz.learning.log_rows import LabRow, PointRow
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade, Weights, study_day


def test_a_file_that_another_sitting_makes_while_we_open_it_is_ours(tmp_path, monkeypatch):
    version = database._version

    def and_then_the_other_makes_it(connection):
        monkeypatch.setattr(database, "_version", version)
        found = version(connection)
        Progress(tmp_path).close()
        return found

    monkeypatch.setattr(database, "_version", and_then_the_other_makes_it)
    with Progress(tmp_path) as progress:
        assert progress.log() == []


def test_two_sittings_at_once_are_safe(tmp_path):
    script = """
import sys
from datetime import UTC, datetime, timedelta
from datetime import UTC, datetime
from pathlib import Path
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade
with Progress(Path(sys.argv[1])) as progress:
    for n in range(40):
        progress.review(f"c/{n % 3}", Grade.GOOD, datetime(2026, 3, 2, tzinfo=UTC) + timedelta(days=n), timedelta(seconds=1))
"""
    started = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) for _ in range(3)]
    assert [one.wait(60) for one in started] == [0, 0, 0]
    with Progress(tmp_path) as progress:
        assert sorted(row.sequence for row in progress.log()) == list(range(1, 121))
        kept = states(progress)
        progress.rebuild()
        assert states(progress) == kept


def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path):
    script = """
import os, signal, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade
progress = Progress(Path(sys.argv[1]))
for n in range(7):
    progress.review(f"c/{n}", Grade.GOOD, datetime(2026, 3, 2, tzinfo=UTC), timedelta(seconds=1))
progress._database.execute("BEGIN IMMEDIATE")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)]).returncode == -9
    with Progress(tmp_path) as progress:
        assert len(progress.memories()) == 7
        assert len(progress.log()) == 7


def test_durability_is_what_was_asked_for(progress):
    one = lambda pragma: progress._database.execute(f"PRAGMA {pragma}").fetchone()[0]  # noqa: E731
    assert (one("journal_mode"), one("synchronous"), one("foreign_keys")) == ("wal", 2, 1)


def test_a_database_of_a_newer_version_is_refused_and_not_touched(tmp_path):
    Progress(tmp_path).close()
    path = tmp_path / FILE
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version = 99")
    newer.close()
    before = path.read_bytes(), sorted(tmp_path.iterdir())
    with pytest.raises(UserError) as refused:
        Progress(tmp_path)
    assert str(refused.value) == (
        f"{path} was written by a newer ddpquiz (its version is 99, this ddpquiz knows {len(database.MIGRATIONS)}); "
        "update ddpquiz. Nothing was changed."
    )
    assert (path.read_bytes(), sorted(tmp_path.iterdir())) == before


def test_an_upgrade_during_a_sitting_is_told_when_something_is_to_be_saved(tmp_path):
    progress, path = Progress(tmp_path), tmp_path / FILE
    with sqlite3.connect(path) as newer:
        newer.execute("ALTER TABLE log RENAME TO history")
        newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(UserError) as refused:
        progress.flag("concept/card", "", datetime(2026, 3, 2, 12, tzinfo=UTC))
    assert str(refused.value) == (
        f"{path} was written by a newer ddpquiz (its version is 99, this ddpquiz knows {len(database.MIGRATIONS)}); "
        "start ddpquiz again. Nothing was changed."
    )
    progress.close()


def test_a_migration_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    Progress(tmp_path).close()
    broken = (*database.MIGRATIONS, ("CREATE TABLE half (a TEXT) STRICT", "CREATE TABLE half (a TEXT) STRICT"))
    monkeypatch.setattr(database, "MIGRATIONS", broken)
    with pytest.raises(sqlite3.OperationalError):
        Progress(tmp_path)
    monkeypatch.undo()
    with Progress(tmp_path) as progress:
        assert progress._database.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").fetchone() == (0,)


def test_a_migration_runs_once_and_is_recorded(tmp_path, monkeypatch):
    Progress(tmp_path).close()
    longer = (*database.MIGRATIONS, ("CREATE TABLE more (a TEXT) STRICT",))
    for module in (database, schema):
        monkeypatch.setattr(module, "MIGRATIONS", longer)
    for _ in range(2):
        with Progress(tmp_path) as progress:
            assert progress._database.execute("PRAGMA user_version").fetchone() == (len(longer),)


@pytest.mark.parametrize(
    "content", [b"this is no database at all, but longer than a header" * 40, b"SQLite format 3\0junk"]
)
def test_a_damaged_file_is_reported_in_a_sentence_and_not_changed(tmp_path, content):
    path = tmp_path / FILE
    path.write_bytes(content)
    with pytest.raises(UserError) as refused:
        Progress(tmp_path)
    assert re.fullmatch(
        rf"{path} is damaged \(.*\), and there is no backup. Move it away to start afresh.", str(refused.value)
    )
    assert path.read_bytes() == content


def test_damage_in_the_middle_is_reported_too(tmp_path):
    with Progress(tmp_path) as progress:
        for n in range(200):
            progress.review(f"c/{n}", Grade.GOOD, AT, TOOK)
    path = tmp_path / FILE
    data = bytearray(path.read_bytes())
    data[4096 * 2 : -4096] = b"\xff" * (len(data) - 4096 * 3)
    path.write_bytes(data)
    with pytest.raises(UserError, match="is damaged"), Progress(tmp_path) as progress:
        progress.rebuild()


@pytest.mark.parametrize("version", [0, 1, len(database.MIGRATIONS), 99])
def test_a_database_of_something_else_is_left_alone(tmp_path, version):
    with sqlite3.connect(tmp_path / FILE) as other:
        other.execute("CREATE TABLE theirs (a)")
        other.execute(f"PRAGMA user_version = {version}")
    other.close()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(UserError, match="was not made by ddpquiz; move it away"):
        Progress(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_a_full_disk_is_reported_and_the_answer_can_be_saved_again(progress):
    progress.review("ring/one", Grade.GOOD, AT, TOOK)
    pages = progress._database.execute("PRAGMA page_count").fetchone()[0]
    progress._database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(UserError) as refused:
        progress.flag("ring/one", "x" * 50_000, AT)
    folder = progress.path.parent
    assert (
        str(refused.value)
        == f"The disk with {folder} is full, so the last step was not saved; make room and try again."
    )
    progress._database.execute("PRAGMA max_page_count = 100000")
    progress.review("ring/one", Grade.GOOD, AT, TOOK)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_reported(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(UserError, match="set DDPQUIZ_HOME to another folder"):
            Progress(tmp_path)
    finally:
        tmp_path.chmod(stat.S_IRWXU)


def test_a_folder_without_any_rights_is_reported(tmp_path):
    user = os.geteuid()
    tmp_path.chmod(0)
    os.seteuid(user or 65534)  # root has all rights everywhere
    try:
        with pytest.raises(UserError) as refused:
            Progress(tmp_path / "home")
        with pytest.raises(UserError, match=r"backups cannot be read: Permission denied\.$"):
            list(list_backups(tmp_path / "home"))
    finally:
        os.seteuid(user)
        tmp_path.chmod(stat.S_IRWXU)
    assert str(refused.value) == (
        f"The data folder {tmp_path / 'home'} cannot be used (Permission denied); "
        "make it writable, or set DDPQUIZ_HOME to another folder."
    )


def test_a_folder_that_cannot_be_created_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError) as refused:
        Progress(tmp_path / "file" / "home")
    assert str(refused.value) == (
        f"The data folder {tmp_path / 'file' / 'home'} cannot be used (Not a directory); "
        "make it writable, or set DDPQUIZ_HOME to another folder."
    )


OLD = DATA / "progress-1.sql"  # what the first version of the schema was made of


def test_a_database_of_the_first_version_keeps_every_row_when_it_is_brought_up_to_date(tmp_path):
    with sqlite3.connect(tmp_path / FILE, isolation_level=None) as old:
        old.executescript(OLD.read_text("utf-8"))
        rows, cards = (old.execute(f"SELECT * FROM {table}").fetchall() for table in ("log", "card"))
    old.close()
    assert len({row[4] for row in rows}) == 4  # each kind that there was
    with Progress(tmp_path) as progress:
        one = progress._database.execute
        assert one("PRAGMA user_version").fetchone() == (len(database.MIGRATIONS),)
        kept = one("SELECT * FROM log").fetchall()
        assert [row[: len(rows[0])] for row in kept] == rows
        assert {row[len(rows[0]) :] for row in kept} == {(None, None)}
        assert states(progress) == cards
        assert one("PRAGMA foreign_key_check").fetchall() == []
        assert [row[3] for row in one("PRAGMA foreign_key_list(log)")] == [
            "undone_device",
            "undone_sequence",
            "weights",
        ]
        assert {row[2] for row in one("PRAGMA foreign_key_list(log)")} == {"log", "weights"}
        receipt = progress.bury("ring/one", AT)
        assert receipt.sequence == max(row[1] for row in rows) + 1
        progress.undo(receipt, AT)
        progress.rebuild()
        assert states(progress) == cards
        for change in ("DELETE FROM log", "UPDATE log SET grade = 4"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                one(change)


def test_a_database_of_version_0_1_keeps_every_row_and_state(tmp_path):
    with sqlite3.connect(tmp_path / FILE, isolation_level=None) as old:
        old.executescript(OLD.with_name("progress-0.1.sql").read_text("utf-8"))
        tables = {
            name: old.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in ("log", "card", "weights")
        }
    old.close()
    kinds = {row[4] for row in tables["log"]}
    assert kinds == {"review", "answer", "explanation", "flag", "suspend", "bury", "undo"}
    with Progress(tmp_path) as progress:
        one = progress._database.execute
        for name, rows in tables.items():
            assert one(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() == rows
        progress.rebuild()
        assert one("SELECT * FROM card ORDER BY 1, 2").fetchall() == tables["card"]
        assert [row.item for row in progress.entries("flag")] == ["ring/bytes"]
        assert progress.hidden(study_day(AT)) >= {"ring/three", "ring/two"}
        assert progress.weights() == Weights(retention=0.85)
        points = [PointRow(**point) for point in json.loads(progress.entries("explanation")[0].points)]
        assert [point.made for point in points] == [False, False]
        assert progress.review("ring/one", Grade.GOOD, AT, TOOK).sequence == len(tables["log"]) + 1
    with Progress(tmp_path) as progress:
        assert progress.count() == len(tables["log"]) + 1


def test_a_database_with_labs_keeps_them_and_then_holds_stages(tmp_path, monkeypatch):
    with monkeypatch.context() as before:
        for module in (database, schema):
            before.setattr(module, "MIGRATIONS", database.MIGRATIONS[:3])
        with Progress(tmp_path) as progress:
            progress.lab(LabRow(item="ring/tree", passed=True, stars=("fewest bytes",)), AT)
            progress.undo(progress.review("ring/one", Grade.GOOD, AT, TOOK), AT)
            with pytest.raises(sqlite3.IntegrityError):
                progress.stage("ring/lesson", "done", AT)
            rows = progress.log()
    with Progress(tmp_path) as progress:
        assert progress.log() == rows
        assert progress.labs()["tree"].stars == ("fewest bytes",)
        progress.stage("ring/lesson", "done", AT)
        assert [row.given for row in progress.entries("stage")] == ["done"]


def test_a_migration_that_is_killed_half_way_leaves_the_old_database(tmp_path, monkeypatch):
    with sqlite3.connect(tmp_path / FILE, isolation_level=None) as old:
        old.executescript(OLD.read_text("utf-8"))
        rows = old.execute("SELECT * FROM log").fetchall()
    old.close()
    half = (database.MIGRATIONS[0], (*database.MIGRATIONS[1][:-3], "SELECT no_such_function()"))
    monkeypatch.setattr(database, "MIGRATIONS", half)
    with pytest.raises(sqlite3.OperationalError, match="no_such_function"):
        Progress(tmp_path)
    with sqlite3.connect(tmp_path / FILE) as same:
        assert same.execute("PRAGMA user_version").fetchone() == (1,)
        assert same.execute("SELECT * FROM log").fetchall() == rows
    same.close()
