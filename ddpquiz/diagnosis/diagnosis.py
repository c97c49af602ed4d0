"""What a diagnosis says, as data, and in which words.

event_, log_, stack_, ras_ and mismatch_diagnosis.py judge, and job_diagnosis.py puts together what is known of a job.
Each makes a `Diagnosis`; screens, pages and the end of a run show it. The advice and the ways to
write a call are here, so that the same fault reads the same wherever it was found.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ddpquiz.events.event import FORM, JOIN
from ddpquiz.events.formatting import format_place, format_ranks, format_seconds, format_shapes
from ddpquiz.events.operation import Operation

FaultKind = Literal[
    "missing", "order", "signature", "late", "dead", "left", "absent", "stopped", "unknown", "quiet", "silent", "none"
]  # fmt: skip
_TITLES: dict[FaultKind, str] = {
    "missing": "A call is missing",
    "order": "Calls in different order",
    "signature": "Mismatched calls",
    "late": "A rank is late",
    "dead": "A rank is dead",
    "left": "A rank left early",
    "absent": "A rank left no record",
    "stopped": "The job was stopped",
    "unknown": "The cause is not known",
    "quiet": "Nothing shows a fault",
    "silent": "The result is wrong",
    "none": "No fault found",
}

_CONCEPTS: dict[FaultKind, str] = {  # which concept explains a kind of fault, where nothing below explains it better
    "missing": "hangs-desync",
    "order": "hangs-desync",
    "signature": "hangs-desync",
    "late": "debug-tooling",
    "dead": "debug-tooling",
    "left": "uneven-inputs",
    "absent": "debug-tooling",
    "stopped": "cluster-operations",
    "unknown": "reading-watchdog-logs",
    "quiet": "debug-tooling",
    "silent": "ddp-pitfalls",
    "none": "scaling-efficiency",
}


@dataclass(frozen=True, slots=True)
class RankPosition:
    """Where some ranks are: in an operation, or what became of them, in words; `file` and `line` if they are known."""

    ranks: tuple[int, ...]
    doing: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f" at {format_place(self.file, self.line)}" if self.line else ""
        return f"{format_ranks(self.ranks)}: {self.doing}{place}"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong, in which operation of which group, and who is at fault.

    `culprits` is empty where `fault` is "none", or where the evidence names no rank. `together` is what the ranks of
    the group had last done together, `advice` what to look at now. `limits` are sentences on what could not be found
    out, and `evidence` the lines of logs and the stacks that the verdict rests on, each with its file and number.
    """

    fault: FaultKind
    culprits: tuple[int, ...]
    sentence: str
    positions: tuple[RankPosition, ...] = ()
    group: str = ""
    members: tuple[int, ...] = ()
    index: int = 0
    together: str = ""
    advice: str = ""
    limits: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The kind of fault, as a heading."""
        return _TITLES[self.fault]

    @property
    def whole(self) -> str:
        """The sentence, and what it leaves open."""
        return " ".join((self.sentence, *self.limits))

    @property
    def rank(self) -> int | None:
        """The rank whose output shows the fault; None if several ranks are at fault, unless each of them failed."""
        return next(iter(self.culprits), None) if len(self.culprits) == 1 or self.fault == "dead" else None

    @property
    def concept(self) -> str:
        """The name of the concept that explains what happened."""
        special = (concept for text, concept in _OF_ADVICE.items() if text in self.advice)
        calls = {operation for each in self.positions for operation in _OF_CALLS if operation in each.doing.split()}
        of_call = _OF_CALLS[min(calls)] if self.fault not in ("none", "quiet") and calls else _CONCEPTS[self.fault]
        return next(special, of_call)

    def as_json(self) -> dict[str, Any]:
        return {"event": "verdict"} | asdict(self) | {"concept": self.concept}


ADVICE = {
    "missing": "Find the condition that decides whether a rank reaches that line, such as `if rank == 0`: either all "
    "ranks of a group make a call, or none does.",
    "order": "Make all ranks of the group call the same operations in the same order.",
    "signature": "Shapes, dtypes, root and reduce op must be equal on all ranks: print them on each rank, just before "
    "that line.",
    "late": "Find out what the rank does there: slow input, more work than the others, or a wait for a lock, a queue, "
    "a thread or another program.",
    "dead": "Look at the end of that rank's own log, and for out-of-memory kills in the kernel's log (`dmesg`).",
    "raised": "Read the whole traceback in the output of that rank.",
    "left": "Find out why that rank makes fewer calls: a call under `if rank == 0`, fewer batches, an early return, or "
    "a swallowed exception.",
    "absent": "Look for the end of that rank in the job's log: an exit code, a signal, a traceback. If it still runs, "
    "`ddpquiz where` on its machine shows where it is. If its file lies elsewhere, put it beside the others.",
    "none": "If the job is slow, add --summary to see which lines cost most.",
}
ONE_ORDER = (
    "All ranks that are in the same groups must call in these groups in one order: choose an order of these lines, and "
    "let all ranks keep it."
)
SMALLER = "Use a smaller model or batch"
OTHER_TENSORS = (
    "The ranks come to that line with different tensors. Print their names and shapes there on each rank, and find out "
    "what leaves one out or changes their order, such as a condition, or a loop over a set or over files: all ranks "
    "must bring the same tensors in the same order."
)
OTHER_LAYERS = (
    "The script's line does not make that call itself. What it calls does, as a sharded or parallel model (FSDP, "
    "tensor parallelism) does for each layer. Find out what lets a rank skip a layer or run another one, such as a "
    "random draw of its own or a condition on its data: all ranks must run the same layers in one order."
)
OBJECTS = (
    "That line sends objects as pickles, first their sizes and then their bytes. A list must be equally "
    "long on every rank, and every rank must call the line equally often: print the lengths before it."
)
BUFFERS = (
    "That line broadcasts without saying so, as the forward of a DDP model with buffers (those of BatchNorm) does: on "
    "one rank, call `model.module` instead, or let all ranks come there."
)
SET_ORDER = (
    "{loop} goes through a set, and the order of a set depends on the hash secret of each interpreter: go through "
    "sorted(...) instead, which has the same order on all ranks."
)
UNEVEN = (
    "Ranks make different numbers of steps. If they have different numbers of batches, give every rank the same "
    "number, or put the loop inside `with model.join():`. If a rank skipped a step (`continue`, `break`, a caught "
    "exception), let all ranks decide that together: all-reduce the flag."
)
JOINED = (
    "Leave that call out within Join, or make it after the `with`. If it is needed there, put it into a Joinable class "
    "of your own, whose hook makes it for ranks that have no inputs left, and give an object of that class to Join too."
)
THREAD_ENDED = (
    "Find out whether the rank waits there for what that thread was to do. Catch exceptions in the thread and hand "
    "them to the main thread, so that they end the rank."
)
SAME_MESH = (
    "All ranks must give the device mesh the same shape, dimensions and ranks: take its shape from values that are "
    "equal on all ranks, and not from what one machine has."
)
RESUME = (
    "The ranks were restarted: print the step at which each of them begins. If these differ, let all ranks agree on "
    "one before the loop, such as the smallest of their saved steps (all_reduce with MIN), and load that step."
)
CUT_SHORT = (
    "Something ended that process in the middle of its script, with status 0: look for os._exit() in a thread or in "
    "the handler of a signal, in the script and in what it imports, and at the last lines that the rank printed."
)
MORE_CALLS = (
    "Find out why some ranks make more calls: a call under `if rank == 0`, more batches, or an early return elsewhere."
)
MIXED = (
    "Calls pair by their order: if it left one out in an earlier step, the results since then mix different steps, "
    "and are wrong on all ranks."
)
MESSAGES = "Count the sends and receives between the two ranks: each needs its other half, also in the last step."
COUNTED = (
    "Compare how often each rank comes to these lines: a message needs its send and its receive, also in the last step."
)
NEIGHBOR = (
    "The first rank has no rank before it, and the last one has none after it. Skip the call there, or count in a "
    "circle: `(rank + 1) % world_size`."
)
TAGS = "A receive takes only messages with its own tag: print both tags before these lines."
PARTS = (
    "What a rank sends to another (input_split_sizes) must be what that one expects from it (output_split_sizes): "
    "exchange the counts after the last change to them, and print both before that line."
)
SIZES = "A receive must have the shape and dtype of its send: print both before these lines."

_OF_ADVICE = {
    RESUME: "elastic-restart",
    UNEVEN: "uneven-inputs",
    JOINED: "uneven-inputs",
    MESSAGES: "point-to-point",
    COUNTED: "point-to-point",
    NEIGHBOR: "point-to-point",
    TAGS: "point-to-point",
    SIZES: "point-to-point",
    SMALLER: "training-memory",
    SAME_MESH: "devicemesh-dtensor",
    # Parts of the advice on known errors
    "find_unused_parameters": "ddp-pitfalls",
    "use_reentrant": "activation-checkpointing",
    "DDP needs the same model": "ddp-mechanics",
    "get_global_rank": "devicemesh-dtensor",
    "init_process_group() before": "process-group-init",
    "destroy_process_group() in between": "process-group-init",
    "ss -ltnp": "process-group-init",
    "Choose the device": "backends",
    "LOCAL_RANK": "process-model",
    "NCCL_DEBUG": "nccl-operations",
    "docker: --shm-size": "data-loading",
    "fewer workers": "data-loading",
    "num_workers=0": "data-loading",
    "who sent it": "elastic-restart",
    "often the kernel": "elastic-restart",
}
_OF_CALLS = {JOIN: "process-group-init", FORM: "process-group-init", "recv": "point-to-point", "send": "point-to-point"}


def advise_pairs(ops: Collection[str], *, in_background: bool = False, worked_before: bool = False) -> str:
    """What to do about ranks that wait for each other in sends and receives.

    If one of these lines worked before, the other side no longer makes its half, and a message is missing.
    """
    if worked_before:
        return MESSAGES
    if in_background:
        return "No send meets a receive: check the rank and the tag that each names, and that none of them is left out."
    if {*ops} == {"recv"}:
        return "All of them wait for a message, and none sends: let one side send first, or send with isend."
    if {*ops} == {"send"}:
        return "All of them send, and none receives: let one side receive first, or send with isend."
    return "Every send needs a receive that runs at the same time: let one side receive first, or send with isend."


LONGER = (
    "If it needs that long, give the group a longer timeout: `timeout=` of init_process_group or new_group, as "
    "`timedelta(minutes=30)`."
)
LONGER_BARRIER = (
    "If it needs that long, give that call a longer timeout: `timeout=` of monitored_barrier, as "
    "`timedelta(minutes=30)`."
)


def until_timeout(seconds: float, whose: str = "") -> str:
    """What follows "ranks 1-3 waited ..." where they gave up after some seconds; nothing if they did not."""
    return f" until the {whose}timeout of {format_seconds(seconds)} had passed" if seconds else ""


# How the call of an operation is written in sentences.

_PEER = {"send": " to rank {}", "recv": " from rank {}"}


def call_at(operation: Operation) -> str:
    """Write an operation and its line: `all_reduce at train.py:12`."""
    return f"{operation.op} at {format_place(operation.file, operation.line)}" if operation.line else operation.op


def request(operation: Operation) -> str:
    """Write what a call asks for: `broadcast of 4 float32 with root 0`."""
    size = f" of {format_shapes(operation.shapes)} {operation.dtype}" if operation.shapes else ""
    root = "" if operation.peer is None else _PEER.get(operation.op, " with root {}").format(operation.peer)
    return f"{operation.op}{size}{root}"


def request_at(operation: Operation) -> str:
    """Write what a call asks for, and its line."""
    place = f" at {format_place(operation.file, operation.line)}" if operation.line else ""
    reduce = f" ({operation.reduce})" if operation.reduce else ""
    return f"{request(operation)}{reduce}{place}"


def tell_apart(one: Operation, other: Operation) -> tuple[str, str]:
    """Write two calls that differ, each with as much as tells them apart: the place, else what each asks for."""
    first, second = call_at(one), call_at(other)
    if first == second and one.group != other.group:
        return f"{first} for group {one.group}", f"{second} for group {other.group}"
    if first == second:
        first, second = request_at(one), request_at(other)
    if first == second and one.bucket != other.bucket:
        return f"{first} {_bucket(one)}", f"{second} {_bucket(other)}"
    return first, second


def _bucket(operation: Operation) -> str:
    return "outside DDP" if operation.bucket is None else f"for bucket {operation.bucket} of DDP"


def position_of(ranks: tuple[int, ...], operation: Operation) -> RankPosition:
    """The position of ranks that are in an operation."""
    return RankPosition(ranks, request(operation), operation.file, operation.line)


def wait(ranks: tuple[int, ...]) -> str:
    """Write `ranks 0 and 1 wait`."""
    return f"{format_ranks(ranks)} wait{'s' * (len(ranks) == 1)}"
