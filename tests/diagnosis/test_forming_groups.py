"""The verdict on ranks that call new_group for other groups than the rest, not at all, or late; on real ranks."""

import passed
import pytest
from inline_snapshot import snapshot

from ddpquiz.diagnosis.diagnosis import SAME_MESH
from ddpquiz.diagnosis.event_diagnosis import diagnose
from ddpquiz.events.event import Began, Ended, Forming, Issued, Joining, Raised
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_state import RunState
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

pytestmark = passed.ENGINE

HEAD = """\
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
x = torch.ones(2)
"""
JOBS = {
    "a group that only its members form": (
        ("if rank < 2:\n    dist.new_group([0, 1])\ngroup = dist.new_group([1, 2])\nif rank in (1, 2):\n"
        "    dist.all_reduce(x, group=group)\ndist.barrier()\n"),
        "missing", (2, 3),
        "Ranks 2 and 3 did not call new_group for ranks 0 and 1 at job.py:6, but new_group for ranks 1 and 2 at job.py:7.",
    ),
    "a group that one rank forms alone": (
        "if rank == 0:\n    dist.new_group()\ndist.all_reduce(x)\n",
        "missing", (0,),
        "Only rank 0 called new_group for ranks 0-3 at job.py:6; ranks 1-3 went on to all_reduce at job.py:7.",
    ),
    "a member that does not come": (
        "if rank == 1:\n    time.sleep(3600)\ndist.new_group([0, 1])\n",
        "late", (1,),
        "Rank 0 waits in new_group at job.py:7 for rank 1: it has not reached this call and was last seen at job.py:6.",
    ),
    "a member that has finished": (
        "if rank != 1:\n    dist.new_group([0, 1])\n",
        "left", (1,),
        "Rank 0 waits in new_group at job.py:6 for rank 1: it has finished.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", JOBS)
def test_ranks_stuck_in_forming_groups_are_judged(name, tmp_path):
    body, fault, culprits, sentence = JOBS[name]
    path = tmp_path / "job.py"
    path.write_text(HEAD + body)
    run = Run(Request(path, ranks=4, device="cpu", timeout=1.5))
    list(run.events())
    found = diagnose(run.seen)
    assert (found.fault, found.culprits, found.sentence) == (fault, culprits, sentence)


def test_a_rank_whose_new_group_raises_waits_for_nobody(tmp_path):
    path = tmp_path / "job.py"
    path.write_text(HEAD + "if rank == 2:\n    dist.new_group([0, 9])\n")
    run = Run(Request(path, ranks=4, device="cpu", timeout=1.5))
    list(run.events())
    found = diagnose(run.seen)
    assert (found.fault, found.culprits) == ("dead", (2,))
    assert found.sentence.startswith("Rank 2 raised ValueError at job.py:6: ")


def state(*formings, ranks=4, done=False):
    """Return the state after ranks have formed groups: for each, its rank, the members and a line."""
    state = RunState()
    state.add(Began("train.py", (), ranks, "cpu", "gloo", ""))
    for number, (rank, members, line) in enumerate(formings):
        state.add(Forming(0.1 * number, rank, False, "train.py", line, members))
        if done:
            state.add(Forming(0.1 * number + 0.05, rank, True, "train.py", line, members))
    return state


OWN = [(rank, (0, 1) if rank < 2 else (2, 3), 5) for rank in range(4)]  # each rank forms only the group it is in


def test_ranks_that_form_only_their_own_groups_are_told_so():
    found = diagnose(state(*OWN))
    assert (found.fault, found.culprits) == ("signature", (0, 1, 2, 3))
    assert found.sentence == (
        snapshot(
            "Ranks 0 and 1 called new_group for ranks 0 and 1 at train.py:5, but ranks 2 and 3 called new_group for "
            "ranks 2 and 3 at train.py:5."
        )
    )
    assert "use_local_synchronization" in found.advice


def test_groups_that_differ_without_harm_are_no_fault_but_are_mentioned():
    found = diagnose(state(*OWN, done=True))
    assert (found.fault, found.culprits) == ("none", ())
    assert "That did no harm this time." in found.limits[0]


def test_the_same_groups_in_other_lines_are_right():
    right = [(0, (0, 1), 5), (1, (0, 1), 9), (0, (1, 2), 6), (2, (0, 1), 5), (1, (1, 2), 9), (2, (1, 2), 6)]
    seen = state(*right, ranks=3, done=True)
    assert seen.groups.open == {}
    seen.add(Issued(2.0, 0, 1, Operation("all_reduce", (0, 1, 2), None, ((1,),), "float32", 4, "train.py", 7)))
    assert "new_group" not in diagnose(seen).sentence


def test_a_restarted_rank_forms_its_groups_anew():
    seen = state((0, (0, 1), 5), (1, (0, 1), 5), (0, (1,), 6), ranks=2)
    seen.groups.restart(0)
    seen.groups.restart(1)
    for rank in (0, 1):
        seen.add(Forming(1.0, rank, False, "train.py", 5, (0, 1)))
    assert [calls for calls in seen.groups.open.values() if calls] == []


def test_groups_that_two_ranks_form_in_opposite_orders_are_a_matter_of_order():
    seen = state((0, (0, 1), 5), (1, (0,), 8), (0, (0,), 6), (1, (0, 1), 9), ranks=2)
    found = diagnose(seen)
    assert (found.fault, found.culprits) == ("order", (0, 1))
    assert found.sentence.startswith("Rank 0 called new_group for ranks 0 and 1 at train.py:5, but rank 1 called ")


OLD_FILE = (
    "The file {folder}/meet may be left from an earlier job: then the ranks look for processes that are gone. Delete "
    "it before each run, or give each run a new name. It must also lie where all ranks see it."
)


REFUSED = (
    "Gloo connectFullMesh failed with [pair.cc:152] timed out connecting: SO_ERROR: Connection refused, "
    "remote=[127.0.0.1]:408"
)


@pytest.mark.parametrize(
    ("address", "advice"),
    [("file:///x/meet", OLD_FILE.format(folder="/x")), ("tcp://10.0.0.1:29500", "Find out what keeps the ranks")],
)
def test_ranks_that_failed_to_connect_do_not_wait(address, advice):
    state = RunState.after([
        Began("/x/job.py", (), 2, "cpu", "gloo", ""),
        *(Joining(0.1, rank, False, 3, 2, rank, address) for rank in (0, 1)),
        *(Raised(9.0, rank, "RuntimeError", REFUSED, 'File "/x/job.py", line 3, in <module>\n') for rank in (0, 1)),
    ])  # fmt: skip
    found = diagnose(state)
    assert (found.fault, found.culprits) == ("unknown", ())
    assert found.sentence == f"Ranks 0 and 1 could not connect in init_process_group at job.py:3: {REFUSED}."
    assert found.advice.startswith(advice)
    assert found.limits == ("What keeps the ranks from connecting is not known.",)


def test_a_rank_that_could_not_connect_is_not_late_where_the_others_went_on():
    """The other rank found the new address in the file, and waits in its first call."""
    state = RunState.after([
        Began("/x/job.py", (), 2, "cpu", "gloo", ""),
        *(Joining(0.1, rank, False, 3, 2, rank, "file:///x/meet") for rank in (0, 1)),
        Joining(0.2, 1, done=True, line=3),
        Issued(0.3, 1, 1, Operation("all_reduce", (0, 1), None, ((2,),), "float32", 8, "/x/job.py", 4)),
        Raised(9.0, 0, "RuntimeError", REFUSED, 'File "/x/job.py", line 3, in <module>\n'),
        Ended(9.1, 1, 1, failed=True),
        Raised(9.2, 1, "RuntimeError", "[pair.cc] Connection closed by peer", 'File "/x/job.py", line 4, in <module>\n'),
    ])  # fmt: skip
    found = diagnose(state)
    assert (found.fault, found.culprits, found.advice) == ("unknown", (), OLD_FILE.format(folder="/x"))
    assert found.sentence.startswith("Rank 0 could not connect in init_process_group at job.py:3")


def test_ranks_that_give_a_device_mesh_different_shapes_are_told_about_the_mesh(tmp_path):
    path = tmp_path / "job.py"
    path.write_text(
        HEAD + "from torch.distributed.device_mesh import init_device_mesh\n"
        'init_device_mesh("cpu", (1, 4) if rank == 3 else (2, 2), mesh_dim_names=("replicate", "shard"))\n'
    )
    run = Run(Request(path, ranks=4, device="cpu", timeout=1.5))
    list(run.events())
    found = diagnose(run.seen)
    assert (found.culprits, found.advice) == ((3,), SAME_MESH)
