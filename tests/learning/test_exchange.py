"""Taking progress along: what is written can be read, merging comes to the same in any order, and nothing is half done."""

import csv
import io
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import TESTS
from progress_histories import AT, TOOK, apply, everything, exported, histories, import_text
from run_program import environment, piped
from sample import answer_row

from ddpquiz.errors import UserError
from ddpquiz.learning import exchange
from ddpquiz.learning.database import list_backups
from ddpquiz.learning.log_rows import ExplanationRow, PointRow
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
        values = {"confidence": 0.75, "made_due_card": "ring/one", "retry": True, "given": 'é "\n\u2028 {}'}
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
            one.merge_safely(other.log(), other.all_weights(), AT)
        assert str(refused.value) == (
            f"Row 2 of device {device} differs from the one here, so nothing was imported: one of the two data folders is a copy "
            "of the other, and both have changed since. Import it into an empty folder: set DDPQUIZ_HOME."
        )
        assert everything(one) == before
        assert [each.name for each in list_backups(tmp_path / "a")] == ["2026-03-02"]


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
    assert piped(there, "import", str(file)).stdout.startswith("2 of 2 log rows were new.\n")
    assert piped(there, "import", str(file)).stdout == "None of the 2 log rows was new.\n"
    assert "Front of two?" in piped(there, "study", "--new", "0").stdout
    assert piped(there, "export", "csv").stdout.count("\n") == 3


@pytest.mark.parametrize("form", ["json", "csv"])
def test_an_export_has_letters_that_the_terminal_lacks(tmp_path, form):
    with Progress(tmp_path) as progress:
        points = (PointRow("all send", True),)
        progress.explain(ExplanationRow(item="ring/why", took=TOOK, given="é → 日", points=points), AT)
    assert "é → 日" in piped(tmp_path, "export", form, PYTHONIOENCODING="ascii").stdout


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read: No such file or directory."),
        (b"\xff\xfe\x00", "is not text; `ddpquiz export json` writes what can be imported."),
        (b'{"format": "ddpq', "is not valid JSON; export it again: `ddpquiz export json`."),
        (b"[" * 100_000, "is not valid JSON; export it again: `ddpquiz export json`."),
        (b"[]", "holds no ddpquiz progress; `ddpquiz export json` writes a file that does."),
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
    assert (done.returncode, done.stderr) == (1, "/dev/zero is larger than 256 MB, which is too large for an export.\n")
    os.mkfifo(tmp_path / "fifo")
    done = piped(tmp_path / "home", "import", str(tmp_path / "fifo"))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    piped(tmp_path / "here", "study", lines="\n3\n")
    text = piped(tmp_path / "here", "export", "json").stdout
    assert piped(tmp_path / "home", "import", "/dev/stdin", lines=text).stdout.startswith("1 of 1 log rows")


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
    program = str(TESTS / "helpers" / "sample_program.py")
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
