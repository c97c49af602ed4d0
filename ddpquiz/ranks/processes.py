"""The ranks of one run as processes: their pipes, their exits, their processor time."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ddpquiz.ranks.launch import preloads
from ddpquiz.ranks.machines.cluster import AGENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddpquiz.ranks.device import Device
    from ddpquiz.ranks.launch import Request, ServerConnection
    from ddpquiz.ranks.script import Script

PASSES = 2  # over the pipes: whoever was read first may have told of what another one did before
REST = (
    0.002  # seconds for which what ranks say gathers: to wake us for every line would cost them more than to write it
)


class Processes:
    """The ranks of one run, and their pipes."""

    def __init__(self, request: Request, serving: ServerConnection, chosen: Device, here: range, asked: Script) -> None:
        self.server = serving
        ranks = len(here)
        serving.runs += 1
        self.number = serving.runs
        self.epoch = time.monotonic()
        self.elastic = request.cluster is not None
        self.pids: dict[int, int] = {}  # rank -> process id, of those that live
        self.over = False
        self._kills = _kernel_kills()
        self.pipes: dict[int, tuple[int, str]] = {}  # file descriptor -> rank, and what it carries
        theirs: list[int] = []
        for rank in [*here, AGENT] if self.elastic else here:
            for carries in ("stdout", "stderr", "events", "stack"):
                ours, end = os.pipe()
                os.set_blocking(ours, False)
                self.pipes[ours] = rank, carries
                theirs.append(end)
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if chosen.kind == "cpu" else {}
        threads = {} if "OMP_NUM_THREADS" in os.environ or ranks == 1 else {"OMP_NUM_THREADS": "1"}  # as torchrun does
        serving.ask(
            theirs, do="run", run=self.number, ranks=ranks, script=str(asked.path), named=str(request.script),
            module=request.module, args=list(request.args), cwd=str(Path.cwd()), strict=request.strict,
            backend=chosen.backend, lack=chosen.lack, epoch=self.epoch,
            env={**os.environ, **threads, **hidden, **request.environment},
            claims=[{"line": each.line, "text": each.text} for each in asked.claims],
            preload=preloads(asked.source), cluster=request.cluster and asdict(request.cluster),
        )  # fmt: skip
        for end in theirs:
            os.close(end)

    def now(self) -> float:
        """Return the seconds since the run was asked for."""
        return round(time.monotonic() - self.epoch, 6)

    def read(self, timeout: float) -> Iterator[tuple[int, str, bytes]]:
        """Wait up to `timeout` seconds; yield rank, what carried it, and the bytes that came (none: a pipe's end).

        An exit comes as ("exit", its status).
        """
        if self.over:
            return
        channel = self.server.channel.fileno()
        ready, _, _ = select.select([*self.pipes, channel], [], [], timeout)
        if ready and channel not in ready:
            time.sleep(REST)
        for _ in range(PASSES):
            told = {self.pipes[fd][0] for fd in ready if fd != channel}
            for fd in sorted((fd for fd, (rank, _) in self.pipes.items() if rank in told), key=self._is_output):
                yield from self._from_pipe(fd)
            if channel in ready:
                break
            ready, _, _ = select.select([*self.pipes, channel], [], [], 0)
        if channel in ready:
            self.server.hear()
        while self.server.said:
            said = self.server.said.popleft()
            match said:
                case {"say": "started", "pids": pids, "store": store}:
                    self.pids = dict(zip([AGENT] if self.elastic else range(len(pids)), pids, strict=True))
                    self.server.pids |= {*pids, store} - {0}  # without a store; group 0 would be our own
                case {"say": "exit", "rank": rank, "status": status}:
                    self.went(rank)
                    yield from self._drain(rank)  # what it said comes before the word of its end
                    yield rank, "exit", str(status).encode()
                case {"say": "stopped"}:
                    self.over = True
                    self.server.pids.clear()
                    self.close()

    def _from_pipe(self, fd: int) -> Iterator[tuple[int, str, bytes]]:
        rank, carries = self.pipes[fd]
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            del self.pipes[fd]
            os.close(fd)
        yield rank, carries, data

    def _is_output(self, fd: int) -> bool:
        """Whether a pipe is read later: then all that was written before something that was told comes with it."""
        return self.pipes[fd][1] in ("stdout", "stderr")

    def _drain(self, rank: int) -> Iterator[tuple[int, str, bytes]]:
        for fd in sorted((fd for fd, (whose, _) in self.pipes.items() if whose == rank), key=self._is_output):
            some = True
            while some and fd in self.pipes:
                some = False
                for piece in self._from_pipe(fd):
                    some = True
                    yield piece

    def signal(self, which: int) -> None:
        """Send a signal to every rank."""
        if not self.elastic:
            self.server.ask(do="signal", run=self.number, signal=which)
            return
        for pid in [pid for rank, pid in self.pids.items() if rank != AGENT]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, which)

    def came(self, rank: int, pid: int) -> None:
        """Take note of a rank that torchrun's agent has started."""
        self.pids[rank] = pid
        self.server.pids.add(pid)

    def went(self, rank: int) -> None:
        """Take note of a rank whose process is gone."""
        self.server.pids.discard(self.pids.pop(rank, 0))

    def stop(self) -> None:
        """Kill every process of the run; `read` goes on until the last one is gone."""
        self.server.ask(do="stop", run=self.number)

    def memory_ran_out(self) -> bool:
        """Whether the kernel has ended a process for want of memory since the run began (Linux)."""
        return _kernel_kills() > self._kills

    def cpu_seconds(self) -> float:
        """Return the processor time that the living ranks have used, on Linux with what they started."""
        return sum(_cpu_seconds(each) for pid in self.pids.values() for each in _family(pid))

    def is_stopped(self, rank: int) -> bool:
        """Whether a rank was stopped by a signal (elsewhere than on Linux that is not known)."""
        return bool(stat := _stat(self.pids[rank])) and stat[0] in "Tt"

    def close(self) -> None:
        """Give the pipes back."""
        for fd in self.pipes:
            os.close(fd)
        self.pipes.clear()


def _kernel_kills() -> int:
    try:
        return int(Path("/proc/vmstat").read_text().partition("\noom_kill ")[2].split("\n")[0] or 0)
    except OSError:
        return 0


def _family(pid: int) -> Iterator[int]:
    """Yield a process and those that it started and that live (elsewhere than on Linux: itself)."""
    yield pid
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # gone meanwhile
            for child in listed.read_text().split():
                yield from _family(int(child))


def _cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used, with that of its children that have ended."""
    if stat := _stat(pid):
        return sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")
    if sys.platform == "linux":
        return 0.0
    asked = subprocess.run(["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=False)
    minutes, _, seconds = asked.stdout.strip().rpartition(":")
    return 60 * float(minutes.rpartition(":")[2] or 0) + float(seconds or 0)


def _stat(pid: int) -> list[str]:
    """Return what Linux tells of a process, from its state on; nothing when it is gone, and elsewhere."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
