"""Rows that ddpquiz did not write: an import refuses them in a sentence, and no command stumbles over them in the file."""

import copy
import functools
import json
import random
import sqlite3
import time
from dataclasses import astuple, replace
from datetime import timedelta

import pytest
from fsrs.scheduler import LOWER_BOUNDS_PARAMETERS, UPPER_BOUNDS_PARAMETERS
from histories import AT, TOOK, everything, exported
from sample import answer_row
from typer.testing import CliRunner

from ddpquiz.cli import lab_commands
from ddpquiz.cli.app import app
from ddpquiz.curriculum import loading
from ddpquiz.curriculum.concept import Kind
from ddpquiz.errors import UserError
from ddpquiz.learning.answers import beliefs
from ddpquiz.learning.backups import FILE, list_backups
from ddpquiz.learning.log_rows import ExplanationRow, LabRow, PointRow, Row
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade, Weights

MUTATIONS = 60
WRONG_ROWS = 200  # of each kind
CONCEPT = "all-reduce-ring"
LEFT_OUT = "2 more mean nothing to ddpquiz and were left out.\n"


catalog = functools.cache(loading.load)
labs = functools.cache(lab_commands.all_labs)


@pytest.fixture
def commands(monkeypatch):
    """Runs commands on a data folder in this process, with content that is read once."""
    monkeypatch.setattr(loading, "load", catalog)
    monkeypatch.setattr(lab_commands, "all_labs", labs)

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
READERS = (
    ((), ""),
    (("stats",), ""),
    (("stats", "--json"), ""),
    (("lab",), ""),
    (("learn",), ""),
    (("learn", CONCEPT), ""),
    (("list", CONCEPT), ""),
    (("list", "--hidden"), ""),
    (("list", "--flagged", "--json"), ""),
    (("export", "json"), ""),
    (("export", "csv"), ""),
    (("study",), "\n3\n\n1\n"),
    (("study", "--cram"), "\n3\n"),
    (("test", CONCEPT, "--count", "2"), "1\n2\n"),
    (("test", CONCEPT, "--count", "2", "--adaptive", "--json"), "1\n"),
    (("explain", CONCEPT), "A root is the bottleneck."),
    (("progress", "restore-backup", "--list"), ""),
    (("progress", "rebuild"), ""),
    (("stats", "--json"), ""),
)
MAY_REFUSE = (("test", "--wrong", "--json"), ("optimize",), ("progress", "restore", f"{CONCEPT}/none"))


def use_all_commands(run, home):
    for words, lines in READERS:
        result = run(home, *words, lines=lines)
        assert (sentence(result), result.exit_code) in (("", 0), ("", 1)), words
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
        given = {"given": typed(question), "level": question.level, "confidence": 0.75, "calls": keys[0]}
        progress.answer(answer_row(question.key, number % 2, **given), AT + timedelta(days=number))
    for prompt in concept.explain:
        points = [PointRow(each.say, matched=True) for each in prompt.points]
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


TEXTS = ("", " ", "x", "/", "a/", "/b", "a//b", "a/b/c/d", "///", "é/ü", "a b/c", "a\n/c", "a/b\0", "a\x1b[2J/b", "\ud800/x",
         "x" * 301 + "/a", "passed", "passed\n", "solution\nx", "done", "postponed", "[" * 3000, '["', "null", "3 with n=0")  # fmt: skip
DAYS = ("2026-02-30", "0001-01-01", "9999-12-31", "1969-12-31", "2199-12-31", "2026-W10-1", "20260302", "2026-3-2", "soon",
        "2026-03-02x", "2026-03-02\0")  # fmt: skip
TIMES = (
    "2026-03-02",
    "2026-13-02T09:00:00.000000Z",
    "9999-12-31T23:59:59.999999Z",
    "2026-03-02T09:00:00Z",
    "yesterday",
)
NUMBERS = (0, -1, 1, 5, 0.5, 1.5, -0.5, 1e300, float("nan"), float("inf"), 2**62, 2**63 - 1, 2**63, -(2**63), 10**400)
POINTS = ("[]", "[3]", "{}", "[[", "[{}]", '[{"say": 3, "matched": 1}]', '[{"say": "x", "matched": true, "more": 1}]')
OTHERS = (None, True, [], {}, ["x"], {"a": 1})
ODD = {
    **dict.fromkeys(("item", "calls", "kind", "device", "undone_device", "weights", "level"), TEXTS),
    **dict.fromkeys(
        ("took", "sequence", "undone_sequence", "grade", "credit", "chance", "confidence", "retry"), NUMBERS
    ),
    "given": (
        *TEXTS,
        "9" * 5000,
        "3 with n=1e999, s=1",
        "3 with n=" + "9" * 5000,
        "9**9**9",
        "(" * 5000,
        "x" * 1_000_001,
    ),
    "at": TIMES,
    "day": DAYS,
    "points": POINTS,
}


# Values that are odd too, but that ddpquiz may have written: an import accepts them
POSSIBLE = {
    **dict.fromkeys(("item", "calls"), ("gone/x", "pack/gone/x", "gone/lesson", f"{CONCEPT}/gone", "x" * 298 + "/a", "é/ü")),
    "took": (0, 1, -(10**13), 10**13),
    **dict.fromkeys(("credit", "chance", "confidence"), (0, 1, 0.5, 1e-300, 5e-324, 1 - 1e-16)),
    "grade": (1, 4),
    "level": ("easy", "medium", "hard"),
    "retry": (True, False),
    "given": ("", "x", "x" * 1_000_000, "9" * 5000, "[" * 3000, "\x1b[2J", "3 with n=0, s=0", "3 with n=1e999, s=1", "9**9**9"),
    "points": ('[{"say": "", "matched": false, "overruled": true}]',),
}  # fmt: skip


def mangled(text, dice):
    place = dice.randrange(len(text) + 1)
    return text[:place] + dice.choice(TEXTS[:15]) + text[place + dice.randrange(4) :]


def change_field(data, dice):
    row = dice.choice(data["log"])
    name = dice.choice(sorted(ODD))
    if isinstance(row.get(name), str) and dice.random() < 0.3:
        row[name] = mangled(row[name], dice)
    else:
        row[name] = dice.choice(ODD[name])


def change_within_limits(data, dice):
    row = dice.choice(data["log"])
    if names := sorted(POSSIBLE.keys() & row.keys()):
        name = dice.choice(names)
        if not (name in ("given", "credit") and row["kind"] in ("lab", "stage")):
            row[name] = dice.choice(POSSIBLE[name])
            if row["kind"] != "undo" and name == "item":
                data["log"][:] = [each for each in data["log"] if each["kind"] != "undo"]


def change_time(data, dice):
    """Let some rows be of other days: a clock may be wrong, and rows need not be in order."""
    for row in dice.sample(data["log"], dice.randrange(1, len(data["log"]))):
        row["day"] = dice.choice(("1970-01-01", "2199-12-31", "2026-03-03", "2027-02-28", "2024-02-29"))
        row["at"] = f"{row['day']}T{dice.choice(('00:00:00.000000', '23:59:59.999999'))}Z"


def change_type(data, dice):
    row = dice.choice(data["log"])
    row[dice.choice(sorted(row))] = dice.choice((*OTHERS, *NUMBERS[:8], *TEXTS[:5]))


def drop_field(data, dice):
    row = dice.choice(data["log"])
    del row[dice.choice(sorted(row))]


def drop_row(data, dice):
    del data["log"][dice.randrange(len(data["log"]))]


def repeat_row(data, dice):
    row = dict(dice.choice(data["log"]))
    if dice.random() < 0.7:
        row["sequence"] = dice.choice((10**9, 10**9 + 1, 5000 + dice.randrange(1000)))
    data["log"].append(row)


def exchange_fields(data, dice):
    one, other = dice.sample(data["log"], 2)
    name = dice.choice(sorted(one.keys() | other.keys()))
    for row, value in ((one, other.get(name)), (other, one.get(name))):
        row.pop(name, None)
        row.update({name: value} if value is not None else {})


def turn_into(data, dice):
    row = dice.choice(data["log"])
    row["kind"] = dice.choice(sorted({each.get("kind") or "" for each in data["log"]}, key=str))


def undo_in_a_circle(data, dice):
    one, other = dice.sample(data["log"], 2)
    for row, undone in ((one, other), (other, one)):
        for name in ("grade", "credit", "points", "given", "took", "level", "chance", "confidence", "retry"):
            row.pop(name, None)
        row |= {"kind": "undo", "undone_device": undone.get("device"), "undone_sequence": undone.get("sequence")}


def odd_weights(data, dice):
    """Weights at the edges of what is possible, used from an odd time; some do not match their name."""
    bounds = [*zip(LOWER_BOUNDS_PARAMETERS, UPPER_BOUNDS_PARAMETERS, strict=True)]
    parameters = tuple(float(dice.choice(each)) for each in bounds)
    weights = Weights(parameters, dice.choice((0.7, 0.97)))
    since = dice.choice(("", "2026-03-05T09:00:00.000000Z", "2199-12-31T23:59:59.999999Z", *TIMES))
    entry = {"version": weights.version, "since": since, "retention": weights.retention, "parameters": [*parameters]}
    if dice.random() < 0.3:
        entry[dice.choice(sorted(entry))] = dice.choice((*OTHERS, *NUMBERS, *TEXTS[:6]))
    data["weights"].append(entry)
    for row in data["log"]:
        if dice.random() < 0.5:
            row["weights"] = entry["version"]


def change_head(data, dice):
    data[dice.choice(("format", "version", "weights", "log", "unknown"))] = dice.choice((*OTHERS, *NUMBERS[:8], "x"))


CHANGES = (change_field,) * 5 + (change_within_limits,) * 9 + (change_time,) * 3 + (
    change_type, drop_field, drop_row, repeat_row, exchange_fields, turn_into, undo_in_a_circle, odd_weights, odd_weights,
    change_head,
)  # fmt: skip


def mutated(whole, dice):
    """Return the text of an export with one to three changes."""
    data = copy.deepcopy(whole)
    for change in dice.choices(CHANGES, k=dice.choice((1, 1, 2, 3))):
        if isinstance(data.get("log"), list) and len(data["log"]) > 1 and isinstance(data.get("weights"), list):
            change(data, dice)
    text = json.dumps(data)
    return mangled(text, dice) if dice.random() < 0.1 else text


@pytest.fixture
def in_utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_changed_export_is_refused_in_a_sentence_or_imported_and_then_every_command_works(
    commands, whole, tmp_path, in_utc
):
    imported = 0
    for seed in range(MUTATIONS):
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
        use_all_commands(commands, home)
    assert MUTATIONS * 0.1 < imported < MUTATIONS * 0.9


def undone(rows):
    return {(row.undone_device, row.undone_sequence) for row in rows if row.kind == "undo"}


def write_past_the_import(home, rows, count):
    """Write the first `count` of some rows that the tables accept, as another program could; return how many."""
    names, written = [*Row.__dataclass_fields__], 0
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


def odd_rows(good, name, dice):
    """Yield rows like good ones, each with an odd value of one field."""
    values = [row.kind for row in good] if name == "kind" else ODD[name]
    for number in range(1000, 1000 + 50 * WRONG_ROWS):
        row = replace(dice.choice(good), device=dice.choice(("elsewhere", good[0].device)), sequence=number)
        if name == "sequence":
            row = replace(row, device=f"elsewhere {number}")
        yield replace(row, **{name: dice.choice(values)})


@pytest.mark.parametrize("name", sorted(ODD))
def test_rows_that_mean_nothing_stay_in_the_file_and_no_command_stumbles_over_them(
    commands, whole, tmp_path, name, in_utc
):
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
def test_what_another_program_changed_in_the_file_stops_no_command(commands, tmp_path, statement, in_utc):
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
    for concept in catalog().concepts:
        for question in concept.questions:
            assert beliefs(question, text) == []
