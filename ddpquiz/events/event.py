"""The events of a run, and how they are written as lines of JSON: the only contract between a run and who shows it.

What is decoded is checked here, once, and nowhere else: a saved run is foreign data, and screens and sums need sane
numbers. The annotations of the fields say which values may occur.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache, partial
from inspect import signature
from typing import Annotated, Any, ClassVar, NamedTuple, get_args, get_origin, get_type_hints

from ddpquiz.events.operation import MAX_RANKS, Count, File, Line, Name, Operation, Peer, Range, Rank, Ranks, Seconds
from ddpquiz.safe_text import escape_controls

VERSION = 2
SIMULATED = "simulated"  # the backend of a run that was planned, and has no script
UNUSED = "Parameters without a gradient: "  # a rank adds this line to DDP's message, with their names
JOIN, FORM = "init_process_group", "new_group"  # the calls in which ranks wait to form a process group


@dataclass(frozen=True, slots=True)
class ClaimText:
    """An assert of the script with a literal message: its line and its text."""

    line: Line
    text: str


@dataclass(frozen=True, slots=True)
class Began:
    """The run begins: what runs, on how many ranks, over which backend and why; `title` is the script's own.

    `restarts` is how often failed ranks may be restarted. `module` is set if the script runs as `python -m module`.
    `highlighted` are the labels that its docstring names.
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
    highlighted: Annotated[tuple[str, ...], Range(0, 10_000)] = ()


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
    `pids` is the PID namespace in which the rank has the number that its `start` event names.
    """

    event: ClassVar[str] = "record"
    host: Name
    boot: Name
    clock: Annotated[float, Range(0, 1e12)]
    wall: Annotated[float, Range(0, 1e12)]
    number: Count = 0
    pids: Name = ""


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
    """A rank runs on, and its main thread is at this line: seen now and then.

    Where that thread stands still and uses no processor, `stands_in` is the expression that it does not get out of
    (`thread.join()`), and `waits_for` the thread or process whose end it waits for, in words, if that is known.
    """

    event: ClassVar[str] = "alive"
    file: File
    line: Line
    stands_in: Name = ""
    waits_for: Name = ""


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
    """An operation is done, or `failed` with an error such as a timeout.

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
    """The script reached a point that explains its communication; `line` is 0 outside the script, here and below."""

    event: ClassVar[str] = "mark"
    what: ClassVar[str]  # in JSON
    line: Line


@dataclass(frozen=True, slots=True)
class OptimizerStep(Marked):
    """An optimizer has updated the weights; `models` says of which DDP models, counted from 1.

    `shards` is set if what it updated are this rank's shards of a model that all ranks hold together.
    """

    what: ClassVar[str] = "step"
    models: Annotated[tuple[Count, ...], Range(0, 1000)] = ()
    shards: bool = False


@dataclass(frozen=True, slots=True)
class SyncPaused(Marked):
    """DDP synchronizes no gradients from now on: `no_sync` begins."""

    what: ClassVar[str] = "no_sync"


@dataclass(frozen=True, slots=True)
class SyncResumed(Marked):
    """DDP synchronizes gradients again: `no_sync` ends. `model` is the one whose gradients changed in it, or 0."""

    what: ClassVar[str] = "sync"
    model: Count = 0


@dataclass(frozen=True, slots=True)
class UnsyncedForward(Marked):
    """A forward pass outside no_sync in which the script had switched off that DDP synchronizes the `model`."""

    what: ClassVar[str] = "unsynced"
    model: Count


@dataclass(frozen=True, slots=True)
class ModelWrapped(Marked):
    """The script has made a DDP model."""

    what: ClassVar[str] = "ddp"


@dataclass(frozen=True, slots=True)
class ModelSharded(Marked):
    """The script has sharded a module with fully_shard or FSDP: of one layer, or of several as a whole."""

    what: ClassVar[str] = "shard"
    several_layers: bool = False


@dataclass(frozen=True, slots=True)
class OrderRepeated(Marked):
    """A DistributedSampler that shuffles gives an order for the second time."""

    what: ClassVar[str] = "same_order"


@dataclass(frozen=True, slots=True)
class RandomDraw(Marked):
    """One of the first steps drew random numbers; `checksum` is that of the generator afterwards."""

    what: ClassVar[str] = "drew"
    checksum: Name


@dataclass(frozen=True, slots=True)
class GradientChecksum(Marked):
    """What a rank brings to the first bucket in one of its first backward passes."""

    what: ClassVar[str] = "gradients"
    checksum: Name


@dataclass(frozen=True, slots=True)
class TensorRead(Marked):
    """The `line` of `file` has read a tensor with `call` (`item()`) in each of many steps."""

    what: ClassVar[str] = "read"
    file: File
    call: Name
    on_gpu: bool


@dataclass(frozen=True, slots=True)
class UnreducedGradient(Marked):
    """A parameter of a DDP model has a gradient that DDP does not reduce: `count` are such, and `name` is the first.

    `was_frozen` if it needed no gradient when DDP wrapped the model; else it was added later.
    """

    what: ClassVar[str] = "unreduced"
    name: Name
    count: Count
    was_frozen: bool


@dataclass(frozen=True, slots=True)
class OptimizerSettings(Marked):
    """With what the optimizer of a DDP model makes its `step`-th step since then: hyperparameters, as text.

    In the first one, `state` says of how many parameters it holds a state, and `made` how many steps that has seen.
    """

    what: ClassVar[str] = "optimizer"
    step: Count
    settings: Name
    state: Count | None = None
    made: Count | None = None


@dataclass(frozen=True, slots=True)
class WeightSample(Marked):
    """A checksum of some bytes of the parameters of DDP models, after the `step`-th step of their optimizers."""

    what: ClassVar[str] = "weights"
    step: Count
    checksum: Name


@dataclass(frozen=True, slots=True)
class ReplicaSample(Marked):
    """A checksum of the parameters that an `optimizer` is about to update, before its `step`-th step.

    Optimizers count from 1 in the order of their first steps. All gradients of these parameters were brought together
    by the script itself, with `op` in the `line` of `file`; or, if `op` is empty, a DDP model was to do so whose group
    is this rank alone. `calls` is a checksum of the reductions since the last step that these gradients were in, and
    `updated` one of their places among the optimizer's parameters.
    """

    what: ClassVar[str] = "weights_before"
    optimizer: Count
    step: Count
    checksum: Name
    file: File
    op: Name
    calls: Name = ""
    updated: Name = ""


@dataclass(frozen=True, slots=True)
class PartSample(Marked):
    """A checksum of `count` parameters that an `optimizer` is about to update, before its `step`-th step.

    Their gradients were brought together by `members` only, which are not all ranks: with `op` in the line `reduced_at`
    of the file `reduced_in`, or by DDP if `op` is empty. If `members` is empty, too, nobody did. Optimizers count from
    1 in the order of their first steps. `has_exchanged` if tensors have gone to other ranks since the first step that
    were no gradients.
    """

    what: ClassVar[str] = "part"
    optimizer: Count
    step: Count
    checksum: Name
    count: Count
    members: Ranks
    has_exchanged: bool
    op: Name
    reduced_in: File
    reduced_at: Line


@dataclass(frozen=True, slots=True)
class CalledInHandler(Marked):
    """The rank makes its `number`-th call while it handles an exception, as in an `except` or a `finally`.

    The exception was raised in the `line` of `file`.
    """

    what: ClassVar[str] = "handler"
    number: Count
    file: File
    error: Name
    message: str  # its first line; only of Python's own exceptions


@dataclass(frozen=True, slots=True)
class CalledByThread(Marked):
    """Another thread than the main one has called an operation in this `line` of `file` for the first time."""

    what: ClassVar[str] = "thread"
    file: File
    op: Name


@dataclass(frozen=True, slots=True)
class GroupsDestroyed(Marked):
    """The rank has left all process groups, with destroy_process_group in this `line` of `file`."""

    what: ClassVar[str] = "destroyed"
    file: File


@dataclass(frozen=True, slots=True)
class NeverAwaited(Marked):
    """Of `calls` operations that the `line` of `file` began with async_op=True, nobody has waited for `count`."""

    what: ClassVar[str] = "unawaited"
    file: File
    op: Name
    count: Count
    calls: Count


@dataclass(frozen=True, slots=True)
class ChangedBeforeWait(Marked):
    """The script changed a tensor between a call with async_op=True in the `line` of `file`, and its wait.

    `waited_in` and `waited_at` are the file and line of that wait.
    """

    what: ClassVar[str] = "changed_early"
    file: File
    op: Name
    waited_in: File
    waited_at: Line


@dataclass(frozen=True, slots=True)
class GatheredGradient(Marked):
    """The `line` of `file` gathers a tensor that needs a gradient, and what it returns has none."""

    what: ClassVar[str] = "gathered"
    file: File
    op: Name


@dataclass(frozen=True, slots=True)
class SearchedUnused(Marked):
    """DDP looked for parameters without a gradient in `passes` backward passes, and found some in `found` of them."""

    what: ClassVar[str] = "searched"
    passes: Count
    found: Count


@dataclass(frozen=True, slots=True)
class ThreadCount(Marked):
    """A rank ends that computed with `threads` threads beside the other `ranks` of its machine of `cores` cores."""

    what: ClassVar[str] = "threads"
    threads: Count
    ranks: Count
    cores: Count


@dataclass(frozen=True, slots=True)
class MemoryPeak(Marked):
    """The most bytes that the process of a rank, and its tensors on GPUs, have held until its end."""

    what: ClassVar[str] = "memory"
    process: Count
    gpu: Count


@dataclass(frozen=True, slots=True)
class CoresMissed(Marked):
    """For how many seconds the threads of a rank, added up, could have run until its end while no core was free."""

    what: ClassVar[str] = "cores"
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class ScriptFinished(Marked):
    """The script has reached its end and did not fail."""

    what: ClassVar[str] = "finished"


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
    """A rank waits for the others to form a process group, until `done`; `line` is 0 outside the script.

    `size` is how many ranks it asks for (0 if that is unknown), `asked_rank` which of them it is to be, and `address`
    where it looks for the others.
    """

    event: ClassVar[str] = "joining"
    done: bool
    line: Line
    size: Count = 0
    asked_rank: Peer | None = None
    address: Name = ""


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
class StoreWaiting(RankEvent):
    """The main thread of a rank waits in a call of a store (`store.get`) until its keys are set, or is `done`.

    `failed` if it gave up, as it does after the timeout of the call.
    """

    event: ClassVar[str] = "store"
    done: bool
    op: Name
    keys: Annotated[tuple[Name, ...], Range(0, 1_000)]
    file: File
    line: Line
    failed: bool = False


@dataclass(frozen=True, slots=True)
class ObjectsSent(RankEvent):
    """The main thread of a rank enters a call that sends Python objects, such as `all_gather_object`, or has left it.

    Its collectives are events of their own; the rest of the time it pickles and copies.
    """

    event: ClassVar[str] = "objects"
    done: bool
    op: Name
    file: File
    line: Line


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
    """Something about a rank that the learner should know, in one sentence.

    `of_standstill` is True if it says that nothing moves: then it holds until something does, or the run ends.
    """

    event: ClassVar[str] = "note"
    text: str
    of_standstill: bool = False


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
class RankStack:
    """Where a rank stands when nothing moves: the operation it waits in, if any, and its line in the script."""

    rank: Rank
    waits_in: Name
    file: File
    line: Line
    stack: str


@dataclass(frozen=True, slots=True)
class Hung:
    """No rank made progress for `seconds`, and some ranks wait in a communication."""

    event: ClassVar[str] = "hang"
    time: Seconds
    seconds: Seconds
    ranks: Annotated[tuple[RankStack, ...], Range(0, MAX_RANKS)] = ()


@dataclass(frozen=True, slots=True)
class End:
    """The run is over and all its processes have ended.

    If it is not ok, `why` says why, `advice` what to do, and `concept` names what explains it, if anything does. If it
    is ok and has a `why`, these are the last events that are known of a job that may still run, and `why` says that.
    """

    event: ClassVar[str] = "end"
    time: Seconds
    ok: bool
    proven: Count
    claims: Count
    rank: Rank | None = None
    why: str = ""
    advice: str = ""
    concept: str = ""


Mark = (
    OptimizerStep | SyncPaused | SyncResumed | UnsyncedForward | ModelWrapped | ModelSharded | OrderRepeated
    | RandomDraw | GradientChecksum | TensorRead | UnreducedGradient | OptimizerSettings | WeightSample | ReplicaSample
    | PartSample | CalledInHandler | CalledByThread | GroupsDestroyed | NeverAwaited | ChangedBeforeWait
    | GatheredGradient | SearchedUnused | ThreadCount | MemoryPeak | CoresMissed | ScriptFinished
)  # fmt: skip
Event = (
    Began | Started | Recorded | Dropped | Alive | Output | Issued | Ended | Waiting | Waited | Result
    | Mark | ReplicaSums | Joining | Forming | StoreWaiting | ObjectsSent | Claimed | Raised | Note | Exited | Hung
    | End
)  # fmt: skip


def when(event: Event) -> float:
    """The time of an event; a run begins before anything else."""
    return 0.0 if isinstance(event, Began) else event.time


# Lines of JSON

_Check = Callable[[Any], Any]  # returns a value as the event has it; ValueError if it does not fit

_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, default=asdict)
_ANY = Range(0, 1 << 60)
_OLD_MARK = re.compile(r"(memory) (\d{1,16}) (\d{1,16})|(read) (cpu|gpu) (\S+) (.+):(\d{1,8})|(drew|gradients) (.+)")


def encode(event: Event) -> str:
    """One line of JSON that `decode` turns into `event` again, without the newline and without control characters."""
    kind = {"event": event.event} | ({"what": event.what} if isinstance(event, Marked) else {})
    data = kind | {name: getattr(event, name) for name in event.__match_args__}
    if isinstance(event, Issued):
        operation, before = data.pop("operation"), data.pop("before")
        data |= operation._asdict() | {"before": before}
        if not operation.parts:  # nearly always
            del data["parts"]
    return escape_controls(_ENCODER.encode(data))


def decode(line: str | bytes) -> Event:
    """The event that `line` holds; ValueError says what does not fit."""
    try:
        data: Any = json.loads(line)
    except json.JSONDecodeError as wrong:
        raise ValueError(f"not valid JSON (column {wrong.colno})") from None
    except (ValueError, RecursionError):  # bytes that are not text, a number of thousands of digits, deep nesting
        raise ValueError("not valid JSON") from None
    name = data.pop("event", None) if isinstance(data, dict) else None
    if name in ("run", "end", "mark"):
        _bring_up_to_date(name, data)
    events, marks = _forms()
    forms, name = (marks, data.pop("what", None)) if name == "mark" else (events, name)
    form = forms.get(name) if isinstance(name, str) else None
    if form is None:
        raise ValueError("not an event of a kind that ddpquiz knows")
    if name == "issued":
        before = {"before": data.pop("before")} if "before" in data else {}
        head = {key: data.pop(key) for key in ("time", "rank", "number") if key in data}
        data = head | {"operation": data} | before
    event: Event = form.read(data)
    _check_consistent(event)
    return event


def _bring_up_to_date(name: str, data: dict[str, Any]) -> None:
    """Turn what version 1 wrote into what this version writes; a mark was one text, such as `memory 279101440 0`."""
    match name, data:
        case "run", {"here": here} if here:
            raise ValueError("it is of a run on several machines, which ddpquiz no longer reads")
        case "run", {"version": 1}:
            data["version"] = VERSION
            data["highlighted"] = data.pop("look", [])
            data.pop("here", None)
        case "end", {"mend": advice}:
            del data["mend"]
            data["advice"] = advice
        case "mark", {"what": "shard_many"}:
            data |= {"what": ModelSharded.what, "several_layers": True}
        case "mark", {"what": str(text)} if old := _OLD_MARK.fullmatch(text):
            match [part for part in old.groups() if part is not None]:
                case ["memory" as what, process, gpu]:
                    data |= {"what": what, "process": int(process), "gpu": int(gpu)}
                case ["read" as what, device, call, file, line]:
                    data |= {"what": what, "file": file, "line": int(line), "call": call, "on_gpu": device == "gpu"}
                case [what, checksum]:
                    data |= {"what": what, "checksum": checksum}


def check_ranks(event: Event, began: Began) -> None:
    """Raise ValueError if an event names a rank that its run does not have."""
    if max(_ranks_in(event), default=0) >= began.ranks:
        raise ValueError(f"it names a rank that does not exist in a run of {began.ranks}")


def _ranks_in(event: Event) -> Iterable[int]:
    match event:
        case Issued():
            return event.operation.members  # which include the rank
        case Ended(source=int(source)):
            return event.rank, source
        case RankEvent():
            return (event.rank,)
        case Hung():
            return [position.rank for position in event.ranks]
        case End(rank=int(rank)):
            return (rank,)
    return ()


def _check_consistent(event: Event) -> None:
    """Raise ValueError if fields contradict each other in a way on which the analysis relies."""
    match event:
        case Issued() | Dropped():
            members = event.operation.members if isinstance(event, Issued) else event.members
            if event.rank not in members or len({*members}) < len(members):
                raise ValueError("`members` must name the rank that calls, and each rank once")
        case Waited() if event.since > event.time:
            raise ValueError("`since` must not be later than `time`")


class _Form(NamedTuple):
    """How the fields of a class are read from JSON."""

    make: Callable[..., Any]
    checks: dict[str, _Check]
    required: frozenset[str]

    @classmethod
    def of(cls, kind: type[Any]) -> _Form:
        hints = get_type_hints(kind, include_extras=True)
        fields = signature(kind).parameters
        required = frozenset(name for name, field in fields.items() if field.default is field.empty)
        return cls(kind, {name: _check_of(hints[name]) for name in fields}, required)

    def read(self, data: Any) -> Any:
        if not isinstance(data, dict):
            raise ValueError("must be an object")  # noqa: TRY004  # decode promises it
        checks, values, name = self.checks, {}, ""
        try:
            for name, value in data.items():
                values[name] = checks[name](value)
        except KeyError:
            raise ValueError("it has a field that events of this kind do not have") from None
        except ValueError as wrong:
            raise ValueError(str(wrong) if str(wrong)[0] == "`" else f"`{name}` {wrong}") from None
        if missing := self.required - values.keys():
            raise ValueError(f"`{min(missing)}` is missing")
        return self.make(**values)


def _check_of(hint: Any, limits: Range = _ANY, how: str = "") -> _Check:
    """What checks a value of an annotation."""
    if get_origin(hint) is Annotated:
        inner, limits, *rest = get_args(hint)
        return _check_of(inner, limits, *rest)
    arguments = get_args(hint)
    if type(None) in arguments:
        (inner,) = (argument for argument in arguments if argument is not type(None))
        check = _check_of(inner)
        return lambda value: None if value is None else check(value)
    if get_origin(hint) is tuple:
        return partial(_tuple, _check_of(arguments[0]), limits)
    if hint in (int, float):
        return partial(_number, (int, float) if hint is float else (int,), *limits)
    if hint is str:
        return partial(_text, limits.high, how)
    return _bool if hint is bool else _Form.of(hint).read


def _number(kinds: tuple[type, ...], low: float, high: float, value: Any) -> Any:
    if type(value) in kinds and low <= value <= high:  # a bool is not a number, nor is nan between two
        return value
    raise ValueError(f"must be a {'' if float in kinds else 'whole '}number from {low:,.0f} to {high:,.0f}")


def _text(most: float, how: str, value: Any) -> str:
    if type(value) is not str or len(value) > most:
        raise ValueError(f"must be a text of at most {most:,} characters" if most < _ANY.high else "must be a text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("holds half of a character") from None
    if how == "printable" and not value.isprintable():
        raise ValueError("holds a control character")
    if how == "path" and "\0" in value:
        raise ValueError("must be the path of a file")
    return value


def _bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise ValueError("must be true or false")


def _tuple(check: _Check, limits: Range, value: Any) -> tuple[Any, ...]:
    if type(value) is list and len(value) <= limits.high:
        return tuple(map(check, value))
    raise ValueError(f"must be a list of at most {limits.high:,}")


@cache  # not made while this module is loaded: a rank only writes events
def _forms() -> tuple[dict[str, _Form], dict[str, _Form]]:
    """The forms of all events by name, and those of all marks by what they say."""
    events = {kind.event: _Form.of(kind) for kind in get_args(Event) if not issubclass(kind, Marked)}
    return events, {kind.what: _Form.of(kind) for kind in get_args(Mark)}
