"""Two dumps of one rank, and what can be said when some ranks do not get out of an operation."""

import json
import os

import pytest
from flight_dumps import recorded
from inline_snapshot import snapshot
from nccl_dumps import BEGIN, MILLISECOND, dump, entry

from ddpquiz.diagnosis.job_diagnosis import diagnose_job
from ddpquiz.errors import UserError
from ddpquiz.events.event import Issued
from ddpquiz.events.run_state import RunState
from ddpquiz.jobs.dumped_job import read_dumps
from ddpquiz.jobs.job_reader import read_job


def verdict(record):
    return diagnose_job(record, RunState.after(record.events))


def issued(record, rank):
    return [event.operation for event in record.events if isinstance(event, Issued) and event.rank == rank]


def test_json_from_the_hang_and_a_pickle_from_the_time_out_are_one_dump_with_stacks():
    stacks, paths = read_dumps(recorded("missing")), [*recorded("missing", "json"), *recorded("missing")]
    for order in (paths, paths[::-1]):
        both = read_dumps(order)
        assert both.present == (0, 1, 2)
        assert [issued(both, rank) for rank in range(3)] == [issued(stacks, rank) for rank in range(3)]
        assert verdict(both).culprits == verdict(stacks).culprits == (1,)


def gloo(name, number, *, retired, frames=()):
    return entry(
        name, number, record=number - 1, at=number, state="scheduled", retired=retired, frames=list(frames),
        profiling_name=f"gloo:{name}",
    )  # fmt: skip


@pytest.fixture
def stuck(tmp_path):
    """Ranks 1 and 2 stay in a broadcast, rank 0 waits for them in the next operation; each has two dumps."""
    for rank in range(3):
        for name, retired in (("first", False), ("later", True)):
            entries = [gloo("barrier", 1, retired=True), gloo("broadcast", 2, retired=retired or rank == 0)]
            if rank == 0:
                entries.append(gloo("all_reduce", 3, retired=retired))
            (tmp_path / f"{name}_{rank}").write_text(json.dumps(dump(entries)))
    return tmp_path


def test_ranks_that_stay_in_a_broadcast_which_all_have_called_probably_name_different_roots(stuck):
    found = verdict(read_job(stuck))
    assert (found.fault, found.culprits, found.positions[0].doing[:9]) == ("signature", (1, 2), "broadcast")
    assert "does not name roots" in found.limits[0]


def test_a_later_dump_alone_does_not_show_that_they_stayed_there(stuck):
    for rank in range(3):
        (stuck / f"first_{rank}").unlink()
    assert (verdict(read_job(stuck)).fault, verdict(read_job(stuck)).culprits) == ("late", (1, 2))


def test_the_number_of_ranks_can_be_named_where_the_dumps_do_not_say_it(stuck):
    for rank in (0, 1):
        for name in ("first", "later"):
            (stuck / f"{name}_{rank}").rename(stuck / f".{name}_{rank}")
    (stuck / "first_2").rename(stuck / "first_0")
    (stuck / "later_2").unlink()
    alone, named = read_job(stuck), read_job(stuck, ranks=2)
    assert (alone.ranks, named.missing) == (1, (1,))
    assert any("--nproc" in note for note in alone.notes)
    assert not any("--nproc" in note for note in named.notes)
    assert (verdict(named).fault, verdict(named).culprits) == ("absent", (1,))


def test_dumps_may_be_in_a_folder_for_each_machine_beside_other_files(stuck):
    (stuck / "node1").mkdir()
    for name in ("first_2", "later_2"):
        (stuck / name).rename(stuck / "node1" / name)
    (stuck / "job.sh").write_text("")
    record = read_job(stuck)
    assert record.present == (0, 1, 2)
    assert record.notes[-1] == snapshot("Files that are no records and no logs; left out: job.sh.")


def test_a_folder_without_records_says_what_it_should_hold(tmp_path):
    (tmp_path / "train.py").write_text("")
    with pytest.raises(UserError, match=r"holds no records; it holds train\.py\. Name rank-N\.jsonl"):
        read_job(tmp_path)


@pytest.mark.parametrize(
    ("written", "fault"), [((10, 60), "none"), ((70, 60), "late"), ((5_000, 6_000), "late")]
)  # milliseconds from the beginning
def test_a_rank_is_late_only_if_its_dump_is_not_older_than_what_the_others_did(written, fault, tmp_path):
    """The ranks of a job that goes on are dumped one after the other."""
    for rank in range(2):
        path = tmp_path / f"trace_{rank}"
        path.write_text(json.dumps(dump([gloo("barrier", 1 + n, retired=True) for n in range(1 + rank)])))
        moment = BEGIN + written[rank] * MILLISECOND
        os.utime(path, ns=(moment, moment))
    found = verdict(read_job(tmp_path))
    assert (found.fault, found.culprits) == (fault, (0,) if fault == "late" else ())


@pytest.fixture
def waited(tmp_path):
    """Ranks 0 and 1 wait in a second call, for rank 2 of which the dump shows the first call only."""
    for rank in range(3):
        entries = [gloo("barrier", 1, retired=True), *([gloo("all_reduce", 2, retired=False)] if rank < 2 else [])]
        (tmp_path / f"trace_{rank}").write_text(json.dumps(dump(entries)))
    return tmp_path


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (b"", "is empty: the rank ended before its dump was written. Leave the file out."),
        (b"\x80\x02}", "cannot be read as a Flight Recorder dump: it is an incomplete or damaged pickle."),
        (b'{"version": "1.0", "entries": []}', "its format has version '1.0', but ddpquiz reads version 2."),
    ],
)
def test_a_dump_that_cannot_be_read_is_left_out_and_its_rank_is_neither_blamed_nor_acquitted(held, why, waited):
    before = verdict(read_job(waited))
    assert (before.fault, before.culprits) == ("late", (2,))
    (waited / "trace_2").write_bytes(held)
    record = read_job(waited)
    assert (record.ranks, record.present, record.unread) == (3, (0, 1), (2,))
    assert record.notes[-2].startswith(f"A dump is left out: {waited / 'trace_2'} ")
    assert why in record.notes[-2]
    assert record.notes[-1] == "So what rank 2 did is not known."
    found = verdict(record)
    assert (found.fault, found.culprits) == ("unknown", ())
    assert found.sentence == snapshot("Ranks 0 and 1 wait in all_reduce for rank 2: it left no readable dump.")
    assert found.limits == snapshot(
        ("What it did is in a dump that cannot be read, so whether it is the cause is not known.",)
    )


def test_where_one_dump_cannot_be_read_and_another_one_is_missing_only_the_missing_rank_is_named(waited):
    (waited / "trace_1").write_bytes(b"")
    (waited / "trace_2").unlink()
    found = verdict(read_job(waited, ranks=3))
    assert (found.fault, found.culprits) == ("absent", (2,))
    assert found.sentence == snapshot(
        "Rank 0 waits in all_reduce for ranks 1 and 2: rank 1 left no readable dump; rank 2 left no record."
    )


def test_calls_that_fit_are_no_good_news_where_a_dump_cannot_be_read(waited):
    for rank in (0, 1):
        path = waited / f"trace_{rank}"
        path.write_text(json.dumps(dump([gloo("barrier", 1, retired=True)])))
        moment = BEGIN + 10 * MILLISECOND
        os.utime(path, ns=(moment, moment))
    assert verdict(read_job(waited)).fault == "none"
    (waited / "trace_2").write_bytes(b"")
    found = verdict(read_job(waited))
    assert (found.fault in ("quiet", "unknown"), found.culprits) == (True, ())


def test_an_odd_file_adds_no_ranks_and_dumps_of_which_none_can_be_read_are_refused(waited):
    (waited / "trace_900").write_bytes(b"")
    (waited / "trace_99999").write_bytes(b"")
    record = read_job(waited)
    assert (record.ranks, record.unread, record.present) == (3, (), (0, 1, 2))
    assert len([note for note in record.notes if note.startswith("A dump is left out: ")]) == 2
    for rank in range(3):
        (waited / f"trace_{rank}").unlink()
    with pytest.raises(UserError, match="is empty"):
        read_job(waited)
