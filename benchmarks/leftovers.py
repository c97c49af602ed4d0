"""Whether anything is left of a run when one of its processes is killed at a random moment.

    python benchmarks/leftovers.py [--kills 300] [--seed 0]

Each time, a run starts in one of three ways, or a lab is checked. The ranks of a run make named shared memory, share a
tensor through a file, and start a program in a session of its own. A rank, the server that forks ranks, torchrun's
agent, the store, that program or the launcher gets SIGKILL, SIGTERM or SIGINT. Where that does not end the run within
3 s, the launcher gets SIGTERM. What is there 3 s after the launcher has ended counts: processes, files in /dev/shm,
files in the folder for temporary files, and ports on which somebody listens. The exit status is 1 if anything is left.
It needs Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Python's cleaner of named shared memory removes what a killed process leaves, once it runs and ignores signals.
CLEANER = """\
import pathlib, sys, time
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
resource_tracker.ensure_running()
status = pathlib.Path(f"/proc/{resource_tracker._resource_tracker._pid}/status")
while not int(status.read_text().partition("SigIgn:")[2].split()[0], 16) & 0x4000:  # SIGTERM
    time.sleep(0.01)
"""
SCRIPT = (
    CLEANER
    + """\
import os, subprocess
from pathlib import Path
import torch, torch.distributed as dist, torch.multiprocessing

mark, rank = os.environ["LEFTOVERS"], os.environ["RANK"]
Path(sys.argv[1], f"rank-{rank}").write_text(str(os.getpid()))
named = SharedMemory(create=True, size=8, name=f"{mark}-{rank}-{os.getpid()}")
torch.multiprocessing.set_sharing_strategy("file_system")
shared = torch.ones(4).share_memory_()
subprocess.Popen(["sleep", "600"], start_new_session=True)
dist.init_process_group("gloo")
x = torch.ones(2)
Path(sys.argv[1], f"ready-{rank}").touch()
while True:
    dist.all_reduce(x)
    time.sleep(0.01)
"""
)
RUN = ("run", "--plain", "--device", "cpu", "-n", "2")
WAYS = {
    "run": RUN,
    "run --fresh": (*RUN, "--fresh"),
    "run --max-restarts 1": (*RUN, "--max-restarts", "1"),
    "lab --check": ("lab", "ring-all-reduce", "--check", "--dir"),
}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
AFTER = 3.0  # seconds
OF_TORCH = "torch-shm-dir-"  # stays when a rank dies in the moment in which its shared memory manager starts
CLEANERS = (
    "torch_shm_manager",
    "resource_tracker",
)  # remove the memory of dead processes: nobody does if they are killed


@dataclass
class Kill:
    """One kill: who got which signal in which way to run, and what was left."""

    way: str
    victim: str
    signal: str
    left: list[str] = field(default_factory=list)


def kill_one(dice: random.Random, folder: Path, patience: float = AFTER) -> Kill:
    """Start a run, kill one of its processes at a random moment, and look what is left `patience` seconds later."""
    mark = f"leftovers-{os.getpid()}-{dice.getrandbits(32):08x}"
    way, victim, number = (
        dice.choice(list(WAYS)),
        dice.choice(("launcher", "server", "rank", "other")),
        dice.choice(SIGNALS),
    )
    temporary, notes = folder / mark / "temporary", folder / mark / "notes"
    for each in (temporary, notes):
        each.mkdir(parents=True)
    script = notes / "script.py"
    script.write_text(SCRIPT)
    words_after = (str(notes),) if way.startswith("lab") else (str(script), str(notes))
    launcher = subprocess.Popen(
        [sys.executable, "-m", "ddpquiz", *WAYS[way], *words_after],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=os.environ | {"LEFTOVERS": mark, "TMPDIR": str(temporary), "DDPQUIZ_HOME": str(folder / mark / "home")},
    )  # fmt: skip
    is_late = dice.random() < 0.5  # else while the run starts
    while is_late and launcher.poll() is None and not is_ready(notes, temporary):
        time.sleep(0.02)
    time.sleep(dice.uniform(0, 0.5 if is_late else 3.0))
    processes = marked(mark)
    pid, name = choose(victim, launcher.pid, processes, notes, dice)
    ports = {port for each in processes for port in listening(each)}
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        name = "nobody"  # it has just ended
    wait_for(lambda: launcher.poll() is not None, AFTER)
    if launcher.poll() is None:
        launcher.terminate()
    try:
        launcher.wait(60)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()
        return Kill(way, name, number.name, ["the launcher did not end within 60 s"])
    done = Kill(way, name, number.name)
    processes |= marked(mark)
    wait_for(lambda: not what_is_left(mark, processes, ports, temporary), patience)
    done.left = what_is_left(mark, processes, ports, temporary)
    for each in marked(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    for file in in_memory(mark, processes):
        file.unlink(missing_ok=True)
    return done


def is_ready(notes: Path, temporary: Path) -> bool:
    """Whether both ranks of a run communicate, or a lab has its folder for temporary files."""
    return len([*notes.glob("ready-*")]) == 2 or any(temporary.iterdir())


def choose(victim: str, launcher: int, processes: set[int], notes: Path, dice: random.Random) -> tuple[int, str]:
    """The process to kill and what it is: one of a kind that exists by now, else the launcher."""
    ranks = {int(text) for file in notes.glob("rank-*") if (text := file.read_text())} & processes
    servers = {pid for pid in processes if parent(pid) == launcher}
    others = {
        pid
        for pid in processes - ranks - servers - {launcher}
        if not any(cleaner in each for each in words(pid) for cleaner in CLEANERS)
    }
    found = sorted({"launcher": {launcher}, "server": servers, "rank": ranks, "other": others}[victim])
    if not found:
        return launcher, "launcher"
    pid = dice.choice(found)
    if victim == "other" and (command := words(pid))[:1] == [sys.executable]:  # forked by the server, or becomes a rank
        return pid, "agent or store"
    return pid, victim if victim != "other" else Path(command[0] if command else "?").name


def what_is_left(mark: str, processes: set[int], ports: set[int], temporary: Path) -> list[str]:
    """What a run has left, in words."""
    left = [f"process {pid} of {parent(pid)}: {' '.join(' '.join(words(pid)).split())[-80:]}" for pid in marked(mark)]
    left += [f"/dev/shm/{file.name}" for file in in_memory(mark, processes)]
    walk = os.walk(temporary)  # unlike rglob, it does not mind what vanishes meanwhile
    paths = [Path(folder) / name for folder, folders, files in walk for name in (*folders, *files)]
    files = [str(path.relative_to(temporary)) for path in paths]
    left += [f"{file} in the folder for temporary files" for file in files if not file.startswith(OF_TORCH)]
    return left + [f"port {port}" for port in sorted(ports & open_ports().keys())]


def marked(mark: str) -> set[int]:
    """The living processes of a run, which have its mark in their environment."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"LEFTOVERS={mark}".encode() in (path / "environ").read_bytes().split(b"\0"):
                found.add(int(path.name))
        except OSError:  # it has ended, or belongs to somebody else
            continue
    return found


def in_memory(mark: str, processes: set[int]) -> list[Path]:
    """Shared memory with the mark of a run, and torch's, which has the id of its process in its name."""
    files = [*Path("/dev/shm").iterdir()]
    return [file for file in files if mark in file.name or any(f"torch_{pid}_" in file.name for pid in processes)]


def words(pid: int) -> list[str]:
    """The command line of a process; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
    except OSError:
        return []


def parent(pid: int) -> int:
    """The parent of a process; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def open_ports() -> dict[int, str]:
    """Each port on which a process of this machine listens, and the number of its socket."""
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                found[int(fields[1].rpartition(":")[2], 16)] = fields[9]
    return found


def listening(pid: int) -> set[int]:
    """The ports on which a process listens."""
    try:
        mine = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}  # noqa: PTH115  # as text
    except OSError:
        return set()
    return {port for port, number in open_ports().items() if f"socket:[{number}]" in mine}


def wait_for(is_done: Callable[[], bool], seconds: float) -> None:
    """Wait until something is so, or some seconds have passed."""
    end = time.monotonic() + seconds
    while not is_done() and time.monotonic() < end:
        time.sleep(0.02)


def main() -> int:
    """Kill, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    dice, kills, left = random.Random(asked.seed), Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
    with tempfile.TemporaryDirectory(prefix="leftovers-") as folder:
        for number in range(asked.kills):
            done = kill_one(dice, Path(folder))
            row = done.way, done.victim, done.signal
            kills[row] += 1
            if done.left:
                left[row] += 1
                print(f"kill {number}, {' · '.join(row)}: {'; '.join(done.left)}", flush=True)
    print(f"{'way':22} {'victim':18} {'signal':8} {'kills':>6} {'left':>6}")
    for row in sorted(kills):
        print(f"{row[0]:22} {row[1]:18} {row[2]:8} {kills[row]:6} {left[row]:6}")
    print(f"{kills.total()} kills, {left.total()} left something")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
