"""Items that moved or were merged: what the log has under their earlier keys counts for the item now."""

import subprocess
import sys
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from progress_histories import AT, TOOK, apply, everything, exported, histories, import_text
from run_program import environment
from sample import answer_row

from ddpquiz.curriculum.concept import Card
from ddpquiz.curriculum.loading import load
from ddpquiz.errors import UserError
from ddpquiz.learning.progress import Progress
from ddpquiz.learning.schedule import Grade, study_day
from ddpquiz.learning.statistics import statistics

DAY = timedelta(days=1)
MOVED = {"backends/old": "launch/new", "hangs/older": "launch/new"}


@pytest.fixture
def before(tmp_path):
    """The progress of somebody who used a version in which nothing had moved."""
    with Progress(tmp_path / "home") as opened:
        yield opened


def after(progress):
    """Open the same progress with a version in which items moved."""
    return Progress(progress.path.parent, MOVED)


def test_a_card_that_moved_keeps_its_schedule_and_its_log_stays_as_it_was(before):
    before.review("backends/old", Grade.GOOD, AT, TOOK)
    before.review("backends/old", Grade.EASY, AT + 4 * DAY, TOOK)
    (learned,) = before.memories().values()
    log = before.log()
    with after(before) as progress:
        assert progress.memories() == progress.memories("launch") == {"launch/new": learned}
        assert progress.log() == log
        assert [row.item for row in progress.entries("review")] == ["launch/new"] * 2
        assert progress.grades(study_day(AT)) == {"launch/new": (Grade.GOOD,)}
        assert [item for item, *_ in progress.first_grades()] == ["launch/new"] * 2
        progress.rebuild()
        assert progress.memories() == {"launch/new": learned}


def test_rows_of_several_cards_that_became_one_count_in_the_order_of_time(before):
    before.review("hangs/older", Grade.GOOD, AT + 4 * DAY, TOOK)
    before.review("backends/old", Grade.AGAIN, AT, TOOK)
    with after(before) as progress:
        memory = progress.memories()["launch/new"]
        assert (memory.first, memory.last, memory.reps) == (study_day(AT), study_day(AT + 4 * DAY), 2)
        receipt = progress.review("launch/new", Grade.AGAIN, AT + 9 * DAY, TOOK)
        assert progress.memories()["launch/new"].reps == 3
        progress.undo(receipt, AT + 9 * DAY)
        assert progress.memories() == {"launch/new": memory}
        assert [row.item for row in progress.log()][:2] == ["backends/old", "hangs/older"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories(max_size=25), histories(max_size=8))
def test_it_does_not_matter_when_the_items_moved(tmp_path_factory, earlier, later):
    home, moved = tmp_path_factory.mktemp("progress"), {"d/a": "c/a"}
    with Progress(home, moved) as always, Progress(home / "upgraded") as old, Progress(home / "other") as unmoved:
        apply(always, earlier)
        import_text(old, exported(always))
        with Progress(home / "upgraded", moved) as upgraded:
            assert upgraded.memories() == always.memories()
            apply(upgraded, later)
            known = upgraded.memories()
            upgraded.rebuild()
            assert upgraded.memories() == known
            import_text(unmoved, exported(upgraded))
        with Progress(home / "other", moved) as imported:
            assert imported.memories() == known
            before = everything(imported)
            imported.memories()
            assert everything(imported) == before  # it moves once
    assert "d/a" not in known


def test_answers_to_a_question_that_moved_count_for_its_concept(before):
    before.answer(answer_row("backends/old", 0.0, made_due_card="hangs/older"), AT)
    with after(before) as progress:
        assert progress.has_made_due("launch/new", study_day(AT))
        assert [(row.item, row.made_due_card) for row in progress.last_answers()] == [("launch/new", "launch/new")]
        assert progress.wrong() == [("launch/new", "2", 1)]
        assert progress.memories()["launch/new"].due == study_day(AT)
        progress.answer(answer_row("launch/new", 1.0), AT + DAY)
        assert [row.credit for row in progress.last_answers()] == [1.0]  # one question, answered twice


def test_an_item_that_was_hidden_stays_hidden_and_can_be_restored_under_both_keys(before):
    for name in ("backends/old", "launch/new"):
        before.suspend("hangs/older", AT)
        with after(before) as progress:
            assert progress.hidden(study_day(AT)) == {"launch/new"}
            assert progress.restore(name, AT)
            assert not progress.hidden(study_day(AT))


def test_a_stage_or_lab_of_the_same_name_is_something_else(before):
    before.stage("backends/old", "done", AT)
    with after(before) as progress:
        assert [row.item for row in progress.entries("stage")] == ["backends/old"]


CATALOG = load()
MOVED_CARDS = [moved for moved in CATALOG.moved.items() if isinstance(CATALOG.item(moved[1]), Card)]


@pytest.mark.parametrize("moved", MOVED_CARDS, ids=lambda pair: pair[0])
def test_what_was_learned_of_a_shipped_card_that_moved_is_kept(before, moved):
    earlier, now = moved
    before.review(earlier, Grade.GOOD, AT, TOOK)
    learned = before.memories()[earlier]
    with Progress(before.path.parent, CATALOG.moved) as progress:
        assert progress.memories() == {now: learned}
        found = statistics(progress, CATALOG.concepts, study_day(AT))
        assert sum(found.ahead) == 1


def test_commands_know_an_item_by_its_earlier_key(tmp_path):
    earlier, now = next(iter(CATALOG.moved.items()))
    assert CATALOG.item(earlier).key == now
    with pytest.raises(UserError, match="No item named"):
        CATALOG.item(f"{now}-er")
    with Progress(tmp_path) as progress:
        progress.review(earlier, Grade.GOOD, AT, TOOK)
        progress.suspend(earlier, AT)

    def says(*words):
        command = [sys.executable, "-m", "ddpquiz", *words]
        return subprocess.run(command, capture_output=True, text=True, env=environment(tmp_path), check=True).stdout

    assert now in says("show", earlier)
    assert now in says("list", "--hidden")
    assert f",{now}," in says("export", "csv")
    assert f'"{earlier}"' in says("export", "json")
    assert "will be asked again" in says("progress", "restore", earlier)
