"""The process that has imported torch: it forks the ranks of a run in milliseconds, watches over them and ends them.

It talks over a socketpair, one JSON object a line. The launcher sends requests: `ask` (what machine is this), `preload`
(modules to import while nothing happens), `run` (the ranks' pipes came before it), `signal` and `stop`. The server
answers with `machine`, `started`, `exit` and `stopped`, or with `refused` when no rank can run here.

It has a single thread, never computes and never initialises CUDA, so what it forks is as good as new. When the socket
closes, whatever the reason, every process that it started is killed and it ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import re
import select
import signal
import socket
import sys
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ddpquiz.analysis.event_codec import LineBuffer
from ddpquiz.ranks.forks import STACK_SIGNAL, adopt_orphans, children, fork, kill_group
from ddpquiz.ranks.machines.cluster import AGENT
from ddpquiz.ranks.store import host_store

OLDEST_TORCH = 2, 6
PIPES = 4  # a rank: standard output, standard error, events, stack


@dataclass
class Job:
    """A run that is under way: its ranks and its store, by process id."""

    id: int
    ranks: dict[int, int] = field(default_factory=dict)  # process id -> rank
    store: int = 0
    lives: int = -1  # a pipe that ends when torchrun's agent and all who stand for its ranks are gone


class Server:
    """Answers one launcher until its socket closes."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.jobs: dict[int, Job] = {}
        self.later: list[str] = []  # modules still to be preloaded
        self.lines = LineBuffer()
        self.fds: list[int] = []  # pipes that have come and whose run has not
        self.wake, wake_end = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler must exist for the wake-up byte to be written
        signal.set_wakeup_fd(wake_end)
        for ignored in (signal.SIGINT, signal.SIGHUP, STACK_SIGNAL):  # ranks show their stack for the last one
            signal.signal(ignored, signal.SIG_IGN)

    def serve(self) -> None:
        """Handle requests and deaths until the launcher goes away."""
        try:
            while True:
                idle = 0.0 if self.later else None
                ready, _, _ = select.select([self.channel.fileno(), self.wake], [], [], idle)
                if self.wake in ready:
                    _drain(self.wake)
                    self.reap()
                if self.channel.fileno() in ready and not self.receive():
                    return
                if not ready:
                    preload(self.later.pop(0))
        except (BrokenPipeError, ConnectionResetError):
            return  # the launcher went away while we wrote to it
        finally:
            for job in self.jobs.values():
                kill(job)
                outlive(job)
            self.kill_strays()

    def send(self, **message: Any) -> None:
        """Tell the launcher something."""
        self.channel.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> bool:
        """Handle what has come; False when nothing more will."""
        data, fds, _, _ = socket.recv_fds(self.channel, 1 << 16, 64 * PIPES)
        self.fds += fds
        for line in self.lines.feed(data) if data else ():
            if line:
                self.handle(json.loads(line))
        return bool(data)

    def handle(self, request: dict[str, Any]) -> None:
        """Do what the launcher asks."""
        match request:
            case {"do": "ask"}:
                self.send(say="machine", **machine())
            case {"do": "preload", "modules": modules}:
                self.later += modules
            case {"do": "run"}:
                self.run(request)
            case {"do": "signal", "run": number, "signal": which}:
                for pid in self.jobs[number].ranks if number in self.jobs else ():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, which)
            case {"do": "stop", "run": number}:
                if number in self.jobs:
                    kill(self.jobs[number])
                    self.finish(self.jobs[number])

    def run(self, request: dict[str, Any]) -> None:
        """Fork a store and the ranks of a run; each rank's pipes come in a message of their own."""
        for module in request["preload"]:
            preload(module)
        pipes = [self.fds[at : at + PIPES] for at in range(0, len(self.fds), PIPES)]
        self.fds.clear()
        job = Job(request["run"])
        if request["cluster"]:
            self.run_agent(job, pipes, request)
        else:
            self.run_ranks(job, pipes, request)
        for rank_fds in pipes:
            for fd in rank_fds:
                os.close(fd)
        self.jobs[job.id] = job
        self.send(say="started", run=job.id, pids=list(job.ranks), store=job.store)

    def run_agent(self, job: Job, pipes: list[list[int]], request: dict[str, Any]) -> None:
        """Fork torchrun's agent, which starts the ranks."""
        from ddpquiz.ranks.machines import agent

        job.lives, held = os.pipe()
        ours = [job.lives, self.channel.fileno(), self.wake]
        job.ranks[fork(lambda: agent.run(pipes, request), close=ours)] = AGENT
        os.close(held)

    def run_ranks(self, job: Job, pipes: list[list[int]], request: dict[str, Any]) -> None:
        """Fork a store on loopback and the ranks, which meet there."""
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))  # loopback, and a port that the kernel chose
        listener.listen(512)
        port = listener.getsockname()[1]
        ours = [fd for rank in pipes for fd in rank] + [self.channel.fileno(), self.wake]
        job.store = host_store(listener, close=ours)
        for rank, fds in enumerate(pipes):
            others = [listener.fileno(), self.channel.fileno(), self.wake]
            others += [fd for other in pipes if other is not fds for fd in other]
            job.ranks[fork(lambda: run_rank(rank, port, fds, request), close=others)] = rank  # noqa: B023  # runs at once
        listener.close()

    def reap(self) -> None:
        """Collect the dead, tell the launcher which ranks they were, and end a run that has no rank left."""
        for job in list(self.jobs.values()):
            for pid, rank in list(job.ranks.items()):
                gone, status = os.waitpid(pid, os.WNOHANG)
                if gone:
                    kill_group(pid)  # what the rank left behind in its group
                    del job.ranks[pid]
                    outlive(job)
                    self.send(say="exit", run=job.id, rank=rank, status=os.waitstatus_to_exitcode(status))
            if job.store and os.waitpid(job.store, os.WNOHANG)[0]:
                job.store = 0
            self.kill_strays()
            self.finish(job)

    def kill_strays(self) -> None:
        """Kill what dead ranks left behind in groups of its own: as their subreaper, we are its parent now."""
        known = {pid for job in self.jobs.values() for pid in (*job.ranks, job.store)}
        while strays := children() - known:  # one that goes may leave us another
            for pid in strays:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def finish(self, job: Job) -> None:
        """Say that a run is over once all its ranks are; its store goes with them."""
        if job.ranks or job.id not in self.jobs:
            return
        if job.store:
            kill_group(job.store)
            os.waitpid(job.store, 0)
        del self.jobs[job.id]
        self.send(say="stopped", run=job.id)


def run_rank(rank: int, port: int, fds: list[int], request: dict[str, Any]) -> NoReturn:
    """Become rank `rank`."""
    from ddpquiz.ranks.inside import store_patch, worker

    worker.run(rank, fds, request, store_patch.environment(rank, request["ranks"], port))


def outlive(job: Job) -> None:
    """Wait, when torchrun's agent is dead, for those that stood for its ranks: the ranks are our children then."""
    if job.lives >= 0:
        while os.read(job.lives, 1):
            pass
        os.close(job.lives)
        job.lives = -1


def kill(job: Job) -> None:
    """Kill every process of a run, grandchildren and stopped ones included; its ranks are reaped later."""
    for pid in job.ranks:
        kill_group(pid)
    if job.store:
        kill_group(job.store)


def preload(module: str) -> None:
    """Import a module that ranks will need, once, here, instead of in each of them."""
    with contextlib.suppress(ImportError):
        importlib.import_module(module)
        gc.freeze()


def machine() -> dict[str, Any]:
    """Say what torch can use here. GPUs are counted in a child, since counting may initialise CUDA."""
    import torch
    import torch.distributed as dist

    gpus = 0
    if torch.version.cuda or torch.version.hip:
        ours, theirs = os.pipe()
        pid = fork(lambda: os.write(theirs, bytes([min(torch.cuda.device_count(), 255)])), close=[ours])
        os.close(theirs)
        found = os.read(ours, 1)
        os.close(ours)
        os.waitpid(pid, 0)
        gpus = found[0] if found else 0
    usable = dist.is_available()
    return {
        "gpus": gpus,
        "nccl": usable and dist.is_nccl_available(),
        "gloo": usable and dist.is_gloo_available(),
        "torch": torch.__version__,
    }


def lack_of_torch() -> str:
    """Say why no rank can run with the torch that is here, in a sentence; nothing when one can."""
    how = "install it as pytorch.org/get-started says"
    try:
        import torch
    except ModuleNotFoundError as missing:
        if missing.name == "torch":
            return f"torch is not installed, and demos run on it; {how}."
        return f"torch is installed, and cannot be imported ({missing}); {how} once more."
    except (ImportError, OSError) as broken:  # a library that it needs is not there, or another one
        return f"torch is installed, and cannot be imported ({str(broken).splitlines()[0]}); {how} once more."
    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if version < OLDEST_TORCH:
        return f"torch {torch.__version__} is too old: ranks need {OLDEST_TORCH[0]}.{OLDEST_TORCH[1]} or newer; {how}."
    if not torch.distributed.is_available():
        return f"torch {torch.__version__} was built without torch.distributed, so no ranks can talk; {how}."
    return ""


def _drain(fd: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(fd, 4096):
            pass


def main() -> None:
    """Import torch, then serve the launcher at the other end of the file descriptor that is the only argument."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()
    if why := lack_of_torch():
        channel.sendall(json.dumps({"say": "refused", "why": why}).encode() + b"\n")
        os._exit(1)

    from ddpquiz.ranks.inside import worker  # noqa: F401  # so that ranks need not

    gc.freeze()
    gc.enable()
    adopt_orphans()
    Server(channel).serve()
    os._exit(0)  # tearing torch down takes longer than anything that is left to do
