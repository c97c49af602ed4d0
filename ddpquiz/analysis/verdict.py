"""A verdict on a job, as data: what is wrong, who is at fault, where each rank stands, and what to look at next."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ddpquiz.analysis.formatting import format_place, format_ranks

FaultKind = Literal["missing", "order", "signature", "late", "dead", "left", "none"]


@dataclass(frozen=True, slots=True)
class Standpoint:
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

    `culprits` is empty only where `fault` is "none". `together` is what the ranks of the group had last done together,
    `next` what to look at now. `limits` are sentences on what could not be found out.
    """

    fault: FaultKind
    culprits: tuple[int, ...]
    sentence: str
    standpoints: tuple[Standpoint, ...] = ()
    group: str = ""
    members: tuple[int, ...] = ()
    index: int = 0
    together: str = ""
    next: str = ""
    limits: tuple[str, ...] = ()

    @property
    def whole(self) -> str:
        """The sentence, and what it leaves open."""
        return " ".join((self.sentence, *self.limits))

    def as_json(self) -> dict[str, Any]:
        return {"event": "verdict"} | asdict(self)


NEXT = {
    "missing": "Find the condition that decides whether a rank reaches that line, such as `if rank == 0`: all ranks of "
    "a group must make the same calls.",
    "order": "Make all ranks of the group call the same operations in the same order.",
    "signature": "Shapes, dtypes, root and reduce op must be equal on all ranks: print what differs before that line.",
    "late": "Find out what the rank does there: slow input, more work than the others, or a lock. While the job runs, "
    "`ddpquiz where PID` shows the stack of a rank of `ddpquiz run`, `py-spy dump --pid PID` that of any other.",
    "dead": "Look at the end of that rank's own log, and for out-of-memory kills in the kernel's log (`dmesg`).",
    "raised": "Read the whole traceback at the end of that rank's own log.",
    "left": "Find out why that rank makes fewer calls: a call under `if rank == 0`, fewer batches, an early return, or "
    "a swallowed exception.",
    "none": "If the job is slow, add --summary to see which lines cost most.",
}
UNEVEN = (
    "Ranks make different numbers of steps. If they have different numbers of batches, give every rank the same "
    "number, or put the loop inside `with model.join():`. If a rank skipped a step (`continue`, `break`, a caught "
    "exception), let all ranks decide that together: all-reduce the flag."
)
MORE_CALLS = (
    "Find out why some ranks make more calls: a call under `if rank == 0`, more batches, or an early return elsewhere."
)
MIXED = (
    "Calls pair by their order: if it left one out in an earlier step, the results since then mix different steps, "
    "and are wrong on all ranks."
)
MESSAGES = "Count the sends and receives between the two ranks: each needs its other half, also in the last step."
TAGS = "A receive takes only messages with its own tag: print both tags before these lines."
SIZES = "A receive must have the shape and dtype of its send: print both before these lines."


def advise_pairs(ops: Collection[str], *, in_background: bool = False, worked_before: bool = False) -> str:
    """Return what to do about ranks that wait for each other in sends and receives.

    If these lines worked before, their order is right, and a message is missing.
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
