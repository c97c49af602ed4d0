"""The server of this process, and the connection to it."""

import atexit
import os
import re
import resource
import select
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ddpquiz.errors import UserError
from ddpquiz.ranks.device import Machine
from ddpquiz.ranks.forks import adopt_orphans, children, kill_group, kill_orphans
from ddpquiz.ranks.messages import Channel, Preload, QueryMachine, Refused

# Not with -m, which searches the working directory first: a `types.py` there would replace Python's own. A rank later
# puts the folder of its script in the place of os.devnull.
START = """import os, sys
sys.path[0] = os.devnull
sys.path.append(sys.argv.pop(1))
from ddpquiz.ranks.server import main
main()"""
# A name in a script, and the module that it needs, imported once in the server instead of once in every rank.
PRELOADS = {
    # The first optimizer imports it, and so do the first tensor on a mesh and the first counter of FLOP.
    r"\boptim\b|DistributedDataParallel|\bdistribute_(tensor|module)\b|parallelize_module|\btorch\.compile\b|"
    r"\bFlopCounterMode\b": "torch._dynamo",
    r"\bDTensor\b|distributed\.tensor\b|parallelize_module|device_mesh": "torch.distributed.tensor.parallel",
    r"fully_shard|\bfsdp\b": "torch.distributed.fsdp",
    r"\bpipelining\b": "torch.distributed.pipelining",
    r"distributed\.checkpoint": "torch.distributed.checkpoint",
    r"DistributedSampler|\bDataLoader\b": "torch.utils.data",
    r"\bdata\.distributed\b|DistributedSampler": "torch.utils.data.distributed",
    r"ZeroRedundancyOptimizer": "torch.distributed.optim",
}
_OPEN_FILES = 4096  # more than the pipes of the largest run


class ServerConnection:
    """The server process, seen from the launcher. It imports torch while the launcher goes on."""

    def __init__(self) -> None:
        if sys.flags.optimize:
            raise UserError("Python runs with -O, which drops the asserts that demos make; start it without -O.")
        try:
            os.getcwd()  # noqa: PTH109  # Path.cwd() is the same
        except FileNotFoundError:
            raise UserError("The current folder was deleted; change to another one.") from None
        self.open_files = _raise_open_files()
        adopt_orphans()  # should the server be killed, the processes of its ranks become our children
        self._other_children = children()
        ours, theirs = socket.socketpair()
        self.log = tempfile.TemporaryFile()  # noqa: SIM115  # a pipe would be full one day
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(Path(__file__).parents[2]), str(theirs.fileno())],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log,
            start_new_session=True, env=os.environ | threads,
        )  # fmt: skip
        theirs.close()
        self.channel = Channel(ours)
        self.messages: deque[Any] = deque()  # received, and not yet handled
        self.pids: set[int] = set()  # of ranks and stores, to be killed if the server cannot
        self.runs = 0
        self._machine: Machine | None = None
        self._queried = False

    def send(self, message: object, fds: Sequence[int] = ()) -> None:
        """Send a request with its descriptors. If the server has died, `receive` reports it."""
        try:
            self.channel.send(message, fds)
        except (BrokenPipeError, ConnectionResetError):
            return

    def receive(self) -> None:
        """Wait for messages and append them to `messages`; UserError if the server has died or refuses."""
        received = self.channel.receive()
        if received is None:
            self.close()
            raise UserError(f"The process that starts ranks has died ({self._last_line()}); run `ddpquiz doctor`.")
        for message in received:
            if isinstance(message, Refused):
                self.close()
                raise UserError(message.why)
        self.messages += received

    def _last_line(self) -> str:
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {self.process.returncode}"

    @property
    def machine(self) -> Machine:
        """What torch can use here; waits until torch is imported."""
        while self._machine is None:
            self.is_ready(timeout=None)
        return self._machine

    def is_ready(self, timeout: float | None) -> bool:
        """Wait up to `timeout` seconds; return whether torch is imported in the server."""
        if not self._queried:
            self.send(QueryMachine())
            self._queried = True
        if self._machine is None and select.select([self.channel], [], [], timeout)[0]:
            self.receive()
            if self.messages:
                self._machine = self.messages.popleft()
        return self._machine is not None

    def close(self, timeout: float = 2.0) -> None:
        """End the server and everything that it started; kill it if it has not ended after `timeout` seconds."""
        self.channel.close()  # the server kills its ranks and ends
        if not self.pids:
            self.process.kill()  # nothing to clean up, and it may be busy with an import for a second
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in self.pids:
            kill_group(pid)
        if self.process.returncode and self.pids:
            kill_orphans(self._other_children)
        self.pids.clear()


_server: ServerConnection | None = None


def server() -> ServerConnection:
    """Return the server of this process, started if it does not run."""
    global _server  # noqa: PLW0603  # one server per process, so that a demo finds it warm
    if _server is None or _server.process.poll() is not None:
        if _server is None:
            atexit.register(close)
        _server = ServerConnection()
    return _server


def warm() -> None:
    """Start the server in the background, and let it import what demos need."""
    server().send(Preload(tuple(PRELOADS.values())))


def warm_for(source: str) -> None:
    """Let the server import what a script of this source needs."""
    server().send(Preload(preloads(source)))


def close() -> None:
    """End the server, if there is one, and with it every rank."""
    global _server  # noqa: PLW0603
    if _server is not None:
        _server.close()
        _server = None


def preloads(source: str) -> tuple[str, ...]:
    """Return the modules that a script of this source imports, directly or not."""
    return tuple(module for pattern, module in PRELOADS.items() if re.search(pattern, source))


@cache
def _raise_open_files() -> int:
    """Raise the soft limit on open files as far as runs need, and return what it was: the ranks get that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return soft
