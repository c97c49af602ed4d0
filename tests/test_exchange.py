"""Taking progress along: what is written can be read, merging comes to the same in any order, and nothing is half done."""

import csv
import io
import itertools
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from histories import AT, TOOK, apply, everything, exported, histories, import_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from program import environment, piped
from sample import answer_row

from ddpquiz.errors import UserError
from ddpquiz.learning import exchange
from ddpquiz.learning.backups import FILE, list_backups
from ddpquiz.learning.log_rows import ExplanationRow, LabRow, PointRow
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade, Weights


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.tuples(*[histories(max_size=12)] * 3))
def test_machines_that_import_from_each_other_in_any_order_end_with_the_same_bytes(tmp_path_factory, acts):
    home = tmp_path_factory.mktemp("machines")
    files = []
    for number, done in enumerate(acts):
        with Progress(home / str(number)) as one:
            apply(one, done)
            files.append(exported(one))
    results = []
    for number, order in enumerate(([1, 2], [2, 1], [0, 1, 2, 1, 0])):
        with Progress(home / (str(number) if number == 0 else f"fresh {number}")) as one:
            for file in order if number == 0 else [0, *order]:
                import_text(one, files[file])
            assert all(import_text(one, file) == 0 for file in files)
            results.append(everything(one))
            kept = repr(one.memories())
            one.rebuild()
            assert repr(one.memories()) == kept
    assert results[0] == results[1] == results[2]


def test_every_kind_of_row_comes_through_to_the_byte(tmp_path):
    with Progress(tmp_path / "a") as one, Progress(tmp_path / "b") as other:
        receipt = one.review("ring/one", Grade.GOOD, AT, TOOK)
        values = {"confidence": 0.75, "calls": "ring/one", "retry": True, "given": 'é "\n\u2028 {}'}
        one.answer(answer_row("ring/q", 0.5, **values), AT)
        one.explain(
            ExplanationRow(
                item="ring/why", took=TOOK, given="words\nand more", points=(PointRow("all send", True, True),)
            ),
            AT,
        )
        one.flag("ring/q", "", AT)
        one.suspend("ring/two", AT)
        one.bury("ring/three", AT)
        one.undo(receipt, AT)
        one.use_weights(Weights(retention=0.85), AT)
        assert import_text(other, exported(one)) == 7
        assert everything(other) == everything(one)
        assert other.weights() == Weights(retention=0.85)
        assert json.loads(exported(one))["log"][0]["kind"] == "review"


def test_weights_that_were_put_to_use_later_elsewhere_are_in_use_here_too(tmp_path):
    with Progress(tmp_path / "a") as one, Progress(tmp_path / "b") as other:
        one.use_weights(Weights(retention=0.8), AT)
        other.use_weights(Weights(retention=0.85), AT + TOOK)
        files = exported(one), exported(other)
        import_text(one, files[1])
        import_text(other, files[0])
        assert one.weights() == Weights(retention=0.85) == other.weights()


def test_a_copied_folder_that_went_its_own_way_is_refused_and_nothing_changes(tmp_path):
    with Progress(tmp_path / "a") as one:
        one.review("ring/one", Grade.GOOD, AT, TOOK)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "progress.db").write_bytes((tmp_path / "a" / "progress.db").read_bytes())
    with Progress(tmp_path / "a") as one, Progress(tmp_path / "b") as other:
        one.review("ring/two", Grade.GOOD, AT + TOOK, TOOK)
        other.review("ring/three", Grade.GOOD, AT + TOOK, TOOK)
        before = everything(one)
        device = other.log()[0].device
        with pytest.raises(UserError) as refused:
            import_text(one, exported(other))
        assert str(refused.value) == (
            f"Row 2 of device {device} differs from the one here, so nothing was imported: one of the two data folders is a copy "
            "of the other, and both have changed since. Import it into an empty folder: set DDPQUIZ_HOME."
        )
        assert everything(one) == before


@pytest.fixture
def whole(tmp_path):
    with Progress(tmp_path / "whole") as one:
        one.undo(one.review("ring/one", Grade.GOOD, AT, TOOK), AT)
        one.explain(ExplanationRow(item="ring/why", took=TOOK, given="x", points=(PointRow("all send", True),)), AT)
        return json.loads(exported(one))


def row(number, **changes):
    return lambda told: told["log"][number].update(changes)


BROKEN = {
    "format": (
        lambda told: told.update(format="x"),
        "is not progress of ddpquiz; `ddpquiz export json` writes such a file.",
    ),
    "version": (
        lambda told: told.update(version=4),
        "was written by a newer ddpquiz (its version is 4, this ddpquiz knows 3); update ddpquiz. Nothing was changed.",
    ),
    "no log": (lambda told: told.pop("log"), "is damaged, so nothing was imported: it has no `log`."),
    "no row": (lambda told: told["log"].append(3), "row 4 of its log has fields that no row has"),
    "field": (row(0, colour="red"), "row 1 of its log has fields that no row has"),
    "missing": (lambda told: told["log"][0].pop("item"), "row 1 of its log has no valid `item`"),
    "type": (row(0, grade="3"), "row 1 of its log has no valid `grade`"),
    "truth": (row(0, grade=True), "row 1 of its log has no valid `grade`"),
    "large": (row(0, took=1 << 70), "row 1 of its log has no valid `took`"),
    "surrogate": (row(0, item="a\ud800"), "row 1 of its log has no valid `item`"),
    "kind": (row(0, kind="dream"), "row 1 of its log is of an unknown kind, or has no name"),
    "time": (row(0, at="yesterday"), "row 1 of its log has a time that is not valid"),
    "day": (row(0, day="2026-W10-1"), "row 1 of its log has a time that is not valid"),
    "years": (
        row(0, at="9999-01-01T00:00:00.000000Z", day="9999-01-01"),
        "row 1 of its log has a time that is not valid",
    ),
    "far": (row(0, day="2026-03-09"), "row 1 of its log has a time that is not valid"),
    "points": (row(1, points="[3]"), "has points that are not valid"),
    "no item": (row(0, item="ring"), "row 1 of its log has no valid `item`"),
    "half an item": (row(0, item="/one"), "row 1 of its log has no valid `item`"),
    "four parts": (row(0, item="a/b/c/d"), "row 1 of its log has no valid `item`"),
    "blank": (row(0, item="ring/o ne"), "row 1 of its log has no valid `item`"),
    "long name": (row(0, item="ring/" + "x" * 300), "row 1 of its log has no valid `item`"),
    "numbers of rows": (row(0, sequence=10**12), "row 1 of its log has no valid `sequence`"),
    "years of an answer": (row(0, took=10**14), "row 1 of its log has no valid `took`"),
    "null character": (row(1, given="a\0b"), "row 2 of its log has no valid `given`"),
    "half a character": (row(1, given="\ud800"), "row 2 of its log has no valid `given`"),
    "long text": (row(1, given="x" * 1_000_001), "row 2 of its log has no valid `given`"),
    "no points": (row(1, points="[]"), "row 2 of its log has points that are not valid"),
    "points of other types": (
        row(1, points='[{"say": "x", "matched": 1}]'),
        "row 2 of its log has points that are not valid",
    ),
    "deep points": (row(1, points="[" * 5000), "row 2 of its log has points that are not valid"),
    "an answer to a card": (row(0, given="x"), "row 1 of its log has values that contradict each other"),
    "answer": (
        row(0, kind="answer", grade=None, credit=1, given="x", level="easy"),
        "row 1 of its log has values that contradict each other",
    ),
    "level": (
        row(0, kind="answer", grade=None, credit=1, given="x", level="expert", chance=0),
        "row 1 of its log has no valid `level`",
    ),
    "chance": (
        row(0, kind="answer", grade=None, credit=1, given="x", level="easy", chance=float("nan")),
        "row 1 of its log has no valid `chance`",
    ),
    "card that is called": (
        row(0, kind="answer", grade=None, credit=1, given="x", level="easy", chance=0, calls="one"),
        "row 1 of its log has no valid `calls`",
    ),
    "lab": (row(0, kind="lab", item="x", grade=None, took=None, credit=1, given="passed"), "no valid `item`"),
    "failed lab": (
        row(0, kind="lab", grade=None, took=None, credit=0, given="failed"),
        "row 1 of its log has values that contradict each other",
    ),
    "star without a name": (
        row(0, kind="lab", grade=None, took=None, credit=1, given="passed\n"),
        "row 1 of its log has values that contradict each other",
    ),
    "credit for a solution": (
        row(0, kind="lab", grade=None, took=None, credit=1, given="solution"),
        "row 1 of its log has values that contradict each other",
    ),
    "stage": (
        row(0, kind="stage", grade=None, took=None, given="postponed"),
        "row 1 of its log has values that contradict each other",
    ),
    "hidden with a note": (
        row(0, kind="suspend", grade=None, took=None, given="x"),
        "row 1 of its log has values that contradict each other",
    ),
    "undo of another item": (row(2, item="ring/two"), "row 3 of its log undoes a row that is not there"),
    "undo of itself": (
        lambda told: told["log"][2].update(undone_sequence=told["log"][2]["sequence"]),
        "row 3 of its log undoes a row that is not there",
    ),
    "unknown rows": (lambda told: told.update(unknown=3), "is damaged, so nothing was imported: it has no `unknown`."),
    "grade": (row(0, grade=5), "row 1 of its log has no valid `grade`"),
    "undone": (row(2, undone_sequence=17), "row 3 of its log undoes a row that is not there"),
    "nameless weights": (
        row(0, weights="00000000"),
        "row 1 of its log refers to weights that are not there",
    ),
    "weights": (
        lambda told: told["weights"][0].update(retention=0.7),
        "number 1 of its weights do not match their version",
    ),
    "huge weights": (
        lambda told: told["weights"][0].update(retention=10**400),
        "number 1 of its weights cannot be read",
    ),
    "no weights": (lambda told: told["weights"].append({}), "number 2 of its weights cannot be read"),
}


@pytest.mark.parametrize("change", BROKEN)
def test_a_file_that_is_not_whole_is_refused_in_one_sentence_and_nothing_changes(tmp_path, whole, change):
    spoil, sentence = BROKEN[change]
    row_of = {entry["kind"]: number for number, entry in enumerate(whole["log"])}
    assert sorted(row_of) == ["explanation", "review", "undo"]
    whole["log"].sort(key=lambda entry: ["review", "explanation", "undo"].index(entry["kind"]))
    with Progress(tmp_path / "here") as here:
        here.review("ring/two", Grade.GOOD, AT, TOOK)
        before = everything(here)
        spoil(whole)
        with pytest.raises(UserError) as refused:
            import_text(here, json.dumps(whole))
        assert sentence in str(refused.value)
        assert everything(here) == before


def test_an_import_says_where_the_state_before_it_is_and_how_to_go_back(tmp_path):
    here, there, file = tmp_path / "here", tmp_path / "there", tmp_path / "progress.json"
    piped(there, "study", lines="\n3\n\n1\n")
    piped(there, "export", "json", "--to", str(file))
    piped(here, "study", lines="\n1\n")
    with Progress(here) as progress:
        before = everything(progress)
    day = next(list_backups(here)).name
    done = piped(here, "import", str(file))
    backup = here / "backups" / f"progress-{day}-import-1.db"
    assert (done.returncode, done.stdout) == (
        0,
        (
            f"2 of 2 rows were new.\nWhat was here before is saved as {backup}; "
            f"`ddpquiz progress restore-backup {day}-import-1` goes back to it.\n"
        ),
    )
    assert piped(here, "import", str(file)).stdout == "Nothing was new in 2 rows.\n"
    assert [each.name for each in list_backups(here)] == [day, f"{day}-import-1"]  # of the same rows
    piped(there, "study", lines="\n3\n")
    piped(there, "export", "json", "--to", str(file))
    assert f"restore-backup {day}-import-2`" in piped(here, "import", str(file)).stdout
    assert [each.rows for each in list_backups(here)] == [3, 1, 1]
    assert piped(here, "progress", "restore-backup", f"{day}-import-1").returncode == 0
    with Progress(here) as progress:
        assert everything(progress) == before


def test_backups_before_imports_do_not_displace_those_of_the_days(tmp_path):
    with Progress(tmp_path / "there") as there, Progress(tmp_path / "here") as here:
        here.review("ring/one", Grade.GOOD, AT, TOOK)
        for number in range(12):
            there.review(f"ring/{number}", Grade.GOOD, AT, TOOK)
            here.merge_safely(there.log(), there.all_weights(), AT)
    names = [each.name for each in list_backups(tmp_path / "here")]
    assert sorted(names) == sorted(["2026-03-02", *(f"2026-03-02-import-{number}" for number in range(3, 13))])


def test_an_import_whose_backup_cannot_be_written_changes_nothing(tmp_path):
    with Progress(tmp_path / "there") as there, Progress(tmp_path / "here") as here:
        there.review("ring/one", Grade.GOOD, AT, TOOK)
        (tmp_path / "here" / "backups").write_text("in the way")
        with pytest.raises(UserError) as refused:
            here.merge_safely(there.log(), there.all_weights(), AT)
        assert here.log() == []
    assert re.fullmatch(
        f"The backup before the import cannot be written to {tmp_path / 'here' / 'backups'} .*, so nothing was imported.",
        str(refused.value),
    )


def test_rows_that_no_import_accepts_are_exported_beside_the_log_and_left_out(tmp_path):
    here, there, file = tmp_path / "here", tmp_path / "there", tmp_path / "progress.json"
    with Progress(here) as progress:
        progress.review("ring/one", Grade.GOOD, AT, TOOK)
        progress.undo(progress.lab(LabRow(item="tree", passed=True), AT), AT)  # as an old import may have left it
        text = exported(progress)
    assert [each["item"] for each in json.loads(text)["log"]] == ["ring/one"]
    assert [each["kind"] for each in json.loads(text)["unknown"]] == ["lab", "undo"]
    file.write_text(text)
    assert piped(there, "import", str(file)).stdout.startswith(
        "1 of 1 rows were new.\n2 more mean nothing to ddpquiz and were left out.\n"
    )
    with Progress(there) as progress:
        assert [row.item for row in progress.log()] == ["ring/one"]


@pytest.mark.parametrize("name", ["progress-1.sql", "progress-0.1.sql"])
def test_all_that_older_versions_wrote_is_accepted(tmp_path, name):
    with sqlite3.connect(tmp_path / FILE) as old:
        old.executescript((Path(__file__).parent / "data" / name).read_text("utf-8"))
    old.close()
    with Progress(tmp_path) as here, Progress(tmp_path / "other") as other:
        assert import_text(other, exported(here)) == here.count()
        assert "unknown" not in json.loads(exported(here))


def test_a_text_that_no_file_can_hold_is_saved_without_it_and_one_without_end_is_refused(progress):
    progress.flag("ring/one", "a\0b\ud800c", AT)
    assert progress.entries("flag")[0].given == "a\ufffdb\ufffdc"
    with pytest.raises(UserError, match="has 1,000,001, so it was not saved"):
        progress.flag("ring/one", "x" * 1_000_001, AT)
    assert progress.count() == 1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0), st.binary(min_size=1, max_size=3))
def test_a_file_with_other_bytes_is_taken_in_or_refused_and_never_a_bug(tmp_path_factory, place, bytes_):
    home = tmp_path_factory.mktemp("other")
    with Progress(home) as one:
        one.explain(ExplanationRow(item="ring/why", took=TOOK, given="x", points=(PointRow("all send", True),)), AT)
        one.undo(one.review("ring/one", Grade.GOOD, AT, TOOK), AT)
        data = exported(one).encode()
    place %= len(data)
    text = (data[:place] + bytes_ + data[place + len(bytes_) :]).decode("utf-8", "replace")
    with Progress(home / "empty") as other:
        try:
            import_text(other, text)
        except UserError:
            assert other.log() == []


def test_a_table_has_what_counts_and_a_name_for_each_column(tmp_path):
    with Progress(tmp_path) as one:
        one.undo(one.review("ring/two", Grade.AGAIN, AT, TOOK), AT)
        one.review("ring/one", Grade.GOOD, AT, TOOK)
        one.answer(answer_row("ring/q", 1.0, given='a, "b"\nc'), AT)
        file = io.StringIO()
        exchange.write_csv(one.entries("review", "answer"), file)
    read = list(csv.DictReader(io.StringIO(file.getvalue(), newline="")))
    assert [(each["item"], each["grade"], each["credit"], each["seconds"]) for each in read] == [
        ("ring/one", "3", "", "3.0"),
        ("ring/q", "", "1.0", "3.0"),
    ]
    assert (read[1]["given"], read[1]["values"]) == ('a, "b"\nc', "")


def test_in_the_table_the_values_of_a_question_stand_in_a_column_of_their_own(tmp_path):
    file = io.StringIO(newline="")
    with Progress(tmp_path) as one:
        one.answer(answer_row("ring/steps", 0.0, given="40+3 with m4=58, m8=78"), AT)
        exchange.write_csv(one.entries("answer"), file)
    (read,) = csv.DictReader(io.StringIO(file.getvalue(), newline=""))
    assert (read["given"], read["values"]) == ("40+3", "m4=58, m8=78")


@pytest.mark.parametrize("text", ["Wrap with static_graph=True", '["it", "start with nproc=4"]', "4 with nproc=4"])
def test_in_the_table_a_text_that_ends_like_drawn_values_stays_whole(tmp_path, text):
    file = io.StringIO(newline="")
    with Progress(tmp_path) as one:
        if text[0] != "4":
            one.answer(answer_row("ring/q", 0.0, given=text), AT)
        one.explain(
            ExplanationRow(item="ring/why", took=TOOK, given=text, points=[PointRow("it is so", matched=True)]), AT
        )
        exchange.write_csv(one.entries("answer", "explanation"), file)
    for read in csv.DictReader(io.StringIO(file.getvalue(), newline="")):
        assert (read["given"], read["values"]) == (text, "")


def test_the_commands_take_progress_from_one_machine_to_another(tmp_path):
    here, there, file = tmp_path / "here", tmp_path / "there", tmp_path / "progress.json"
    piped(here, "study", lines="\n3\n\n1\n")
    assert piped(here, "export", "json", "--to", str(file)).returncode == 0
    assert piped(here, "export", "json").stdout == file.read_text("utf-8")
    assert piped(there, "import", str(file)).stdout.startswith("2 of 2 rows were new.\n")
    assert piped(there, "import", str(file)).stdout == "Nothing was new in 2 rows.\n"
    assert "Front of two?" in piped(there, "study", "--new", "0").stdout
    assert piped(there, "export", "csv").stdout.count("\n") == 3


@pytest.mark.parametrize("form", ["json", "csv"])
def test_an_export_has_letters_that_the_terminal_lacks(tmp_path, form):
    piped(tmp_path, "explain", "ring", lines="é → 日")
    assert "é → 日" in piped(tmp_path, "export", form, PYTHONIOENCODING="ascii").stdout


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read: No such file or directory."),
        (b"\xff\xfe\x00", "is not text; `ddpquiz export json` writes what can be imported."),
        (b'{"format": "ddpq', "is not valid JSON; export it again: `ddpquiz export json`."),
        (b"[" * 100_000, "is not valid JSON; export it again: `ddpquiz export json`."),
        (b"[]", "is not progress of ddpquiz; `ddpquiz export json` writes such a file."),
    ],
)
def test_what_cannot_be_imported_is_told_in_one_sentence(tmp_path, content, sentence):
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content)
    done = piped(tmp_path / "home", "import", str(file))
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{file} {sentence}\n")


def test_a_device_without_end_and_a_pipe_without_writer_are_refused_and_a_pipe_is_read(tmp_path):
    done = piped(tmp_path / "home", "import", "/dev/zero")
    assert (done.returncode, done.stderr) == (1, "/dev/zero is larger than 256 MB, which no export is.\n")
    os.mkfifo(tmp_path / "fifo")
    done = piped(tmp_path / "home", "import", str(tmp_path / "fifo"))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    piped(tmp_path / "here", "study", lines="\n3\n")
    text = piped(tmp_path / "here", "export", "json").stdout
    assert piped(tmp_path / "home", "import", "/dev/stdin", lines=text).stdout.startswith("1 of 1 rows")


def test_a_file_that_cannot_be_written_is_told_and_nothing_is_left_behind(tmp_path):
    done = piped(tmp_path / "home", "export", "json", "--to", str(tmp_path / "none" / "file"))
    assert (done.returncode, done.stderr) == (
        1,
        f"{tmp_path / 'none' / 'file'} cannot be written: No such file or directory.\n",
    )
    (tmp_path / "folder").mkdir()
    assert piped(tmp_path / "home", "export", "csv", "--to", str(tmp_path / "folder")).returncode == 1
    (tmp_path / "no-folder").touch()
    done = piped(tmp_path / "home", "export", "json", "--to", str(tmp_path / "no-folder" / "file"))
    assert done.stderr == f"{tmp_path / 'no-folder' / 'file'} cannot be written: Not a directory.\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "no-folder"]


def test_an_import_that_is_killed_took_in_all_or_nothing(tmp_path):
    """Kill it at random moments of the time that it takes; then it is done once more, whole."""
    file, homes = tmp_path / "many.json", (tmp_path / f"home{count}" for count in itertools.count())
    with Progress(tmp_path / "source") as source:
        source.review("c/0", Grade.GOOD, AT, TOOK)
        told = json.loads(exported(source))
    told["log"] = [{**told["log"][0], "item": f"c/{n % 500}", "sequence": n} for n in range(1, 4001)]
    file.write_text(json.dumps(told))
    program = str(Path(__file__).parent / "sample_program.py")
    began = time.monotonic()
    assert piped(next(homes), "import", str(file)).returncode == 0
    whole, home, killed = time.monotonic() - began, next(homes), 0
    while killed < 4:
        child = subprocess.Popen(
            [sys.executable, program, "import", str(file)], env=environment(home), stdout=subprocess.PIPE
        )
        began = time.monotonic()
        try:
            child.wait(random.uniform(0.1, 0.9) * whole)
            whole = time.monotonic() - began  # the machine has more time than it had, and a kill would always be late
        except subprocess.TimeoutExpired:
            child.kill()
        child.communicate()
        killed += child.returncode == -signal.SIGKILL
        with Progress(home) as progress:
            kept = len(progress.log())
            assert kept in (0, 4000)
            assert len(progress.memories()) == (500 if kept else 0)
            assert progress._database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        if kept:
            home = next(homes)
    assert piped(home, "import", str(file)).returncode == 0
    with Progress(home) as progress:
        assert len(progress.log()) == 4000
