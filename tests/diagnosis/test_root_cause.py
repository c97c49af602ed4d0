"""The cause of a failure, found in the events of a run."""

import pytest
from inline_snapshot import snapshot

from ddpquiz.diagnosis.diagnosis import ADVICE, LONGER, LONGER_BARRIER, RESUME, THREAD_ENDED, UNEVEN
from ddpquiz.diagnosis.event_diagnosis import diagnose
from ddpquiz.errors import FAULT
from ddpquiz.events.event import (
    Alive,
    Began,
    Ended,
    Exited,
    GroupsDestroyed,
    Hung,
    Issued,
    Joining,
    Output,
    Raised,
    RankStack,
    ScriptFinished,
    Started,
)
from ddpquiz.events.operation import Operation
from ddpquiz.events.run_state import RunState


def seen(*events, ranks=2):
    picture = RunState()
    for event in (Began("train.py", (), ranks, "cpu", "gloo", "2 ranks on CPU over Gloo · no GPU found"), *events):
        picture.add(event)
    return picture


def test_a_rank_that_the_kernel_killed_for_its_memory_is_named_with_what_it_did_last():
    issued = Issued(0.1, 1, 1, Operation("all_reduce", (0, 1), None, ((2,),), "float32", 8, "/x/train.py", 7))
    found = diagnose(seen(issued, Exited(0.3, 1, -9, memory=True)))
    assert found.sentence == snapshot(
        "The kernel killed rank 1 because memory ran out, after all_reduce at train.py:7."
    )
    assert found.advice == snapshot(
        "The 2 ranks share this machine's memory. Use a smaller model or batch, or fewer ranks (--nproc)."
    )


def test_the_first_failure_is_the_cause_and_a_complaint_about_it_never_is():
    trace = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n'
    noticed = Raised(0.1, 0, "RuntimeError", "[pair.cc] Connection closed by peer [127.0.0.1]:1", trace)
    found = diagnose(seen(noticed, Exited(0.2, 0, 1), Exited(0.2, 1, 3)))
    assert (found.rank, found.sentence) == (1, "Rank 1 exited with status 3.")


def test_a_rank_that_was_killed_because_another_had_failed_is_not_the_cause():
    trace = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n'
    refused = Raised(0.1, 1, "RuntimeError", "Gloo connectFullMesh failed: Connection refused", trace)
    found = diagnose(seen(refused, Exited(0.2, 1, 1), Exited(0.2, 0, -9, stopped=True)))
    assert (found.rank, found.sentence) == (
        1,
        "Rank 1 raised RuntimeError at train.py:9: Gloo connectFullMesh failed: Connection refused",
    )


CHECKPOINT = (
    "CheckpointException ranks:dict_keys([{rank}])\nTraceback (most recent call last): (RANK {rank})\n"
    '  File "/lib/python3.11/site-packages/torch/distributed/checkpoint/utils.py", line 193, in reduce_scatter\n'
    "    local_data = map_fun()\nFileNotFoundError: [Errno 2] No such file or directory: '/tmp/step5'\n"
)
SAVING = 'Traceback (most recent call last):\n  File "/x/train.py", line 9, in <module>\n    dcp.save(state)\n'


def told(rank, failed, at=1.0):
    """What a rank raises when a step of a checkpoint failed on a rank of its group, counted within that."""
    message = CHECKPOINT.format(rank=failed)
    error = "torch.distributed.checkpoint.api.CheckpointException"
    return Raised(at + rank / 10, rank, error, message, f"{SAVING}{error}: {message}")


def sent(rank, members, line):
    return Issued(0.5, rank, 1, Operation("broadcast", members, members[0], ((2,),), "uint8", 2, "/x/train.py", line))


@pytest.mark.parametrize(
    ("events", "failed", "also"),
    [
        ([told(0, 1), told(1, 1)], 1, " Rank 0 raised CheckpointException only because of that."),
        (
            [*(sent(rank, (2, 3), 9) for rank in (2, 3)), told(2, 1), told(3, 1)],
            3, " Rank 2 raised CheckpointException only because of that.",
        ),
        ([sent(3, (0, 1, 2, 3), 4), told(3, 0)], 3, ""),  # it saves without the others
        ([told(3, 0)], 3, ""),
    ],
    ids=["all ranks", "a group", "alone after another call", "alone"],
)  # fmt: skip
def test_of_a_checkpoint_that_fails_on_one_rank_that_rank_is_the_cause_and_its_error_is_told(events, failed, also):
    found = diagnose(
        seen(*events, *(Exited(3.0, each.rank, 1) for each in events if isinstance(each, Raised)), ranks=4)
    )
    error = "FileNotFoundError: [Errno 2] No such file or directory: '/tmp/step5'."
    assert (found.fault, found.culprits) == ("dead", (failed,))
    assert found.sentence == f"Rank {failed} failed at train.py:9: {error}{also}"
    assert found.advice.startswith("That path must exist where this rank runs.")
    assert [each.doing for each in found.positions] == [f"raised {error.rstrip('.')}"]


def test_a_rank_that_was_killed_is_not_said_to_be_killed_from_outside():
    """A process cannot know who sent a signal; it may have been the script itself."""
    found = diagnose(seen(Exited(0.3, 1, -9)))
    assert "or the script itself" in found.advice
    assert found.concept == "elastic-restart"


THREAD = """\
Exception in thread Thread-1 (fill):
Traceback (most recent call last):
  File "/lib/python3.11/threading.py", line 1045, in _bootstrap_inner
    self.run()
  File "/x/train.py", line 13, in fill
    label = int(rec)
ValueError: no number
step 5"""


@pytest.mark.parametrize("whose", [1, 0])
def test_a_late_rank_whose_thread_an_exception_ended_is_told_with_it(whose):
    printed = [Output(0.2, whose, "stderr", line) for line in THREAD.splitlines()]
    waits = Issued(0.1, 0, 1, Operation("barrier", (0, 1), None, (), "", 0, "train.py", 7))
    found = diagnose(seen(waits, *printed, Alive(9.0, 1, "train.py", 5)))
    assert (found.fault, found.culprits) == ("late", (1,))
    ended = "ValueError at train.py:13 ended a thread of rank 1: no number."
    assert found.sentence.endswith(ended) == (whose == 1)
    assert found.advice == (THREAD_ENDED if whose == 1 else ADVICE["late"])


def test_who_is_late_at_a_monitored_barrier_is_told_of_the_timeout_of_that_call():
    call = Operation("monitored_barrier", (0, 1), None, (), "", 0, "/x/train.py", 9)
    message = "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 3000 ms"
    ended = Ended(3.2, 0, 1, failed=True)
    found = diagnose(seen(Issued(0.1, 0, 1, call), ended, Raised(3.2, 0, "RuntimeError", message, SAVING)))
    assert (found.fault, found.culprits) == ("late", (1,))
    assert found.advice == f"{ADVICE['late']} {LONGER_BARRIER}"


def test_ranks_that_make_different_numbers_of_steps_after_a_restart_are_told_to_agree_on_the_first_one():
    step = Operation("all_reduce", (0, 1), None, ((9,),), "float32", 36, "/x/train.py", 5, bucket=0)
    last = Operation("barrier", (0, 1), None, (), "", 0, "/x/train.py", 7)
    calls = [Issued(1.0 + number / 10, rank, number, step) for number in (1, 2) for rank in (0, 1)]
    calls += [Ended(1.05 + number / 10, rank, number) for number in (1, 2) for rank in (0, 1)]
    calls += [Issued(2.0, 0, 3, last), Issued(2.0, 1, 3, step)]
    first, again = ([Started(0.1, rank, 9, restart) for rank in (0, 1)] for restart in (0, 1))
    found = diagnose(seen(*first, *again, *calls))
    assert found.advice == f"{RESUME} {UNEVEN}"
    assert RESUME not in diagnose(seen(*first, *calls)).advice


def test_an_error_in_another_file_of_the_project_is_placed_there():
    lines = [("/x/train.py", 9), ("/x/model.py", 4), ("/lib/python3.11/site-packages/torch/nn/modules/module.py", 7)]
    trace = "Traceback (most recent call last):\n" + "".join(
        f'  File "{file}", line {at}, in f\n' for file, at in lines
    )
    found = diagnose(seen(Raised(0.1, 1, "ValueError", "no gradient", trace), Exited(0.2, 1, 1)))
    assert found.sentence == snapshot("Rank 1 raised ValueError at model.py:4: no gradient")


def test_ranks_that_raised_the_same_error_in_the_same_line_are_named_together():
    trace = 'Traceback (most recent call last):\n  File "/x/train.py", line {}, in <module>\n'
    raised = [Raised(0.1 + rank, rank, "ValueError", f"rank {rank}", trace.format(9)) for rank in (1, 0)]
    other = Raised(3.0, 2, "ValueError", "rank 2", trace.format(8))
    state = seen(*raised, other, ranks=3)
    found = diagnose(state)
    assert (found.rank, found.sentence) == (0, "Ranks 0 and 1 raised ValueError at train.py:9: rank 0")
    assert (found.fault, found.culprits, found.advice) == ("dead", (0, 1), ADVICE["raised"])


def test_too_little_room_for_what_was_sent_is_explained():
    text = "[enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 12 vs 8. Received data size doesn't match"
    trace = 'Traceback (most recent call last):\n  File "/x/train.py", line 9, in <module>\n'
    issued = Issued(0.1, 1, 1, Operation("all_gather", (0, 1), None, ((2,),), "float32", 8, "/x/train.py", 9))
    found = diagnose(seen(issued, Raised(0.2, 1, "RuntimeError", text, trace)))
    assert found.sentence == snapshot(
        "Rank 1 received 12 bytes in all_gather at train.py:9, but its tensor has room for only 8."
    )


def test_a_hang_in_which_a_rank_has_ended_says_so():
    standing = (RankStack(0, "init_process_group", "/x/train.py", 3, "File"), RankStack(1, "", "", 0, ""))
    ended = ScriptFinished(0.2, 1, 0), Exited(0.2, 1, 0)
    found = diagnose(seen(Joining(0.1, 0, False, 3), *ended, Hung(3.0, 2.0, standing)))
    assert found.sentence == snapshot("Rank 0 waits in init_process_group at train.py:3 for rank 1: it has finished.")


def test_what_a_rank_raises_when_we_end_the_others_is_not_a_timeout():
    standing = (RankStack(0, "barrier", "/x/train.py", 3, "File"), RankStack(1, "", "/x/train.py", 5, "File"))
    ended = Raised(3.1, 0, "RuntimeError", "[pair.cc] Connection closed by peer [127.0.0.1]:1", "")
    found = diagnose(seen(Hung(3.0, 2.0, standing), ended, Exited(3.2, 0, 1, stopped=True)))
    assert found.sentence == snapshot(
        "No rank made progress for 2 s: rank 0 is in barrier at train.py:3, rank 1 is at train.py:5."
    )


def test_a_rank_in_which_we_failed_ourselves_is_not_blamed():
    said = Output(0.1, 1, "stderr", 'File "/x/ddpquiz/ranks/inside/worker.py", line 3, in run')
    found = diagnose(seen(said, Exited(0.2, 1, FAULT)))
    assert found.sentence == snapshot("ddpquiz itself failed in rank 1; its traceback is above.")
    assert diagnose(seen(Exited(0.2, 1, FAULT))).sentence == "Rank 1 exited with status 70."


def differing(**counts):
    """Return the complaints of ranks about the sizes of their models, as DDP words them."""
    sizes = {int(rank[1:]): count for rank, count in counts.items()}
    trace = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n'
    for rank, mine in sizes.items():
        other = next(each for each, count in sizes.items() if count != mine)
        text = (
            f"DDP expects same model across all ranks, but Rank {rank} has {mine} params, while rank {other} has "
            f"inconsistent {sizes[other]} params."
        )
        yield Raised(0.1 + rank / 100, rank, "RuntimeError", text, trace)
        yield Exited(0.3 + rank / 100, rank, 1)


def test_ranks_with_models_of_different_sizes_are_named():
    state = RunState()
    for event in (Began("train.py", (), 4, "cpu", "gloo", ""), *differing(r0=4, r1=6, r2=4, r3=4)):
        state.add(event)
    found = diagnose(state)
    assert (found.rank, found.sentence) == (
        1,
        "The models differ at train.py:9: rank 1 has 6 parameters, the others 4.",
    )


def test_of_two_models_of_different_sizes_none_is_at_fault():
    found = diagnose(seen(*differing(r0=4, r1=1)))
    assert (found.rank, found.sentence) == (
        None,
        "The models differ at train.py:9: rank 0 has 4 parameters, rank 1 has 1 parameter.",
    )


def late_for_barrier(came):
    """Ranks 0 and 1 give a barrier up after the 6 s of their group; rank 2 calls it at `came` seconds, or never."""
    state = RunState()
    state.add(Began("train.py", (), 3, "cpu", "gloo", ""))
    trace = 'Traceback (most recent call last):\n  File "train.py", line 11, in <module>\n'
    timed_out = "[unbound_buffer.cc] Timed out waiting 6000ms for recv operation to complete"
    closed = "[pair.cc] Connection closed by peer [127.0.0.1]:1"
    calls = [(1.0, 0, 11, 7.0, timed_out), (1.2, 1, 11, 7.2, timed_out)]
    if came is not None:
        calls.append((came, 2, 14, came + 0.1, closed))
    for at, rank, line, until, message in calls:
        asked = Operation("barrier", (0, 1, 2), None, (), "", 0, "train.py", line, "0")
        state.add(Issued(at, rank, 1, asked))
        state.add(Ended(until, rank, 1, failed=True))
        state.add(Raised(until, rank, "RuntimeError", message, trace))
        state.add(Exited(until, rank, 1))
    return diagnose(state)


def test_a_rank_that_came_after_the_time_out_of_the_group_is_late_and_the_time_out_is_named():
    found = late_for_barrier(13.5)
    assert (found.fault, found.culprits, found.sentence) == (
        "late",
        (2,),
        (
            "Ranks 0 and 1 waited in barrier at train.py:11 for rank 2 until the group's timeout of 6 s had passed: it "
            "called barrier at train.py:14 12.5 s after the first of them."
        ),
    )
    assert found.advice == f"{ADVICE['late']} {LONGER}"


def test_a_rank_that_never_came_is_late_and_the_time_out_is_named():
    found = late_for_barrier(None)
    assert (found.fault, found.culprits, found.sentence) == (
        "late",
        (2,),
        (
            "Ranks 0 and 1 waited in barrier at train.py:11 for rank 2 until the group's timeout of 6 s had passed: it "
            "has not reached this call."
        ),
    )


INTERRUPTED = Raised(
    9.0, 1, "KeyboardInterrupt", "", 'Traceback (most recent call last):\n  File "train.py", line 5, in load\n'
)


def test_a_rank_that_was_interrupted_is_late_where_it_stood_and_not_dead():
    waits = Issued(0.1, 0, 1, Operation("barrier", (0, 1), None, (), "", 0, "train.py", 7))
    found = diagnose(seen(waits, INTERRUPTED))
    assert (found.fault, found.culprits) == ("late", (1,))
    assert found.sentence == snapshot(
        "Rank 0 waits in barrier at train.py:7 for rank 1: it had not reached this call when an interrupt came at train.py:5."
    )


def test_an_interrupt_is_told_where_no_rank_waits():
    found = diagnose(seen(INTERRUPTED, Exited(9.1, 1, 130), Exited(9.1, 0, 0)))
    assert (found.fault, found.culprits) == ("stopped", ())
    assert found.sentence == snapshot("The job was interrupted, as by ctrl-c: rank 1 was at train.py:5.")


@pytest.mark.parametrize(
    ("later", "fault", "words"),
    [
        ([], "dead", "it is gone: its record ends there, and the others lost the connection at train.py:7."),
        ([GroupsDestroyed(1.5, 0, 12, "train.py")], "left", "it has destroyed its process groups at train.py:12."),
        ([Alive(4.5, 0, "train.py", 13)], "late", "it has not reached this call and was last seen at train.py:13."),
    ],
    ids=["silent", "left", "alive later"],
)
def test_a_rank_of_a_record_is_gone_only_if_it_wrote_nothing_after_the_others_had_lost_it(later, fault, words):
    """The launcher ended rank 0 after the others had failed, so that its record has no end in any case."""
    asked = Operation("all_reduce", (0, 1, 2), None, ((2,),), "float32", 8, "train.py", 7)
    trace = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n'
    lost = "[pair.cc] Connection closed by peer [127.0.0.1]:1"
    events = [Issued(1.0, rank, 1, asked) for rank in range(3)] + [Ended(1.1, rank, 1) for rank in range(3)]
    events += [event for rank in (1, 2) for event in (Issued(1.2, rank, 2, asked), Ended(2.0, rank, 2, failed=True))]
    events += [
        event for rank in (1, 2) for event in (Raised(2.1, rank, "RuntimeError", lost, trace), Exited(2.2, rank, 1))
    ]
    found = diagnose(seen(*sorted([*events, *later], key=lambda event: event.time), ranks=3))
    assert (found.fault, found.culprits) == (fault, (0,))
    assert found.sentence == f"Ranks 1 and 2 wait in all_reduce at train.py:7 for rank 0: {words}"


STOPPED = "DataLoader worker (pid 17) is killed by signal: Terminated. "
CHAIN = (
    'Traceback (most recent call last):\n  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", '
    f"line 1291, in _try_get_data\nRuntimeError: {STOPPED}\n\n"
    "The above exception was the direct cause of the following exception:\n\n"
    'Traceback (most recent call last):\n  File "train.py", line 5, in <module>\n'
)


def test_workers_that_sigterm_ended_are_no_cause_beside_a_rank_that_is_gone():
    """Rank 0 was killed; the launcher noticed it and ended the other ranks with their workers."""
    asked = Operation("all_reduce", (0, 1, 2), None, ((2,),), "float32", 8, "train.py", 7)
    trace = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n'
    events = [Issued(1.0, rank, 1, asked) for rank in range(3)] + [Ended(1.1, rank, 1) for rank in range(3)]
    events += [event for rank in (1, 2) for event in (Issued(1.2, rank, 2, asked), Ended(2.0, rank, 2, failed=True))]
    events += [
        event for rank in (1, 2) for event in (Raised(2.1, rank, "RuntimeError", STOPPED, trace), Exited(2.2, rank, 1))
    ]
    found = diagnose(seen(*sorted(events, key=lambda event: event.time), ranks=3))
    assert (found.fault, found.culprits) == ("dead", (0,))


@pytest.mark.parametrize(
    ("message", "trace"), [(STOPPED, CHAIN), ("DataLoader worker (pid(s) 17) exited unexpectedly", CHAIN)]
)
def test_a_rank_whose_workers_sigterm_ended_stood_where_its_traceback_says(message, trace):
    asked = Operation("all_reduce", (0, 1), None, ((2,),), "float32", 8, "train.py", 7)
    raised = Raised(30.0, 1, "RuntimeError", message, trace)
    found = diagnose(seen(Issued(1.0, 0, 1, asked), raised, Exited(30.1, 1, 1), Exited(30.1, 0, 1, stopped=True)))
    assert (found.fault, found.culprits) == ("late", (1,))
    assert "it had not reached this call when SIGTERM came at train.py:5." in found.sentence


WORKER_EXITED = (
    "DataLoader worker (pid 17) exited unexpectedly with exit code 3. Details are lost due to multiprocessing."
)


@pytest.mark.parametrize(
    ("cause", "how", "advice"),
    [
        (STOPPED.replace("Terminated", "Killed"), "was killed by SIGKILL", "That is often the kernel"),
        (STOPPED.replace("Terminated", "Bus error"), "was killed by SIGBUS", "Mostly /dev/shm is full"),
        (STOPPED.replace("Terminated", "Segmentation fault"), "was killed by a signal (Segmentation fault)", "Native"),
        (WORKER_EXITED, "ended by itself", "Look for os._exit()"),
        ("", "ended", "Look for out-of-memory kills"),
    ],
)
def test_a_worker_that_another_signal_ended_is_the_cause(cause, how, advice):
    """Torch raises that a worker exited unexpectedly; how it ended is in the exception from which that was raised."""
    message = "DataLoader worker (pid(s) 17) exited unexpectedly"
    raised = Raised(0.1, 1, "RuntimeError", message, CHAIN.replace(STOPPED, cause))
    found = diagnose(seen(raised, Exited(0.2, 1, 1), Exited(0.2, 0, 1, stopped=True)))
    assert (found.fault, found.culprits, found.concept) == ("dead", (1,), "data-loading")
    unknown = "" if cause else " How it ended is not known."
    assert found.sentence == f"A DataLoader worker of rank 1 {how}, which the rank noticed at train.py:5.{unknown}"
    assert found.advice.startswith(advice)
