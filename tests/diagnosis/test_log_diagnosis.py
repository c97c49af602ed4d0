"""What plain logs of real jobs say: the first error and its rank, for whom ranks waited, and never more.

`data/nccl` holds logs of torch 2.11 with NCCL 2.28.9, and `data/logs` those of torch 2.13 over Gloo. The script of each
job stands beside its log, so the truth is known. Wordings of other versions stand in tests/jobs/test_log_file.py.
"""

from pathlib import Path

import pytest

from ddpquiz.diagnosis.job_diagnosis import diagnose_job
from ddpquiz.events.run_state import RunState
from ddpquiz.jobs.job_reader import read_job

DATA = Path(__file__).parents[1] / "data"


def judged(*paths, ranks=0):
    """Return the verdict on files, as `ddpquiz diagnose` makes it."""
    record = read_job(paths, ranks)
    return diagnose_job(record, RunState.after(record.events))


# Of each log: the fault, the ranks at fault, what the sentence says, and the first line that it quotes.
NCCL = {
    "alone": ("unknown", (), "Rank 0 waited 6.02 s in all_reduce of 4 elements at job.py:5 (number 2 of its group)", 2),
    "behind": ("signature", (0, 1), "Rank 0 waited in all_reduce of 1,024 elements, rank 1 waited in all_reduce of 1 element", 1),
    "ddp_unused": ("dead", (0,), "Parameters 2 3 (by index) got no gradient in the step before, so DDP raised at job.py:13 on rank 0. Rank 1 failed because of that.", 17),
    "device_assert": ("dead", (1,), "A kernel of rank 1 failed an assertion on the GPU; it was noticed at job.py:9. Rank 0 failed", 1),
    "duplicate_gpu": ("dead", (0, 1), "Rank 0 uses the same GPU as another rank at job.py:5, which NCCL refuses. Rank 1 raised", 75),
    "early_end": ("unknown", (), "Rank 0 lost the connection to another rank in all_reduce of 1,024 elements (number 12 of its group)", 1),
    "exception": ("late", (0,), "Rank 1 waited 8 s for rank 0 to form a group at job.py:6", 13),
    "healthy": ("quiet", (), "No error is in 2 lines of 1 log. That does not show that there was no fault.", None),
    "heartbeat": ("late", (1,), "Rank 0 waited 8.07 s in all_reduce of 1,024 elements at job.py:10 (number 4 of its group) for rank 1, which had last enqueued number 3.", 1),
    "killed": ("dead", (1,), "Rank 1 was killed by SIGKILL. Rank 0 failed because of that.", 52),
    "missing": ("late", (1,), "(number 4 of its group) for rank 1, which had last enqueued number 3.", 1),
    "missing_all_dumps": ("late", (1,), "at job.py:9 (number 4 of its group) for rank 1, which had last enqueued number 3.", 1),
    "missing_desync": ("late", (1,), "Rank 1 did not join it, says torch's report.", 5),
    "missing_info": ("late", (1,), "as it seems for rank 1, which reported no timeout.", 102),
    "oom": ("dead", (1,), "Rank 1 ran out of GPU memory at job.py:9: it asked for 16384.00 GiB more. Rank 0 failed", 5),
    "order": ("stopped", (), "The job was stopped from outside: the launcher received SIGTERM. Before that, no rank wrote an error.", 1),
    "order_timeout": ("order", (0, 1), "the calls are of groups 2 and 1.", 1),
    "other_op": ("order", (0, 1), "Rank 0 waited in all_reduce of 1,024 elements, rank 1 waited in broadcast of 1,024 elements, each as number 4", 1),
    "other_op_detail": ("order", (0, 1), "rank 0 called all_reduce of 1024 float at job.py:9, but rank 1 called broadcast of 1024 float at job.py:10.", 11),
    "sigterm": ("late", (0,), "Rank 1 waited 8 s for rank 0 to form a group at job.py:6", 13),
    "sizes": ("signature", (0, 1), "Rank 0 waited in all_reduce of 1,024 elements, rank 1 waited in all_reduce of 4,096 elements", 1),
    "slow_data": ("late", (2,), "Ranks 0 and 1 waited 8.02 s in all_reduce of 1,024 elements (number 6 of its group) for rank 2, which had last enqueued number 5.", 3),
    "slow_data_all_dumps": ("late", (2,), "for rank 2, which had last enqueued number 5.", 3),
}  # fmt: skip
GLOO = {
    "checkpoint": ("dead", (1,), "Rank 1 failed at job.py:32: AssertionError: metadata is None; global metadata read failed: [Errno 2] No such file", 84),
    "error_file": ("dead", (1,), "Rank 1 raised KeyError at job.py:9: 'tokenizer.json'", 63),
    "exits": ("dead", (0,), "Rank 0 exited with status 3, and no error of its own is in these logs. Rank 2 failed because of that.", 54),
    "forming": ("late", (2,), "A rank waited 5 s in init_process_group at train.py:12 for rank 2: not all ranks came in time.", 25),
    "handled": ("quiet", (), "No error that ended a rank is in 14 lines of 1 log. That does not show that there was no fault.", 9),
    "handled_killed": ("dead", (1,), "Rank 1 was killed by SIGKILL. Rank 0 failed because of that.", 60),
    "handled_raised": ("dead", (1,), "Rank 1 raised IndexError at job.py:18: no such layer. Rank 0 failed because of that.", 16),
    "healthy": ("quiet", (), "No error that ended a rank is in 13 lines of 1 log.", 7),
    "healthy_info": ("quiet", (), "No error that ended a rank is in 19 lines of 1 log.", 11),
    "interrupted": ("stopped", (), "The job was stopped from outside: the launcher received SIGINT. Before that, no rank wrote an error.", 2),
    "killed": ("dead", (2,), "Rank 2 was killed by SIGKILL. Ranks 0 and 1 failed because of that.", 63),
    "late": ("late", (1,), "Ranks 0 and 2 waited 6 s in all_reduce at job.py:13, as it seems for rank 1, which reported no timeout.", 9),
    "late_detail": ("late", (1,), "Rank 1 did not come to the call at job.py:13 in which the other ranks waited, says torch.", 1),
    "left": ("left", (2,), "in all_reduce at job.py:11: rank 2 had ended before. It wrote no error, and torchrun saw no failure of it.", 9),
    "left_detail": ("left", (2,), "Rank 2 did not come to the call at job.py:11", 1),
    "memory": ("dead", (2,), "Rank 2 ran out of memory at job.py:11. Ranks 0 and 1 failed because of that.", 7),
    "models": ("signature", (1,), "The models differ at job.py:11: rank 1 has 6 parameters, the others 4.", 10),
    "module": ("dead", (0, 1, 2), "Rank 0 imports flash_attention_17 at job.py:2, but no such module is installed. Ranks 1 and 2 raised", 4),
    "new_group": ("late", (2, 3), "Ranks 0 and 1 waited 5 s in new_group at train.py:12 for ranks 2 and 3: not all ranks came in time.", 25),
    "other_op": ("order", (2,), "Ranks 0 and 1 waited in all_reduce at job.py:13, rank 2 waited in broadcast at job.py:12: these calls do not meet.", 9),
    "other_op_detail": ("order", (2,), "ranks 0 and 1 called all_reduce of 4 float at job.py:13, but rank 2 called broadcast of 4 float at job.py:12.", 10),
    "port_in_use": ("unknown", (), "The last thing in this log is an exception: DistNetworkError at job.py:3: The server socket has failed to listen", 19),
    "raised": ("dead", (1,), "Rank 1 raised ValueError at job.py:12: bad batch in shard 17. Ranks 0 and 2 failed because of that.", 4),
    "raised_tee": ("dead", (1,), "Rank 1 raised ValueError at job.py:12: bad batch in shard 17. Ranks 0 and 2 failed because of that.", 4),
    "recovered": ("dead", (1,), "Rank 1 raised RuntimeError at job.py:5: the disk is full", 8),
    "restarted": ("dead", (1,), "Rank 1 raised RuntimeError at job.py:12: the disk is full. Ranks 0 and 2 failed because of that.", 4),
    "segfault": ("dead", (1,), "Rank 1 crashed at job.py:16: Segmentation fault. Ranks 0 and 2 failed because of that.", 1),
    "shapes": ("signature", (), "Rank 0 received 8 bytes, but its tensor has room for only 4: the sizes of a collective differ.", 2),
    "shapes_detail": ("signature", (1,), "ranks 0 and 2 called all_reduce of 4 float at job.py:12, but rank 1 called all_reduce of 8 float at job.py:12.", 10),
    "stale_file": ("unknown", (), "Ranks 0 and 1 could not connect in init_process_group at job.py:9: Gloo connectFullMesh failed with", 23),
    "stopped": ("stopped", (), "The job was stopped from outside: the launcher received SIGTERM. Before that, no rank wrote an error.", 1),
    "store": ("late", (), "Ranks 1 and 2 waited 3 s in the store at job.py:14 for the key vocabulary-size, which nobody set in time.", 8),
    "store_beside_call": ("late", (), "Ranks 1 and 2 waited 5 s in the store at train.py:13 for the key vocabulary_ready, which nobody set in time.", 26),
    "subgroup_src": ("dead", (2, 3), "Rank 2 names rank 0 as the root at job.py:12, but that rank is not a member of the group. Rank 3 raised the same error. Rank 1 failed", 19),
    "swallowed": ("unknown", (), "The first line that speaks of an error is \"Error in training: 'x'\". Rank 2 died of SIGABRT after that.", 1),
    "tags": ("unknown", (), "Rank 0 waited in send at train.py:11, rank 1 waited in recv at train.py:13: no message met its other half.", 14),
    "thread": ("quiet", (), "No error that ended a rank is in 13 lines of 1 log.", 13),
    "thread_hang": ("stopped", (), "The job was stopped from outside: the launcher received SIGTERM. Before that, no rank wrote an error that ended it.", 14),
    "unnamed_call": ("unknown", (), "rank 1 waited in barrier at train.py:16.", 14),
    "unused": ("dead", (0, 1), "Parameters 2 3 (by index) got no gradient in the step before, so DDP raised at job.py:20 on rank 0. Rank 1 raised", 17),
    "worker_killed": ("dead", (1,), "A DataLoader worker of rank 1 was killed by SIGKILL, which the rank noticed at job.py:24. Rank 0 failed because of that.", 15),
    "workers_killed": ("dead", (1,), "Rank 1 was killed by SIGKILL. Ranks 0 and 2 failed because of that.", 63),
    "workers_stopped": ("stopped", (), "The job was stopped from outside: the launcher received SIGTERM. Before that, no rank wrote an error.", 5),
}  # fmt: skip
CASES = {("nccl", name): case for name, case in NCCL.items()} | {("logs", name): case for name, case in GLOO.items()}


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_the_log_of_a_real_job_shows_what_happened(folder, name):
    fault, culprits, says, line = CASES[folder, name]
    found = judged(DATA / folder / name / "log")
    assert (found.fault, found.culprits) == (fault, culprits)
    assert says in found.sentence
    assert (f"log:{line}:" in found.evidence[0]) if line else not found.evidence


def test_every_log_is_a_case():
    assert {name for _, name in CASES} >= {path.parent.name for path in DATA.glob("*/*/log")}
    assert len(CASES) == len([*DATA.glob("nccl/*/log"), *DATA.glob("logs/*/log")])


# The log beside the dumps that some of the jobs left: who died, from the log; who stood where, from the dumps.
WITH_DUMPS = {
    "alone": ("unknown", (), "at job.py:5"),
    "behind": ("missing", (1,), "Only rank 1 called barrier at job.py:12; rank 0 called all_reduce at job.py:11 instead."),
    "ddp_unused": ("dead", (0,), "DDP raised at job.py:13 on rank 0."),
    "early_end": ("left", (1,), "rank 1 had ended before. It wrote no error, and torchrun saw no failure of it."),
    "heartbeat": ("late", (1,), "Rank 0 waits in all_reduce at job.py:10 for rank 1"),
    "missing": ("late", (1,), "it had last enqueued number 3 of group 0, says its log."),
    "missing_all_dumps": ("late", (1,), "Rank 0 waits in all_reduce at job.py:9 for rank 1"),
    "order_timeout": ("order", (0, 1), "rank 0 for rank 1 in all_reduce at job.py:13 (group 1 of ranks 0 and 1); rank 1"),
    "other_op": ("missing", (1,), "Rank 1 did not call all_reduce at job.py:9, in which rank 0 waits"),
    "slow_data": ("late", (2,), "Ranks 0 and 1 wait in all_reduce at job.py:12 for rank 2"),
    "slow_data_all_dumps": ("late", (2,), "Ranks 0 and 1 wait in all_reduce at job.py:12 for rank 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", WITH_DUMPS)
def test_logs_and_dumps_make_one_verdict(name):
    fault, culprits, says = WITH_DUMPS[name]
    found = judged(DATA / "nccl" / name)
    assert (found.fault, found.culprits) == (fault, culprits)
    assert says in found.sentence
    assert any(line.startswith("log:") for line in found.evidence)


@pytest.mark.parametrize("name", ["missing", "slow_data"])
def test_a_rank_that_left_no_dump_is_dead_only_where_the_log_says_so(name, tmp_path):
    """The script sleeps: the rank lives, and its own timeout never came."""
    for path in (DATA / "nccl" / name).glob("trace_*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    found = judged(tmp_path)
    assert found.fault == "absent"
    assert "it died, it was busy and so noticed nothing, or its file was not collected" in found.whole
    (tmp_path / "log").write_bytes((DATA / "nccl/killed/log").read_bytes())
    if name == "missing":  # of two ranks, as that log is
        assert judged(tmp_path).fault == "dead"


def test_the_ranks_of_the_launchers_folders_make_one_verdict():
    found = judged(DATA / "logs/raised_dirs")
    assert (found.fault, found.culprits) == ("dead", (1,))
    assert "Rank 1 raised ValueError at job.py:12: bad batch in shard 17. Ranks 0 and 2 failed" in found.sentence
    assert "attempt_0/1/stderr.log:4: ValueError: bad batch in shard 17" in found.evidence[0]


def test_the_launchers_log_alone_tells_that_the_error_is_elsewhere():
    found = judged(DATA / "logs/raised_dirs/launcher.log")
    assert (found.fault, found.culprits) == ("dead", (1,))
    assert "no error of its own is in these logs" in found.sentence
    assert "torchrun --log-dir writes one for each rank" in found.advice


def test_the_size_of_the_job_tells_which_rank_says_nothing():
    assert judged(DATA / "nccl/early_end/log", ranks=2).culprits == (1,)


def test_a_log_without_an_error_never_claims_that_there_is_no_fault():
    for folder, name in CASES:
        found = judged(DATA / folder / name / "log")
        assert found.fault != "none"
        assert found.fault == "quiet" or found.evidence


def test_a_job_that_torchrun_did_not_end_may_have_recovered():
    assert judged(DATA / "logs/recovered/log").limits == (
        "torchrun did not end the job after that: it may have restarted the ranks, or its log is cut off.",
    )


def test_the_rank_that_torchrun_names_is_said_not_to_be_the_cause():
    found = judged(DATA / "nccl/sigterm/log")
    assert found.culprits == (0,)
    assert found.evidence[-1].startswith("log:83: rank 1, exitcode 1")
    assert found.evidence[-1].endswith("(torchrun names the rank whose end it noticed first, not the cause)")


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_a_quoted_line_stands_where_the_verdict_says(folder, name):
    path = DATA / folder / name / "log"
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    for quoted in judged(path).evidence:
        _, number, text = quoted.split(":", 2)
        beginning = text.strip()[:20]
        if beginning.startswith("rank "):  # torchrun's summary, of which several lines are told as one
            assert "exitcode" in lines[int(number) - 1]
        else:
            assert beginning in lines[int(number) - 1]


def test_an_error_without_a_rank_gets_no_number_that_another_line_contradicts():
    """Of three ranks, only rank 1 signed what ended it; the other two wrote the same error, and torch did not sign it."""
    found = judged(DATA / "logs/interrupted/log")
    assert [str(each) for each in found.positions] == ["rank 1: raised KeyboardInterrupt at job.py:27"]
    assert "2 ranks whose numbers the logs do not say raised RuntimeError at job.py:7." in found.limits


def test_an_old_file_of_the_rendezvous_is_named_where_the_line_of_the_call_shows_one():
    found = judged(DATA / "logs/stale_file/log")
    assert "may be left from an earlier job" in found.advice
    assert (found.title, found.concept) == ("The cause is not known", "process-group-init")


def test_a_port_that_another_process_uses_is_explained():
    advice = judged(DATA / "logs/port_in_use/log").advice
    assert advice.endswith(
        "`ss -ltnp` shows which one. End it, or use a port that is free; torchrun --standalone finds one itself."
    )


UNSIGNED = 'Traceback (most recent call last):\n  File "/job.py", line 4, in <module>\n    dcp.load(state)\n{}\n\n'


def test_of_a_failed_checkpoint_the_ranks_come_from_the_message_if_nobody_signs_it(tmp_path):
    gathered = (
        "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([1, 2])\n"
        "Traceback (most recent call last): (RANK 1)\n"
        '  File "/torch/checkpoint/utils.py", line 193, in reduce_scatter\nOSError: disk full\n'
        "Traceback (most recent call last): (RANK 2)\n"
        '  File "/torch/checkpoint/utils.py", line 193, in reduce_scatter\nValueError: no such key'
    )
    ends = "[12:00:00] torch/distributed/elastic: failed (exitcode: 1) local_rank: 0 (pid: 7) of binary: python\n"
    (tmp_path / "log").write_text(UNSIGNED.format(gathered) * 4 + ends)
    found = judged(tmp_path / "log", ranks=4)
    assert (found.fault, found.culprits) == ("dead", (1, 2))
    assert (
        found.sentence
        == "Rank 1 failed at job.py:4: OSError: disk full. Rank 2 failed at job.py:4: ValueError: no such key."
    )


def test_a_log_beside_a_record_tells_who_was_killed_and_the_record_where_the_others_stood():
    """The launcher ended the workers of the other ranks when it had noticed that one was gone."""
    folder = DATA / "logs/workers_killed"
    found = judged(folder / "record", folder / "log")
    assert (found.fault, found.culprits) == ("dead", (1,))
    assert found.sentence == "Rank 1 was killed by SIGKILL, after all_reduce at job.py:19."
    assert found.positions[-1].doing == "was killed by signal 9"
