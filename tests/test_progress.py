"""The log, and what follows from it."""

import contextlib
import json
import os
import re
import sqlite3
import stat
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample import BYTES, RING_CARDS, answer_row, wrong_answer

from ddpquiz.errors import UserError
from ddpquiz.learning import damage, database
from ddpquiz.learning.answers import save_answer
from ddpquiz.learning.log_rows import PointRow
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade, Memory, Schedule, Weights, study_day
from ddpquiz.paths import data_dir

AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
TOOK = timedelta(seconds=3)


def states(progress):
    return progress._database.execute("SELECT * FROM card ORDER BY item").fetchall()


def test_a_review_is_kept_and_the_card_is_scheduled(progress):
    receipt = progress.review("ring/one", Grade.GOOD, AT, TOOK)
    assert receipt.sequence == 1
    assert progress.memories() == {"ring/one": Schedule(Weights()).review("ring/one", None, Grade.GOOD, study_day(AT))}
    (row,) = progress.log()
    assert (row.kind, row.item, row.grade, row.took) == ("review", "ring/one", 3, 3000)
    assert (row.at, row.day, row.weights) == ("2026-03-02T09:00:00.000000Z", "2026-03-02", Weights().version)


def test_the_log_has_utc_and_the_study_day_of_where_the_learner_was(progress):
    progress.review("ring/one", Grade.GOOD, datetime(2026, 3, 2, 2, tzinfo=timezone(timedelta(hours=9))), TOOK)
    (row,) = progress.log()
    assert (row.at, row.day) == ("2026-03-01T17:00:00.000000Z", "2026-03-01")


def test_an_undo_is_a_row_and_takes_the_review_out_of_the_state(progress):
    progress.review("ring/one", Grade.GOOD, AT, TOOK)
    before = progress.memories()
    receipt = progress.review("ring/one", Grade.AGAIN, AT + TOOK, TOOK)
    progress.undo(receipt, AT + 2 * TOOK)
    assert progress.memories() == before
    assert [row.kind for row in progress.log()] == ["review", "review", "undo"]
    assert [row.grade for row in progress.entries("review")] == [3]


def test_an_answer_makes_a_card_due_and_undoing_it_takes_that_back(progress):
    progress.review("ring/one", Grade.EASY, AT, TOOK)
    before = progress.memories()
    tomorrow = AT + timedelta(days=1)
    receipt = progress.answer(answer_row("ring/bytes", 0.0, calls="ring/one"), tomorrow)
    assert progress.memories()["ring/one"].due == study_day(tomorrow)
    assert progress.memories()["ring/one"].stability == before["ring/one"].stability
    progress.undo(receipt, tomorrow)
    assert progress.memories() == before
    progress.answer(answer_row("ring/bytes", 0.0, calls="ring/new"), tomorrow)
    assert progress.memories()["ring/new"] == Memory(study_day(tomorrow))


def test_the_log_can_only_grow(progress):
    progress.review("ring/one", Grade.GOOD, AT, TOOK)
    for change in ("DELETE FROM log", "UPDATE log SET grade = 4"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            progress._database.execute(change)


acts = st.lists(
    st.tuples(
        st.sampled_from(["review", "answer", "undo", "weights"]),
        st.sampled_from(["c/a", "c/b", "d/a"]),
        st.integers(1, 4),
        st.integers(-3 * 24, 40 * 24),  # hours between, backwards too
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts)
def test_a_rebuilt_state_is_the_same_to_the_byte_here_and_on_another_machine(tmp_path_factory, acts):
    home = tmp_path_factory.mktemp("progress")
    at, receipts = AT, []
    with Progress(home) as progress, Progress(home / "other") as other:
        for number, (act, card, grade, hours) in enumerate(acts):
            at += timedelta(hours=hours)
            if act == "review":
                receipts.append(progress.review(card, Grade(grade), at, TOOK))
            elif act == "answer":
                receipts.append(progress.answer(answer_row("c/q", 0.0, calls=card), at))
            elif act == "weights":
                progress.use_weights(Weights(retention=0.8 + grade / 100), at)
            elif receipts:
                progress.undo(receipts.pop(number % len(receipts)), at)
        kept = repr(states(progress))
        progress.rebuild()
        assert repr(states(progress)) == kept
        known = dict.fromkeys([Weights(), *(Weights(retention=0.8 + grade / 100) for grade in range(1, 5))], "")
        assert other.merge(progress.log(), known) == len(progress.log())
        assert repr(states(other)) == kept
        assert other.merge(progress.log(), known) == 0


def test_two_machines_can_be_merged_and_agree(tmp_path):
    with Progress(tmp_path / "here") as here, Progress(tmp_path / "there") as there:
        for days in range(4):
            here.review("c/a", Grade.GOOD, AT + timedelta(days=2 * days), TOOK)
            there.review("c/a", Grade.HARD, AT + timedelta(days=2 * days + 1), TOOK)
        mine, theirs = here.log(), there.log()
        here.merge(theirs, there.all_weights())
        there.merge(mine, here.all_weights())
        assert states(here) == states(there)
        assert here.memories()["c/a"].reps == 8
        here.review("c/a", Grade.GOOD, AT + timedelta(days=30), TOOK)
        kept = states(here)
        here.rebuild()
        assert states(here) == kept


def test_weights_in_use_are_those_used_last(progress):
    assert progress.weights() == Weights()
    progress.use_weights(Weights(retention=0.8), AT)
    progress.use_weights(Weights(), AT + TOOK)
    assert progress.weights() == Weights()
    progress.use_weights(Weights(retention=0.8), AT + 2 * TOOK)
    assert progress.weights() == Weights(retention=0.8)


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
    path = tmp_path / database.FILE
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
    for module in (database, damage):
        monkeypatch.setattr(module, "MIGRATIONS", longer)
    for _ in range(2):
        with Progress(tmp_path) as progress:
            assert progress._database.execute("PRAGMA user_version").fetchone() == (len(longer),)


@pytest.mark.parametrize(
    "content", [b"this is no database at all, but longer than a header" * 40, b"SQLite format 3\0junk"]
)
def test_a_damaged_file_is_told_in_a_sentence_and_kept(tmp_path, content):
    path = tmp_path / database.FILE
    path.write_bytes(content)
    with pytest.raises(UserError) as refused:
        Progress(tmp_path)
    assert re.fullmatch(
        rf"{path} is damaged \(.*\), and there is no backup. Move it away to start afresh.", str(refused.value)
    )
    assert path.read_bytes() == content


def test_damage_in_the_middle_is_told_too(tmp_path):
    with Progress(tmp_path) as progress:
        for n in range(200):
            progress.review(f"c/{n}", Grade.GOOD, AT, TOOK)
    path = tmp_path / database.FILE
    data = bytearray(path.read_bytes())
    data[4096 * 2 : -4096] = b"\xff" * (len(data) - 4096 * 3)
    path.write_bytes(data)
    with pytest.raises(UserError, match="is damaged"), Progress(tmp_path) as progress:
        progress.rebuild()


@pytest.mark.parametrize("version", [0, 1, len(database.MIGRATIONS), 99])
def test_a_database_of_something_else_is_left_alone(tmp_path, version):
    with sqlite3.connect(tmp_path / database.FILE) as other:
        other.execute("CREATE TABLE theirs (a)")
        other.execute(f"PRAGMA user_version = {version}")
    other.close()
    before = (tmp_path / database.FILE).read_bytes()
    with pytest.raises(UserError, match="was not made by ddpquiz; move it away"):
        Progress(tmp_path)
    assert (tmp_path / database.FILE).read_bytes() == before


def test_a_full_disk_is_told_and_the_answer_can_be_given_again(progress):
    progress.review("ring/one", Grade.GOOD, AT, TOOK)
    pages = progress._database.execute("PRAGMA page_count").fetchone()[0]
    progress._database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(UserError) as refused:
        progress.flag("ring/one", "x" * 50_000, AT)
    folder = progress.path.parent
    assert str(refused.value) == (
        f"The disk with {folder} is full, so the last answer was not saved; make room and answer it again."
    )
    progress._database.execute("PRAGMA max_page_count = 100000")
    progress.review("ring/one", Grade.GOOD, AT, TOOK)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(UserError, match="set DDPQUIZ_HOME to another folder"):
            Progress(tmp_path)
    finally:
        tmp_path.chmod(stat.S_IRWXU)


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError) as refused:
        Progress(tmp_path / "file" / "home")
    assert str(refused.value) == (
        f"The data folder {tmp_path / 'file' / 'home'} cannot be created (Not a directory); "
        "make it writable, or set DDPQUIZ_HOME to another folder."
    )


def test_the_folder_is_the_one_that_the_learner_names(monkeypatch, tmp_path):
    monkeypatch.setenv("DDPQUIZ_HOME", str(tmp_path))
    assert data_dir() == tmp_path
    monkeypatch.delenv("DDPQUIZ_HOME")
    assert data_dir().name == "ddpquiz"


def test_flags_and_answers_can_be_read_back(progress):
    progress.answer(answer_row("ring/bytes", 0.5, retry=True), AT)
    progress.flag("ring/bytes", "two options are right", AT)
    assert [(row.credit, row.retry) for row in progress.entries("answer")] == [(0.5, True)]
    assert [row.given for row in progress.entries("flag")] == ["two options are right"]
    assert progress.memories() == {}


def test_days_are_days(progress):
    progress.review("ring/one", Grade.GOOD, AT, TOOK)
    memory = progress.memories()["ring/one"]
    assert isinstance(memory.due, date)
    assert memory.first == memory.last == date(2026, 3, 2)


POINTS = (
    PointRow("every rank sends", True),
    PointRow("to its neighbour", False, True),
    PointRow("twice round", True, True),
)


def test_an_explanation_is_worth_the_share_of_points_that_were_made_and_the_learner_has_the_last_word(progress):
    progress.explain("ring/why", POINTS, AT, took=TOOK, given="Each rank sends to the next.")
    (row,) = progress.entries("explanation")
    assert (row.item, row.given, row.took) == ("ring/why", "Each rank sends to the next.", 3000)
    assert row.credit == pytest.approx(2 / 3)
    assert tuple(PointRow(**point) for point in json.loads(row.points)) == POINTS
    assert progress.memories() == {}


def test_how_sure_the_learner_was_is_kept_with_an_answer_and_only_there(progress):
    progress.answer(answer_row("ring/bytes", 1.0, confidence=0.75), AT)
    progress.answer(answer_row("ring/bytes", 1.0), AT)
    assert [row.confidence for row in progress.entries("answer")] == [0.75, None]
    with pytest.raises(sqlite3.IntegrityError):
        progress.answer(answer_row("ring/bytes", 1.0, confidence=75), AT)


def test_what_is_suspended_is_hidden_until_restored_and_what_is_buried_until_tomorrow(progress):
    today = study_day(AT)
    tomorrow = today + timedelta(days=1)
    progress.review("ring/one", Grade.GOOD, AT, TOOK)
    before = states(progress)
    progress.suspend("ring/one", AT)
    buried = progress.bury("ring/two", AT)
    assert (progress.hidden(today), progress.hidden(tomorrow)) == ({"ring/one", "ring/two"}, {"ring/one"})
    assert states(progress) == before
    progress.undo(buried, AT)
    assert progress.restore("ring/one", AT)
    assert not progress.restore("ring/one", AT)
    assert progress.hidden(today) == frozenset()


OLD = Path(__file__).parent / "data" / "progress-1.sql"  # what the first version of the schema was made of


def test_a_database_of_the_first_version_keeps_every_row_when_it_is_brought_up_to_date(tmp_path):
    with sqlite3.connect(tmp_path / database.FILE, isolation_level=None) as old:
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
    with sqlite3.connect(tmp_path / database.FILE, isolation_level=None) as old:
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


def test_a_migration_that_is_killed_half_way_leaves_the_old_database(tmp_path, monkeypatch):
    with sqlite3.connect(tmp_path / database.FILE, isolation_level=None) as old:
        old.executescript(OLD.read_text("utf-8"))
        rows = old.execute("SELECT * FROM log").fetchall()
    old.close()
    half = (database.MIGRATIONS[0], (*database.MIGRATIONS[1][:-3], "SELECT no_such_function()"))
    monkeypatch.setattr(database, "MIGRATIONS", half)
    with pytest.raises(sqlite3.OperationalError, match="no_such_function"):
        Progress(tmp_path)
    with sqlite3.connect(tmp_path / database.FILE) as same:
        assert same.execute("PRAGMA user_version").fetchone() == (1,)
        assert same.execute("SELECT * FROM log").fetchall() == rows
    same.close()


def test_a_rebuild_gives_the_same_bytes_in_another_time_zone_and_after_merges_in_another_order(tmp_path):
    homes = [tmp_path / name for name in ("a", "b", "c")]
    for place, home in enumerate(homes):
        with Progress(home) as one:
            one.use_weights(Weights(retention=0.8 + place / 20), AT)
            for number in range(30):
                at = AT + timedelta(days=number * (place + 1), hours=5 * number, seconds=place)
                one.review(f"c/{number % 4}", Grade(1 + number % 4), at.astimezone(timezone(timedelta(hours=9))), TOOK)
            one.undo(one.answer(answer_row("c/q", 0.0, calls="c/5"), AT), AT)
            one.answer(answer_row("c/q", 0.0, calls="c/6"), AT)

    def gathered(order, name):
        with Progress(tmp_path / name) as all_of, contextlib.ExitStack() as stack:
            for home in order:
                one = stack.enter_context(Progress(home))
                all_of.merge(one.log(), one.all_weights())
            return states(all_of)

    kept = gathered(homes, "forward")
    assert len(kept) == 5
    assert repr(gathered(homes[::-1], "backward")) == repr(kept)
    for zone in ("Asia/Tokyo", "America/Los_Angeles"):
        environment = {**os.environ, "DDPQUIZ_HOME": str(tmp_path / "forward"), "TZ": zone}
        words = [sys.executable, "-m", "ddpquiz", "progress", "rebuild"]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
        assert done.stdout == "5 cards from 99 rows of the log; nothing changed.\n"
        with Progress(tmp_path / "forward") as same:
            assert repr(states(same)) == repr(kept)


def test_the_cards_of_one_concept_are_read_alone(progress):
    for item in ("ring/one", "ring-2/one", "rin/g", "ring0/x", "ring/zwei"):
        progress.review(item, Grade.GOOD, AT, TOOK)
    assert set(progress.memories("ring")) == {"ring/one", "ring/zwei"}


def test_a_wrong_answer_calls_a_card_that_is_not_hidden(progress):
    progress.suspend("ring/two", AT)  # of the question's level, so the first choice
    assert save_answer(progress, wrong_answer(BYTES, AT), RING_CARDS).called == "ring/one"
    progress.restore("ring/two", AT)
    tomorrow = wrong_answer(BYTES, AT + timedelta(days=1))
    assert save_answer(progress, tomorrow, RING_CARDS, retry=True).called is None
    assert save_answer(progress, tomorrow, RING_CARDS).called == "ring/two"


def test_missing_a_question_again_on_the_same_day_calls_no_second_card(progress):
    wrong = wrong_answer(BYTES, AT)
    first = save_answer(progress, wrong, RING_CARDS)
    assert first.called
    assert save_answer(progress, wrong, RING_CARDS).called is None
    progress.undo(first.receipt, AT)
    assert save_answer(progress, wrong, RING_CARDS).called


def test_of_several_answers_on_a_day_the_first_counts_and_of_days_the_last(progress):
    for days, credit in ((0, 1.0), (0, 0.0), (1, 0.0), (1, 1.0)):
        progress.answer(answer_row(BYTES.key, credit, level="hard"), AT + timedelta(days=days))
        (row,) = progress.last_answers()
        assert row.credit == (0.0 if days else 1.0)


def test_weights_are_in_use_from_when_they_were_chosen_also_by_a_clock_that_was_set_back(progress):
    progress.use_weights(Weights(retention=0.8), AT)
    progress.use_weights(Weights(retention=0.95), AT - timedelta(days=400))
    assert progress.weights() == Weights(retention=0.95)
