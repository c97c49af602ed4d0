"""What a run has cost: the account, its page, and the memory that ranks held."""

import io
import json
import re
import subprocess
import sys

import pytest
from inline_snapshot import snapshot
from played_program import Program

from ddpquiz.events.event import MemoryPeak
from ddpquiz.events.formatting import format_bytes, format_seconds
from ddpquiz.events.run_summary import summarize
from ddpquiz.events.summary_sections import memory_cells
from ddpquiz.events.timeline import Timeline
from ddpquiz.plural import plural
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.runs import summary


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
    assert console.file.getvalue() == snapshot("""\

The other ranks waited for rank 1 (1 s in all, 21% of their time), which spent
longer computing before train.py:5 (all_reduce) than they did.

Time by rank (waiting includes forming groups; overlapped: during compute)
                            compute  communication   waiting  overlapped
  rank 0  ━████████░░░  500 ms  11%    3.25 s  68%  1 s  21%           -
  rank 1  ━━━━████████   1.5 s  32%    3.25 s  68%         -           -

Communication, line by line (times of all ranks added up)
                                   tensor           of it
                          calls     bytes   time  waiting
  train.py:5  all_reduce  1 x 2     4 KiB    5 s      1 s
  train.py:6  all_reduce  1 x 2  32 bytes  2.5 s        -

Bytes sent, by group (as if each collective used a ring)
  ranks 0 and 1  4.03 KiB

What does not match
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
    assert "Communication, line by line" in said
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
