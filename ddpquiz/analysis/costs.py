"""What the calls of a run have cost by line of the script, group and late rank, and how DDP synchronised gradients."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from ddpquiz.analysis.collective import Call, Collective
from ddpquiz.analysis.events import Issued
from ddpquiz.analysis.operation import POINT_TO_POINT, Operation

_MEMORY = re.compile(r"memory (\d{1,18}) (\d{1,18})")


@dataclass(slots=True)
class Cost:
    """What the calls of one operator in one line of the script have cost, over all ranks."""

    calls: int = 0
    ranks: set[int] = field(default_factory=set)
    bytes: int = 0  # that the ranks brought
    dtypes: set[str] = field(default_factory=set)
    is_ddp: bool = False  # DDP's buckets
    in_a_row: int = 0  # calls right after one from the same line that brought something of another shape
    first: Operation | None = None
    rounds: int = 0  # calls that ask for the same as the first
    seconds: float = 0.0  # for which it blocked ranks
    waiting: float = 0.0  # of these, until the last rank entered


@dataclass(slots=True)
class Lateness:
    """How often a rank was the last one to enter, and the seconds for which the others were blocked by that."""

    count: int = 0
    lost: float = 0.0


class Costs:
    """Sums over all calls of a run."""

    def __init__(self) -> None:
        self.lines: defaultdict[tuple[str, int, str], Cost] = defaultdict(Cost)  # by file, line and operator
        self.traffic: Counter[tuple[str, tuple[int, ...]]] = Counter()  # bytes sent, by name and members of a group
        self.late: defaultdict[int, Lateness] = defaultdict(Lateness)  # by rank
        self.met = 0  # collectives that all members, two or more, have entered
        self._previous: dict[int, Operation] = {}  # what the last call of a rank asked for

    def count_call(self, rank: int, operation: Operation) -> None:
        """Count a call when it is issued."""
        previous, self._previous[rank] = self._previous.get(rank), operation
        cost = self.lines[operation.place]
        cost.calls += 1
        cost.ranks.add(rank)
        cost.bytes += operation.bytes
        cost.dtypes.add(operation.dtype)
        cost.is_ddp |= operation.bucket is not None
        cost.first = cost.first or operation
        cost.rounds += operation == cost.first
        cost.in_a_row += previous is not None and previous != operation and previous.place == operation.place
        self.traffic[operation.group, operation.members] += operation.bytes_sent_by(rank)

    def count_meeting(self, collective: Collective) -> None:
        """Count a collective that its last member has just entered."""
        last = collective.entered_last
        if last is not None and len(collective.members) > 1 and collective.operation.op not in POINT_TO_POINT:
            self.late[last].count += 1
            self.met += 1

    def count_block(self, collective: Collective, call: Call, blocked: float, waiting: float) -> None:
        """Count the seconds for which a call blocked its rank."""
        cost = self.lines[call.operation.place]
        cost.seconds += blocked
        cost.waiting += waiting
        last = collective.entered_last
        if waiting and call.operation.op not in POINT_TO_POINT and last is not None:
            self.late[last].lost += waiting


@dataclass(slots=True)
class RankGradients:
    """The synchronised backward passes of one rank."""

    steps: int = 0  # of optimizers, after a synchronised backward pass
    early: int = 0  # synchronised passes before the last one of their step
    early_bytes: int = 0
    inside: int = 0  # passes that were synchronised inside no_sync
    early_place: tuple[str, int] = ("", 0)  # the line of such a pass
    inside_place: tuple[str, int] = ("", 0)
    all_steps: int = 0  # of optimizers, whether or not gradients were synchronised
    passes: int = 0  # that were synchronised
    wrapped_at: int | None = None  # the line of the script that made the first DDP model; 0 outside the script
    same_order: int = 0  # epochs that a sampler began with the order of an earlier one
    same_order_at: int = 0
    draws: list[str] = field(default_factory=list)  # one for each of the first steps that drew random numbers
    brought: list[str] = field(default_factory=list)  # checksums of its own gradients in the first backwards
    reads: str = ""  # where it reads a tensor in each step
    memory: tuple[int, int] = (0, 0)  # the most bytes of its process, and of its tensors on GPUs
    sharded: int = 0  # calls of fully_shard
    sharded_at: int | None = None  # the line of such a call, if it was for a model of several layers
    _since_step: list[int] = field(default_factory=list)  # bytes of each pass since the last step
    _place: tuple[str, int] = ("", 0)  # the line of the last pass
    _bucket: int = -1
    _in_no_sync: bool = False

    def reduce(self, event: Issued, bucket: int) -> None:
        """Count a bucket that DDP all-reduces."""
        if bucket <= self._bucket or not self._since_step:
            if self._since_step and not self.early_place[1]:
                self.early_place = self._place
            self._place = (event.operation.file, event.operation.line)
            self._since_step.append(0)
            self.passes += 1
            if self._in_no_sync:
                self.inside += 1
                self.inside_place = self._place
        self._bucket = bucket
        self._since_step[-1] += event.operation.bytes

    def mark(self, what: str, line: int) -> None:
        """Note what the script has done at a line."""
        match what:
            case "no_sync" | "sync":
                self._in_no_sync = what == "no_sync"
            case "ddp" if self.wrapped_at is None:
                self.wrapped_at = line
            case "same_order":
                self.same_order += 1
                self.same_order_at = line
            case "step":
                self._step()
            case "shard" | "shard_many":
                self.sharded += 1
                self.sharded_at = line if what == "shard_many" else self.sharded_at
            case _ if what.startswith("drew "):
                self.draws.append(what)
            case _ if what.startswith("gradients "):
                self.brought.append(what)
            case _ if what.startswith("read "):
                self.reads = what
            case _ if found := _MEMORY.fullmatch(what):
                self.memory = (int(found[1]), int(found[2]))

    def _step(self) -> None:
        """Count a step of the optimizer."""
        self.all_steps += 1
        if self._since_step:
            self.steps += 1
            self.early += len(self._since_step) - 1
            self.early_bytes += sum(self._since_step[:-1])
            self._since_step, self._bucket = [], -1
