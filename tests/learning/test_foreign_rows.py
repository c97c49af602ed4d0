"""Rows that ddpquiz did not write: an import refuses them in a sentence, and no command stumbles over them in the file."""

import functools
import json
import random
import sqlite3
from dataclasses import astuple, replace
from datetime import timedelta

import pytest
from odd_exports import ODD, mutated
from progress_histories import AT, TOOK, everything, exported
from sample import answer_row
from typer.testing import CliRunner

from ddpquiz.cli import lab as lab_command
from ddpquiz.cli.app import app
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.concept import Kind
from ddpquiz.errors import UserError
from ddpquiz.learning.answers import beliefs
from ddpquiz.learning.database import FILE, list_backups
from ddpquiz.learning.log_rows import STORED_NAMES, ExplanationRow, LabRow, PointRow
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade, Weights

WRONG_ROWS = 200  # of each kind
CONCEPT = "all-reduce-ring"


catalog = functools.cache(loading.load)
labs = functools.cache(lab_command.all_labs)


@pytest.fixture
def commands(monkeypatch):
    """Runs commands on a data folder in this process, with content that is read once."""
    monkeypatch.setattr(loading, "load", catalog)
    monkeypatch.setattr(lab_command, "all_labs", labs)

    def run(home, *words, lines=""):
        monkeypatch.setenv("DDPQUIZ_HOME", str(home))
        return CliRunner().invoke(app, [str(word) for word in words], input=lines, prog_name="ddpquiz")

    return run


def sentence(result):
    """Return the sentence with which a command refuses; "" if it did not."""
    if result.exception is None or isinstance(result.exception, SystemExit):
        return ""
    if not isinstance(result.exception, UserError):
        raise result.exception
    return str(result.exception)


# Commands that read the log, with the lines that they are given; then those that may refuse in a sentence
SCREENS = (((), ""), (("stats",), ""), (("lab",), ""), (("study",), "\n3\n\n1\n"))
READERS = (
    *SCREENS,
    (("stats", "--json"), ""),
    (("learn",), ""),
    (("learn", CONCEPT), ""),
    (("list", CONCEPT), ""),
    (("list", "--hidden"), ""),
    (("list", "--flagged", "--json"), ""),
    (("export", "json"), ""),
    (("export", "csv"), ""),
    (("study", "--cram"), "\n3\n"),
    (("test", CONCEPT, "--count", "2"), "1\n2\n"),
    (("test", CONCEPT, "--count", "2", "--adaptive", "--json"), "1\n"),
    (("explain", CONCEPT), "A root is the bottleneck."),
    (("progress", "restore-backup", "--list"), ""),
    (("progress", "rebuild"), ""),
    (("stats", "--json"), ""),
)
MAY_REFUSE = (("test", "--wrong", "--json"), ("optimize",), ("progress", "restore", f"{CONCEPT}/none"))


def use(commands, run, home):
    for words, lines in commands:
        result = run(home, *words, lines=lines)
        assert (sentence(result), result.exit_code) in (("", 0), ("", 1)), words


def use_all_commands(run, home):
    use(READERS, run, home)
    for words in MAY_REFUSE:
        assert "\n" not in sentence(run(home, *words))


def fill(progress):
    """Save rows of every kind about shipped content, under two sets of weights."""
    concept = catalog().concept(CONCEPT)
    keys = [card.key for card in concept.cards]
    for number, key in enumerate(keys):
        progress.review(key, Grade(number % 4 + 1), AT + timedelta(days=number), TOOK)
        progress.review(key, Grade.GOOD, AT + timedelta(days=number + 9), TOOK)
    progress.use_weights(Weights(retention=0.85), AT)
    for number, question in enumerate(concept.questions):
        given = {"given": typed(question), "level": question.level, "confidence": 0.75, "made_due_card": keys[0]}
        progress.answer(answer_row(question.key, number % 2, **given), AT + timedelta(days=number))
    for prompt in concept.explain:
        points = [PointRow(each, matched=True) for each in prompt.points]
        progress.explain(ExplanationRow(item=prompt.key, took=TOOK, given="a text", points=points), AT)
    lab = labs()[0]
    progress.lab(LabRow(item=lab.item, passed=False), AT)
    progress.lab(LabRow(item=lab.item, passed=True, stars=["fewest bytes"]), AT)
    progress.stage(f"{CONCEPT}/lesson", "done", AT)
    progress.stage(f"{CONCEPT}/demo", "skipped", AT)
    progress.flag(keys[1], "unclear", AT)
    progress.undo(progress.flag(keys[2], "", AT), AT)
    progress.suspend(keys[3], AT)
    progress.bury(keys[4], AT)


def typed(question):
    """Return a wrong answer to a question as the log holds it."""
    if question.kind is Kind.NUMBER:
        return "3 with " + ", ".join(f"{each.name}={each.values[0]}" for each in question.variables)
    if question.kind is Kind.CHOICES:
        return json.dumps([each.text for each in question.options if not each.right])
    return next((each.text for each in question.options if not each.right), question.answer)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The export of a learner who has done something of everything."""
    with Progress(tmp_path_factory.mktemp("whole")) as progress:
        fill(progress)
        return json.loads(exported(progress))


@pytest.mark.parametrize("part", range(4))
def test_a_changed_export_is_refused_in_a_sentence_or_imported_and_then_commands_work(
    commands, whole, tmp_path, scale, part
):
    imported, mutations = 0, scale(12, 500)
    for seed in range(part * mutations, (part + 1) * mutations):
        home, file = tmp_path / str(seed), tmp_path / f"{seed}.json"
        file.write_text(mutated(whole, random.Random(seed)), "utf-8", "surrogatepass")
        with Progress(home) as progress:
            progress.review(f"{CONCEPT}/before", Grade.GOOD, AT, TOOK)
            before = everything(progress)
        result = commands(home, "import", file)
        with Progress(home) as progress:
            if said := sentence(result):
                assert "\n" not in said, f"seed {seed}"
                assert everything(progress) == before, f"seed {seed}: {said}"
                assert [each.name for each in list_backups(home)] == ["2026-03-02"]
                continue
            assert result.exit_code == 0
            rows = progress.log()
            assert len(progress.entries(*{row.kind for row in rows})) == len(rows) - len(undone(rows)), f"seed {seed}"
        imported += 1
        if imported % 8 == 1:  # all of them take most of a second
            use_all_commands(commands, home)
        else:
            use(SCREENS, commands, home)
    assert 0 < imported < mutations


def undone(rows):
    return {(row.undone_device, row.undone_sequence) for row in rows if row.kind == "undo"}


def write_past_the_import(home, rows, count):
    """Write the first `count` of some rows that the tables accept, as another program could; return how many."""
    names, written = [*STORED_NAMES.values()], 0
    insert = f"INSERT INTO log ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
    with sqlite3.connect(home / FILE) as database:
        for row in rows:
            try:
                database.execute(insert, astuple(row))
            except (sqlite3.IntegrityError, OverflowError, UnicodeEncodeError):
                continue
            written += 1
            if written == count:
                break
    database.close()
    return written


FIELDS = {stored: field for field, stored in STORED_NAMES.items()}


def odd_rows(good, name, dice):
    """Yield rows like good ones, each with an odd value of one field."""
    values = [row.kind for row in good] if name == "kind" else ODD[name]
    for number in range(1000, 1000 + 50 * WRONG_ROWS):
        row = replace(dice.choice(good), device=dice.choice(("elsewhere", good[0].device)), sequence=number)
        if name == "sequence":
            row = replace(row, device=dice.choice((f"elsewhere {number}", good[0].device)))
        yield replace(row, **{FIELDS[name]: dice.choice(values)})


@pytest.mark.parametrize("name", sorted(ODD))
def test_rows_that_mean_nothing_stay_in_the_file_and_no_command_stumbles_over_them(commands, tmp_path, name):
    with Progress(tmp_path) as progress:
        fill(progress)
        good = progress.log()
    assert write_past_the_import(tmp_path, odd_rows(good, name, random.Random(name)), WRONG_ROWS) == WRONG_ROWS
    use_all_commands(commands, tmp_path)
    with Progress(tmp_path) as progress:
        assert progress.count() > len(good) + WRONG_ROWS  # the answers of the sittings were saved after them


@pytest.mark.parametrize(
    "statement",
    [
        *(
            f"UPDATE log SET {name} = CAST(x'ff41' AS TEXT)"
            for name in ("item", "day", "at", "given", "level", "calls")
        ),
        "UPDATE log SET device = CAST(x'ff41' AS TEXT), undone_device = NULL, undone_sequence = NULL WHERE kind != 'undo'",
        "UPDATE log SET undone_sequence = 4711 WHERE kind = 'undo'",
        "UPDATE log SET weights = 'none'",
        "UPDATE card SET due = 'soon'",
        "UPDATE card SET last = '2026-99-01'",
        "UPDATE card SET last = '9999-12-31'",
        "UPDATE card SET first = NULL",
        "UPDATE card SET stability = -1",
        "UPDATE card SET stability = 9e999",
        "UPDATE card SET difficulty = 0",
        "UPDATE weights SET parameters = '[1, 2'",
        "UPDATE weights SET parameters = '[NaN]'",
        "UPDATE weights SET parameters = '7'",
        "UPDATE weights SET parameters = replace(parameters, '0.212', '0.3')",
        "UPDATE weights SET retention = 0.5",
        "UPDATE weights SET since = 'once'",
        "UPDATE weights SET since = '9999-12-31T23:59:59.999999Z'",
        "DELETE FROM weights",
        "DROP INDEX log_kind",
    ],
)
def test_what_another_program_changed_in_the_file_stops_no_command(commands, tmp_path, statement):
    with Progress(tmp_path) as progress:
        fill(progress)
        memories = progress.memories()
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute("DROP TRIGGER log_is_fixed")
        database.execute(statement)
    database.close()
    with Progress(tmp_path) as progress:
        if not statement.startswith("UPDATE log"):
            assert progress.memories() == memories  # computed again where they were changed
        progress.use_weights(Weights(retention=0.8), AT)
        assert progress.weights() == Weights(retention=0.8)
        restored = [row.item for row in progress.entries("suspend", "bury")]
        assert all(progress.restore(item, AT) for item in restored)
    use_all_commands(commands, tmp_path)


@pytest.mark.parametrize("value", ["0", "-1", "1e999", "9" * 5000, "0.1", "1e-300", "1e300"])
def test_values_that_no_question_draws_show_no_belief_and_stop_nothing(value):
    """The log names the values of a question; it was posed with them once, or its content has changed since."""
    for concept in catalog().concepts:
        for question in concept.questions:
            if question.kind is Kind.NUMBER:
                drawn = ", ".join(f"{each.name}={value}" for each in question.variables)
                for number in ("3", value, "9**9**9", "(" * 300):
                    assert isinstance(beliefs(question, f"{number} with {drawn}"), list)


@pytest.mark.parametrize("text", ODD["given"])
def test_texts_that_answer_nothing_show_no_belief(text):
    questions = {question.kind: question for concept in catalog().concepts for question in concept.questions}
    assert len(questions) == len(Kind)
    for question in questions.values():
        assert beliefs(question, text) == []
