"""Start ranks, follow them and stop them: the launcher's side of the server."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpquiz.errors import UserError
from ddpquiz.ranks.device import Device, Machine
from ddpquiz.ranks.events import Lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ddpquiz.ranks.events import ClaimText

# What a name in a script costs to import, once in the server instead of once in every rank.
PRELOADS = {
    r"\boptim\b|DistributedDataParallel": "torch._dynamo",  # the first optimizer imports it
    r"\bDTensor\b|distributed\.tensor\b|parallelize_module|device_mesh": "torch.distributed.tensor.parallel",
    r"fully_shard|\bfsdp\b": "torch.distributed.fsdp",
    r"\bpipelining\b": "torch.distributed.pipelining",
    r"distributed\.checkpoint": "torch.distributed.checkpoint",
    r"DistributedSampler|\bDataLoader\b": "torch.utils.data",
    r"\bdata\.distributed\b|DistributedSampler": "torch.utils.data.distributed",
    r"ZeroRedundancyOptimizer": "torch.distributed.optim",
}


@dataclass(frozen=True)
class Request:
    """A run that is asked for: a torchrun-compatible script, its arguments and how many ranks run it."""

    script: Path
    args: Sequence[str] = ()
    ranks: int | None = None
    device: str = "auto"
    timeout: float | None = None  # seconds without any movement that count as a hang; None: never


class Server:
    """The process that forks ranks, seen from here. It is started at once and imports torch while we go on."""

    def __init__(self) -> None:
        if sys.flags.optimize:
            raise UserError("Python runs with -O, which drops the asserts that demos make; start it without -O.")
        ours, theirs = socket.socketpair()
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ddpquiz.ranks.server", str(theirs.fileno())],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            start_new_session=True, env=os.environ | threads,
        )  # fmt: skip
        theirs.close()
        self.channel = ours
        self.lines = Lines()
        self.said: deque[dict[str, Any]] = deque()
        self.pids: set[int] = set()  # of what it has started, should it die without a word
        self._machine: Machine | None = None
        self._asked = False
        self.runs = 0

    @property
    def alive(self) -> bool:
        """Whether it can still be asked for something."""
        return self.process.poll() is None

    def ask(self, fds: Sequence[int] = (), **request: Any) -> None:
        """Send a request, and before it the pipes that go with it."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its death is reported by hear()
            for start in range(0, len(fds), 64):
                socket.send_fds(self.channel, [b"\n"], list(fds[start : start + 64]))
            self.channel.sendall(json.dumps(request).encode() + b"\n")

    def hear(self) -> None:
        """Read what it says, which must be ready; raise UserError if it died."""
        try:
            data = self.channel.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if not data:
            self.mourn()
        self.said += [json.loads(line) for line in self.lines.feed(data)]

    def mourn(self) -> None:
        """End what the server left behind and say why it died."""
        self.close()
        complaint = self.process.stderr.read().decode(errors="replace") if self.process.stderr else ""
        if "No module named 'torch'" in complaint:
            raise UserError("torch is not installed, and demos run on it; install it as pytorch.org/get-started says.")
        last = (complaint.strip().splitlines() or [f"exit status {self.process.returncode}"])[-1]
        raise UserError(f"The process that starts ranks has died ({last}); `ddpquiz doctor` looks for the reason.")

    @property
    def machine(self) -> Machine:
        """What torch can use here; waits until torch is imported."""
        while self._machine is None:
            self.is_ready(timeout=None)
        return self._machine

    def is_ready(self, timeout: float | None) -> bool:
        """Whether torch is imported there, waiting for it up to `timeout` seconds."""
        if not self._asked:
            self.ask(do="ask")
            self._asked = True
        if self._machine is None and select.select([self.channel.fileno()], [], [], timeout)[0]:
            self.hear()
            found = self.said.popleft()
            found.pop("say")
            self._machine = Machine(**found)
        return self._machine is not None

    def close(self) -> None:
        """End the server and all that it started."""
        self.channel.close()  # it kills its ranks and goes
        if not self.pids:
            self.process.kill()  # it has none, and may be busy with an import for a second
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        self.pids.clear()


_server: Server | None = None


def server() -> Server:
    """Return the server of this process, started if it does not run."""
    global _server  # noqa: PLW0603  # one server a process, so that a demo finds it warm
    if _server is None or not _server.alive:
        if _server is None:
            atexit.register(close)
        _server = Server()
    return _server


def warm() -> None:
    """Start the server in the background, and have it import what demos need while nobody asks for a run."""
    server().ask(do="preload", modules=list(PRELOADS.values()))


def warm_for(source: str) -> None:
    """Have the server import what a script of this source is going to need."""
    server().ask(do="preload", modules=preloads(source))


def close() -> None:
    """End the server, if there is one, and with it every rank."""
    global _server  # noqa: PLW0603
    if _server is not None:
        _server.close()
        _server = None


def preloads(source: str) -> list[str]:
    """Return the modules that a script of this source is going to import, directly or not."""
    return [module for pattern, module in PRELOADS.items() if re.search(pattern, source)]


class Processes:
    """The ranks of one run, and their pipes."""

    def __init__(
        self, request: Request, serving: Server, chosen: Device, ranks: int, source: str, told: Sequence[ClaimText]
    ) -> None:
        self.server = serving
        self.ranks = ranks
        serving.runs += 1
        self.number = serving.runs
        self.epoch = time.monotonic()
        self.pids: dict[int, int] = {}  # rank -> process id, of those that live
        self.over = False
        self.pipes: dict[int, tuple[int, str]] = {}  # file descriptor -> rank, and what it carries
        theirs: list[int] = []
        for rank in range(ranks):
            for carries in ("stdout", "stderr", "events", "stack"):
                ours, end = os.pipe()
                os.set_blocking(ours, False)
                self.pipes[ours] = rank, carries
                theirs.append(end)
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if chosen.kind == "cpu" else {}
        threads = {} if "OMP_NUM_THREADS" in os.environ or ranks == 1 else {"OMP_NUM_THREADS": "1"}  # as torchrun does
        script = str(request.script)
        serving.ask(
            theirs, do="run", run=self.number, ranks=ranks, script=script, args=list(request.args), cwd=str(Path.cwd()),
            backend=chosen.backend, epoch=self.epoch, env=os.environ | threads | hidden,
            claims=[{"line": each.line, "text": each.text} for each in told],
            preload=preloads(source),
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
        for fd in ready:
            if fd != channel:
                yield from self._from_pipe(fd)
        if channel in ready:
            self.server.hear()
        while self.server.said:
            said = self.server.said.popleft()
            match said:
                case {"say": "started", "pids": pids, "store": store}:
                    self.pids = dict(enumerate(pids))
                    self.server.pids |= {*pids, store}
                case {"say": "exit", "rank": rank, "status": status}:
                    self.server.pids.discard(self.pids.pop(rank, 0))
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

    def _drain(self, rank: int) -> Iterator[tuple[int, str, bytes]]:
        for fd in [fd for fd, (whose, _) in self.pipes.items() if whose == rank]:
            some = True
            while some and fd in self.pipes:
                some = False
                for piece in self._from_pipe(fd):
                    some = True
                    yield piece

    def signal(self, which: int) -> None:
        """Send a signal to every rank."""
        self.server.ask(do="signal", run=self.number, signal=which)

    def stop(self) -> None:
        """Kill every process of the run; `read` goes on until the last one is gone."""
        self.server.ask(do="stop", run=self.number)

    def cpu_seconds(self) -> float:
        """Return the processor time that the living ranks have used."""
        return sum(_cpu_seconds(pid) for pid in self.pids.values())

    def close(self) -> None:
        """Give the pipes back."""
        for fd in self.pipes:
            os.close(fd)
        self.pipes.clear()


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:  # gone, or no Linux
        pass
    if sys.platform == "linux":
        return 0.0
    asked = subprocess.run(["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=False)
    minutes, _, seconds = asked.stdout.strip().rpartition(":")
    return 60 * float(minutes.rpartition(":")[2] or 0) + float(seconds or 0)
