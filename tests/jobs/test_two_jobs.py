"""Files of two jobs that are named together: they are refused in a sentence, and those of one job are joined."""

import json

import pytest
from nccl_dumps import dump, entry

from ddpquiz.errors import UserError
from ddpquiz.events.event import Began, End, encode
from ddpquiz.jobs.job_reader import read_job
from ddpquiz.ranks.inside.rank_writer import RankWriter


def recording(folder, ranks, of=4, script="/train.py"):
    for rank in ranks:
        writer = RankWriter(folder, 100, Began(script, (), of, "cpu", "gloo", "Recorded."), 0)
        writer.open(rank)
        writer.close()
    return folder


@pytest.fixture
def two(tmp_path):
    return tmp_path / "a", tmp_path / "b"


@pytest.mark.parametrize("ranks", [(0, 1), (2, 3), (1, 2)])
@pytest.mark.parametrize("script", ["/train.py", "/other.py"])
def test_recordings_of_two_jobs_are_refused_and_those_of_two_machines_joined(ranks, script, two):
    recording(two[0], (0, 1))
    recording(two[1], ranks, script=script)
    for order in (two, two[::-1]):
        if (ranks, script) == ((2, 3), "/train.py"):
            assert read_job(order).present == (0, 1, 2, 3)
        else:
            with pytest.raises(UserError, match=r"are of two jobs\. Name one job at a time\.$"):
                read_job(order)


def test_saved_runs_are_read_one_at_a_time(two):
    for path in two:
        path.write_text(
            "".join(f"{encode(each)}\n" for each in (Began("a.py", (), 1, "cpu", "", ""), End(1.0, True, 0, 0)))
        )
    assert read_job(two[0]).present == (0,)
    with pytest.raises(UserError, match=r"a and .*b are of two jobs\. Name one job at a time\.$"):
        read_job(two)


def raised(rank, error):
    lines = "Traceback (most recent call last):", '  File "a.py", line 1, in <module>', error
    return "".join(f"[rank{rank}]: {line}\n" for line in lines)


def test_logs_in_which_a_rank_ends_twice_are_refused_and_others_joined(two):
    two[0].write_text(raised(0, "ValueError: one"))
    for rank, error in ((0, "ValueError: one"), (1, "KeyError: two")):
        two[1].write_text(raised(rank, error))
        assert read_job(two).source == "2 logs"
    two[1].write_text(raised(0, "KeyError: two"))
    for order in (two, two[::-1]):
        with pytest.raises(UserError, match=r"^Rank 0 ended by different errors in .* Name one job at a time\."):
            read_job(order)
    assert read_job(two[0].parent).source == "2 logs"


def test_dumps_of_one_rank_that_hold_different_calls_in_the_same_place_are_refused(two):
    for number, folder in enumerate(two):
        folder.mkdir()
        call = entry("barrier", 1, record=0, at=1 + number, state="scheduled", retired=False, frames=[])
        (folder / "trace_0").write_text(json.dumps(dump([call])))
    assert read_job(two[0]).present == (0,)
    with pytest.raises(UserError, match=r"are dumps of rank 0 of two jobs, .* Name one job at a time\.$"):
        read_job(two)
