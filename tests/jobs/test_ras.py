"""Reports of NCCL's RAS, as `client_support.cc` in NCCL's sources writes them; none from a real job was had."""

import json
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ddpquiz.diagnosis.job_diagnosis import diagnose_job
from ddpquiz.errors import UserError
from ddpquiz.events.run_state import RunState
from ddpquiz.jobs.job_reader import read_job

STACK = Path(__file__).parents[1] / "data/stacks/py_spy/spy_1.txt"


def communicator(counts, missing=(), name="0x1", pids=None):
    """`counts` are those of AllReduce by rank; `missing` are pairs of a rank, and whether it is dead."""
    pids = pids or range(100, 200)
    ranks = [
        {
            "rank": rank, "host": "10.0.0.1", "pid": pids[rank], "cuda_dev": rank, "nvml_dev": rank,
            "status": {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False},
            "collective_counts": {"Broadcast": 1, "AllReduce": count, "Send": 7 * rank},
        }
        for rank, count in counts.items()
    ]  # fmt: skip
    gone = [
        {"rank": rank, "host": "10.0.0.1", "pid": pids[rank], "cuda_dev": 0, "nvml_dev": 0,
         "status": {"unresponsive": True, "considered_dead": dead}}
        for rank, dead in missing
    ]  # fmt: skip
    size = len(ranks) + len(gone)
    return {"hash": name, "secondary_hash": "0x2:0x3", "size": size, "ranks_count": len(ranks),
            "missing_ranks_count": len(gone), "ranks": ranks, "missing_ranks": gone}  # fmt: skip


@pytest.fixture
def judge(tmp_path):
    def judge(*reports, **others):
        for number, communicators in enumerate(reports):
            report = {
                "nccl_version": "2.28.9", "cuda_runtime_version": 12090, "cuda_driver_version": 12090,
                "timestamp": f"2026-01-01 00:00:0{number}", "communicators_count": len(communicators),
                "communicators": communicators, "ras": {"collection_time_sec": 0.1, "timeouts_count": 0},
            }  # fmt: skip
            (tmp_path / f"ras{number}.json").write_text(json.dumps(report, indent=2))
        for name, text in others.items():
            (tmp_path / f"{name}.txt").write_text(text)
        record = read_job(tmp_path)
        return record, diagnose_job(record, RunState.after(record.events))

    return judge


def test_a_rank_that_has_called_fewer_collectives_is_behind(judge):
    record, found = judge([communicator({0: 42, 1: 41, 2: 42})])
    assert (record.ranks, found.fault, found.culprits) == (3, "late", (1,))
    assert (found.sentence, found.limits) == snapshot(
        (
            "Rank 1 is behind in a communicator of 3 ranks: it has called AllReduce 41 times, and others 42 times.",
            (
                "One report shows one moment: the counts of a job that works differ for a moment, too. Ask RAS again some seconds later, and name both files.",
            ),
        )
    )


def test_a_communicator_may_have_thousands_of_ranks(judge):
    record, found = judge([communicator({**dict.fromkeys(range(3000), 42), 2999: 41}, pids=range(3000))])
    assert (record.ranks, found.culprits) == (3000, (2999,))


def test_counts_that_grow_between_two_reports_blame_nobody(judge):
    found = judge([communicator({0: 42, 1: 41})], [communicator({0: 43, 1: 42})])[1]
    assert (found.fault, found.culprits, found.sentence) == snapshot(
        ("quiet", (), "The job moves: between two reports of RAS, ranks have called collectives.")
    )


def test_counts_that_stand_between_two_reports_are_said_to(judge):
    found = judge([communicator({0: 42, 1: 41})], [communicator({0: 42, 1: 41})])[1]
    assert (found.culprits, found.limits) == snapshot(
        ((1,), ("Between two reports, no rank of it has called a collective.",))
    )


def test_a_rank_that_does_not_answer_is_absent_or_dead(judge):
    found = judge([communicator({0: 42}, [(1, False)])])[1]
    assert (found.fault, found.culprits, found.sentence) == snapshot(
        ("absent", (1,), "Rank 1 does not answer in a communicator of 2 ranks.")
    )
    found = judge([communicator({0: 42}, [(1, True)])])[1]
    assert (found.fault, found.culprits, found.sentence) == snapshot(
        ("dead", (1,), "Rank 1 does not answer in a communicator of 2 ranks, and RAS considers it dead.")
    )


def test_ranks_of_a_smaller_communicator_are_named_as_the_whole_job_names_them(judge):
    whole, part = communicator({0: 5, 1: 5, 2: 5, 3: 5}), communicator({0: 9, 1: 8}, name="0x9", pids=[102, 103])
    assert judge([part, whole])[1].culprits == (3,)


def test_a_report_without_a_difference_shows_nothing(judge):
    assert judge([communicator({0: 42, 1: 42})])[1].fault == "quiet"


def test_the_stack_of_the_rank_that_is_behind_is_told_with_it(judge):
    found = judge([communicator({0: 42, 1: 41, 2: 42})], rank1=STACK.read_text())[1]
    assert found.culprits == (1,)
    assert found.sentence.endswith("The stack of rank 1 is in load_batch at train.py:16.")
    assert [line.partition(":")[0] for line in found.evidence] == ["rank1.txt", "ras0.json"]


def test_a_damaged_report_is_named(judge):
    with pytest.raises(UserError, match=r"ras0\.json is not a report of `ncclras -f json` that ddpquiz can read"):
        judge([{"size": 2}])
