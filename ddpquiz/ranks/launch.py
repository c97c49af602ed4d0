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
import tempfile
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpquiz.analysis.event_codec import LineBuffer
from ddpquiz.errors import UserError
from ddpquiz.ranks.device import Machine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ddpquiz.ranks.machines.cluster import Cluster

# Not with -m, which looks in the working directory first: a `types.py` there would take the place of Python's own.
# What stands first instead is where a rank puts the folder of its script.
START = """import os, sys
sys.path[0] = os.devnull
sys.path.append(sys.argv.pop(1))
from ddpquiz.ranks.server import main
main()"""
# What a name in a script costs to import, once in the server instead of once in every rank.
PRELOADS = {
    # Imported by the first optimizer, and by the first tensor that is laid out on a mesh.
    r"\boptim\b|DistributedDataParallel|\bdistribute_(tensor|module)\b|parallelize_module": "torch._dynamo",
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
    module: str = ""  # the name by which `python -m` would run the script, if it is asked for in that way
    cluster: Cluster | None = None  # run it under torchrun's agent, for several machines or restarts
    strict: bool = False  # refuse a script that asks for NCCL where there is none
    environment: Mapping[str, str] = field(default_factory=dict)  # what the ranks find in theirs besides ours


class ServerConnection:
    """The process that forks ranks, seen from here. It is started at once and imports torch while we go on."""

    def __init__(self) -> None:
        if sys.flags.optimize:
            raise UserError("Python runs with -O, which drops the asserts that demos make; start it without -O.")
        try:
            os.getcwd()  # noqa: PTH109  # Path.cwd() is the same
        except FileNotFoundError:
            raise UserError("The folder that you are in was deleted; change to another one.") from None
        ours, theirs = socket.socketpair()
        self.complaints = tempfile.TemporaryFile()  # noqa: SIM115  # no pipe, which would be full one day
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(Path(__file__).parents[2]), str(theirs.fileno())],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.complaints,
            start_new_session=True, env=os.environ | threads,
        )  # fmt: skip
        theirs.close()
        self.channel = ours
        self.lines = LineBuffer()
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
        said = [json.loads(line) for line in self.lines.feed(data)]
        for each in said:
            if each["say"] == "refused":
                self.close()
                raise UserError(each["why"])
        self.said += said

    def mourn(self) -> None:
        """End what the server left behind and say why it died."""
        self.close()
        self.complaints.seek(0)
        complaint = self.complaints.read().decode(errors="replace")
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


_server: ServerConnection | None = None


def server() -> ServerConnection:
    """Return the server of this process, started if it does not run."""
    global _server  # noqa: PLW0603  # one server a process, so that a demo finds it warm
    if _server is None or not _server.alive:
        if _server is None:
            atexit.register(close)
        _server = ServerConnection()
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
