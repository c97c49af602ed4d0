"""How long `diagnose` takes for the plain logs of many ranks, and how much memory.

    python benchmarks/logs.py [--ranks 512] [--lines 650]

Each rank writes a log of its own, about 40 kB of progress at first, and at the end what NCCL's watchdog writes, all but
one rank, which does not come to the last collective. The verdict must name that rank.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from ddpquiz.diagnosis.job_diagnosis import diagnose_job
from ddpquiz.events.run_state import RunState
from ddpquiz.jobs.job_reader import read_job

WATCHDOG = """\
[rank{rank}]:[E1127 08:29:13.933357436 ProcessGroupNCCL.cpp:689] [Rank {rank}] Watchdog caught collective operation \
timeout: WorkNCCL(SeqNum=6, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=8000) ran for 8001 milliseconds \
before timing out.
[rank{rank}]:[E1127 08:29:13.933518743 ProcessGroupNCCL.cpp:2303] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure \
detected by watchdog at work sequence id: 6 PG status: last enqueued work: 6, last completed work: 5
"""
BEHIND = """\
[rank{rank}]:[E1127 08:29:26.444486909 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received \
a dump signal due to a collective timeout from  rank 0 and we will try our best to dump the debug info. Last enqueued \
NCCL work: 5, last completed NCCL work: 5.
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=512)
    parser.add_argument("--lines", type=int, default=650)
    options = parser.parse_args()
    late = options.ranks // 7
    with tempfile.TemporaryDirectory() as folder:
        size = write_logs(Path(folder), options.ranks, options.lines, late)
        begin, spent = time.perf_counter(), time.process_time()
        found = diagnose_job(read_job(Path(folder)), RunState())
        seconds, spent = time.perf_counter() - begin, time.process_time() - spent
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{options.ranks} logs, {size / 1e6:.1f} MB: {seconds:.1f} s, {spent:.1f} s of a core, {memory:.0f} MB")
    print(found.sentence)
    assert (found.fault, found.culprits) == ("late", (late,))


def write_logs(folder: Path, ranks: int, lines: int, late: int) -> int:
    """Write a log for each rank; return how many bytes they have."""
    progress = "".join(
        f"2026-11-27 08:{at // 60 % 60:02}:{at % 60:02},123 INFO train: step {at} loss 0.{at:04} 12345 tokens/s\n"
        for at in range(lines)
    )
    size = 0
    for rank in range(ranks):
        text = progress + (BEHIND if rank == late else WATCHDOG).format(rank=rank)
        size += (folder / f"rank{rank}.log").write_text(text, "utf-8")
    return size


if __name__ == "__main__":
    main()
