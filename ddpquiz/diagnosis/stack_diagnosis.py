"""What the stacks of ranks say of a job that runs: who is in which call of torch.distributed, and who is not.

A stack shows one moment. It holds no number of a collective, no shape and no group; a verdict says what that leaves
open, and where two looks found a rank in different places, that the job moves.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import PurePath
from typing import Literal, NamedTuple

from ddpquiz.diagnosis.diagnosis import ADVICE, Diagnosis, RankPosition
from ddpquiz.diagnosis.script_analysis import calls_elsewhere, stands_alone
from ddpquiz.events.formatting import format_place, format_ranks, format_seconds
from ddpquiz.events.operation import POINT_TO_POINT, Operation
from ddpquiz.events.source_text import Frame, is_library, source_line
from ddpquiz.jobs.stacks import JobStacks, SeenStack

_MOST_LINES = 6  # of evidence
_CALLS = {
    "all_reduce", "all_reduce_coalesced", "broadcast", "reduce", "all_gather", "all_gather_into_tensor",
    "all_gather_coalesced", "all_gather_single", "gather", "scatter", "reduce_scatter", "reduce_scatter_tensor",
    "reduce_scatter_single", "all_to_all", "all_to_all_single", "barrier", "monitored_barrier", "send", "recv",
    "batch_isend_irecv", "send_object_list", "recv_object_list", "broadcast_object_list", "all_gather_object",
    "gather_object", "scatter_object_list", "init_process_group", "new_group", "split_group", "new_subgroups",
    "wait_tensor",
}  # fmt: skip
_PAIRED = {"send", "recv", "batch_isend_irecv", "send_object_list", "recv_object_list"}
_CALLED_IN = ("torch/distributed/distributed_c10d.py", "torch/distributed/_functional_collectives.py")
_OF_DDP = {  # functions of torch that communicate for DDP
    "_verify_param_shape_across_processes": "the constructor of DDP",
    "_sync_module_states": "the constructor of DDP",
    "_sync_module_buffers": "DDP's broadcast of buffers",
}
_KNOWN = {*_CALLS, *_OF_DDP.values()}
_WAITS = re.compile(r"\.wait\(|\bstore\.get\(")  # in C++, so that no further frame shows it
_READS = re.compile(r"\.(?:item|cpu|tolist|numpy|synchronize)\(")  # on a GPU, these wait for what it does
_OURS = re.compile(r"(?:^|/)ddpquiz/(?:ranks/|record\.py$)")
_TORCH_WAITS = re.compile(r"(?:^|/)torch/(?:distributed|nn/parallel)/")  # files in which `.wait(` is for other ranks
_UNCLEAR = {  # functions of torch in which a rank may wait for others, or for its GPU
    ("torch/autograd/graph.py", "_engine_run_backward"): "backward",
    ("torch/cuda/__init__.py", "synchronize"): "torch.cuda.synchronize",
    ("torch/cuda/streams.py", "synchronize"): "torch.cuda.synchronize",
}
_MOMENT = (
    "One look shows one moment, and a job that works can look the same. Look again some seconds later, and name the "
    "files of both looks."
)
_NO_GROUPS = "Stacks show no groups: ranks of different groups may be in different operations without a fault."
_ON_GPU = (
    "On GPUs operations run in the background: a line shows where the CPU waits, and the operation that hangs may have "
    "been called earlier."
)
_MAY_MEET = (
    "If the script lets ranks meet from these lines, as from two branches of an `if`, then the lines are no fault."
)
_NUMBERED = "The files do not name ranks; they are numbered in the order in which they were read."
_MORE = (
    "TORCH_FR_BUFFER_SIZE=2000 in the next run makes dumps that show shapes and the number of each operation; put them "
    "beside the stacks."
)


_Lines = tuple[tuple[str, int], ...]  # each a file and a number


class _Standing(NamedTuple):
    """What a rank does. `kind` says whether it waits: in a call, in something that may wait, or not at all.

    `inside` is the innermost function, if that is one of a library. `callers` are the lines of the user's files from
    which the rank came to its line, the nearest first.
    """

    kind: Literal["call", "leaves", "unclear", "elsewhere"]
    doing: str
    file: str
    line: int
    inside: str = ""
    callers: _Lines = ()

    @property
    def words(self) -> str:
        inside = f", inside {self.inside}," if self.inside else ""
        return f"in {self.doing}{inside} at {format_place(self.file, self.line)}{self.came_from}" if self.line else (
            f"in {self.doing}")  # fmt: skip

    @property
    def came_from(self) -> str:
        """Where the line was called, as the end of a sentence."""
        return f" (called at {', from '.join(format_place(*each) for each in self.callers)})" if self.callers else ""

    @property
    def of_few(self) -> bool:
        """Whether a rank may wait there for one other rank, so that no number of ranks tells who is right."""
        return self.kind == "call" and (self.doing in _PAIRED or self.doing not in _KNOWN)

    @property
    def position_words(self) -> str:
        """The same as what a rank does in a list that has its line beside it."""
        inside = f", inside {self.inside}" if self.inside else ""
        return f"{'' if self.kind == 'call' else 'in '}{self.doing}{inside}{self.came_from}"


_Sides = Mapping[_Standing, tuple[int, ...]]  # ranks that do the same


def diagnose_stacks(stacks: JobStacks) -> Diagnosis:
    """Which rank does not stand where the others wait, as far as stacks show it."""
    standing = _standings(sorted(stacks.of), stacks)
    sides: dict[_Standing, tuple[int, ...]] = {}
    for rank, each in standing.items():
        sides[each] = (*sides.get(each, ()), rank)
    waiting = {each: ranks for each, ranks in sides.items() if each.kind in ("call", "unclear")}
    others = {each: ranks for each, ranks in sides.items() if each.kind in ("elsewhere", "leaves")}
    moved = [rank for rank, seen in stacks.of.items() if seen.moved]
    if any(standing[rank] in waiting for rank in moved if rank in standing):
        found = Diagnosis("quiet", (), _moves(moved, stacks.apart), advice=_SLOW)
    elif not any(each.kind == "call" for each in waiting) and not (waiting and others and _is_still(stacks)):
        found = _of_no_call(sides)
    elif others:
        found = _of_absent_ranks(waiting, others)
    elif len(waiting) > 1:
        found = _of_different_calls(waiting, stacks.ranks)
    else:
        found = _of_one_call(waiting, stacks)
    return _complete(found, sides, stacks)


def add_stacks(found: Diagnosis, stacks: JobStacks) -> Diagnosis:
    """A verdict on logs, dumps or a record, together with where the ranks stand now."""
    said = diagnose_stacks(stacks)
    if found.fault in ("quiet", "unknown", "none", "stopped"):
        if said.fault == "quiet":
            return replace(found, positions=found.positions or said.positions, limits=(*found.limits, said.sentence))
        return replace(said, evidence=(*said.evidence, *found.evidence), limits=(*said.limits, found.sentence))
    shown = _standings(found.culprits, stacks)
    if not shown:
        return found
    theirs = " ".join(f"The stack of rank {rank} is {each.words}." for rank, each in shown.items())
    return replace(
        found, sentence=f"{found.sentence} {theirs}",
        evidence=(*_evidence(shown, stacks), *found.evidence)[:_MOST_LINES],
    )  # fmt: skip


_SLOW = "If it is slow, `ddpquiz.record` shows which line makes ranks wait."


def _is_still(stacks: JobStacks) -> bool:
    return all(seen.moved is False for seen in stacks.of.values())


def _moves(moved: Sequence[int], apart: float) -> str:
    when = f", {format_seconds(apart)} apart" if apart else ""
    return f"The job moves: {format_ranks(moved)} stood in different places in two looks{when}."


def _of_no_call(sides: _Sides) -> Diagnosis:
    if not sides:
        return Diagnosis("quiet", (), "No rank has a stack.", advice=_NO_STACK)
    return Diagnosis("quiet", (), f"No rank is in a call of torch.distributed: {_list(sides)}.", advice=_LOOK_AGAIN)


_NO_STACK = "Why is said for each rank: mend that and look again, or look at the logs of the job."
_LOOK_AGAIN = "If the job does not go on, look again in a minute: ranks that still stand there are busy or in a lock."


def _of_absent_ranks(waiting: _Sides, others: _Sides) -> Diagnosis:
    """Some ranks are in a call, and others do something else."""
    culprits = _all(others)
    alone = _alone(waiting, others, culprits)
    if alone:
        sentence = f"Only {format_ranks(alone[1])} {_be(alone[1])} {alone[0].words}; {_list(others)}."
        return Diagnosis("missing", alone[1], sentence, advice=ADVICE["missing"])
    has_left = all(each.kind == "leaves" for each in others)
    they = "it is" if len(culprits) == 1 else "they are"
    where = f"{they} {next(iter(others)).words}" if len(others) == 1 else _list(others)
    sentence = f"{_capital(_list(waiting))}. {format_ranks(culprits).capitalize()} {_be(culprits)} not there: {where}."
    fault: Literal["left", "late"] = "left" if has_left else "late"
    return Diagnosis(fault, culprits, sentence, advice=ADVICE[fault])


def _of_different_calls(sides: _Sides, ranks: int) -> Diagnosis:
    """All ranks are in calls, and these differ."""
    usual = max(sides, key=lambda each: len(sides[each]))
    rest = {each: of_side for each, of_side in sides.items() if each != usual}
    alone = _alone(rest, {usual: sides[usual]}, range(ranks))
    if alone:
        sentence = f"Only {format_ranks(alone[1])} {_be(alone[1])} {alone[0].words}; {_list({usual: sides[usual]})}."
        return Diagnosis("missing", alone[1], sentence, advice=ADVICE["missing"])
    if len({each.doing for each in sides}) == 1:
        return Diagnosis(
            "order", (), f"All ranks are in {usual.doing}, but came there from different lines: {_list(sides)}.",
            advice=f"{ADVICE['order']} {_MORE}", limits=(_MAY_MEET, _NO_GROUPS),
        )  # fmt: skip
    sentence = f"The ranks are in different operations: {_list(sides)}."
    fewer = _all(rest)
    may_be_pairs = any(each.of_few for each in sides)
    is_clear = 2 * len(fewer) < len(fewer) + len(sides[usual]) and not may_be_pairs
    limit = f"Which side is wrong, stacks do not show; {format_ranks(fewer)} {_be(fewer)} fewer." if is_clear else (
        "Which side is wrong, stacks do not show.")  # fmt: skip
    if may_be_pairs:
        limit += " A rank that waits for a message, or in a wait(), may wait for any other rank."
    return Diagnosis(
        "order", fewer if is_clear else (), sentence, advice=f"{ADVICE['order']} {_MORE}", limits=(limit, _NO_GROUPS)
    )


def _of_one_call(waiting: _Sides, stacks: JobStacks) -> Diagnosis:
    """All ranks whose stacks are known are in one call."""
    (call, ranks), *_ = waiting.items()
    unknown = tuple(rank for rank in range(stacks.ranks) if rank not in ranks)
    if unknown and _is_still(stacks):
        sentence = f"{_capital(_list(waiting))}, and nothing is known of {format_ranks(unknown)}."
        return Diagnosis("absent", unknown, sentence, advice=_NODES)
    who = "All ranks" if not unknown and len(ranks) > 1 else format_ranks(ranks).capitalize()
    sentence = f"{who} {_be(ranks)} {call.words}: as far as the stacks show, no rank is missing there."
    return Diagnosis("quiet", (), sentence, advice=f"If they stay there, look for what differs between them. {_MORE}")


_NODES = (
    "Their machines were not asked: run `ddpquiz where --json > node1.json` on each of them, and `ddpquiz diagnose` on "
    "all these files. If their processes are gone, the end of the job's log says how they ended."
)


def _alone(sides: _Sides, others: _Sides, members: Iterable[int]) -> tuple[_Standing, tuple[int, ...]] | None:
    """The ranks in a call that the script leaves to them alone, as `if rank == 0` does."""
    every = tuple(sorted({*_all(sides), *_all(others), *members}))
    usual = max(others, key=lambda each: len(others[each]))
    for each, ranks in sides.items():
        if each.file and each.file == usual.file and each.kind == "call":
            odd, expected = (Operation(at.doing, every, None, (), "", 0, at.file, at.line) for at in (each, usual))
            if each.doing not in POINT_TO_POINT and stands_alone(odd, expected, ranks) and not calls_elsewhere(odd):
                return each, ranks
    return None


def _complete(found: Diagnosis, sides: _Sides, stacks: JobStacks) -> Diagnosis:
    """The verdict with where the ranks stand, the lines that show it, and what stays open."""
    limits = [*found.limits]
    is_still = _is_still(stacks)
    if is_still and found.fault != "quiet":
        when = f"for {format_seconds(stacks.apart)}" if stacks.apart else "in each look"
        limits.append(f"All stood in the same place {when}; a long step does so, too.")
    elif moved := [rank for rank in found.culprits if rank in stacks.of and stacks.of[rank].moved]:
        limits.append(f"{format_ranks(moved).capitalize()} moved between two looks: that may be slow, and not stuck.")
    elif sides and not is_still and all(seen.moved is None for seen in stacks.of.values()):
        limits.append(_MOMENT)
    if found.fault != "quiet" and any(seen.on_gpu for seen in stacks.of.values()):
        limits.append(_ON_GPU)
    without = [rank for rank, seen in stacks.of.items() if not seen.frames]
    unknown = [rank for rank in range(stacks.ranks) if rank not in stacks.of]
    if unknown and found.fault != "absent":
        limits.append(f"Nothing is known of {format_ranks(unknown)}. {_NODES}")
    limits += [f"Rank {rank} has no stack: {stacks.of[rank].why or 'it runs no line of Python'}." for rank in without]
    if stacks.is_numbered:
        limits.append(_NUMBERED)
    positions = tuple(RankPosition(ranks, each.position_words, each.file, each.line) for each, ranks in sides.items())
    first = (*found.culprits, *(ranks[0] for ranks in sides.values()))
    evidence = _evidence(_standings(first, stacks), stacks)
    return replace(found, positions=positions, limits=tuple(limits), evidence=evidence)


def _standings(ranks: Iterable[int], stacks: JobStacks) -> dict[int, _Standing]:
    """What ranks do, as far as they have a stack."""
    found = {rank: _standing(seen) for rank, seen in stacks.of.items() if seen.frames}
    ways: dict[_Standing, set[_Lines]] = {}
    for each in found.values():
        ways.setdefault(each._replace(callers=()), set()).add(each.callers)
    shown = {each: each._replace(callers=_telling(each, ways[each._replace(callers=())])) for each in {*found.values()}}
    return {rank: shown[found[rank]] for rank in ranks if rank in found}


def _telling(each: _Standing, ways: Collection[_Lines]) -> _Lines:
    """The callers that a reader needs: up to the script that was started, and up to where ranks came another way."""
    script = each.callers[-1][0] if each.callers else each.file
    files = [each.file, *(file for file, _ in each.callers)]
    apart = (_shared(each.callers, way) + 1 for way in ways if way != each.callers)
    return each.callers[: max([files.index(script), *apart])]


def _shared(one: _Lines, other: _Lines) -> int:
    """How many lines at the beginning of two ways are equal."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _evidence(standing: Mapping[int, _Standing], stacks: JobStacks) -> tuple[str, ...]:
    lines = [f"{stacks.of[rank].at}: rank {rank} {each.words}" for rank, each in standing.items()]
    return tuple(lines[:_MOST_LINES])


# Words


def _all(sides: _Sides) -> tuple[int, ...]:
    return tuple(sorted(rank for ranks in sides.values() for rank in ranks))


def _be(ranks: Collection[int]) -> str:
    return "is" if len(ranks) == 1 else "are"


def _list(sides: _Sides) -> str:
    parts = [f"{format_ranks(ranks)} {_be(ranks)} {each.words}" for each, ranks in sides.items()]
    return " and ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# A stack as what a rank does.


def _standing(seen: SeenStack) -> _Standing:
    frames = tuple(frame for frame in seen.frames if not _OURS.search(frame.file)) or seen.frames
    own = next((number for number, frame in enumerate(frames) if not is_library(frame.file)), None)
    place = frames[own] if own is not None else Frame("", 0, "")
    if call := _call_in(frames):
        return call
    for (file, name), doing in _UNCLEAR.items():
        if any(frame.file.endswith(file) and frame.name == name for frame in frames):
            return _Standing("unclear", doing, place.file, place.line, callers=_callers(frames, own))
    if own == 0 and (code := source_line(place.file, place.line)):
        if _WAITS.search(code):
            return _Standing("call", f"`{code.strip()}`", place.file, place.line, callers=_callers(frames, own))
        if _READS.search(code) and seen.on_gpu is not False:
            return _Standing("unclear", f"`{code.strip()}`", place.file, place.line, callers=_callers(frames, own))
    if own and _TORCH_WAITS.search(frames[0].file) and _WAITS.search(source_line(frames[0].file, frames[0].line)):
        doing = frames[0].name.rpartition(".")[2]
        return _Standing("call", doing, place.file, place.line, callers=_callers(frames, own))
    if own is None:
        innermost = frames[0]
        return _Standing("elsewhere", innermost.name, innermost.file, innermost.line)
    name = "the script" if place.name == "<module>" else place.name
    inside = "" if own == 0 else f"{frames[0].name} of {PurePath(frames[0].file).name}"
    return _Standing("elsewhere", name, place.file, place.line, inside, _callers(frames, own))


def _call_in(frames: Sequence[Frame]) -> _Standing | None:
    """The call of torch.distributed in which a rank is, the outermost: all_gather_object calls all_gather."""
    for number, frame in reversed([*enumerate(frames)]):
        name = frame.name.rpartition(".")[2]
        if frame.file.endswith(_CALLED_IN) and name in _CALLS:
            return _called("call", name, frames, number)
        if frame.file.endswith(_CALLED_IN) and name == "destroy_process_group":
            return _called("leaves", name, frames, number)
        if name in _OF_DDP and "torch/" in frame.file:
            return _called("call", _OF_DDP[name], frames, number)
    return None


def _called(kind: Literal["call", "leaves"], doing: str, frames: Sequence[Frame], number: int) -> _Standing:
    """A call of torch, at the line of the user's code from which it was made."""
    outside = range(number + 1, len(frames))
    at = next((each for each in outside if not is_library(frames[each].file)), min(number + 1, len(frames) - 1))
    return _Standing(kind, doing, frames[at].file, frames[at].line, callers=_callers(frames, at))


def _callers(frames: Sequence[Frame], at: int | None) -> _Lines:
    """The lines of the user's code from which the one of a frame was called, the nearest first."""
    outside = frames[at + 1 :] if at is not None else ()
    return tuple((frame.file, frame.line) for frame in outside if not is_library(frame.file))
