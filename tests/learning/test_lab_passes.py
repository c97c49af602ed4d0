"""Labs in the log: passes, stars and solutions that were seen; what they add to the strength of a concept."""

import io
from datetime import UTC, datetime, timedelta

import pytest

from ddpquiz.learning import exchange
from ddpquiz.learning.log_rows import LabRow
from ddpquiz.learning.mastery import strengths
from ddpquiz.learning.progress import Progress

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
ITEM = "all-reduce-ring/ring-all-reduce"
PASS = LabRow(item=ITEM, passed=True, stars=("fewest bytes",))
SEEN = LabRow(item=ITEM, passed=False)


@pytest.fixture
def progress(tmp_path):
    with Progress(tmp_path) as opened:
        yield opened


def credit(progress):
    return [row.credit for row in progress.last_answers()]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [([PASS], [1.0]), ([SEEN, PASS], [0.5]), ([PASS, SEEN, PASS], [1.0]), ([SEEN, PASS, PASS], [0.5]), ([SEEN], [])],
)
def test_a_pass_after_the_solution_was_seen_counts_half(progress, rows, expected):
    for hours, row in enumerate(rows):
        progress.lab(row, AT + timedelta(hours=hours))
    assert credit(progress) == expected


def test_a_pass_counts_as_a_hard_question_on_the_day_of_the_last_pass(progress):
    progress.lab(PASS, AT)
    progress.lab(LabRow(item=ITEM, passed=True, stars=("one call",)), AT + timedelta(days=3))
    (row,) = progress.last_answers()
    assert (row.level, row.chance, row.day) == ("hard", 0.0, "2026-03-05")
    standing = progress.labs()["ring-all-reduce"]
    assert (standing.concept, standing.stars) == ("all-reduce-ring", ("fewest bytes", "one call"))
    found = strengths(progress.last_answers(), standing.passed)["all-reduce-ring"]
    assert found.answers == 1
    assert found.mean > 0.6


def test_an_undone_pass_does_not_count_and_days_with_labs_count_for_the_streak(progress):
    receipt = progress.lab(PASS, AT)
    assert [day for day, *_ in progress.days()] == ["2026-03-02"]
    progress.undo(receipt, AT)
    assert (credit(progress), progress.labs(), progress.days()) == ([], {}, [])


def test_passes_are_exported_and_imported(progress, tmp_path):
    progress.lab(SEEN, AT)
    progress.lab(PASS, AT + timedelta(hours=1))
    file = io.StringIO()
    exchange.write_json(progress.log(), progress.all_weights(), file)
    with Progress(tmp_path / "other") as other:
        assert other.merge(*exchange.read_json(file.getvalue(), "it")[:2]) == 2
        assert other.labs() == progress.labs()
        assert credit(other) == [0.5]
