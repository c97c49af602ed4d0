"""Cards that are hidden or flagged: where this is shown, and how it is undone."""

import json
import re
from datetime import UTC, datetime, timedelta

from inline_snapshot import snapshot
from run_program import piped

from ddpquiz.learning.progress import Progress


def test_what_was_suspended_is_named_and_brought_back(home):
    piped(home, "study", lines="x\nb\nf\n")
    assert "Front of three?" in piped(home, "study").stdout
    listed = piped(home, "list", "--hidden").stdout
    assert re.sub(r"\d{4}-\d\d-\d\d", "DAY", listed) == (
        snapshot("""\
ring/two  hidden until tomorrow · DAY
  Front of two?
ring/one  hidden · DAY
  Front of one?

ddpquiz progress restore ITEM
""")
    )
    assert [mark["item"] for mark in json.loads(piped(home, "list", "--flagged", "--json").stdout)] == ["ring/three"]
    for words in (["ring"], ["--track", "collectives"]):
        assert piped(home, "list", "--hidden", *words).stdout == piped(home, "list", "--hidden").stdout
    assert piped(home, "list", "--hidden", "--flagged", "ddp").stdout == "None.\n"
    done = piped(home, "progress", "restore", "ring/one", "ring/two")
    assert (done.returncode, done.stdout) == (0, "ring/one will be asked again.\nring/two will be asked again.\n")
    assert "Front of one?" in piped(home, "study").stdout
    assert piped(home, "list", "--hidden").stdout == "None.\n"
    wrong = piped(home, "progress", "restore", "ring/one")
    complaint = "`ring/one` is not hidden; `ddpquiz list --hidden` lists what is.\n"
    assert (wrong.returncode, wrong.stderr) == (1, complaint)


def test_what_was_buried_by_a_clock_that_is_ahead_is_listed_as_it_is_hidden(home):
    with Progress(home) as progress:
        progress.bury("ring/one", datetime.now(UTC) + timedelta(days=1))
    assert "Front of one?" not in piped(home, "study").stdout
    assert piped(home, "list", "--hidden").stdout.startswith("ring/one  hidden until tomorrow")


def test_what_was_marked_is_seen_where_it_is_listed(home):
    assert "You marked" not in piped(home, "list").stdout
    assert not home.exists()
    piped(home, "study", lines="f\nx\nb\nf\n")
    listed = piped(home, "list", "ring").stdout
    assert "  one  easy · hidden · flagged\n" in listed
    assert "  two  medium · hidden until tomorrow\n" in listed
    assert "  three  hard · flagged\n" in listed
    for words in (["list"], ["list", "--track", "collectives"]):
        told = piped(home, *words).stdout
        assert "\nYou marked: 1 hidden · 1 hidden until tomorrow · 2 flagged\nddpquiz list --hidden --flagged\n" in told
    assert piped(home, "show", "ring/one").stdout.startswith("ring/one  card · easy · hidden · flagged\n")
    assert "ring/two  card · hidden until tomorrow\n" in piped(home, "search", "two").stdout
    assert json.loads(piped(home, "show", "ring/three", "--json").stdout)["marks"] == ["flag"]
    assert json.loads(piped(home, "list", "ring", "--json").stdout)["concepts"][0]["marks"] == {
        "ring/one": ["suspend", "flag"], "ring/two": ["bury"], "ring/three": ["flag"]
    }  # fmt: skip
    piped(home, "progress", "restore", "ring/one", "ring/two")
    assert "\nYou marked: 2 flagged\nddpquiz list --flagged\n" in piped(home, "list").stdout
    assert "  one  easy · flagged\n" in piped(home, "list", "ring").stdout


def test_the_curriculum_is_listed_though_the_progress_cannot_be_read(home):
    home.mkdir()
    (home / "progress.db").mkdir()
    done = piped(home, "list", "ring")
    assert (done.returncode, done.stdout) == (0, piped(home / "other", "list", "ring").stdout)
    assert "progress.db cannot be opened;" in done.stderr
    assert done.stderr.endswith(" Until then, marks are not shown.\n")


def test_the_list_shows_how_far_one_is_and_json_what_belongs_to_the_core_route(home):
    assert "✓" not in piped(home, "list").stdout
    piped(home, "study", lines="\n3\n")
    assert re.search(r"^  ▸  ring +The ring +1/4 ", piped(home, "list").stdout, re.MULTILINE)
    with Progress(home) as progress:
        progress.stage("ring/lesson", "done", datetime.now(UTC).astimezone())
    listed = piped(home, "list").stdout
    assert re.search(r"^  ✓  ring +The ring +1/4 ", listed, re.MULTILINE)
    assert re.search(r"^     ddp .* 2 ", listed, re.MULTILINE)
    assert [one["core"] for one in json.loads(piped(home, "list", "--json").stdout)["concepts"]] == [False, False]
