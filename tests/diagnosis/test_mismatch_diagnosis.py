"""The verdict on calls of different sizes, and on ranks whose counterparts left no record."""

import os

import pytest
from inline_snapshot import snapshot
from nccl_dumps import BEGIN, dump, entry, read
from state_of_calls import call, finished, state_of

from ddpquiz.diagnosis.diagnosis import COUNTED, CUT_SHORT, MORE_CALLS, UNEVEN, call_at
from ddpquiz.diagnosis.event_diagnosis import diagnose
from ddpquiz.diagnosis.job_diagnosis import diagnose_job
from ddpquiz.events.event import Ended, Exited, MemoryPeak, Raised, RankStack, ScriptFinished, Waiting
from ddpquiz.events.run_state import RunState

A = call(10)


def pair(sent, received, line=6):
    members = 0, 1
    return (
        [call(line, "send", (sent,), members, peer=1)],
        [call(line + 3, "recv", (received,), members, peer=0)],
    )


def test_a_send_and_a_receive_of_different_sizes_are_named_with_both_lines():
    found = diagnose(state_of(*pair(8, 4), ranks=2, more=[Raised(1.0, 0, "RuntimeError", "Connection reset", "")]))
    assert (found.fault, found.culprits) == ("signature", (0, 1))
    assert found.sentence == snapshot(
        "Rank 0 sends 8 float32 at train.py:6, but rank 1 receives 4 float32 at train.py:9."
    )
    assert found.limits == ("Nothing in the record tells which of the two is right.",)


def test_of_a_send_and_its_receive_the_one_that_is_new_in_its_line_is_wrong():
    usual, last = pair(4, 4), pair(8, 4)
    calls = [[*usual[rank] * 3, *last[rank]] for rank in range(2)]
    found = diagnose(state_of(*calls, ranks=2))
    assert (found.fault, found.culprits, found.limits) == ("signature", (0,), ())


def test_calls_of_many_sizes_are_listed_each_with_its_rank():
    calls = [[call(6, "all_gather", (3 + rank,))] for rank in range(3)]
    found = diagnose(state_of(*calls))
    assert (found.fault, found.culprits) == ("signature", (0, 1, 2))
    assert "rank 1: all_gather of 4 float32 at train.py:6; rank 2: all_gather of 5 float32" in found.sentence


def test_a_rank_that_asks_for_something_new_is_named_where_the_others_left_no_record():
    changed = call(10, shape=(4,), members=(0, 1, 2))._replace(dtype="float64", bytes=32)
    usual = [A, call(20, "barrier")] * 3
    ended = [Ended(1.0, 0, number) for number in range(1, 7)]
    found = diagnose(state_of([*usual, changed], [], [], ended=False, more=ended), absent=[1, 2])
    assert (found.fault, found.culprits) == ("signature", (0,))
    assert "all_reduce of 4 float64 at train.py:10; before, every call in that line was all_reduce of 4 float32" in (
        found.sentence
    )
    assert found.limits == ("Ranks 1 and 2 left no record; the cause may also be there.",)


def test_a_line_whose_shapes_always_differ_says_nothing_about_ranks_without_a_record():
    calls = [call(10, shape=(size,)) for size in (3, 4, 5, 6)]
    ended = [Ended(1.0, 0, number) for number in range(1, 4)]
    found = diagnose(state_of(calls, [], [], ended=False, more=ended), absent=[1, 2])
    assert (found.fault, found.culprits) == ("absent", (1, 2))


def test_a_rank_whose_script_has_ended_has_left_although_its_process_still_exits():
    lost = [Raised(1.0, 0, "RuntimeError", "Connection closed by peer", ""), Exited(2.0, 1, -9, stopped=True)]
    state = state_of([A, A], [A], [A, A], more=[ScriptFinished(0.5, 1, 0), *lost])
    found = diagnose(state, stacks=[RankStack(1, "", "leaving.py", 5, "stack")])
    assert (found.fault, found.culprits) == ("left", (1,))


def dumped(tmp_path, seconds):
    """Return the verdict on the dump of rank 0 in its second all_reduce, written so long after that began."""
    names = {"profiling_name": "gloo:all_reduce", "description": "default_pg", "state": "scheduled"}
    entries = [entry("all_reduce", at, record=at - 1, at=at, retired=at == 1, **names) for at in (1, 2)]
    entries[0] |= {"profiling_name": "gloo:all_gather", "output_sizes": [[2, 2, 3]]}
    values = {0: dump(entries)}
    read(tmp_path, values)
    (path,) = tmp_path.iterdir()
    at = entries[-1]["time_created_ns"] + int(seconds * 1e9)
    assert at > BEGIN
    os.utime(path, ns=(at, at))
    from ddpquiz.jobs.job_reader import read_job

    record = read_job(tmp_path)
    return diagnose_job(record, RunState.after(record.events))


def test_a_dump_that_was_written_while_its_rank_went_on_accuses_nobody(tmp_path):
    assert dumped(tmp_path, 0.3).fault == "none"


def test_a_dump_that_was_written_long_after_its_last_operation_names_the_rank_without_one(tmp_path):
    found = dumped(tmp_path, 5.0)
    assert (found.fault, found.culprits) == ("absent", (1,))


def test_a_line_that_only_one_rank_reached_is_named_although_its_calls_met_others_without_an_error():
    step, extra = [call(10, shape=(4,)), call(10, shape=(8,))], call(18, shape=(4,))
    found = diagnose(state_of([*step, *step, extra, *step], [*step, *step, *step], [*step, *step, *step]))
    assert (found.fault, found.culprits) == ("missing", (0,))
    assert found.sentence == (
        snapshot(
            "Only rank 0 called all_reduce at train.py:18; ranks 1 and 2 never did, so the calls after it do not match."
        )
    )


def test_a_line_that_all_but_one_rank_reached_is_named_with_the_rank_that_never_did():
    found = diagnose(state_of(*([A, call(18), call(20)],) * 2, [A, call(20), call(22, shape=(8,))]))
    assert (found.fault, found.culprits) == ("missing", (2,))
    assert found.sentence == (
        snapshot(
            "Rank 2 never called all_reduce at train.py:18, as ranks 0 and 1 did, so the calls after it do not match."
        )
    )


def test_an_extra_call_that_met_another_one_is_named_when_the_other_ranks_have_finished():
    more = [Ended(0.5, rank, 2) for rank in range(3)] + finished(1, 2)
    found = diagnose(state_of([A, call(12), A, A], [A] * 3, [A] * 3, more=more))
    assert (found.fault, found.culprits) == ("missing", (0,))
    assert found.sentence == snapshot(
        "Only rank 0 called all_reduce at train.py:12; ranks 1 and 2 finished without it."
    )


@pytest.mark.parametrize("bucket", [0, None])
def test_a_call_that_one_rank_made_once_more_than_the_ranks_that_have_finished_is_no_call_of_its_own(bucket):
    step = A._replace(bucket=bucket)
    more = [Waiting(0.6, 0, 3), *finished(1, 2)]
    found = diagnose(state_of([step] * 3, [step] * 2, [step] * 2, more=more))
    assert (found.fault, found.culprits) == ("missing", (0,))
    assert found.sentence == f"Rank 0 made more calls than ranks 1 and 2, which finished without its {call_at(step)}."
    assert found.advice == (MORE_CALLS if bucket is None else UNEVEN)


def test_a_shared_line_that_is_called_last_is_not_said_to_be_called_more_often():
    more = [Ended(0.5, rank, 2) for rank in range(3)] + finished(1, 2)
    found = diagnose(state_of([A, A, call(12)], [A, call(12)], [A, call(12)], more=more))
    assert found.sentence == snapshot(
        "Rank 0 made more calls than ranks 1 and 2, which finished without its all_reduce at train.py:12."
    )


def test_ranks_that_are_ahead_of_a_rank_that_left_made_no_extra_call():
    """The root of a reduce waits for rank 2, while rank 1 has sent its tensor and gone on to the next line."""
    reduce = call(10, "reduce", peer=0)
    more = [Ended(0.5, 1, 2), *finished(2)]
    found = diagnose(state_of([call(8), reduce], [call(8), reduce, call(12, "barrier")], [call(8)], more=more))
    assert (found.fault, found.culprits) == ("left", (2,))


# A model whose forward broadcasts its buffers, and an evaluation that also calls the forward.
EVALUATES = """\
def evaluate():
    {early}
    return model(x)
def main():
    {first}
    for step in range(20):
        model(x)
        loss.backward()
        {test}: evaluate()
    dist.barrier()
main()
"""
ONLY_RANK_0 = {
    "a condition around the call": {"test": "if step % 10 == 0 and rank == 0"},
    "a name for the condition": {"early": "is_main = rank == 0", "test": "if is_main"},
    "an early return": {"early": "if rank != 0: return", "test": "if step % 10 == 0"},
    "all ranks at first": {"first": "evaluate()", "test": "if step % 10 == 0 and rank == 0"},
    "a function that only says who": {"first": "def first(): return dist.get_rank() == 0", "test": "if first()"},
}


def evaluates(tmp_path, ranks, *, times=2, **parts):
    """The calls of rank 0, which also evaluates, of another rank, and of both at the beginning."""
    file = tmp_path / "train.py"
    file.write_text(EVALUATES.format(**{"early": "pass", "first": "pass", "test": "if x"} | parts))
    members = tuple(range(ranks))

    def at(line, op):
        return call(line, op, (4,), members, 0 if op == "broadcast" else None, str(file))

    forward, backward, alone = at(7, "broadcast"), at(8, "all_reduce"), at(3, "broadcast")
    begin = [alone, forward, backward] if parts.get("first") == "evaluate()" else [forward, backward]
    own = [*begin, *[alone, backward] * (times - 1), alone]  # DDP leaves out the broadcast of the next forward
    others = [*begin, *[forward, backward] * (times - 1), at(10, "barrier")]
    return own, others


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("parts", ONLY_RANK_0.values(), ids=ONLY_RANK_0)
def test_a_rank_that_alone_evaluates_is_at_fault_however_often_it_did_so(parts, ranks, times, tmp_path):
    own, others = evaluates(tmp_path, ranks, times=times, **parts)
    found = diagnose(state_of(own, *[others] * (ranks - 1), ranks=ranks))
    assert (found.fault, found.culprits) == ("missing", (0,))
    rest = "rank 1" if ranks == 2 else "ranks 1-3"
    assert (
        found.sentence == f"Only rank 0 called broadcast at train.py:3; {rest} called barrier at train.py:10 instead."
    )
    assert "`model.module`" in found.advice
    assert found.limits == (
        ("As many ranks made the other call. Only the script shows that rank 0 is at fault.",) if ranks == 2 else ()
    )


def test_of_two_ranks_the_one_that_a_condition_keeps_away_from_a_line_is_at_fault(tmp_path):
    own, others = evaluates(tmp_path, 2, test="if rank != 1")
    found = diagnose(state_of(own, others, ranks=2))
    assert (found.fault, found.culprits) == ("missing", (1,))
    assert found.sentence == (
        "Rank 1 never called broadcast at train.py:3, as rank 0 did, so the calls after it do not match."
    )


def test_a_line_that_one_of_two_ranks_reached_leaves_open_who_is_wrong_where_the_script_does_not_tell(tmp_path):
    own, others = evaluates(tmp_path, 2, test="while is_due()")
    found = diagnose(state_of(own, others, ranks=2))
    assert found.limits


def test_a_rank_that_alone_evaluates_last_is_at_fault_though_the_other_one_has_finished(tmp_path):
    own, others = evaluates(tmp_path, 2, test="if rank == 0")
    more = [*(Ended(0.5, rank, number) for rank in range(2) for number in range(1, 5)), *finished(1)]
    found = diagnose(state_of(own, others[:-1], ranks=2, more=more))
    assert (found.fault, found.culprits) == ("missing", (0,))
    assert found.sentence == "Only rank 0 called broadcast at train.py:3; rank 1 finished without it."
    assert found.limits == ("As many ranks finished without it. Only the script shows that rank 0 is at fault.",)


def test_ranks_with_functions_of_their_own_are_judged_by_what_they_did_before(tmp_path):
    lines = ["def lead():", "    send()", "    collect()", "def follow():", "    receive()", "    give()"]
    file = tmp_path / "train.py"
    file.write_text("\n".join([*lines, "if rank == 0: lead()", "else: follow()"]))

    def at(line, op="all_reduce"):
        return call(line, op, members=(0, 1), file=str(file))

    lead, follow = [at(2), at(3, "all_gather")], [at(5), at(6, "all_gather")]
    found = diagnose(state_of([*lead * 3, *lead], [*follow * 3, follow[1]], ranks=2))
    assert found.culprits == (1,)


def test_ranks_that_run_different_functions_have_no_extra_call(tmp_path):
    lines = ["if rank == 0:", "    dist.all_reduce(a)", "else:", "    dist.all_reduce(b)", "dist.all_reduce(c)"]
    file = tmp_path / "train.py"
    file.write_text("\n".join(lines))
    first, other, shared = (call(line)._replace(file=str(file)) for line in (2, 4, 5))
    wrong = shared._replace(shapes=((9,),))
    found = diagnose(state_of([first, shared, wrong], [other, shared, shared], [other, shared, shared]))
    assert (found.fault, found.culprits) == ("signature", (0,))


def test_the_parts_that_only_the_root_of_a_scatter_brings_are_no_difference():
    def scatter(root, parts):
        return call(6, "scatter", (2,), peer=root)._replace(shapes=((2,),) * parts)

    found = diagnose(state_of([scatter(0, 4)], [scatter(0, 1)], [scatter(2, 4)]))
    assert (found.fault, found.culprits) == ("signature", (2,))
    assert "with root 2 at train.py:6, but ranks 0 and 1 called scatter" in found.sentence


def test_a_process_that_ends_with_status_0_before_its_script_does_is_told_as_that():
    step, exited = call(10, members=(0, 1)), Exited(1.0, 1, 0)
    found = diagnose(state_of([step, step], [step], ranks=2, more=[exited]))
    assert (found.fault, found.culprits, found.advice) == ("left", (1,), CUT_SHORT)
    assert found.sentence == (
        "Rank 0 waits in all_reduce at train.py:10 for rank 1: it ended with status 0 without reaching the end of its "
        "script, and was last seen at train.py:10."
    )
    recorded = diagnose(state_of([step, step], [step], ranks=2, more=[MemoryPeak(0.9, 1, 0, 9, 0), exited]))
    assert recorded.sentence.endswith("for rank 1: it has finished.")


def test_ranks_that_end_with_status_0_before_their_script_does_are_no_majority_that_finished():
    ends = [Exited(1.0, rank, 0) for rank in (1, 2)]
    found = diagnose(state_of([A], [], [], more=ends))
    assert (found.fault, found.culprits) == ("left", (1, 2))
    assert found.sentence.endswith("they ended with status 0 without reaching the end of their script.")


def test_ranks_that_wait_for_each_others_messages_are_told_how_many_came():
    pair = 0, 1
    send, receive = call(5, "send", members=pair, peer=1), call(9, "recv", members=pair, peer=0)
    back = call(7, "recv", members=pair, peer=1)
    state = state_of([*[send] * 3, back], [receive] * 4, ranks=2,
                     more=[Ended(0.5, rank, number) for rank in pair for number in range(1, 4)])  # fmt: skip
    found = diagnose(state)
    assert found.sentence.endswith(
        " Rank 0 waits for message 1 from rank 1, which has sent 0 to it; rank 1 waits for message 4 from rank 0, which "
        "has sent 3 to it."
    )
    assert found.advice == COUNTED
