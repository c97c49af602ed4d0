"""Which ranks of which jobs run on this machine, whoever started them, and where each of them stands (Linux).

A rank is a process of this user whose environment names its rank and the number of ranks, as torchrun, Slurm and mpirun
do, or that ddpquiz has started. What a rank starts inherits its environment, and is no rank.
"""

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ddpquiz.errors import UserError
from ddpquiz.events.operation import MAX_RANKS
from ddpquiz.jobs.stacks import LocalRank
from ddpquiz.ranks.forks import process_tree
from ddpquiz.ranks.process_stacks import ProcessStacks, has_ended, rank_of_ours, refuse_unread, stack_of

APART = 1.0  # seconds between the two looks at a rank
_AT_ONCE = 8  # processes that are asked at one time
_NAMES = (  # of the variables that name a rank and the number of ranks; the first pair counts
    ("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)  # fmt: skip
_JOB = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "MASTER_ADDR", "MASTER_PORT")  # tell jobs apart
_PYTHON = re.compile(r"(?:^|/)(?:python|pypy)[\d.]*t?$")
_LIBRARY = b"libpython"


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job, and its ranks on this machine. `name` is the same on all machines of a job. `ranks` is its size.

    `script` is what its ranks run, if their command line tells.
    """

    name: str
    script: str
    ranks: int
    processes: tuple[LocalRank, ...]


@dataclass(frozen=True, slots=True)
class _Rank:
    pid: int
    rank: int
    ranks: int
    job: str
    launcher: int  # which of _NAMES named it; -1 if ddpquiz started it


def find_jobs(below: int | None = None) -> list[RunningJob]:
    """The jobs on this machine with where their ranks stand, or only the ranks `below` a process.

    It takes two looks at each rank, APART seconds from each other. UserError if there are no ranks, or if their stacks
    cannot be read.
    """
    if sys.platform != "linux":
        raise UserError("`ddpquiz where` needs Linux; here use `py-spy dump --pid PID` for each rank.")
    ranks = [*_find_ranks()]
    if below is not None:
        wanted = {*process_tree(below)}
        ranks = [each for each in ranks if each.pid in wanted]
    if not ranks:
        where = "here" if below is None else f"below process {below}"
        raise UserError(
            f"No ranks of yours run {where}: no process has RANK and WORLD_SIZE in its environment, as torchrun sets "
            "them. `ddpquiz where PID` shows the stacks of any process of Python."
        )
    begun = time.monotonic()
    first = _look([each.pid for each in ranks])
    time.sleep(max(0.0, begun + APART - time.monotonic()))
    second = _look([each.pid for each in ranks])
    refuse_unread([*first.values(), *second.values()])
    jobs: dict[str, list[_Rank]] = {}
    for each in ranks:
        if has_ended(second[each.pid]):
            continue
        jobs.setdefault(each.job, []).append(each)
    return [
        RunningJob(
            name,
            _script(of_job[0].pid),
            max(each.ranks for each in of_job),
            tuple(_local(each, first[each.pid], second[each.pid]) for each in of_job),
        )
        for name, of_job in jobs.items()
    ]


def ranks_below(pid: int) -> dict[int, int]:
    """The ranks among a process and its descendants, by process."""
    below = {*process_tree(pid)}
    return {each.pid: each.rank for each in _find_ranks() if each.pid in below}


def _local(rank: _Rank, first: ProcessStacks, second: ProcessStacks) -> LocalRank:
    """A rank, of which the main thread counts: whether it has moved between two looks."""
    moved = first.threads[0] != second.threads[0] if first.threads and second.threads else None
    return LocalRank(rank.rank, rank.pid, second.threads, moved, _maps(rank.pid, b"libcuda.so"), second.why)


def _look(pids: Iterable[int]) -> Mapping[int, ProcessStacks]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return {each.pid: each for each in pool.map(stack_of, pids)}


def _find_ranks() -> Iterator[_Rank]:
    """The ranks among the processes of this user, by job and rank."""
    found = {pid: rank for pid in _own_processes() if (rank := _rank_of(pid))}
    parents = {pid: _parent(pid) for pid in _own_processes()}
    by_torchrun = {above for pid, each in found.items() if each.launcher == 0 for above in _above(pid, parents)}
    ranks = []
    for pid, each in found.items():
        is_started_by_rank = any(
            above in found and found[above].launcher == each.launcher and found[above].rank == each.rank
            for above in _above(pid, parents)
        )
        is_torchrun = each.launcher > 0 and pid in by_torchrun  # which Slurm has started as a task with a rank
        if not is_started_by_rank and not is_torchrun:
            ranks.append(each)
    yield from sorted(ranks, key=lambda each: (each.job, each.rank))


def _own_processes() -> Iterator[int]:
    user = int(os.environ.get("SUDO_UID", os.getuid()))
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and folder.stat().st_uid == user:
                yield int(folder.name)
        except OSError:  # it has just ended
            continue


def _rank_of(pid: int) -> _Rank | None:
    """The rank of a process, or that of the process that started it; None if it has no rank or does not run Python."""
    if (ours := rank_of_ours(pid)) is not None:
        return _Rank(pid, ours, 0, f"ddpquiz {_parent(pid)}", -1)
    environment = _environment(pid)
    for launcher, (name, size) in enumerate(_NAMES):
        rank, ranks = environment.get(name, ""), environment.get(size, "")
        if rank.isdigit() and ranks.isdigit() and int(rank) < int(ranks) <= MAX_RANKS and _is_python(pid):
            job = " ".join(environment[each] for each in _JOB if environment.get(each))
            return _Rank(pid, int(rank), int(ranks), job or f"session {_session(pid)}", launcher)
    return None


def _environment(pid: int) -> Mapping[str, str]:
    """The environment with which a process was started."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    pairs = (pair.partition("=") for pair in text.split("\0"))
    return {name: value for name, _, value in pairs}


def _is_python(pid: int) -> bool:
    """Whether a process is a Python, and not what started it, such as a shell."""
    try:
        return bool(_PYTHON.search(str(Path(f"/proc/{pid}/exe").readlink()))) or _maps(pid, _LIBRARY)
    except OSError:
        return False


def _script(pid: int) -> str:
    """The script or the module on the command line of a process."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    for before, word in pairwise(words):
        if before == "-m" or word.endswith(".py"):
            return word
    return ""


def _maps(pid: int, library: bytes) -> bool:
    try:
        return library in Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return False


def _fields(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def _parent(pid: int) -> int:
    return int(fields[1]) if (fields := _fields(pid)) else 0


def _session(pid: int) -> int:
    return int(fields[3]) if (fields := _fields(pid)) else 0


def _above(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    while pid := parents.get(pid, 0):
        yield pid
