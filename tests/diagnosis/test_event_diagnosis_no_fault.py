"""What the verdict says of a job without a fault: how much was seen, or where ranks are that have not begun."""

from inline_snapshot import snapshot
from rank_events import Rank, began

from ddpquiz.diagnosis.diagnosis import ADVICE
from ddpquiz.diagnosis.event_diagnosis import diagnose
from ddpquiz.events.event import Alive, ScriptFinished
from ddpquiz.events.run_state import RunState


def verdict_on(*events):
    state = RunState()
    for event in (began(3), *(each for rank in range(3) for each in Rank(rank, 3).events), *events):
        state.add(event)
    return diagnose(state)


def test_ranks_that_have_not_communicated_yet_are_shown_where_they_are():
    assert [str(each) for each in verdict_on().positions] == ["ranks 0-2: nothing recorded yet"]
    found = verdict_on(Alive(1.0, 0, "train.py", 3), Alive(1.0, 1, "train.py", 9), Alive(1.0, 2, "train.py", 3))
    assert (found.fault, found.sentence) == ("none", "The ranks have recorded no communication so far.")
    assert [str(each) for each in found.positions] == snapshot([
        "ranks 0 and 2: last seen at train.py:3", "rank 1: last seen at train.py:9",
    ])  # fmt: skip
    assert found.advice.startswith("If the job has just begun, diagnose it again in a moment")


def test_ranks_that_have_finished_without_communication_are_not_waited_for():
    found = verdict_on(*(ScriptFinished(2.0, rank, 0) for rank in range(3)))
    assert (found.sentence, found.positions, found.advice) == (
        "The ranks recorded no communication.", (), ADVICE["none"],
    )  # fmt: skip


def test_one_operation_is_counted_as_one():
    found = verdict_on(*(event for rank in range(3) for event in Rank(rank, 3).sync("all_reduce", 1.0, 2.0).events))
    assert found.sentence == snapshot("The calls of all ranks fit together, in 1 recorded operation.")
