"""How often the diagnosis of a faulty job is right, from each of three kinds of record; and on jobs without a fault.

    python benchmarks/diagnosis.py                110 faulty jobs and 100 innocent ones; takes about 25 minutes
    python benchmarks/diagnosis.py --jobs 22      fewer jobs
    python benchmarks/diagnosis.py --source dump  only one kind of record: run, record or dump

Each job is a script with one seeded fault (tests/helpers/faulty_jobs.py), run on 2 to 8 real ranks over Gloo. The
records are our own run, the files of ddpquiz.record, and Flight Recorder dumps. Operations time out after 2 s when
dumps are made: each rank writes a dump without stacks again and again until then, and one with stacks when its
operation failed, as a watchdog does; a rank that is gone leaves none. The size of the job is given, as a user knows it.
A diagnosis is right if the fault and the ranks are; (+1) counts those that name the culprit and others beside it.
`hidden` counts those jobs of `dump` again whose dumps cannot show the fault, whoever reads them (see `hidden`).
"""

import argparse
import contextlib
import os
import pickle
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ |= {"TORCH_FR_BUFFER_SIZE": "2000", "OMP_NUM_THREADS": "1"}  # torch reads them when it is imported
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from faulty_jobs import FAULTS, KINDS, FaultyJob, make_job

from ddpquiz.diagnosis.diagnosis import Diagnosis
from ddpquiz.diagnosis.event_diagnosis import diagnose
from ddpquiz.diagnosis.job_diagnosis import diagnose_job
from ddpquiz.errors import UserError
from ddpquiz.events.run_state import RunState
from ddpquiz.jobs.job_reader import read_job

TIMEOUT = timedelta(seconds=2)  # of an operation, when dumps are made
STUCK = 5.0  # seconds without anything new in the records after which a job is ended, as a user would end a hang
LONGEST = 40.0  # seconds that a job gets, on a machine that is busy with something else
PACE = 0.2  # seconds between two dumps of a rank
SOURCES = ("run", "record", "dump")
# A rank that ended has no dump, and over Gloo a rank that waits in a send or receive looks late
SHOWN_IN_DUMPS = {"exit": "absent", "raise": "absent", "kill": "absent", "peer": "late"}


def from_run(job: FaultyJob, folder: Path) -> Diagnosis:
    """Run a job as `ddpquiz run` does."""
    from ddpquiz.ranks.request import Request
    from ddpquiz.ranks.run import Run

    script = folder / "job.py"
    script.write_text(job.script)
    run = Run(Request(script, ranks=job.ranks, device="cpu", timeout=1.5))
    for _ in run.events():
        pass
    return diagnose(run.seen)


def from_record(job: FaultyJob, folder: Path) -> Diagnosis:
    """Run a job with the recorder, as another launcher would."""
    launch(job, folder, "record")
    return judge(folder / "files")


def from_dump(job: FaultyJob, folder: Path) -> Diagnosis:
    """Run a job in which each rank leaves Flight Recorder dumps."""
    gone = launch(job, folder, "dump")
    for rank in gone if job.kind != "innocent" else ():
        for name in (f"dump_{rank}", f"stacks_{rank}"):
            (folder / "files" / name).unlink(missing_ok=True)
    return judge(folder / "files", job.ranks)


def judge(files: Path, ranks: int = 0) -> Diagnosis:
    try:
        record, state = read_job(files, ranks), RunState()
    except UserError as nothing:  # the fault came before the first operation
        return Diagnosis("none", (), str(nothing))
    for event in record.events:
        state.add(event)
    return diagnose_job(record, state)


def hidden(job: FaultyJob, files: Path) -> str:
    """What no reader could learn from the dumps of a job over Gloo, or nothing."""
    if job.kind == "root" or (job.kind, job.ranks) == ("peer", 2):
        return "dumps over Gloo hold no roots, sends and receives"
    culprits, present = {*job.culprits}, {int(path.name.partition("_")[2]) for path in files.glob("*_*")}
    if job.kind in ("exit", "raise", "kill"):
        return "" if {*range(job.ranks)} - present == culprits else "ranks that had finished left no dump either"
    if job.kind == "peer":
        return "" if culprits <= present else "ranks at fault left no dump"
    sides = culprits & present, (present - culprits) & {*job.members}
    return "" if job.kind in ("sleep", "innocent") or all(sides) else "the ranks of one side left no dump"


def launch(job: FaultyJob, folder: Path, source: str) -> list[int]:
    """Fork the ranks of a job, end them when it is over or stuck, and return those that were gone before."""
    script, files = folder / "job.py", folder / "files"
    script.write_text(job.script)
    files.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    environment = {
        "WORLD_SIZE": str(job.ranks), "LOCAL_WORLD_SIZE": str(job.ranks), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    ranks = {
        fork_rank(rank, environment, script, source, job.seed if job.kind == "innocent" else None): rank
        for rank in range(job.ranks)
    }
    left, gone, latest, known = dict(ranks), list[int](), time.monotonic() + LONGEST, dict[str, int]()
    end = latest
    while left and time.monotonic() < end:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            sizes = sizes_in(files)
            if sizes != known:
                known, end = sizes, min(latest, time.monotonic() + STUCK)
            time.sleep(0.02)
            continue
        rank = left.pop(pid)
        gone.append(rank)
        if status and source != "dump":  # a launcher ends the others soon
            end = latest = min(end, time.monotonic() + 1.0)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(0.2 if left else 0)
    for pid in left:
        os.waitpid(pid, 0)
    return gone


def sizes_in(files: Path) -> dict[str, int]:
    """The sizes of the records; a tail is removed when its rank ends."""
    with contextlib.suppress(FileNotFoundError):
        return {path.name: path.stat().st_size for path in files.glob("[!.]*")}
    return {}


def fork_rank(rank: int, environment: dict[str, str], script: Path, source: str, innocent: int | None) -> int:
    """Start a rank and return its process. The ranks of an `innocent` job, a seed, are dumped at different moments."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.environ |= environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        moment = random.Random(f"{innocent} {rank}").uniform(0.001, 0.04) if innocent is not None else 0.0
        status = run_rank(rank, script, script.parent / "files", source, moment)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        import atexit

        atexit._run_exitfuncs()  # noqa: SLF001  # as at the end of Python, without tearing torch down
        os._exit(status)


def run_rank(rank: int, script: Path, files: Path, source: str, moment: float) -> int:
    if source == "record":
        from ddpquiz.ranks.inside import job_recorder

        job_recorder.run(job_recorder.RecordOptions(folder=files), str(script), [], module=False)
        return 0
    import runpy
    import threading

    import torch.distributed as dist
    from torch._C import _distributed_c10d as c10d

    init, new_group = dist.init_process_group, dist.new_group
    dist.init_process_group = lambda *args, **kwargs: init(*args, timeout=TIMEOUT, **kwargs)
    dist.new_group = lambda *args, **kwargs: new_group(*args, timeout=TIMEOUT, **kwargs)

    failed, finished = threading.Event(), threading.Event()

    def dump() -> None:
        while moment and not (finished.is_set() or entries_in(c10d._dump_fr_trace(True, False, False))):  # noqa: SLF001
            time.sleep(0.001)
        while not failed.wait(moment or PACE):
            write(stacks=False)  # with stacks, the call does not return while the main thread hangs
            if moment:
                break

    def write(*, stacks: bool) -> None:
        data = c10d._dump_fr_trace(True, stacks, False)  # noqa: SLF001  # what NCCL's watchdog calls
        if entries_in(data) or dist.is_initialized() or finished.is_set():
            (files / f".{rank}").write_bytes(data)
            (files / f".{rank}").rename(files / f"{'stacks' if stacks else 'dump'}_{rank}")

    thread = threading.Thread(target=dump, daemon=True)
    thread.start()
    try:
        runpy.run_path(str(script), run_name="__main__")
        finished.set()
        if moment:
            thread.join()
    except RuntimeError:  # the timeout
        failed.set()
        thread.join()
        wait_until_retired()
        write(stacks=True)
        time.sleep(60)  # the dumps of the others must not be cut off
    return 0


def wait_until_retired() -> None:
    """Wait until another thread of torch has noted the end of the operation that failed, but not for ever."""
    from torch._C import _distributed_c10d as c10d

    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        entries = entries_in(c10d._dump_fr_trace(True, False, False))  # noqa: SLF001
        if not entries or entries[-1]["retired"]:
            break
        time.sleep(0.001)


def entries_in(dump: bytes) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = pickle.loads(dump).get("entries", [])  # our own
    return entries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=110)
    parser.add_argument("--innocent", type=int, default=100)
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument("--source", choices=SOURCES, action="append")
    parser.add_argument("--keep", type=Path, help="a folder for the files of jobs whose diagnosis was wrong")
    options = parser.parse_args()
    import torch._inductor  # once, in the parent of all ranks: torch needs it to write stacks
    import torch.distributed  # noqa: F401

    judges = {"run": from_run, "record": from_record, "dump": from_dump}
    right, near, tried = Counter[tuple[str, str]](), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    jobs = [make_job(options.first + number) for number in range(options.jobs)]
    jobs += [make_job(options.first + 10_000 + number, "innocent") for number in range(options.innocent)]
    with contextlib.suppress(KeyboardInterrupt):  # the table of what was tried until then
        for job in jobs:
            for source in options.source or SOURCES:
                folder = tempfile.mkdtemp(
                    prefix="ddpquiz-"
                )  # without a finalizer, which each forked rank would run too
                found = judges[source](job, Path(folder))
                wanted = SHOWN_IN_DUMPS.get(job.kind, job.fault) if source == "dump" else job.fault
                good = found.fault == wanted and found.culprits == job.culprits
                secret = hidden(job, Path(folder) / "files") if source == "dump" else ""
                is_near = found.fault == wanted and {*job.culprits} < {*found.culprits}
                for key in ((job.kind, source), *([(job.kind, "hidden")] if secret else [])):
                    tried[key] += 1
                    right[key] += good
                    near[key] += is_near
                if not good and options.keep:
                    shutil.copytree(folder, options.keep / f"{source}-{job.seed}", dirs_exist_ok=True)
                shutil.rmtree(folder)
                if not good:
                    print(f"{source} {job.kind} seed {job.seed}, {job.ranks} ranks: {wanted} {list(job.culprits)}, "
                          f"found {found.fault} {list(found.culprits)}: {found.sentence}"
                          f"{secret and f' [{secret}]'}", flush=True)  # fmt: skip
    print_table(right, near, tried, (*(options.source or SOURCES), "hidden"))


def print_table(
    right: Counter[tuple[str, str]],
    near: Counter[tuple[str, str]],
    tried: Counter[tuple[str, str]],
    sources: tuple[str, ...],
) -> None:
    print(f"\n| kind | fault | {' | '.join(sources)} |\n| --- | --- |{' --- |' * len(sources)}")
    for kind in (*KINDS, "innocent"):
        cells = [f"{right[kind, source]} of {tried[kind, source]}" for source in sources]
        more = [f" (+{near[kind, source]})" * (near[kind, source] > 0) for source in sources]
        cells = [cell + extra for cell, extra in zip(cells, more, strict=True)]
        print(f"| {kind} | {FAULTS[kind]} | {' | '.join(cells)} |")
    totals = [f"{sum(right[k, s] for k in KINDS)} of {sum(tried[k, s] for k in KINDS)}" for s in sources]
    print(f"| all faults | | {' | '.join(totals)} |")


if __name__ == "__main__":
    main()
