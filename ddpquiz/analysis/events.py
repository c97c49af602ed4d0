"""What is said of a run, one JSON object a line: the only thing that ranks, launcher and screens share."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

VERSION = 1
FAULT = 70  # the exit status of a rank in which ddpquiz itself failed, after a traceback
_LABEL = re.compile(r"([a-z][a-z0-9 _/()-]{0,39}): (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ClaimText:
    """An assert of the script with a literal message: where it stands and what it says."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Began:
    """The run begins: what runs, on how many ranks, over which backend and why; `title` is the script's own.

    `here` are the ranks of this machine, where others run the rest; without any, all are here. `restarts` is how often
    failed ranks may be started again. `module` is its name for `python -m`, if it runs in that way. `look` are labels
    that its docstring names.
    """

    event: ClassVar[str] = "run"
    script: str
    args: tuple[str, ...]
    ranks: int
    device: str
    backend: str
    reason: str
    claims: tuple[ClaimText, ...] = ()
    title: str = ""
    version: int = VERSION
    here: tuple[int, ...] = ()
    restarts: int = 0
    module: str = ""
    look: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Started:
    """A rank is about to run the script. `time` is in seconds since the run was asked for, here and below.

    `restart` counts how often torchrun's agent has started the ranks again.
    """

    event: ClassVar[str] = "start"
    time: float
    rank: int
    pid: int
    restart: int = 0


@dataclass(frozen=True, slots=True)
class Nodes:
    """So many nodes have joined, of those that the run needs; more than one only with `--nnodes`."""

    event: ClassVar[str] = "nodes"
    time: float
    joined: int
    needed: int


@dataclass(frozen=True, slots=True)
class Output:
    """A rank printed a line. `label: value` lines have both."""

    event: ClassVar[str] = "output"
    time: float
    rank: int
    stream: str
    text: str
    label: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Issued:
    """A rank called a collective or point-to-point operation, its `number`-th.

    `members` are the group's ranks, `group` is torch's name of it; `peer` is the root, source or destination, as a
    global rank; `bytes` is the size of the tensors that this rank brings; `before` holds their values where they are
    few. `reduce` is the reduce op (`sum`), `bucket` the number of DDP's bucket in this backward, from 0.
    """

    event: ClassVar[str] = "issued"
    time: float
    rank: int
    number: int
    op: str
    members: tuple[int, ...]
    peer: int | None
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    bytes: int
    file: str
    line: int
    before: tuple[str, ...] = ()
    group: str = ""
    reduce: str = ""
    asynchronous: bool = False
    bucket: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The operation `number` of a rank is done.

    `started` is when a GPU began with it, where that was measured; `source` is who sent to a receive from anybody. One
    that `failed` ended in an error, such as a time-out.
    """

    event: ClassVar[str] = "ended"
    time: float
    rank: int
    number: int
    started: float | None = None
    source: int | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """The script begins to wait for the operation `number`, which ran beside it and is not done yet."""

    event: ClassVar[str] = "waiting"
    time: float
    rank: int
    number: int


@dataclass(frozen=True, slots=True)
class Waited:
    """The script had to wait for the operation `number` since `since`, and goes on now."""

    event: ClassVar[str] = "waited"
    time: float
    rank: int
    number: int
    since: float


@dataclass(frozen=True, slots=True)
class Result:
    """What the tensors of the operation `number` held when the script had waited for it, where they are few."""

    event: ClassVar[str] = "result"
    time: float
    rank: int
    number: int
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Marked:
    """The script passed a point that tells what its communication is for.

    `what` is `step` when an optimizer has updated the weights, `no_sync` and `sync` where DDP stops and starts again to
    synchronise gradients. `line` is 0 outside the script.
    """

    event: ClassVar[str] = "mark"
    time: float
    rank: int
    what: str
    line: int


@dataclass(frozen=True, slots=True)
class Joining:
    """A rank waits for the others to form a process group, until `done`; `line` is 0 outside the script."""

    event: ClassVar[str] = "joining"
    time: float
    rank: int
    done: bool
    line: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """A rank reached a claim for the first time, or broke it."""

    event: ClassVar[str] = "claim"
    time: float
    rank: int
    line: int
    held: bool


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception ended a rank."""

    event: ClassVar[str] = "error"
    time: float
    rank: int
    error: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something about a rank that the learner should know, in one sentence."""

    event: ClassVar[str] = "note"
    time: float
    rank: int
    text: str


@dataclass(frozen=True, slots=True)
class Exited:
    """A rank's process is gone: its exit status, or the negative number of the signal that ended it.

    `stack` is where a crash found it; `memory` says that the kernel ended a process meanwhile, since memory ran out;
    `stopped`, that we or torchrun's agent ended it, since the run was over for another reason.
    """

    event: ClassVar[str] = "exit"
    time: float
    rank: int
    status: int
    stack: str = ""
    memory: bool = False
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class RankPosition:
    """Where a rank stands when nothing moves: the operation it waits in, if any, and its line in the script."""

    rank: int
    waits_in: str
    file: str
    line: int
    stack: str


@dataclass(frozen=True, slots=True)
class Hung:
    """Nothing moved on any rank for `seconds`, and some wait in a communication."""

    event: ClassVar[str] = "hang"
    time: float
    seconds: float
    ranks: tuple[RankPosition, ...] = ()


@dataclass(frozen=True, slots=True)
class End:
    """The run is over and no process of it is left. `why` is a sentence when it is not ok, `mend` says what to do."""

    event: ClassVar[str] = "end"
    time: float
    ok: bool
    proven: int
    claims: int
    rank: int | None = None
    why: str = ""
    mend: str = ""


Event = (
    Began
    | Started
    | Nodes
    | Output
    | Issued
    | Ended
    | Waiting
    | Waited
    | Result
    | Marked
    | Joining
    | Claimed
    | Raised
    | Note
    | Exited
    | Hung
    | End
)
_KINDS: dict[str, type[Any]] = {
    kind.event: kind
    for kind in (
        Began,
        Started,
        Nodes,
        Output,
        Issued,
        Ended,
        Waiting,
        Waited,
        Result,
        Marked,
        Joining,
        Claimed,
        Raised,
        Note,
        Exited,
        Hung,
        End,
    )
}
_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, default=asdict)
_NESTED = {("run", "claims"): ClaimText, ("hang", "ranks"): RankPosition}


def when(event: Event) -> float:
    """Return the time of an event; a run begins before anything else."""
    return 0.0 if isinstance(event, Began) else event.time


def encode(event: Event) -> str:
    """Return `event` as one line of JSON, without the newline."""
    return _ENCODER.encode({"event": event.event} | {name: getattr(event, name) for name in event.__slots__})


def decode(line: str | bytes) -> Event:
    """Return the event that `line` holds; ValueError, KeyError or TypeError if it holds none."""
    data: dict[str, Any] = json.loads(line)
    name = data.pop("event")
    for key, value in data.items():
        if isinstance(value, list):
            nested = _NESTED.get((name, key))
            data[key] = tuple(nested(**each) if nested else _frozen(each) for each in value)
    made: Event = _KINDS[name](**data)
    return made


def _frozen(value: Any) -> Any:
    return tuple(_frozen(each) for each in value) if isinstance(value, list) else value


def labelled(text: str) -> tuple[str, str] | None:
    """Return label and value of a line `label: value`, or None for any other line."""
    found = _LABEL.fullmatch(text)
    return (found[1], found[2]) if found else None


@dataclass
class LineBuffer:
    """Cuts the bytes of a pipe into whole lines."""

    _rest: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes; no data at all completes the last one."""
        if not data:
            last, self._rest = bytes(self._rest), bytearray()
            return [last] if last else []
        self._rest += data
        if b"\n" not in data:
            return []
        *whole, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        return whole
