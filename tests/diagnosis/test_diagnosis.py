"""The verdict on a job: the right kind of fault, the right ranks, both lines; and none on jobs that are right."""

import math

import passed
import pytest
from faulty_jobs import KINDS, make_job
from inline_snapshot import snapshot
from state_of_calls import call, finished, state_of

from ddpquiz.diagnosis import ranks_at_fault
from ddpquiz.diagnosis.diagnosis import RESUME
from ddpquiz.diagnosis.event_diagnosis import diagnose, tell_swallowed_failure
from ddpquiz.events.event import Ended, Exited, Issued, Joining, Output, Raised, RankStack, ScriptFinished, Waiting
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_state import RunState
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run

pytestmark = passed.ENGINE

# One seed of each kind for groups of several sizes; benchmarks/diagnosis.py tries a hundred
SEEDS = {"skip": 22, "extra": 1, "swap": 13, "shape": 3, "dtype": 4, "root": 5, "exit": 6, "raise": 7, "kill": 8,
         "sleep": 20, "peer": 21}  # fmt: skip


def verdict_on(script, ranks, tmp_path):
    path = tmp_path / "job.py"
    path.write_text(script)
    run = Run(Request(path, ranks=ranks, device="cpu", timeout=1.5))
    list(run.events())
    return diagnose(run.seen)


@pytest.mark.parametrize("kind", KINDS)
def test_a_faulty_job_is_judged_by_kind_and_culprit(kind, tmp_path):
    job = make_job(SEEDS[kind])
    assert job.kind == kind
    found = verdict_on(job.script, job.ranks, tmp_path)
    assert (found.fault, found.culprits) == (job.fault, job.culprits), found.sentence
    if kind not in ("raise", "kill"):
        assert "job.py:" in found.sentence


@pytest.mark.parametrize("seed", [200, 201, 202])
def test_no_fault_is_found_in_a_job_that_is_right(seed, tmp_path):
    job = make_job(seed, "innocent")
    found = verdict_on(job.script, job.ranks, tmp_path)
    assert (found.fault, found.culprits) == ("none", ())


def test_a_rank_that_raised_while_it_waited_for_an_operation_in_the_background_was_blocked_there():
    """Gloo's thread may not report any more that the operation has failed, before the process is gone."""
    for asynchronous in (False, True):
        last = Operation(
            "all_reduce", (0, 1), None, ((4,),), "float32", 16, "train.py", 10, "0", asynchronous=asynchronous
        )
        found = diagnose(
            state_of(
                [last, last], [last], ranks=2,
                more=[
                    *([Waiting(0.01, 0, 2)] if asynchronous else []), ScriptFinished(0.01, 1, 0),
                    Raised(0.02, 0, "RuntimeError", "gloo: Connection closed by peer", ""), Exited(0.03, 1, 0, ""),
                    Exited(0.04, 0, 1, ""),
                ],
            )
        )  # fmt: skip
        assert (found.fault, found.culprits) == ("left", (1,))
        assert found.sentence == "Rank 0 waits in all_reduce at train.py:10 for rank 1: it has finished."


def test_sends_in_the_background_that_nobody_receives_are_not_advised_to_be_in_the_background():
    sends = [
        Operation("send", (0, 1), 1 - rank, ((4,),), "float32", 16, "train.py", 23, "0", asynchronous=True)
        for rank in range(2)
    ]
    waits = [Waiting(0.01, rank, 1) for rank in range(2)]
    found = diagnose(state_of([sends[0]], [sends[1]], ranks=2, ended=False, more=waits), now=math.inf)
    assert found.sentence == (
        snapshot("Ranks wait for each other: rank 0 for its send at train.py:23; rank 1 for its send at train.py:23.")
    )
    assert "isend" not in found.advice
    found = diagnose(state_of([sends[0]], [sends[1]], ranks=2, ended=False), now=math.inf)
    assert found.fault == "none"  # both may still call wait, after what they compute


A, B, C = call(10), call(20, "broadcast", peer=0), call(30, shape=(9,))


def test_history_shows_who_left_out_a_call_even_against_the_majority():
    usual = [A, B, C, A, B, C]
    found = diagnose(state_of([*usual, A, B], [*usual, A, C], [*usual, A, C]))
    assert (found.fault, found.culprits) == ("missing", (1, 2))
    assert found.sentence == (
        snapshot(
            "Ranks 1 and 2 did not call broadcast at train.py:20, in which rank 0 waits, but went on to all_reduce at "
            "train.py:30."
        )
    )
    assert found.together == snapshot("Before that, all of them had called all_reduce at train.py:10.")


SAVING = "for step in range(9):\n    dist.all_reduce(x)\n    if step == 2:\n        dist.barrier()\n"
AFTER_THE_LOOP = "for step in range(9):\n    dist.all_reduce(x)\n\ndist.barrier()\n"


@pytest.fixture
def first_of_most(tmp_path):
    """The state after three ranks have come to a barrier in line 4 of a script, and one goes on with its fourth step."""

    def state(text):
        script, everybody = tmp_path / "train.py", (0, 1, 2, 3)
        script.write_text(text)
        step = call(2, members=everybody, file=str(script))
        barrier = call(4, "barrier", members=everybody, file=str(script))
        return state_of(*[[step, step, step, barrier]] * 3, [step] * 4, ranks=4)

    return state


def test_history_says_nothing_of_a_line_in_which_most_ranks_are_for_the_first_time(first_of_most):
    """Rank 3 could not save and goes on; the others come to the barrier of the first checkpoint."""
    found = diagnose(first_of_most(SAVING))
    assert (found.fault, found.culprits) == ("missing", (3,))
    assert found.sentence.startswith("Rank 3 did not call barrier at ")
    assert "train.py:4, in which ranks 0-2 wait, but went on to all_reduce at " in found.sentence


@pytest.mark.parametrize("text", ["", AFTER_THE_LOOP])
def test_most_ranks_are_not_said_to_be_right_where_one_may_have_one_more_step(first_of_most, text):
    found = diagnose(first_of_most(text))
    assert found.sentence.startswith("Ranks 0-2 went on to barrier at ")
    assert "train.py:4, while rank 3 called all_reduce at " in found.sentence


def test_an_error_that_was_printed_before_a_restart_is_not_told_of_the_calls_after_it(first_of_most):
    state = first_of_most(SAVING)
    state.add(Output(0.1, 3, "stdout", "could not save"))
    assert diagnose(state).sentence.endswith(" The last line that rank 3 printed: could not save.")
    state.restart = 1
    found = diagnose(state)
    assert "could not save" not in found.sentence
    assert found.advice.startswith(RESUME)


def test_a_loop_over_tensors_that_leaves_one_out_is_a_missing_call_and_no_wrong_shape():
    one, two, three = (call(10, shape=(size,)) for size in (3, 5, 7))
    usual = [one, two, three]
    found = diagnose(state_of([*usual, one, two], [*usual, one, three], [*usual, one, two]))
    assert (found.fault, found.culprits) == ("missing", (1,))


def test_another_shape_in_the_same_line_is_a_wrong_signature():
    found = diagnose(state_of([A, A], [A, A], [A, call(10, shape=(5,))]))
    assert (found.fault, found.culprits) == ("signature", (2,))
    assert found.sentence == (
        snapshot(
            "Rank 2 called all_reduce of 5 float32 at train.py:10, but ranks 0 and 1 called all_reduce of 4 float32 at "
            "train.py:10."
        )
    )


def test_a_rank_that_waits_for_another_one_is_not_at_fault_itself():
    """Rank 0 waits for rank 1, which waits in a group of its own for rank 2, which computes."""
    inner = call(20, members=(1, 2))._replace(group="1")
    state = state_of([A, A], [A, inner], [A], ended=True)
    stacks = [RankStack(2, "", "train.py", 44, "stack")]
    found = diagnose(state, stacks=stacks, now=30.0)
    assert (found.fault, found.culprits) == ("late", (2,))
    assert found.sentence.endswith("for rank 2: it has not reached this call and was last seen at train.py:44.")


def test_a_short_wait_at_the_end_of_what_is_known_is_no_fault():
    assert diagnose(state_of([A, A], [A], [A])).fault == "none"


def test_ranks_that_fail_because_another_one_died_are_not_blamed():
    error = Raised(2.0, 1, "ValueError", "bad batch", 'File "train.py", line 7, in main')
    lost = [Raised(2.1, rank, "RuntimeError", "Connection closed by peer", "") for rank in (0, 2)]
    left = [Exited(2.2, rank, 1) for rank in range(3)]
    found = diagnose(state_of([A, A], [A], [A, A], more=[error, *lost, *left]))
    assert (found.fault, found.culprits) == ("dead", (1,))
    assert found.sentence == snapshot("Rank 1 raised ValueError at train.py:7: bad batch")


def test_a_rank_without_a_record_is_named_with_what_that_leaves_open():
    found = diagnose(state_of([A, A], [], [A, A]), absent=[1])
    assert (found.fault, found.culprits) == ("absent", (1,))
    assert found.limits == snapshot(
        ("Nothing of it was recorded: it died, it was busy and so noticed nothing, or its file was not collected.",)
    )


def test_a_rank_that_finished_early_has_left():
    found = diagnose(state_of([A, A], [A, A], [A], more=finished(2)))
    assert (found.fault, found.culprits) == ("left", (2,))
    assert "the results since then mix different steps" in found.advice
    other = diagnose(state_of([A, call(20)], [A, call(20)], [A], more=finished(2)))
    assert (other.fault, other.culprits) == ("left", (2,))
    assert "mix" not in other.advice  # it never called that line


def test_each_of_two_ranks_that_both_receive_first_is_named():
    calls = [[call(5, "recv", members=(0, 1), peer=1 - rank)] for rank in range(2)]
    found = diagnose(state_of(*calls, ranks=2))
    assert (found.fault, found.culprits) == ("order", (0, 1))
    assert found.advice.startswith("All of them wait for a message, and none sends: let one side send first")


def test_ranks_that_join_anew_are_compared_from_there():
    again = [Joining(5.0, rank, done=False, line=1) for rank in range(3)]
    again += [Issued(6.0 + rank, rank, 9, B) for rank in range(3)]
    assert diagnose(state_of([A], [A], [A], more=again)).fault == "none"


@pytest.mark.parametrize(
    ("test", "culprit"), [("if rank == 1:", 1), ("if rank != 1:", 0), ("if not rank == 1:", 0)]
)  # the rank whose call is usual is not the culprit
def test_of_two_ranks_the_script_tells_which_one_is_the_exception(tmp_path, test, culprit):
    path = tmp_path / "train.py"
    path.write_text(f"x = 1\n{test}\n    first()\nelse:\n    second()\n")
    ops = {1: call(3, members=(0, 1), file=str(path)), 0: call(5, "barrier", members=(0, 1), file=str(path))}
    found = ranks_at_fault.find_deviation({rank: (ops[rank], None) for rank in ops}, RunState().timeline.order)
    assert (found.ranks, found.tied, found.guessed) == ((culprit,), True, False)


def ended(*calls):
    """Return that calls have ended, each given as a rank and the number of its call."""
    return [Ended(0.9, rank, number) for rank, number in calls]


def test_a_call_that_only_rank_0_makes_is_the_fault_although_the_others_wait_in_a_new_line(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("for x in data:\n    forward(x)\n    if rank == 0:\n        log(x)\n")
    step, extra = (call(line, op, file=str(path)) for line, op in ((2, "broadcast"), (4, "all_reduce")))
    found = diagnose(state_of([A, extra], [A, step], [A, step]))
    assert (found.fault, found.culprits) == ("missing", (0,))
    assert found.sentence.startswith("Only rank 0 called all_reduce at")


def test_a_rank_that_others_have_seen_go_on_is_late_rather_than_those_without_a_record_dead():
    met = call(10, "barrier")
    state = state_of([met], [met, B], [], more=ended((0, 1), (1, 1)))
    found = diagnose(state, absent=[2], now=math.inf)
    assert (found.fault, found.culprits) == ("late", (0,))
    assert found.limits == ("Rank 2 left no record; the cause may also be there.",)


def test_a_rank_that_may_have_failed_in_its_last_operation_is_not_late():
    """The root of a broadcast does not wait for all, so nothing tells that the others had entered it."""
    state = state_of([B], [B, A], [], more=ended((0, 1), (1, 1)))
    found = diagnose(state, absent=[2], now=math.inf)
    assert (found.fault, found.culprits) == ("absent", (2,))


def stuck_in_a_reduce(file="train.py"):
    """Return a job in which ranks 0 and 1 stay in a reduce of a group, 2 has left it, and 3 waits for all of them."""
    reduce = call(1, "reduce", members=(0, 1, 2), file=file)._replace(group="1")
    next_one = call(2, "all_gather", members=(0, 1, 2), file=file)._replace(group="1")
    of_all = call(3, members=(0, 1, 2, 3), file=file)
    first = ended((0, 1), (1, 1), (2, 1))
    return state_of(
        [reduce, reduce], [reduce, reduce], [reduce, reduce, next_one], [of_all], ranks=4, more=[*first, *ended((2, 2))]
    )


def test_ranks_that_stay_in_an_operation_whose_roots_are_not_recorded_are_named_although_others_wait_elsewhere():
    found = diagnose(stuck_in_a_reduce(), now=math.inf)
    assert (found.fault, found.culprits) == ("signature", (0, 1))


def test_a_rank_that_only_brings_another_tensor_need_not_name_another_root(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("dist.reduce(x if rank == 1 else y, dst=0, group=group)\n")
    found = diagnose(stuck_in_a_reduce(str(path)), now=math.inf)
    assert (found.fault, found.culprits) == ("signature", (0, 1))


def test_of_the_ranks_that_stay_there_the_one_that_the_script_singles_out_is_named(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("dist.reduce(x, dst=2 if rank == 1 else 0, group=group)\n")
    found = diagnose(stuck_in_a_reduce(str(path)), now=math.inf)
    assert (found.fault, found.culprits) == ("signature", (1,))
    assert found.sentence.endswith("they probably name different roots; the script gives rank 1 another one.")
    assert found.limits == (
        "The record does not name roots. Only the script shows that rank 1 deviates.",
    )  # fmt: skip


def test_a_rank_without_a_record_that_the_script_singles_out_may_have_another_shape(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("dist.all_reduce(x[:2] if rank == 1 else x)\n")
    one = call(1, file=str(path))
    found = diagnose(state_of([one], [], [one]), absent=[1])
    assert (found.fault, found.culprits) == ("absent", (1,))
    assert found.limits[1:] == (
        "The script singles out rank 1 in that call: another shape, dtype or root also ends ranks.",
    )


def test_a_rank_that_waits_in_a_group_of_unknown_members_is_not_late():
    """Only rank 1 has used its group until now, so it seems to be alone in there; it waits for rank 0."""
    alone = call(5, members=(1,))._replace(group="1")
    found = diagnose(state_of([A], [A, alone], [A, B], more=ended((0, 1), (1, 1), (2, 1))), now=math.inf)
    assert (found.fault, found.culprits) == ("late", (0,))


def test_in_a_circle_of_waits_the_rank_whose_step_is_new_is_named_and_not_those_in_the_same_operation():
    """Rank 1 leaves out a reduce. Rank 2 has left it, and waits with rank 1 in a group for rank 0, which is still there."""
    first = call(1, "reduce")
    second = call(2, members=(0, 1, 2))._replace(group="1")
    usual = [first, second] * 2
    state = state_of([*usual, first], [*usual, second], [*usual, first, second], more=ended((2, 5)))
    found = diagnose(state)
    assert (found.fault, found.culprits) == ("missing", (1,))
    assert found.sentence == (
        snapshot(
            "Rank 1 did not call reduce at train.py:1, in which rank 0 waits, but went on to all_reduce at train.py:2."
        )
    )


def test_ranks_with_fewer_batches_under_ddp_are_told_how_to_even_them_out(tmp_path):
    script = (
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))\n"
        "for batch in range(6 if dist.get_rank() == 0 else 5):\n"
        "    model(torch.ones(2, 4)).sum().backward()\n"
        "dist.all_reduce(torch.ones(1))\n"
    )
    found = verdict_on(script, 3, tmp_path)
    assert found.sentence == (
        snapshot("Ranks 1 and 2 went on to all_reduce at job.py:6, while rank 0 called all_reduce at job.py:5.")
    )
    assert "model.join()" in found.advice


def test_a_call_of_rank_0_after_the_loop_is_no_matter_of_batches(tmp_path):
    script = (
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "rank = dist.get_rank()\n"
        "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))\n"
        "for epoch in range(3):\n"
        "    for batch in range(4):\n"
        "        model(torch.ones(2, 4)).sum().backward()\n"
        "    if rank == 0:\n"
        "        dist.all_reduce(torch.ones(1))\n"
    )
    found = verdict_on(script, 3, tmp_path)
    assert (found.fault, found.culprits) == ("missing", (0,))
    assert found.advice.startswith("Find the condition")


def test_calls_that_do_not_match_are_named_rather_than_a_rank_without_a_record():
    """Gloo ends a rank whose tensor has no room, so it leaves nothing; rank 3 still waits for it in another group."""
    other, one = (
        call(10, shape=(9,), members=(0, 1)),
        call(10, members=(0, 1)),
    )  # who used the group, as far as is known
    state = state_of([other], [one], [], [call(20, members=(0, 1, 2, 3))], ranks=4, more=ended((0, 1), (1, 1)))
    found = diagnose(state, absent=[2], now=math.inf)
    assert (found.fault, found.culprits) == ("signature", (0, 1))


def test_a_record_that_ends_in_the_middle_is_no_job_without_a_fault():
    met = ended((0, 1), (1, 1), (2, 1))
    found = diagnose(state_of([A], [A], [A], more=[*met, *finished(0, 2)]))
    assert (found.fault, found.culprits) == ("dead", (1,))
    assert found.sentence == (
        "The record of rank 1 ends after all_reduce at train.py:10 without the end of the script, which ranks 0 and 2 "
        "reached."
    )
    assert found.limits == (
        "If the job still runs, so may this rank; if it is over, it was killed, or left by os._exit().",
    )
    assert diagnose(state_of([A], [A], [A], more=[*met, *finished(0, 1, 2)])).fault == "none"


@pytest.mark.parametrize(("now", "fault"), [(2.0, "none"), (9.0, "late")])
def test_ranks_that_wait_long_in_init_process_group_wait_for_those_that_have_not_called_it(now, fault):
    state = state_of([], [], [], more=[Joining(1.0, rank, done=False, line=4) for rank in (0, 2)])
    found = diagnose(state, now=now)
    assert found.fault == fault
    assert found.fault == "none" or found.sentence.startswith(
        "Ranks 0 and 2 wait in init_process_group at train.py:4 for rank 1"
    )


def test_each_of_several_late_ranks_is_told_with_its_place():
    stacks = [RankStack(1, "", "train.py", 6, "x"), RankStack(2, "", "train.py", 6, "x")]
    assert diagnose(state_of([A], [], []), stacks=stacks).sentence == (
        "Rank 0 waits in all_reduce at train.py:10 for ranks 1 and 2: they have not reached this call and were last seen at "
        "train.py:6."
    )
    stacks[1] = RankStack(2, "", "train.py", 8, "x")
    assert diagnose(state_of([A], [], []), stacks=stacks).sentence.endswith(
        "rank 1 has not reached this call and was last seen at train.py:6; rank 2 has not reached this call and was last "
        "seen at train.py:8."
    )


def test_a_run_that_ended_well_after_a_collective_had_failed_says_so():
    broken = [Ended(0.9, rank, 2, failed=True) for rank in (0, 1)]
    state = state_of([A, A], [A, A], [A], more=[*ended((0, 1), (1, 1), (2, 1)), *broken, *finished(0, 1, 2)])
    assert tell_swallowed_failure(state) == (
        "The script caught an error and went on: all_reduce at train.py:10 had failed on ranks 0 and 1. "
        "Rank 2 did not call it, and had last called all_reduce at train.py:10."
    )
    assert tell_swallowed_failure(state_of([A], [A], [A], more=ended((0, 1), (1, 1), (2, 1)))) == ""


@pytest.mark.parametrize(("at", "words"), [(0.5, "it has finished"), (2.0, "it never called it")])
def test_a_rank_that_finished_after_the_others_had_given_up_lived_while_they_waited(at, words):
    failed = [Ended(1.0, rank, 2, failed=True) for rank in (0, 1)]
    ends = [ScriptFinished(at, 2, 0), *(Exited(3.0, rank, 0) for rank in (0, 1, 2))]
    found = diagnose(state_of([A, A], [A, A], [A], more=[*ended((0, 1), (1, 1), (2, 1)), *failed, *ends]))
    assert found.sentence == f"Ranks 0 and 1 wait in all_reduce at train.py:10 for rank 2: {words}."
