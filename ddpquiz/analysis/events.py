"""Everything that a run reports, as dataclasses: the only thing that ranks, launcher and screens share.

An annotation says which values a field may have; `event_codec` checks them when it decodes a line.
"""

# longer than 250 lines: the list of all events, one dataclass each
from dataclasses import dataclass
from typing import Annotated, ClassVar

from ddpquiz.analysis.operation import MAX_RANKS, Count, File, Line, Name, Operation, Peer, Range, Rank, Ranks, Seconds

VERSION = 1
SIMULATED = "simulated"  # the backend of a run that was planned, and has no script
FAULT = 70  # the exit status of a rank in which ddpquiz itself failed, after a traceback


@dataclass(frozen=True, slots=True)
class ClaimText:
    """An assert of the script with a literal message: its line and its text."""

    line: Line
    text: str


@dataclass(frozen=True, slots=True)
class Began:
    """The run begins: what runs, on how many ranks, over which backend and why; `title` is the script's own.

    `restarts` is how often failed ranks may be restarted. `module` is set if the script runs as `python -m module`.
    `look` are the labels that its docstring names.
    """

    event: ClassVar[str] = "run"
    script: File
    args: Annotated[tuple[str, ...], Range(0, 100_000)]
    ranks: Annotated[int, Range(1, MAX_RANKS)]
    device: Name
    backend: Name
    reason: str
    claims: Annotated[tuple[ClaimText, ...], Range(0, 10_000)] = ()
    title: str = ""
    version: Count = VERSION
    restarts: Count = 0
    module: Name = ""
    look: Annotated[tuple[str, ...], Range(0, 10_000)] = ()


@dataclass(frozen=True, slots=True)
class RankEvent:
    """Something that happened on one rank; `time` is in seconds since the run was asked for, here and below."""

    time: Seconds
    rank: Rank


@dataclass(frozen=True, slots=True)
class OperationEvent(RankEvent):
    """Something that happened to the `number`-th operation of a rank."""

    number: Count


@dataclass(frozen=True, slots=True)
class Started(RankEvent):
    """A rank is about to run the script; `restart` counts the restarts of the ranks so far."""

    event: ClassVar[str] = "start"
    pid: Count
    restart: Count = 0


@dataclass(frozen=True, slots=True)
class Recorded(RankEvent):
    """What must be known of a rank whose events are in a file of their own, to put the files of a job together.

    Times in the file count from `clock`, the monotonic clock of the machine `host` since its boot `boot`; `wall` is the
    time of day then, in seconds since 1970. `number` says how often a file of this rank was continued in a new one.
    """

    event: ClassVar[str] = "record"
    host: Name
    boot: Name
    clock: Annotated[float, Range(0, 1e12)]
    wall: Annotated[float, Range(0, 1e12)]
    number: Count = 0


@dataclass(frozen=True, slots=True)
class Dropped(RankEvent):
    """The file begins after a rank had issued `count` operations in a group, which it no longer holds.

    `op` is "send" or "recv" for those to or from `peer`, and empty for collectives.
    """

    event: ClassVar[str] = "dropped"
    group: Name
    members: Ranks
    op: Name
    peer: Peer | None
    count: Count


@dataclass(frozen=True, slots=True)
class Alive(RankEvent):
    """A rank runs on, and its main thread computes at this line: seen now and then."""

    event: ClassVar[str] = "alive"
    file: File
    line: Line


@dataclass(frozen=True, slots=True)
class Output(RankEvent):
    """A rank printed a line. Lines of the form `label: value` have both fields set."""

    event: ClassVar[str] = "output"
    stream: Name
    text: str
    label: Name | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Issued(OperationEvent):
    """A rank called an operation; `before` holds the values of the tensors that it brings if they are few."""

    event: ClassVar[str] = "issued"
    operation: Operation
    before: Annotated[tuple[str, ...], Range(0, 10_000)] = ()


@dataclass(frozen=True, slots=True)
class Ended(OperationEvent):
    """An operation is done, or `failed` with an error such as a time-out.

    `started` is when a GPU began with it, if that was measured. `source` is who sent to a receive from any rank.
    """

    event: ClassVar[str] = "ended"
    started: Seconds | None = None
    source: Rank | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Waiting(OperationEvent):
    """The script begins to wait for an operation that runs in the background."""

    event: ClassVar[str] = "waiting"


@dataclass(frozen=True, slots=True)
class Waited(OperationEvent):
    """The script has waited for an operation since `since`, and goes on."""

    event: ClassVar[str] = "waited"
    since: Seconds


@dataclass(frozen=True, slots=True)
class Result(OperationEvent):
    """What the tensors of an operation held when the script had waited for it, if they are few."""

    event: ClassVar[str] = "result"
    after: Annotated[tuple[str, ...], Range(0, 10_000)]


@dataclass(frozen=True, slots=True)
class Marked(RankEvent):
    """The script reached a point that explains its communication.

    `what` is `step` after an optimizer updated the weights, `no_sync` and `sync` where DDP stops and resumes
    synchronising gradients, `ddp` after a model was wrapped, `same_order` where a DistributedSampler that shuffles
    gives an order for the second time, `shard` and `shard_many` after a module of one or of several layers was sharded,
    `drew ...` after a step that drew random numbers, `gradients ...` with a checksum of what a rank brings to the first
    bucket of a backward, `read ...` where a line has read a tensor in each of many steps, `memory ...` at the end, with
    the most bytes that the process and its tensors on GPUs held, and `finished` at the end of a script that did not
    fail. `line` is 0 outside it.
    """

    event: ClassVar[str] = "mark"
    what: Name
    line: Line


@dataclass(frozen=True, slots=True)
class ReplicaSums(RankEvent):
    """Checksums of the parameters of a DDP model after a step of an optimizer, from 1.

    `model` counts the models of the group `members`, from 0. Only the first step has the names of the parameters.
    """

    event: ClassVar[str] = "replica"
    model: Count
    members: Ranks
    step: Count
    line: Line
    names: Annotated[tuple[Name, ...], Range(0, 100_000)]
    sums: Annotated[tuple[Name, ...], Range(0, 100_000)]


@dataclass(frozen=True, slots=True)
class Joining(RankEvent):
    """A rank waits for the others to form a process group, until `done`; `line` is 0 outside the script."""

    event: ClassVar[str] = "joining"
    done: bool
    line: Line


@dataclass(frozen=True, slots=True)
class Forming(RankEvent):
    """A rank waits for the others in `new_group`, which forms a further process group, until `done`.

    `members` are the ranks that it asks for, in rising order; empty if they are unknown, or if only they make the call.
    """

    event: ClassVar[str] = "forming"
    done: bool
    file: File
    line: Line
    members: Ranks = ()


@dataclass(frozen=True, slots=True)
class Claimed(RankEvent):
    """A rank reached a claim for the first time, or broke it."""

    event: ClassVar[str] = "claim"
    line: Line
    held: bool


@dataclass(frozen=True, slots=True)
class Raised(RankEvent):
    """An exception ended a rank."""

    event: ClassVar[str] = "error"
    error: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Note(RankEvent):
    """Something about a rank that the learner should know, in one sentence."""

    event: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True, slots=True)
class Exited(RankEvent):
    """The process of a rank has ended: its exit status, or the negative number of the signal that ended it.

    `stack` is where it crashed. `memory` is True if the kernel ended a process meanwhile because memory ran out,
    `stopped` if ddpquiz or torchrun's agent ended the rank because the run was over for another reason.
    """

    event: ClassVar[str] = "exit"
    status: Annotated[int, Range(-(2**31), 2**32)]
    stack: str = ""
    memory: bool = False
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class RankPosition:
    """Where a rank stands when nothing moves: the operation it waits in, if any, and its line in the script."""

    rank: Rank
    waits_in: Name
    file: File
    line: Line
    stack: str


@dataclass(frozen=True, slots=True)
class Hung:
    """Nothing moved on any rank for `seconds`, and some ranks wait in a communication."""

    event: ClassVar[str] = "hang"
    time: Seconds
    seconds: Seconds
    ranks: Annotated[tuple[RankPosition, ...], Range(0, MAX_RANKS)] = ()


@dataclass(frozen=True, slots=True)
class End:
    """The run is over and all its processes have ended. If it is not ok, `why` says why, and `mend` what to do."""

    event: ClassVar[str] = "end"
    time: Seconds
    ok: bool
    proven: Count
    claims: Count
    rank: Rank | None = None
    why: str = ""
    mend: str = ""


Event = (
    Began | Started | Recorded | Dropped | Alive | Output | Issued | Ended | Waiting | Waited | Result
    | Marked | ReplicaSums | Joining | Forming | Claimed | Raised | Note | Exited | Hung | End
)  # fmt: skip


def when(event: Event) -> float:
    """Return the time of an event; a run begins before anything else."""
    return 0.0 if isinstance(event, Began) else event.time
