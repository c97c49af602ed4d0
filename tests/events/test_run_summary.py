"""What a run has cost, and the rules that say what could be better: each speaks when it should, and only then."""

import io
import json
import re
import subprocess
import sys

import pytest
from inline_snapshot import snapshot
from played_program import Program, only, repeat, shape
from rank_events import began, folded

from ddpquiz.diagnosis.report import memory_cells
from ddpquiz.events.advice import advice
from ddpquiz.events.event import End, Exited, MemoryPeak, OptimizerStep, SyncPaused, SyncResumed
from ddpquiz.events.formatting import format_bytes, format_seconds
from ddpquiz.events.run_summary import summarize
from ddpquiz.events.timeline import Timeline
from ddpquiz.plural import plural
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.runs import summary


def test_many_small_all_reduces_of_different_tensors_are_to_be_joined():
    program = Program()
    for _ in range(3):
        for length in range(10, 30):
            program.call("all_reduce", 5, 0.1, **shape(length))
    assert only(program) == (
        snapshot(
            "train.py:5: each rank made 60 all_reduces one after the other, of 78 bytes on average. Joined into flat "
            "tensors, as DDP joins gradients into buckets, they would be 3 and save up to 11.4 s in all, 81% of the ranks' "
            "time."
        )
    )


SILENT = {
    "few of them": lambda: [Program().call("all_reduce", 5, 0.1, **shape(length)) for length in range(10, 25)][-1],
    "large tensors": lambda: repeat(60, lambda program, at: program.call("all_reduce", 5, 0.1, **shape(100_000 + at))),
    "the same tensor, again and again": lambda: repeat(
        60, lambda program, _: program.call("all_reduce", 5, 0.1, (0.4, 0.4), **shape(64))
    ),
    "other operations between them": lambda: repeat(
        60,
        lambda program, at: program.call("all_reduce", 5, 0.1, (0.4, 0.4), **shape(10 + at)).call(
            "all_gather", 6, 0.001
        ),
    ),
    "they cost next to nothing": lambda: repeat(
        60, lambda program, at: program.call("all_reduce", 5, 1e-6, (1.0, 1.0), **shape(10 + at))
    ),
    "a step has one synchronised pass": lambda: repeat(
        6, lambda program, _: program.bucket(8).bucket(8, 1).mark(OptimizerStep)
    ),
    "passes inside no_sync are not synchronised": lambda: repeat(
        6, lambda program, _: program.mark(SyncPaused).compute(0.1).mark(SyncResumed).bucket(8).mark(OptimizerStep)
    ),
    "both come last in turn": lambda: repeat(
        20, lambda program, at: program.call("all_reduce", 5, 0.01, (0.5 * (at % 2), 0.5 * (1 - at % 2)), bytes=100_000)
    ),
    "a rank comes last by next to nothing": lambda: repeat(
        20, lambda program, _: program.call("all_reduce", 5, 0.01, (1.0, 1.0001), bytes=100_000)
    ),
    "a few barriers": lambda: repeat(3, lambda program, _: program.call("barrier", 5, 1.0)),
}


@pytest.mark.parametrize("case", SILENT)
def test_no_rule_speaks_when(case):
    assert SILENT[case]().advice() == ()


def test_a_pass_that_is_synchronised_before_the_last_one_of_its_step_is_named():
    program = repeat(3, lambda program, _: program.bucket(8).bucket(8).bucket(8).bucket(9).mark(OptimizerStep))
    assert only(program) == (
        snapshot(
            "train.py:8: gradients were all-reduced in 4 backward passes per optimizer step. All but the last pass of a "
            "step reduced 9 MiB of gradients on each rank for nothing. Put all but the last forward and backward pass of a "
            "step inside no_sync(); the result is the same."
        )
    )


def test_a_pass_inside_no_sync_whose_forward_was_outside_is_named():
    program = Program().mark(SyncPaused).bucket(8).bucket(8, 1).mark(SyncResumed).mark(OptimizerStep)
    assert only(program) == (
        snapshot(
            "train.py:8: 1 backward pass inside no_sync() all-reduced gradients nevertheless. DDP decides in the "
            "forward pass whether to synchronise: put it inside no_sync() too."
        )
    )


def test_a_rank_that_always_comes_last_is_named():
    program = repeat(20, lambda program, _: program.call("all_reduce", 5, 0.1, (0.1, 0.5), bytes=100_000))
    assert program.advice() == ()  # the first line of the summary says it
    assert program.summed().costliest.rank == 1
    program.device = "cuda"
    assert only(program) == (
        snapshot(
            "Rank 1 arrived last at 20 of 20 collectives, and the other ranks waited for it for 8 s in all, 31% of the "
            "ranks' time. Find out what else it does, or give it less work: the slowest rank sets the pace."
        )
    )


def test_a_single_number_in_every_step_is_named():
    program = repeat(50, lambda program, _: program.call("all_reduce", 5, 0.1, (0.5, 0.5), bytes=4, shapes=((),)))
    assert only(program) == (
        snapshot(
            "train.py:5: each rank all-reduced a single number 50 times, which cost 10 s in all, 16% of the ranks' "
            "time. If it is a loss to print, add it up on each rank and all-reduce the sum once every few steps."
        )
    )


@pytest.mark.parametrize("op", ["all_gather", "all_gather_into_tensor"])  # of torch up to 2.14, and from 2.15 on
def test_objects_in_a_loop_are_named(op):
    def gather_object(program, _):
        program.call(op, 5, 0.1, dtype="int64", shapes=((1,),), bytes=8)
        program.call(op, 5, 0.1, dtype="uint8", shapes=((70,),), bytes=70)

    assert only(repeat(20, gather_object)) == (
        f"train.py:5: each rank sent 20 objects through {op} as pickles, which cost 8 s in all, 80% of the ranks' "
        "time. Send tensors instead, or all objects at once."
    )


def gathered(sizes):
    def gather(program, at):
        program.call("all_gather", 5, 0.1, dtype="int64", shapes=((1,),), bytes=8)
        program.call("all_gather", 5, 0.1, dtype="uint8", shapes=((sizes[at],),), bytes=sizes[at])

    return [each for each in repeat(len(sizes), gather).advice() if "as pickles" not in each]


def test_calls_that_send_again_what_was_sent_before_are_named():
    growing = [10_000 * at for at in range(1, 16)]
    assert gathered(growing) == [
        (
            "train.py:5: nearly each all_gather brought more than the one before, from 9.77 KiB at first to 146 KiB on each "
            "rank: what was sent once is sent again. Send only what is new, and let the receivers keep the rest."
        )
    ]
    assert gathered([10_000, *growing]) != []


@pytest.mark.parametrize(
    "sizes",
    [[100_000] * 15, [100_000 + at for at in range(15)], [100_000 * (1 + at % 5) for at in range(15)], [9, 900_000]],
)
def test_calls_that_bring_as_much_as_before_or_now_more_now_less_are_not(sizes):
    assert gathered(sizes) == []


def test_barriers_in_a_loop_are_named():
    assert only(barriers()) == (
        snapshot(
            "train.py:5: 20 barriers on each rank cost 4 s in all, 67% of the ranks' time. Collectives synchronise ranks "
            "already: a barrier is needed only for what happens outside torch, such as files."
        )
    )


def test_a_run_without_communication_has_no_advice():
    assert Program().advice() == ()
    assert advice(folded(), 0.0) == []


def barriers():
    return repeat(20, lambda program, _: program.call("barrier", 5, 0.1, shapes=(), dtype="", bytes=0))


def test_a_run_that_failed_has_no_advice_on_how_to_be_faster():
    for status, stopped, has_advice in ((1, False, False), (-9, True, True), (0, False, True)):
        program, end = barriers(), 3.0
        events = [event for rank in program.ranks for event in rank.events]
        events += [
            Exited(end, 0, 0),
            Exited(end, 1, status, stopped=stopped),
            End(end, status == 0, 0, 0, why="It ended."),
        ]
        timeline = Timeline()
        for event in [began(2), *sorted(events, key=lambda event: event.time)]:
            timeline.add(event)
        assert bool(summarize(timeline, end).advice) == has_advice


def test_lines_are_told_by_what_they_cost_and_only_ten_of_them():
    program = Program()
    for line in range(1, 14):
        program.call("all_reduce", line, line / 10)
    account = program.summed()
    assert [each.line for each in account.lines] == list(range(13, 3, -1))
    assert account.other_lines == 3
    assert (account.lines[0].calls, account.lines[0].ranks, account.lines[0].seconds) == (2, 2, pytest.approx(2.6))


def test_the_account_fits_in_80_columns():
    program = Program().call("all_reduce", 5, 2.0, (0.5, 1.5), bytes=2048)
    program.ranks[0].issue("all_reduce", 3.5, 6, reduce="sum")
    program.ranks[1].issue("all_reduce", 3.5, 6, reduce="max")
    program.clocks = [3.75, 3.75]
    console = style.console(io.StringIO(), width=80)
    layout.show(console, summary.summary_page(program.summed()))
    assert console.file.getvalue() == snapshot("""
The computing before train.py:5 (all_reduce) cost the other ranks most: they
waited for rank 1, which spent longer there than they did, 1 s in all, 21% of
their time.

Time by rank (waiting includes forming groups; overlapped: while computing)
                            compute  communication   waiting  overlapped
  rank 0  ━████████░░░  500 ms  11%    3.25 s  68%  1 s  21%           -
  rank 1  ━━━━████████   1.5 s  32%    3.25 s  68%         -           -

Where communication went (times of all ranks added up)
                                   tensor           of it
                          calls     bytes   time  waiting
  train.py:5  all_reduce  1 x 2     4 KiB    5 s      1 s
  train.py:6  all_reduce  1 x 2  32 bytes  2.5 s        -

Bytes sent, by group (a collective counts as a ring)
  ranks 0 and 1  4.03 KiB

What does not fit
  • Ranks reduce with different operators: rank 0: all_reduce sum (train.py:6);
    rank 1: all_reduce max (train.py:6).
""")  # fmt: skip


AMOUNTS = {
    format_bytes: {
        0: "0 bytes",
        1: "1 byte",
        1023: "1,023 bytes",
        1024: "1 KiB",
        15_000: "14.6 KiB",
        25 << 20: "25 MiB",
    },
    format_seconds: {0: "0 s", 3.4e-4: "340 µs", 1.2e-3: "1.2 ms", 0.9996: "1 s", 75.25: "75.2 s"},
}


@pytest.mark.parametrize("say", AMOUNTS, ids=lambda say: say.__name__)
def test_amounts_are_said_as_people_say_them(say):
    assert {amount: say(amount) for amount in AMOUNTS[say]} == AMOUNTS[say]
    assert (plural(1, "pass", "passes"), plural(2000, "pass", "passes")) == ("1 pass", "2,000 passes")


# On real ranks.

ACCUMULATES = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    for _ in range(3):
        model(torch.ones(2, 4)).sum().backward()  # line 9
    optimizer.step()
    out = model(torch.ones(2, 4)).sum()
    with model.no_sync():
        out.backward()  # line 13
    with model.no_sync():
        model(torch.ones(2, 4)).sum().backward()
    optimizer.zero_grad()
x = torch.ones(1)
if dist.get_rank():
    dist.send(x, 0)
else:
    dist.recv(x)
del model
dist.destroy_process_group()
"""


def ddpquiz(*args):
    ran = subprocess.run(
        [sys.executable, "-m", "ddpquiz", *map(str, args)], capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_in_a_pipe_the_last_line_says_how_to_see_the_advice(tmp_path):
    script = tmp_path / "accumulates.py"
    script.write_text(ACCUMULATES.lstrip())
    last = ddpquiz("run", "--nproc", "2", script).splitlines()[-1]
    assert re.fullmatch(r"There is advice on this run \(\d+\): run it with --summary\.", last)


def test_mistakes_with_no_sync_are_seen_on_real_ranks(tmp_path):
    script = tmp_path / "accumulates.py"
    script.write_text(ACCUMULATES.lstrip())
    lines = ddpquiz("run", "--nproc", "2", "--json", "--summary", script).splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["event"] for event in events[-2:]] == ["end", "summary"]
    said = events[-1]
    assert any(sentence.startswith("accumulates.py:12: 3 backward passes inside") for sentence in said["advice"])
    assert any(sentence.startswith("accumulates.py:8: gradients were all-reduced in") for sentence in said["advice"])
    assert said["mismatches"] == []
    assert [each["rank"] for each in said["ranks"]] == [0, 1]
    assert all(each["compute"] > 0 and each["communication"] > 0 for each in said["ranks"])
    buckets = [each for each in said["lines"] if each["is_ddp"]]
    assert {each["line"] for each in buckets} == {8, 12}


BEGIN = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, a, b = dist.get_rank(), torch.ones(2), torch.full((2,), 2.0)
"""
WRONG = {
    "Ranks call the same operations in a different order: rank 0: all_reduce (wrong.py:5), then all_reduce (wrong.py:6); "
    "rank 1: all_reduce (wrong.py:8), then all_reduce (wrong.py:9).": """
if rank == 0:
    dist.all_reduce(a)
    dist.all_reduce(b)
else:
    dist.all_reduce(b)
    dist.all_reduce(a)
""",
    "Ranks call the same operations in a different order: rank 0: all_reduce (wrong.py:4), then all_reduce (wrong.py:5); "
    "rank 1: all_reduce (wrong.py:5), then all_reduce (wrong.py:4).": """
parts = [lambda: dist.all_reduce(a),
         lambda: dist.all_reduce(b)]
for part in parts if rank == 0 else parts[::-1]:
    part()
""",
    "Ranks reduce with different operators: rank 0: all_reduce sum (wrong.py:4); rank 1: all_reduce max (wrong.py:4).": """
dist.all_reduce(a, op=dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)
""",
}


@pytest.mark.parametrize("said", WRONG, ids=range(len(WRONG)))
def test_wrong_numbers_that_torch_computes_in_silence_are_explained(tmp_path, said):
    script = tmp_path / "wrong.py"
    script.write_text(BEGIN.lstrip() + WRONG[said].lstrip())
    lines = ddpquiz("run", "--nproc", "2", "--json", "--summary", script).splitlines()
    assert json.loads(lines[-1])["mismatches"] == [said]


def test_a_saved_run_is_summed_up_too():
    said = ddpquiz("demo", "--replay", "allreduce", "--summary")
    assert "Time by rank" in said
    assert "Where communication went" in said
    assert "ranks 0-3" in said


def test_the_server_of_a_demo_that_receives_from_anybody_gets_what_was_sent():
    said = json.loads(ddpquiz("demo", "parameter_server", "--nproc", "4", "--json", "--summary").splitlines()[-1])
    assert said["mismatches"] == []
    assert {each["op"] for each in said["lines"]} == {"send", "recv"}


def peaks(events):
    timeline = Timeline()
    for event in events:
        timeline.add(event)
    return {each.rank: each.process for each in summarize(timeline, 9.0).memory}


def test_the_rank_that_held_more_memory_is_seen(watch):
    held = peaks(watch("if rank == 1:\n    large = torch.ones(50_000_000)\n    del large\ndist.barrier()"))
    assert held[1] - held[0] > 150_000_000  # of 200 MB; the rest is less than the noise of two processes


def test_a_rank_that_was_killed_reports_no_peak(watch):
    assert 1 not in peaks(watch("if rank == 1:\n    os.kill(os.getpid(), 9)\ndist.barrier()", ok=False))


def test_ranks_with_the_same_peaks_share_a_row():
    program = Program().mark(MemoryPeak, 200 << 20, 0)
    program.ranks[1].events.append(MemoryPeak(0.5, 1, 0, 300 << 20, 7 << 30))
    assert memory_cells(program.summed()) == (("rank 0", "200 MiB", "-"), ("rank 1", "300 MiB", "7 GiB"))
    assert memory_cells(Program().mark(MemoryPeak, 200 << 20, 0).summed()) == (("ranks 0 and 1", "200 MiB", "-"),)
