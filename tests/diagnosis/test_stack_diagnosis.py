"""What the stacks of ranks say, and no more: a moment of a job that works blames no rank for sure."""

from pathlib import PurePath

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
    found = judge((8, BARRIER), (8, BARRIER), (7, ALL_REDUCE), text=SCRIPT.replace("if rank == 0", "if rank < 9"))
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


@pytest.mark.parametrize("doing", [(10,), (7, ("recv",)), (7, ("batch_isend_irecv",))])
def test_the_only_rank_that_waits_for_a_message_is_not_blamed_for_being_fewer(judge, doing):
    """The message may be one that another rank leaves out, which went on to where most ranks are."""
    found = judge((8, BARRIER), (8, BARRIER), doing)
    assert (found.fault, found.culprits) == ("order", ())
    assert found.limits[0] == (
        "Which side is wrong, stacks do not show. A rank that waits for a message, or in a wait(), may wait for any other "
        "rank."
    )


OURS = [
    ("/work/ddpquiz/ranks/inside/recorder.py", "Recorder._watch_wait.<locals>.wait"),
    ("/venv/lib/python3.11/site-packages/ddpquiz/ranks/inside/store_waits.py", "wait"),
    ("ddpquiz/ranks/inside/direct_calls.py", "call"),
]


@pytest.mark.parametrize("wrapper", OURS, ids=[PurePath(file).stem for file, _ in OURS])
def test_what_ddpquiz_itself_puts_around_a_wait_does_not_hide_it(judge, wrapper):
    found = judge((10, wrapper), (4,), (10, wrapper))
    assert (found.fault, found.culprits) == ("late", (1,))
    assert found == judge((10,), (4,), (10,))
    assert found.sentence == snapshot(
        "Ranks 0 and 2 are in `work.wait()` at train.py:10. Rank 1 is not there: it is in the script at train.py:4."
    )


def test_the_lines_of_ddpquiz_that_start_a_script_are_none_of_its_callers():
    of_record = [Frame("/work/ddpquiz/record.py", 66, "<module>"), Frame("<frozen runpy>", 198, "_run_module_as_main")]
    one = stack(("train", 88, "train"), MAIN)
    assert seen((*one, *of_record), (*one, *of_record)) == seen(one, one)


def test_a_rank_in_a_wait_of_torch_itself_is_in_a_call(judge, tmp_path):
    """Such as the calls by which Join mirrors those of a module."""
    torch = tmp_path / "site-packages/torch/nn/parallel/distributed.py"
    torch.parent.mkdir(parents=True)
    torch.write_text("work.wait()\n")
    found = judge((10, (str(torch), "DistributedDataParallel._match_all_reduce_for_bwd_pass")), (4,))
    assert (found.fault, found.culprits) == ("late", (1,))
    assert found.sentence == snapshot(
        "Rank 0 is in _match_all_reduce_for_bwd_pass at train.py:10. Rank 1 is not there: it is in the script at train.py:4."
    )


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


def test_a_list_of_what_ranks_do_ends_no_row_in_a_comma(judge):
    found = judge((4,), (8, ("selectors.py", "select")), on_gpu=False)
    assert [each.doing for each in found.positions] == ["in the script", "in the script, inside select of selectors.py"]
    assert "rank 1 is in the script, inside select of selectors.py, at train.py:8" in found.sentence


def stack(*frames):
    """Where a rank is in an operation, by the lines that led there, the innermost first."""
    return (Frame(C10D, 1, "all_reduce"), *(Frame(f"/job/{file}.py", line, name) for file, line, name in frames))


def seen(*stacks):
    return diagnose_stacks(JobStacks({rank: SeenStack(rank, each) for rank, each in enumerate(stacks)}, len(stacks)))


REDUCE, MAIN = ("utils", 10, "reduce_mean"), ("train", 200, "<module>")


def test_a_line_of_another_file_is_told_with_the_line_that_called_it():
    one = stack(REDUCE, ("step", 30, "step"), ("train", 88, "train"), MAIN)
    found = seen(one, one)
    assert (found.fault, found.sentence) == snapshot(
        (
            "quiet",
            "All ranks are in all_reduce at utils.py:10 (called at step.py:30, from train.py:88): as far as the stacks show, no rank is missing there.",
        )
    )
    assert str(found.positions[0]) == snapshot(
        "ranks 0 and 1: all_reduce (called at step.py:30, from train.py:88) at utils.py:10"
    )


@pytest.mark.parametrize("file", ["utils", "train"], ids=["another file", "a function of the script"])
def test_ranks_in_one_line_that_was_called_from_different_lines_are_not_in_one_place(file):
    reduce = file, 10, "reduce_mean"
    found = seen(stack(reduce, ("train", 88, "train"), MAIN), stack(reduce, ("train", 120, "evaluate"), MAIN))
    assert (found.fault, found.culprits) == ("order", ())
    assert found.sentence == (
        "All ranks are in all_reduce, but came there from different lines: rank 0 is in all_reduce at "
        f"{file}.py:10 (called at train.py:88) and rank 1 is in all_reduce at {file}.py:10 (called at train.py:120)."
    )
    assert found.limits[0].startswith("If the script lets ranks meet from these lines")


def test_lines_of_the_script_are_told_without_their_callers_where_all_ranks_came_the_same_way():
    one = stack(("train", 88, "train"), MAIN)
    assert "at train.py:88: as far" in seen(one, one).sentence


def test_ranks_without_stacks_bring_no_advice_on_a_place():
    found = diagnose_stacks(JobStacks({0: SeenStack(0, (), why="stopped by a signal")}, 1))
    assert (found.fault, found.sentence, found.advice) == snapshot(
        (
            "quiet",
            "No rank has a stack.",
            "Why is said for each rank: mend that and look again, or look at the logs of the job.",
        )
    )
    assert found.limits == ("Rank 0 has no stack: stopped by a signal.",)
