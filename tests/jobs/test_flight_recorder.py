"""PyTorch's Flight Recorder dumps: what is read from them, how ranks are aligned, and dumps that somebody may send."""

import pickle
from pathlib import Path

import flight_dumps
import passed
import pytest
from flight_dumps import make, recorded
from nccl_dumps import FRAMES, WORLD, dump, entry, read, reduced, timeline

from ddpquiz.diagnosis.job_diagnosis import diagnose_job
from ddpquiz.events.event import Began, Ended, Issued, Started
from ddpquiz.events.run_state import RunState
from ddpquiz.jobs.dump_file import NAMES, Owner, load, owner_of, rank_of
from ddpquiz.jobs.dumped_job import read_dumps

pytestmark = passed.ENGINE


def collectives(job):
    """Return each operation as (group, operator, the ranks that issued it), in order."""
    return [(each.group, each.op, tuple(sorted(each.calls))) for each in timeline(job).collectives]


def issued(job, rank=0):
    return [event.operation for event in job.events if isinstance(event, Issued) and event.rank == rank]


@pytest.mark.parametrize("form", ["trace", "json"])
def test_real_dumps_show_which_rank_did_not_issue_the_last_operation(form):
    job = read_dumps(recorded("missing", form))
    everybody, pair = (0, 1, 2), (0, 2)
    assert sorted(collectives(job)) == sorted(
        [("0", "all_reduce", everybody)] * 4
        + [("1", "broadcast", pair)] * 4
        + [("0", "all_gather", everybody), ("0", "all_reduce", pair)]
    )
    assert (job.ranks, job.present, job.missing, job.source) == (3, (0, 1, 2), (), "Flight Recorder")
    assert issued(job)[-1][:6] == ("all_reduce", (0, 1, 2), None, ((8,),), "float32", 32)
    assert (job.events[0].device, job.events[0].backend) == ("cpu", "gloo")


def test_stacks_lead_to_the_lines_of_the_script():
    job = read_dumps(recorded("missing"))
    lines = Path(flight_dumps.__file__).read_text("utf-8").splitlines()
    last = issued(job)[-1]
    assert (job.events[0].script, last.file) == ("/home/user/train.py", "/home/user/train.py")
    assert lines[last.line - 1].strip() == "dist.all_reduce(torch.ones(8))"


def test_without_stacks_the_folder_names_the_script_and_a_note_says_so():
    job = read_dumps(recorded("missing", "json"))
    assert (job.events[0].script, issued(job)[0].file, issued(job)[0].line) == ("missing", "", 0)
    assert "The dumps hold no stack traces, so the lines that issued the operations are not known." in job.notes


def test_an_operation_that_gloo_gave_up_has_failed_although_the_dump_calls_it_retired():
    ends = [event for event in read_dumps(recorded("missing")).events if isinstance(event, Ended)]
    last = {rank: max(each.number for each in ends if each.rank == rank) for rank in (0, 2)}
    assert all(each.failed == (each.number == last.get(each.rank)) for each in ends)
    hanging = [event for event in read_dumps(recorded("missing", "json")).events if isinstance(event, Ended)]
    assert len(hanging) == len(ends) - 2
    assert not any(each.failed for each in hanging)


@pytest.mark.parametrize("form", ["trace", "json"])
def test_after_the_ring_buffer_was_full_the_last_operations_are_still_aligned(form):
    job = read_dumps(recorded("ring", form))
    assert sorted(collectives(job)) == sorted(
        [("0", "all_reduce", (0, 1, 2))] * 2
        + [("1", "broadcast", (0, 2))] * 2
        + [("0", "all_gather", (0, 1, 2)), ("0", "all_reduce", (0, 2))]
    )
    assert any(
        note.startswith("The dumps of ranks 0 and 2 do not hold all operations; 2 entries") for note in job.notes
    )


def test_fresh_dumps_are_read_as_the_saved_ones_are(tmp_path):
    make(tmp_path)
    for form in ("trace", "json"):
        fresh = read_dumps(sorted(tmp_path.glob(f"{form}_*")))
        assert sorted(collectives(fresh)) == sorted(collectives(read_dumps(recorded("missing", form))))
        assert fresh.notes == read_dumps(recorded("missing", form)).notes
    for path in tmp_path.glob("trace_*"):  # the reader of pickles agrees with Python's
        assert load(path) == pickle.loads(path.read_bytes())


def test_gloo_names_no_members_but_an_all_gather_shows_that_a_dump_is_missing():
    job = read_dumps(recorded("missing")[:2])
    assert (job.ranks, job.present, job.missing) == (3, (0, 1), (2,))
    assert issued(job)[0].members == (0, 1, 2)


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_an_nccl_dump_gives_members_times_and_lines(tmp_path, form):
    job = read(tmp_path, {rank: dump(reduced([1, 2]), WORLD) for rank in WORLD["0"]}, form)
    began, *events = job.events
    assert (began.script, began.device, began.backend, began.ranks) == ("/home/user/main.py", "cuda", "nccl", 2)
    assert [type(event).__name__ for event in events if event.rank == 1] == [
        "Started", "Issued", "Issued", "Ended", "Ended",
    ]  # fmt: skip
    assert [event.time for event in events if event.rank == 1] == [0.0, 0.0, 0.001, 0.005, 0.006]
    operation = issued(job)[0]
    assert operation.members == (0, 1)
    assert (operation.dtype, operation.bytes, operation.file, operation.line) == (
        "bfloat16",
        12,
        "/home/user/train.py",
        40,
    )
    assert timeline(job).current() == []


def test_equal_operations_of_all_ranks_are_one_object(tmp_path):
    job = read(tmp_path, {rank: dump(reduced([1, 2, 3]), WORLD) for rank in WORLD["0"]})
    assert len({id(operation) for rank in WORLD["0"] for operation in issued(job, rank)}) == 1


@pytest.mark.parametrize(("name", "op"), [("all_to_all", "all_to_all"), ("barrier", "barrier"), *NAMES.items()])
def test_operations_have_the_names_that_scripts_use(tmp_path, name, op):
    (operation,) = issued(read(tmp_path, {0: dump([entry(name, 1, record=0, at=0)], {"0": (0,)})}))
    assert operation.op == op


def test_an_operation_that_the_watchdog_ended_has_failed(tmp_path):
    waiting = reduced([1], state="started", retired=True)
    job = read(tmp_path, {0: dump(waiting, WORLD), 1: dump([], WORLD, last_completed=-1)})
    (end,) = (event for event in job.events if isinstance(event, Ended))
    assert (end.failed, end.time) == (True, 600.0)
    assert collectives(job) == [("0", "all_reduce", (0,))]


@pytest.mark.parametrize(("last_completed", "ends"), [(-1, 0), (1, 1), (2, 2)])
def test_the_status_of_the_group_shows_what_has_ended_too(tmp_path, last_completed, ends):
    job = read(tmp_path, {0: dump(reduced([1, 2], state="scheduled"), {"0": (0,)}, last_completed)})
    assert sum(isinstance(event, Ended) for event in job.events) == ends


def test_operations_that_a_rank_has_dropped_are_left_out_on_all_members(tmp_path):
    job = read(tmp_path, {0: dump(reduced([1, 2, 3, 4, 5]), WORLD), 1: dump(reduced([3, 4], first=2), WORLD)})
    assert collectives(job) == [*[("0", "all_reduce", (0, 1))] * 2, ("0", "all_reduce", (0,))]
    assert len(issued(job)) == 3


def test_a_gap_in_a_dump_of_active_operations_does_not_shift_the_later_ones(tmp_path):
    gap = reduced([1, 2, 3])
    del gap[1]
    job = read(tmp_path, {0: dump(gap, WORLD), 1: dump(reduced([1, 2, 3]), WORLD)})
    assert collectives(job) == [("0", "all_reduce", (0, 1))] * 2


def test_a_member_whose_buffer_holds_nothing_of_a_group_any_more_is_not_called_missing(tmp_path):
    groups = {"0": (0, 1), "1": (0, 1)}
    old = entry("all_reduce", 1, record=0, at=1, group="1", description="undefined")
    job = read(tmp_path, {0: dump([old, *reduced([1], first=1)], groups), 1: dump(reduced([1], first=1), groups)})
    assert collectives(job) == [("0", "all_reduce", (0, 1))]
    waiting = old | {"time_discovered_completed_ns": None, "retired": False}
    job = read(tmp_path, {0: dump([waiting, *reduced([1], first=1)], groups), 1: dump(reduced([1], first=1), groups)})
    assert collectives(job) == [("1", "all_reduce", (0,)), ("0", "all_reduce", (0, 1))]


def test_members_come_from_another_rank_if_a_dump_does_not_name_them(tmp_path):
    job = read(tmp_path, {0: dump(reduced([1]), {}), 1: dump(reduced([1]), {"0": (0, 1, 2)})})
    assert {operation.members for rank in (0, 1) for operation in issued(job, rank)} == {(0, 1, 2)}
    assert job.missing == (2,)


def test_peers_are_global_ranks(tmp_path):
    groups = {"pipe": (2, 5)}
    job = read(
        tmp_path,
        {
            2: dump([entry("send 0->1", 1, record=0, at=0, group="pipe")], groups),
            5: dump([entry("recv 1<-0", 1, record=0, at=3, group="pipe")], groups),
        },
    )
    assert (issued(job, 2)[0].op, issued(job, 2)[0].peer) == ("send", 5)
    assert (issued(job, 5)[0].op, issued(job, 5)[0].peer) == ("recv", 2)
    assert collectives(job) == [("pipe", "send", (2, 5))]


def test_sends_and_receives_are_matched_from_the_last_that_ended_if_some_were_dropped(tmp_path):
    sends = [entry("send 0->1", number, record=number - 1, at=number) for number in (1, 2, 3)]
    sends.append(entry("send 0->1", 4, record=3, at=4, state="started", input_sizes=[[7]]))
    receives = [entry("recv 1<-0", 3, record=2, at=5)]
    job = read(tmp_path, {0: dump(sends, WORLD), 1: dump(receives, WORLD)})
    assert collectives(job) == [("0", "send", (0, 1)), ("0", "send", (0,))]
    assert "Sends and receives are therefore matched from the last one that ended on both ranks." in job.notes


def test_operations_that_start_together_end_with_the_entry_that_closes_them(tmp_path):
    def batch(**closing):
        parts = [
            entry("send 0->1", 1, record=0, at=0, state="scheduled"),
            entry("recv 0<-1", 1, record=1, at=0, state="scheduled"),
        ]
        return [*parts, entry("coalesced", 1, record=2, at=0, p2p=True, **closing)]

    for closing, ends in (({}, 2), ({"state": "started"}, 0)):
        job = read(tmp_path, {0: dump(batch(**closing), WORLD)})
        assert [operation.op for operation in issued(job)] == ["send", "recv"]
        assert sum(isinstance(event, Ended) for event in job.events) == ends


def test_collectives_that_start_together_share_a_number_and_stay_aligned(tmp_path):
    def entries(first):
        together = [entry("all_reduce", 1, record=at, at=1, state="scheduled") for at in range(2)]
        together.append(entry("coalesced", 1, record=2, at=1, input_sizes=[], input_dtypes=[]))
        return [*together, *reduced([2], first=3)][first:]

    assert (
        collectives(read(tmp_path, {rank: dump(entries(0), WORLD) for rank in (0, 1)}))
        == [("0", "all_reduce", (0, 1))] * 3
    )
    for first in (1, 2):  # the beginning of the group is lost
        job = read(tmp_path, {0: dump(entries(0), WORLD), 1: dump(entries(first), WORLD)})
        assert collectives(job) == [("0", "all_reduce", (0, 1))]


def test_older_dumps_have_one_entry_for_collectives_that_start_together(tmp_path):
    job = read(tmp_path, {0: dump([entry("coalesced", 1, record=0, at=0)], {"0": (0,)}, version="2.5")})
    assert [operation.op for operation in issued(job)] == ["coalesced"]


def test_a_dump_without_operations_says_what_to_set(tmp_path):
    job = read(tmp_path, {0: dump([], {"0": (0, 1)})})
    assert (job.ranks, job.missing, [type(event) for event in job.events]) == (2, (1,), [Began, Started])
    assert job.notes == ("The dumps hold no operations. Set TORCH_FR_BUFFER_SIZE=2000 in the environment of the job.",)


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        ("/home/user/train.py", Owner.USER),
        ("/work/torch/train.py", Owner.USER),
        ("/tmp/ipykernel_1/2.py", Owner.USER),
        ("/opt/python/lib/python3.11/site-packages/trainer/sync.py", Owner.LIBRARY),
        ("/opt/python/lib/python3.11/site-packages/torch/nn/modules/module.py", Owner.TORCH_OR_PYTHON),
        ("/src/pytorch/torch/distributed/distributed_c10d.py", Owner.TORCH_OR_PYTHON),
        ("/opt/python/lib/python3.11/runpy.py", Owner.TORCH_OR_PYTHON),
        ("C:\\Python\\Lib\\site-packages\\torch\\nn\\modules\\module.py", Owner.TORCH_OR_PYTHON),
        ("<string>", Owner.TORCH_OR_PYTHON),
        ("??", Owner.TORCH_OR_PYTHON),
    ],
)
def test_a_file_belongs_to_the_user_a_library_or_torch(file, owner):
    assert owner_of(file) is owner


def test_without_the_users_own_frames_the_line_of_a_library_is_named(tmp_path):
    (operation,) = issued(read(tmp_path, {0: dump(reduced([1], frames=FRAMES[:3]), {"0": (0,)})}))
    assert (operation.file, operation.line) == (FRAMES[2]["filename"], 12)


@pytest.mark.parametrize(("name", "rank"), [("trace_0", 0), ("a7_12", 12), ("rank_3.json", 3), ("nccl.5.pickle", 5)])
def test_the_file_name_ends_in_the_rank(name, rank):
    assert rank_of(Path(name)) == rank


NCCL = Path(__file__).parent.parent / "data/nccl"  # logs and dumps of real jobs


def test_groups_that_ranks_use_in_opposite_orders_are_named_where_the_calls_read_the_same():
    job = read_dumps(sorted(NCCL.joinpath("order_timeout").glob("trace_*")))
    assert diagnose_job(job, RunState.after(job.events)).sentence == (
        "Ranks wait for each other in different groups: rank 0 for rank 1 in all_reduce at job.py:13 (group 1 of ranks 0 "
        "and 1); rank 1 for rank 0 in all_reduce at job.py:13 (group 2 of ranks 0 and 1)."
    )
