"""The ranks of one run as processes: their pipes, their exits, their processor time."""

import errno
import os
import select
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ddpquiz.errors import UserError
from ddpquiz.paths import demos_dir
from ddpquiz.ranks import forks, messages
from ddpquiz.ranks.device import Device
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.script import Script
from ddpquiz.ranks.server_connection import ServerConnection, preloads, temporary_folder

PASSES = 2  # over the pipes: the rank that is read first may report what another one wrote before
REST = 0.002  # seconds in which lines gather: to be woken for every line costs ranks more than to write it
_SERVER_PATIENCE = 5.0  # seconds that the server has to stop a run, before it is killed with it


class Processes:
    """The ranks of one run, and their pipes."""

    def __init__(self, request: Request, server: ServerConnection, device: Device, ranks: int, script: Script) -> None:
        self.server = server
        server.runs += 1
        self.number = server.runs
        self.epoch = time.monotonic()
        self.members = self._members(ranks)
        self.pids: dict[int, int] = {}  # rank -> process id, of living ranks
        self.over = False
        self._stop_by: float | None = None  # when the server should have stopped the run
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._oom_kills = forks.oom_kills()
        self.pipes: dict[int, tuple[int, str]] = {}  # descriptor -> rank, and which of its PIPES
        ends = self._open_pipes()
        # What a demo and torchrun's agent write for themselves must go even if all of us are killed
        is_demo = script.path.parent == demos_dir()
        if is_demo or request.restarts:
            self._temporary = temporary_folder()
        temporary = self._temporary.name if self._temporary else ""
        environment = _environment(request, device, ranks) | ({"TMPDIR": temporary} if is_demo else {})
        plan = messages.RunPlan(
            number=self.number, request=request, script=str(script.path), ranks=ranks,
            backend=device.backend, shares_gpus=device.is_shared, no_nccl=device.lack, cwd=str(Path.cwd()),
            epoch=self.epoch, environment=environment, temporary=temporary, claims=script.claims,
            preload=preloads(script.source), open_files=server.open_files, pack=script.pack,
        )  # fmt: skip
        server.send(plan, ends)
        for end in ends:
            os.close(end)

    def _members(self, ranks: int) -> list[int]:
        """The processes that have pipes."""
        return [*range(ranks)]

    def _open_pipes(self) -> list[int]:
        """Open the pipes of all members and return the ends to write to."""
        ends: list[int] = []
        try:
            for rank in self.members:
                for name in messages.PIPES:
                    ours, end = os.pipe()
                    os.set_blocking(ours, False)
                    self.pipes[ours] = rank, name
                    ends.append(end)
        except OSError as wrong:
            for end in ends:
                os.close(end)
            self.close()
            if wrong.errno != errno.EMFILE:
                raise
            count = 2 * len(messages.PIPES) * len(self.members) + 64
            raise UserError(
                f"{len(self.members)} ranks need about {count} open files, and the limit of this shell is lower; "
                f"lower --nproc, or run `ulimit -n {count}` first."
            ) from None
        return ends

    def now(self) -> float:
        return round(time.monotonic() - self.epoch, 6)

    def read(self, timeout: float) -> Iterator[messages.PipeData | messages.RankExited]:
        """Wait up to `timeout` seconds, and yield what has come."""
        if self.over:
            return
        channel = self.server.channel.fileno()
        ready, _, _ = select.select([*self.pipes, channel], [], [], timeout)
        if ready and channel not in ready:
            time.sleep(REST)
        for _ in range(PASSES):
            ranks = {self.pipes[fd][0] for fd in ready if fd != channel}
            for fd in self._pipes_of(ranks):
                yield from self._from_pipe(fd)
            if channel in ready:
                break
            ready, _, _ = select.select([*self.pipes, channel], [], [], 0)
        if channel in ready:
            self.server.receive()
            yield from self._from_server()
        elif self._stop_by is not None and time.monotonic() > self._stop_by:  # the server is stopped, or hangs
            self.server.close(timeout=0)
            self._end()

    def _from_server(self) -> Iterator[messages.PipeData | messages.RankExited]:
        while self.server.messages:
            message = self.server.messages.popleft()
            if message.run != self.number:  # of a run that was abandoned
                continue
            match message:
                case messages.RanksStarted(pids=pids, store=store):
                    self.pids = dict(zip(self._members_started(), pids, strict=True))
                    self.server.pids |= {*pids, store} - {0}  # a run may have no store; group 0 would be our own
                case messages.RankExited(rank=rank):
                    self.remove_rank(rank)
                    yield from self._drain(rank)  # what the rank wrote comes before its exit
                    yield message
                case messages.RunStopped():
                    for rank in self.members:  # no message tells the exits of ranks that torchrun's agent started
                        yield from self._drain(rank)
                    self.server.pids.clear()
                    self._end()

    def _members_started(self) -> list[int]:
        """The members that the server starts itself."""
        return self.members

    def _end(self) -> None:
        self.over = True
        self.pids.clear()
        self.close()

    def _from_pipe(self, fd: int) -> Iterator[messages.PipeData]:
        rank, name = self.pipes[fd]
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            del self.pipes[fd]
            os.close(fd)
        yield messages.PipeData(rank, name, data)

    def _pipes_of(self, ranks: set[int]) -> list[int]:
        """The descriptors of ranks; outputs come last, so that all that was written before an event is read."""
        mine = [fd for fd, (rank, _) in self.pipes.items() if rank in ranks]
        return sorted(mine, key=lambda fd: self.pipes[fd][1] in ("stdout", "stderr"))

    def _drain(self, rank: int) -> Iterator[messages.PipeData]:
        for fd in self._pipes_of({rank}):
            while fd in self.pipes and (pieces := list(self._from_pipe(fd))):
                yield from pieces

    def signal(self, number: int, ranks: tuple[int, ...] | None = None) -> None:
        """Send a signal to some ranks, or to all."""
        self.server.send(messages.SignalRanks(self.number, number, ranks))

    def living_ranks(self) -> list[int]:
        return [*self.pids]

    def add_rank(self, rank: int, pid: int) -> None:
        """Register a rank that torchrun's agent has started."""
        self.pids[rank] = pid
        self.server.pids.add(pid)

    def remove_rank(self, rank: int) -> None:
        self.server.pids.discard(self.pids.pop(rank, 0))

    def stop(self) -> None:
        """Kill every process of the run; call `read` until `over`."""
        if self._stop_by is None:
            self._stop_by = time.monotonic() + _SERVER_PATIENCE
        self.server.send(messages.StopRun(self.number))

    def memory_ran_out(self) -> bool:
        """Whether the kernel has killed a process for its memory since the run began (Linux)."""
        return forks.oom_kills() > self._oom_kills

    def cpu_seconds(self) -> dict[int, float]:
        """The processor time of each rank's main thread, and on Linux of the processes that it started.

        Other threads do not count: a logger's heartbeat is no progress.
        """
        seconds = {}
        for rank, pid in self.pids.items():
            _, *started = forks.process_tree(pid)
            seconds[rank] = forks.main_thread_seconds(pid) + sum(map(forks.cpu_seconds, started))
        return seconds

    def wait_for_disk(self) -> bool:
        """Whether a rank, or a process that it started, waits for a disk (elsewhere than on Linux: False)."""
        return any(forks.waits_for_disk(each) for pid in self.pids.values() for each in forks.process_tree(pid))

    def is_stopped(self, rank: int) -> bool:
        """Whether a signal has stopped a rank (elsewhere than on Linux: False)."""
        return rank in self.pids and forks.is_stopped(self.pids[rank])

    def close(self) -> None:
        for fd in self.pipes:
            os.close(fd)
        self.pipes.clear()
        if self._temporary:
            self._temporary.cleanup()


def _environment(request: Request, device: Device, ranks: int) -> dict[str, str]:
    """The environment of the ranks, but for the variables that differ between them."""
    environment = {**os.environ}
    if ranks > 1:
        environment.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does
    if device.kind == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return environment | dict(request.environment)
