"""What the stacks of ranks say, and no more: a moment of a job that works blames no rank for sure."""

import pytest
from inline_snapshot import snapshot

from ddpquiz.diagnosis.stack_diagnosis import diagnose_stacks
from ddpquiz.events.source_text import Frame
from ddpquiz.jobs.stacks import JobStacks, SeenStack

C10D = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
SCRIPT = """\
import torch.distributed as dist
rank = dist.get_rank()
for batch in batches:
    loss = model(batch)
    loss.backward()
    if rank == 0:
        dist.all_reduce(loss)
    dist.barrier()
print(loss.item())
work.wait()
"""
BACKWARD = ("/venv/lib/python3.11/site-packages/torch/autograd/graph.py", "_engine_run_backward")


@pytest.fixture
def judge(tmp_path):
    """Judge a job by what each rank does: a line of the script, and perhaps a function of torch above it."""
    script = tmp_path / "train.py"

    def judge(*doing, ranks=0, moved=None, on_gpu=None, text=SCRIPT):
        """`moved` are the ranks that moved between two looks; without it there was one look."""
        script.write_text(text)
        seen = {}
        for rank, each in enumerate(doing):
            if each is None:
                continue
            line, *inside = each
            frames = [Frame(*((C10D, 1, *one) if len(one) == 1 else (one[0], 1, one[1]))) for one in inside]
            frames.append(Frame(str(script), line, "<module>"))
            has_moved = None if moved is None else rank in moved
            seen[rank] = SeenStack(rank, tuple(frames), f"rank{rank}.txt:1", has_moved, on_gpu=on_gpu)
        return diagnose_stacks(JobStacks(seen, ranks or len(doing), 0.0 if moved is None else 1.0))

    return judge


ALL_REDUCE, BARRIER, DESTROY = ("all_reduce",), ("barrier",), ("destroy_process_group",)


def test_the_rank_that_is_not_where_the_others_wait_is_late(judge):
    found = judge((8, BARRIER), (4,), (8, BARRIER))
    assert (found.fault, found.culprits) == ("late", (1,))
    assert found.sentence == snapshot(
        "Ranks 0 and 2 are in barrier at train.py:8. Rank 1 is not there: it is in the script at train.py:4."
    )
    assert found.limits == snapshot(
        (
            "One look shows one moment, and a job that works can look the same. Look again some seconds later, and name the files of both looks.",
        )
    )
    assert found.evidence == snapshot(
        ("rank1.txt:1: rank 1 in the script at train.py:4", "rank0.txt:1: rank 0 in barrier at train.py:8")
    )


def test_two_looks_replace_the_doubt_of_one(judge):
    assert judge((8, BARRIER), (4,), moved=()).limits == snapshot(
        ("All stood in the same place for 1 s; a long step does so, too.",)
    )
    found = judge((8, BARRIER), (4,), moved=(1,))
    assert (found.fault, found.limits) == snapshot(
        ("late", ("Rank 1 moved between two looks: that may be slow, and not stuck.",))
    )


def test_where_a_rank_that_waited_is_elsewhere_in_the_second_look_the_job_moves(judge):
    found = judge((8, BARRIER), (4,), moved=(0,))
    assert (found.fault, found.culprits, found.sentence) == snapshot(
        ("quiet", (), "The job moves: rank 0 stood in different places in two looks, 1 s apart.")
    )


def test_all_ranks_in_one_call_are_called_no_more_than_that(judge):
    """A job that works, or one whose shapes differ: stacks do not tell them apart."""
    for moved in (None, ()):
        found = judge((8, BARRIER), (8, BARRIER), moved=moved)
        assert (found.fault, found.culprits) == ("quiet", ())
    assert (found.title, found.sentence, found.advice) == snapshot(
        (
            "Nothing shows a fault",
            "All ranks are in barrier at train.py:8: as far as the stacks show, no rank is missing there.",
            "If they stay there, look for what differs between them. TORCH_FR_BUFFER_SIZE=2000 in the next run makes dumps that show shapes and the number of each operation; put them beside the stacks.",
        )
    )


def test_a_call_that_the_script_leaves_to_one_rank_is_the_one_too_many(judge):
    found = judge((7, ALL_REDUCE), (5, BACKWARD), (5, BACKWARD))
    assert (found.fault, found.culprits) == ("missing", (0,))
    assert found.sentence == snapshot(
        "Only rank 0 is in all_reduce at train.py:7; ranks 1 and 2 are in backward at train.py:5."
    )
    assert judge((7, ALL_REDUCE), (4,), (4,)).fault == "missing"


@pytest.mark.parametrize(
    "branch",
    [
        "if rank == 0:\n    dist.broadcast(x, 0)\nelse:\n    dist.broadcast(y, 0)",
        "if rank == 0:\n    dist.broadcast(x, 0, group=pair)\ndist.barrier()",
    ],
)
def test_a_call_that_other_ranks_may_meet_in_another_line_is_not_one_too_many(judge, branch):
    found = judge((3, ("broadcast",)), (1,), (1,), text=f"rank = dist.get_rank()\n{branch}\n")
    assert (found.fault, found.culprits) == ("late", (1, 2))


def test_other_operations_blame_nobody_for_sure(judge):
    found = judge((8, BARRIER), (8, BARRIER), (10,))
    assert (found.fault, found.culprits, found.limits[:2]) == snapshot(
        (
            "order",
            (2,),
            (
                "Which side is wrong, stacks do not show; rank 2 is fewer.",
                "Stacks show no groups: ranks of different groups may be in different operations without a fault.",
            ),
        )
    )
    assert judge((8, BARRIER), (10,)).culprits == ()


def test_a_rank_that_ends_its_group_has_left(judge):
    found = judge((8, BARRIER), (9, DESTROY))
    assert (found.fault, found.culprits, found.sentence) == snapshot(
        (
            "left",
            (1,),
            "Rank 0 is in barrier at train.py:8. Rank 1 is not there: it is in destroy_process_group at train.py:9.",
        )
    )


def test_ranks_without_a_stack_are_absent_only_if_the_others_stand_still(judge):
    assert judge((8, BARRIER), ranks=2).fault == "quiet"
    found = judge((8, BARRIER), None, ranks=2, moved=())
    assert (found.fault, found.culprits, found.sentence) == snapshot(
        ("absent", (1,), "Rank 0 is in barrier at train.py:8, and nothing is known of rank 1.")
    )


def test_ranks_outside_of_calls_are_told_and_not_blamed(judge):
    found = judge((4,), (5,), (8, ("threading.py", "wait")), on_gpu=False)
    assert (found.fault, found.sentence) == snapshot(
        (
            "quiet",
            "No rank is in a call of torch.distributed: rank 0 is in the script at train.py:4, rank 1 is in the script at train.py:5 and rank 2 is in the script, inside wait of threading.py, at train.py:8.",
        )
    )


def test_on_a_gpu_a_line_that_reads_a_tensor_may_wait_for_others(judge):
    assert judge((9,), (9,), (4,), moved=(), on_gpu=False).fault == "quiet"
    found = judge((9,), (9,), (4,), moved=(), on_gpu=True)
    assert (found.fault, found.culprits) == ("late", (2,))
    assert (found.sentence, found.limits) == snapshot(
        (
            "Ranks 0 and 1 are in `print(loss.item())` at train.py:9. Rank 2 is not there: it is in the script at train.py:4.",
            (
                "All stood in the same place for 1 s; a long step does so, too.",
                "On GPUs operations run in the background: a line shows where the CPU waits, and the operation that hangs may have been called earlier.",
            ),
        )
    )
