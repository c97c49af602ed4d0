"""What launcher, server and ranks send each other, with the one encoder and decoder for each channel.

Launcher and server exchange pickled records over a socketpair that no other process holds. A rank writes lines to a
pipe that its script can reach too, so those are text: events as JSON, and one short line for each write to a stream.
"""

import pickle
import re
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddpquiz.events.event import ClaimText, Event, decode
from ddpquiz.ranks.request import Request

if TYPE_CHECKING:  # a server that runs no pack need not import it
    from ddpquiz.curriculum.pack_consent import AllowedPack

_MOST_FDS = 64  # descriptors in one message; Linux allows 253
_LENGTH = struct.Struct("!I")
_WRITE = re.compile(rb"(stdout|stderr) (\d+(?:\.\d+)?(?:e-\d+)?) (\d{1,18})")


@dataclass(frozen=True, slots=True)
class QueryMachine:
    """Launcher to server: report what torch can use here. The answer is a Machine."""


@dataclass(frozen=True, slots=True)
class Preload:
    """Launcher to server: import these modules as soon as there is nothing else to do."""

    modules: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Launcher to server: start this run. Every rank gets the plan whole.

    The pipes of all ranks are sent with it, in the order of `PIPES`.
    """

    number: int
    request: Request
    script: str  # absolute path
    ranks: int  # on this machine
    backend: str
    shares_gpus: bool
    no_nccl: str  # why Gloo replaces NCCL
    cwd: str
    epoch: float  # time.monotonic() when the run was requested; all times of events count from here
    environment: Mapping[str, str]
    temporary: str  # the folder for what torchrun's agent writes for itself, if it leads the run
    claims: tuple[ClaimText, ...]
    preload: tuple[str, ...]
    open_files: int  # the soft limit on open files that the ranks get
    pack: "AllowedPack | None"  # to which the script belongs, if to one


@dataclass(frozen=True, slots=True)
class SignalRanks:
    """Launcher to server: send a signal to these ranks of a run, or to all, if they handle it."""

    run: int
    signal: int
    ranks: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class StopRun:
    """Launcher to server: kill every process of a run."""

    run: int


@dataclass(frozen=True, slots=True)
class TemporaryFolder:
    """Launcher to server: at your end, remove the folder in `place` whose name begins so: we were killed."""

    place: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Server to launcher: no rank can run with this torch; the server ends."""

    why: str


@dataclass(frozen=True, slots=True)
class RanksStarted:
    """Server to launcher: the process ids of the ranks, in order, and of their store (0: none)."""

    run: int
    pids: tuple[int, ...]
    store: int


@dataclass(frozen=True, slots=True)
class RankExited:
    """Server to launcher: exit status of a rank, or minus the number of the signal that ended it."""

    run: int
    rank: int
    status: int


@dataclass(frozen=True, slots=True)
class RunStopped:
    """Server to launcher: no process of the run is left."""

    run: int


PIPES = ("stdout", "stderr", "events", "stack")  # of each rank


class Channel:
    """One end of the socketpair between launcher and server."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._received = bytearray()
        self.fds: list[int] = []  # descriptors that have arrived; whoever uses them clears the list

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: object, fds: Sequence[int] = ()) -> None:
        """Send descriptors and a message; BrokenPipeError or ConnectionResetError if the other side is gone."""
        for start in range(0, len(fds), _MOST_FDS):
            socket.send_fds(self._socket, [_LENGTH.pack(0)], list(fds[start : start + _MOST_FDS]))
        data = pickle.dumps(message)
        self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self) -> list[Any] | None:
        """The messages that are complete, waiting for some data; None when the other side is gone."""
        try:
            data, fds, _, _ = socket.recv_fds(self._socket, 1 << 16, 4 * _MOST_FDS)
        except ConnectionResetError:
            return None
        self.fds += fds
        self._received += data
        return list(self._complete()) if data else None

    def _complete(self) -> Any:
        while len(self._received) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            message = bytes(self._received[_LENGTH.size : end])
            del self._received[:end]
            if message:  # an empty one accompanied descriptors
                yield pickle.loads(message)  # noqa: S301  # from our own child or parent

    def close(self) -> None:
        self._socket.close()


@dataclass(frozen=True, slots=True)
class PipeData:
    """Bytes read from one of a rank's PIPES; none at its end."""

    rank: int
    pipe: str
    data: bytes


@dataclass(frozen=True, slots=True)
class StreamWrite:
    """Rank to launcher: at `time` the rank wrote `count` bytes to `stream`."""

    stream: str
    time: float
    count: int


def encode_write(stream: str, time: float, count: int) -> str:
    """The line of a StreamWrite."""
    return f"{stream} {time!r} {count}\n"


def decode_line(line: bytes) -> Event | StreamWrite | None:
    """What a line from a rank's event pipe says; None for half a line of a killed rank, or a script's bytes."""
    if line.endswith(b"}"):
        try:
            return decode(line)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
    if found := _WRITE.fullmatch(line):
        return StreamWrite(found[1].decode(), float(found[2]), int(found[3]))
    return None
