"""The connection of this process to the server that forks ranks: made at the first use, and closed at the end."""

import atexit
import os
import re
import select
import subprocess
import tempfile
from collections import deque
from collections.abc import Sequence
from typing import Any

from ddpquiz.errors import UserError
from ddpquiz.ranks import server_process
from ddpquiz.ranks.forks import kill_child, kill_orphans
from ddpquiz.ranks.installed_torch import Machine
from ddpquiz.ranks.messages import Channel, Preload, QueryMachine, Refused, TemporaryFolder

_IMPORT = r"(?m)^\s*(from|import)\b.*"
# What a script says, and the module that it needs, imported once in the server instead of once in every rank. A module
# that torch does not import itself counts only where the script imports it: else `torch.distributed.checkpoint` would
# exist here for a script that lacks the import, and fails under torchrun.
PRELOADS = {
    # The first optimizer imports it, and so do the first tensor on a mesh and the first counter of FLOP.
    r"\boptim\b|DistributedDataParallel|\bdistribute_(tensor|module)\b|parallelize_module|\btorch\.compile\b|"
    r"\bFlopCounterMode\b": "torch._dynamo",
    _IMPORT + r"\b(DTensor|tensor|parallelize_module)\b": "torch.distributed.tensor.parallel",
    _IMPORT + r"\b(fully_shard|fsdp)\b": "torch.distributed.fsdp",
    _IMPORT + r"\bpipelining\b": "torch.distributed.pipelining",
    _IMPORT + r"\bdistributed(\.| import )checkpoint\b": "torch.distributed.checkpoint",
    _IMPORT + r"\bZeroRedundancyOptimizer\b": "torch.distributed.optim",
}


class ServerConnection:
    """The server process, seen from the launcher. It imports torch while the launcher goes on."""

    def __init__(self) -> None:
        started = server_process.take()
        self.process, self.log, self.open_files = started.process, started.log, started.open_files
        self._other_children = started.other_children
        self.channel = Channel(started.socket)
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
            self.process.wait()  # without a timeout, which would poll
            return
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in self.pids:
            kill_child(pid)
        if self.process.returncode and self.pids:
            kill_orphans(self._other_children)
        self.pids.clear()


_server: ServerConnection | None = None


def server() -> ServerConnection:
    """The server of this process, started if it does not run."""
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


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder for the files of runs. If this process is killed, the server removes it."""
    serving = server()
    while not serving.is_ready(timeout=None):  # until it has imported torch, it would be killed with us
        pass
    prefix = f"ddpquiz-{os.urandom(8).hex()}-"
    serving.send(TemporaryFolder(tempfile.gettempdir(), prefix))  # before it exists: we may be killed right after
    return tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)


def close() -> None:
    """End the server, if there is one, and with it every rank."""
    global _server  # noqa: PLW0603
    if _server is not None:
        _server.close()
        _server = None


def preloads(source: str) -> tuple[str, ...]:
    """The modules that a script of this source imports, directly or not."""
    return tuple(module for pattern, module in PRELOADS.items() if re.search(pattern, source))
