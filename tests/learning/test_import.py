"""An import checks every row, makes a backup first, and changes nothing if it refuses."""

import json
import re
import sqlite3

import pytest
from places import DATA
from progress_histories import AT, TOOK, everything, exported, import_text
from run_program import piped

from ddpquiz.errors import UserError
from ddpquiz.learning.database import FILE, list_backups
from ddpquiz.learning.log_rows import ExplanationRow, LabRow, PointRow
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade


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
        "holds no ddpquiz progress; `ddpquiz export json` writes a file that does.",
    ),
    "version": (
        lambda told: told.update(version=4),
        "was written by a newer ddpquiz (its version is 4, this ddpquiz knows 3); update ddpquiz. Nothing was changed.",
    ),
    "no log": (lambda told: told.pop("log"), "is damaged, so nothing was imported: it has no `log`."),
    "no row": (lambda told: told["log"].append(3), "row 4 of its log has fields that no row has"),
    "field": (row(0, color="red"), "row 1 of its log has fields that no row has"),
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
            f"2 of 2 log rows were new.\nWhat was here before is saved as {backup}; "
            f"`ddpquiz progress restore-backup {day}-import-1` goes back to it.\n"
        ),
    )
    assert piped(here, "import", str(file)).stdout == "None of the 2 log rows was new.\n"
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
        "1 of 1 log rows were new.\n2 more could not be understood, and were left out.\n"
    )
    with Progress(there) as progress:
        assert [row.item for row in progress.log()] == ["ring/one"]


@pytest.mark.parametrize("number", [10**9 - 1, 10**9])
def test_answers_after_the_import_of_the_last_number_of_this_device_can_be_imported_elsewhere(tmp_path, number):
    with Progress(tmp_path / "here") as here, Progress(tmp_path / "here") as sitting:
        here.review("ring/one", Grade.GOOD, AT, TOOK)
        told = json.loads(exported(here))
        told["log"].append({**told["log"][0], "item": "ring/extra", "sequence": number})
        assert import_text(here, json.dumps(told)) == 1
        here.undo(here.review("ring/two", Grade.GOOD, AT, TOOK), AT)
        sitting.review("ring/three", Grade.GOOD, AT, TOOK)
        here.review("ring/four", Grade.GOOD, AT, TOOK)
        text = exported(here)
    assert "unknown" not in json.loads(text)
    with Progress(tmp_path / "there") as there:
        assert import_text(there, text) == 6
        assert import_text(there, text) == 0
        assert {*there.memories()} == {"ring/one", "ring/extra", "ring/three", "ring/four"}
    with Progress(tmp_path / "here") as here:
        assert import_text(here, json.dumps(told)) == 0
        assert len({row.device for row in here.log()}) == 2


@pytest.mark.parametrize("name", ["progress-1.sql", "progress-0.1.sql"])
def test_all_that_older_versions_wrote_is_accepted(tmp_path, name):
    with sqlite3.connect(tmp_path / FILE) as old:
        old.executescript((DATA / name).read_text("utf-8"))
    old.close()
    with Progress(tmp_path) as here, Progress(tmp_path / "other") as other:
        assert import_text(other, exported(here)) == here.count()
        assert "unknown" not in json.loads(exported(here))
