"""What common exceptions of a distributed script mean, and what to do about them."""

import re
import signal
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ddpquiz.diagnosis.verdict import advise_pairs
from ddpquiz.errors import FAULT
from ddpquiz.events.event import POINT_TO_POINT, UNUSED, Exited, Hung, Issued, Raised, RankPosition
from ddpquiz.events.formatting import code_at, format_bytes, format_place, format_ranks, frames_in, own_frame
from ddpquiz.events.mismatch import Mismatch
from ddpquiz.events.run_state import RunState
from ddpquiz.plural import plural

# What common exceptions of a distributed script mean, and what to do about them.

OUT_OF_MEMORY = "The {ranks} ranks share this machine's memory. Use a smaller model or batch, or fewer ranks (--nproc)."
# How an exception begins (its type, its message, then the line of code that raised it): what it means, and what to do.
# {rank} raised it at {where}.
_MEANINGS = {
    r"ValueError: Default process group has not been initialized": (
        "Rank {rank} uses torch.distributed at {where}, but no process group exists there.",
        "Call dist.init_process_group() before that line, and dist.destroy_process_group() only at the end.",
    ),
    r"ValueError: trying to initialize the default process group twice": (
        "Rank {rank} calls init_process_group at {where}, but a process group exists already.",
        "Call it once, or call dist.destroy_process_group() in between.",
    ),
    r".*you tried to allocate (?P<bytes>\d{1,30}) bytes": (
        "Rank {rank} ran out of memory at {where}: it asked for {size} at once.",
        OUT_OF_MEMORY,
    ),
    r".*CUDA out of memory\. Tried to allocate (?P<size>[\d.]+ \w+)": (
        "Rank {rank} ran out of GPU memory at {where}: it asked for {size} more.",
        "Use a smaller model or batch, or shard the model (FSDP). `nvidia-smi` shows what else uses the GPU.",
    ),
    r"MemoryError": ("Rank {rank} ran out of memory at {where}.", OUT_OF_MEMORY),
    r".*(Torch not compiled with CUDA|No CUDA GPUs are available|Found no NVIDIA driver|_cuda_setDevice|"
    r"requires CUDA support|no CUDA-capable device|CUDA error: invalid device ordinal|"
    r"on a CUDA device but torch\.cuda\.is_available\(\) is False|Cannot access accelerator device)|"
    r"IndexError: list index out of range\n[^\n]*(device|cuda|gpu)": (  # an empty list of GPUs
        "Rank {rank} needs a GPU at {where}, but this run has none for it: {reason}.",
        'Choose the device: torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu").',
    ),
    r"ModuleNotFoundError: No module named '(?P<module>[^']+)'": (
        "Rank {rank} imports {module} at {where}, but no such module is installed.",
        "Install it in the environment of ddpquiz. Modules in the script's folder are found, as under torchrun.",
    ),
    r"torch\.multiprocessing\.spawn\.Process\w+Exception: .*?-- Process (?P<process>\d+) terminated": (
        "Process {process} of those that rank {rank} started at {where} failed; its traceback is above.",
        "Let `ddpquiz run` start the ranks instead of the script, so that each of them is watched.",
    ),
    r"EOFError: EOF when reading a line": (
        "Rank {rank} waits for keyboard input at {where}, but ranks have no keyboard.",
        "Pass the value to the script as an argument.",
    ),
    rf"RuntimeError: Expected to have finished reduction in the prior iteration.*{UNUSED}(?P<names>[^\n]+)": (
        "No gradient in the step before for {names}, so DDP raised at {where} on rank {rank}.",
        "Use all parameters in the loss, or pass find_unused_parameters=True.",
    ),
    r"RuntimeError: Expected to have finished reduction in the prior iteration.*did not receive grad for rank \d+: "
    r"(?P<indices>[\d ]+\d)": (
        "Parameters {indices} (by index) got no gradient in the step before, so DDP raised at {where} on rank {rank}.",
        "Use all parameters in the loss, or pass find_unused_parameters=True. TORCH_DISTRIBUTED_DEBUG=INFO names them.",
    ),
    r".*op\.preamble\.length <= op\.nbytes\. (?P<got>\d+) vs\.? (?P<room>\d+)": (
        "Rank {rank} received {got} bytes in {op} at {where}, but its tensor has room for only {room}.",
        "Shapes, dtypes and split sizes must agree on all ranks. Print them before that line to see which differ.",
    ),
}


def explain(text: str, facts: dict[str, object]) -> tuple[str, str] | None:
    """Return what the text of an exception means and what to do, or None if it is not known.

    `facts` are rank, ranks, where, reason (why this run uses this device) and op (the rank's last operation).
    """
    for pattern, (why, mend) in _MEANINGS.items():
        if found := re.match(pattern, text, re.DOTALL):
            known = found.groupdict()
            size = {"size": format_bytes(int(known["bytes"]))} if "bytes" in known else {}
            named = facts | known | size
            return why.format(**named), mend.format(**named)
    return None


# What DDP's complaint about models of different sizes means: which ranks have how many parameters.

_COUNTS = re.compile(
    r"DDP expects same model across all ranks, but Rank (\d{1,6}) has (\d{1,12}) params, "
    r"while rank (\d{1,6}) has inconsistent (\d{1,12}) params"
)
MEND = "DDP needs the same model on every rank. Find out what makes it depend on the rank there."


def different_models(
    message: str, messages: Iterable[str], ranks: int, where: str
) -> tuple[int | None, str, str] | None:
    """Return the rank at fault if there is one, what differs, and what to do; None if a message says nothing of it.

    `messages` are those of the exceptions of all ranks: each names the numbers of two of them.
    """
    if not _COUNTS.search(message):
        return None
    counts: dict[int, int] = {}
    for text in messages:
        for one, mine, other, theirs in _COUNTS.findall(text):
            counts.update({int(one): int(mine), int(other): int(theirs)})
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for rank in sorted(counts):
        groups[counts[rank]].append(rank)
    usual = max(groups, key=lambda count: len(groups[count]))
    odd = [rank for rank, count in counts.items() if count != usual]
    parts = [
        f"{format_ranks(members)} {'has' if len(members) == 1 else 'have'} {plural(count, 'parameter')}"
        for count, members in sorted(groups.items(), key=lambda group: len(group[1]))
    ]
    whole = len(counts) == ranks and len(parts) == 2 and len(groups[usual]) > len(odd)
    if whole:
        parts[-1] = f"the {'others' if len(groups[usual]) > 1 else 'other'} {usual:,}"
    at_fault = odd[0] if len(odd) == 1 and len(groups[usual]) > 1 else None
    return at_fault, f"The models differ at {where}: {', '.join(parts)}.", MEND


# Why a run failed and what to do about it: the rank that failed first, not the ranks that only noticed.

GRACE = 0.3  # seconds after the first failure in which the other ranks may still report; then they are stopped
# What a rank raises because another one has failed or does not arrive: never the cause.
CONSEQUENCE = re.compile(
    r"Connection (closed|reset|was likely closed)|Broken pipe|Timed out waiting|timeout caused pair closure|"
    r"wait timeout after|Socket Timeout|Connection refused|failed to pass monitoredBarrier|recvValue failed|"
    r"sendBytes failed|client socket has timed out|Timed out after \d+ seconds waiting"
)
TIMED_OUT = re.compile(
    r"Timed out waiting (\d{1,12})ms|wait timeout after (\d{1,12})ms|Timed out after (\d{1,9}) seconds waiting"
)

SAME_CALLS = "All ranks of a group must make the same calls in the same order, with the same shapes, dtypes and roots."
MAKE_THIS_CALL = "All ranks of a group must make the same calls. Find out what stops {ranks} from making this one."


@dataclass(frozen=True, slots=True)
class Cause:
    """The rank that is at fault, if it is a single one, what happened in a sentence, and what to do about it."""

    rank: int | None = None
    why: str = ""
    mend: str = ""


def find(state: RunState, mismatches: Sequence[Mismatch] = ()) -> Cause:
    """Return why a run that is over failed; a cause without `why` if it did not."""
    if mismatches and (state.hung or failed_in_communication(state)):
        return Cause(None, str(mismatches[0]), SAME_CALLS)
    if state.hung:
        return _of_hang(state.hung, state)
    failures = [failure for rank in range(state.ranks) if (failure := _failure(rank, state))]
    if not failures:
        broken = any(verdict == "broken" for _, verdict, _ in state.verdicts())
        return Cause(why="A claim is broken.") if broken else Cause()
    consequence, at, first = min(failures)
    if consequence:
        for rank, exited in sorted(state.exited.items()):
            if exited.status == 0 and exited.time <= at + GRACE:
                return _early_exit(rank, first, state)
    return _of_rank(first, state)


def hang_behind_timeouts(now: float, positions: tuple[RankPosition, ...], state: RunState) -> Hung | None:
    """Return the hang that made every failed rank fail: it waited as long as the time-out of its group allows."""
    failures = [_failure(rank, state) for rank in range(state.ranks)]
    texts = [raised.message for raised in state.raised.values()]
    waited = [max(map(_seconds, TIMED_OUT.findall(text)), default=0.0) for text in texts]
    if not any(waited) or not all(failure[0] for failure in failures if failure):
        return None
    return Hung(now, max(waited), tuple(_before_timeout(each, state) for each in positions))


def failed_in_communication(state: RunState) -> bool:
    """Return True if every failed rank failed while it communicated."""
    texts = [raised.message for raised in state.raised.values()]
    texts += [_stderr(rank, state) for rank, left in state.exited.items() if left.status == -signal.SIGABRT]
    return bool(texts) and all(re.search(CONSEQUENCE, text) or "gloo" in text.lower() for text in texts)


def _stderr(rank: int, state: RunState) -> str:
    return "\n".join(line.text for line in state.lines if line.rank == rank and line.stream == "stderr")


def _seconds(found: tuple[str, str, str]) -> float:
    send, store, join = (float(text or 0) for text in found)
    return max(send / 1000, store / 1000, join)


def _before_timeout(now: RankPosition, state: RunState) -> RankPosition:
    """Return where a rank stood before it timed out, if it did."""
    raised = state.raised.get(now.rank)
    if raised is None:
        return now
    last = state.last_call.get(now.rank)
    file, line = own_frame(raised.traceback, state.script)
    waited_in = state.waits_in(now.rank) or (last.operation.op if last else "init_process_group")
    return RankPosition(now.rank, waited_in, file, line, raised.traceback)


def _failure(rank: int, state: RunState) -> tuple[bool, float, int] | None:
    """Return whether only another rank's failure made this one fail, and when; None if it did not fail by itself."""
    if raised := state.raised.get(rank):
        return bool(CONSEQUENCE.search(raised.message)), raised.time, rank
    exited = state.exited.get(rank)
    return (False, exited.time, rank) if exited and exited.status and not exited.stopped else None


def _of_rank(rank: int, state: RunState) -> Cause:
    raised = state.raised.get(rank)
    if raised is None:
        return _of_exit(rank, state)
    frame = own_frame(raised.traceback, state.script)
    if raised.error == "SystemExit":
        return _of_sys_exit(rank, raised.message, _where(*frame), state)
    messages = (each.message for _, each in sorted(state.raised.items()))
    if differ := different_models(raised.message, messages, state.ranks, _where(*frame)):
        return Cause(*differ)
    text = f"{raised.error}: {raised.message}\n{code_at(raised.traceback, *frame)}"
    alike = _raised_alike(raised, frame, state)
    if known := _known(rank, text, _where(*frame), state):
        others = [each for each in alike if each != rank]
        also = f" {format_ranks(others).capitalize()} raised the same error." if others else ""
        return replace(known, why=known.why + also)
    first = raised.message.strip().partition("\n")[0]
    place = f" at {format_place(*frame)}" if frame[0] else ""
    return Cause(rank, f"{format_ranks(alike).capitalize()} raised {raised.error}{place}: {first}".rstrip(": "))


def _raised_alike(raised: Raised, frame: tuple[str, int], state: RunState) -> list[int]:
    """Return the ranks that raised an error of the same type in the same line; which of them was first is chance."""
    return [
        rank for rank, each in sorted(state.raised.items())
        if each.error == raised.error and own_frame(each.traceback, state.script) == frame
    ]  # fmt: skip


def _known(rank: int, text: str, where: str, state: RunState) -> Cause | None:
    """Return the cause behind the text of an exception if it is a common one."""
    last = state.last_call.get(rank)
    reason = state.began.reason.rpartition("· ")[2] if state.began else ""
    op = last.operation.op if last else "a communication"
    facts: dict[str, object] = {"rank": rank, "ranks": state.ranks, "where": where, "reason": reason, "op": op}
    found = explain(text, facts)
    return Cause(rank, *found) if found else None


def _of_sys_exit(rank: int, message: str, where: str, state: RunState) -> Cause:
    if message.strip() and not re.fullmatch(r"\d+", message):
        return Cause(rank, message)  # sys.exit("a sentence")
    if message == "2" and (printed := re.search(r": error: (.+)$", _stderr(rank, state))):  # argparse
        return Cause(
            rank,
            f"The script rejects its arguments: {printed[1].rstrip('.')}.",
            "Arguments after -- go to the script; `-- --help` lists those that it has.",
        )
    status = message.strip() or "1"  # Python's for a text, also for an empty one
    return Cause(rank, f"Rank {rank} exited with status {status} at {where}.", "The script calls sys.exit() there.")


def _of_exit(rank: int, state: RunState) -> Cause:
    exited, last = state.exited[rank], state.last_call.get(rank)
    after = f", after {_call(last)}" if last else ""
    if exited.status < 0:
        return _of_signal(rank, exited, after, state)
    if exited.status == FAULT and "ddpquiz" in _stderr(rank, state):
        return Cause(rank, f"ddpquiz itself failed in rank {rank}; its traceback is above.", "Please report it.")
    return Cause(
        rank,
        f"Rank {rank} exited with status {exited.status}{after}.",
        "It exited without an exception, for example through os._exit().",
    )


def _of_signal(rank: int, exited: Exited, after: str, state: RunState) -> Cause:
    number, last = -exited.status, state.last_call.get(rank)
    if number == signal.SIGKILL and exited.memory:
        why = f"The kernel killed rank {rank} because memory ran out{after}."
        return Cause(rank, why, OUT_OF_MEMORY.format(ranks=state.ranks))
    if number == signal.SIGKILL:
        return Cause(
            rank,
            f"Rank {rank} was killed by SIGKILL{after}.",
            "Something outside the script killed it: kill -9, or a batch system that enforces a limit.",
        )
    where = _where(last.operation.file, last.operation.line) if last else "an unknown place"
    if known := _known(rank, _stderr(rank, state), where, state):
        return known
    # Real-time signals have numbers only.
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if frames_in(exited.stack):
        place = _where(*own_frame(exited.stack, state.script, newest_first=True))
        return Cause(rank, f"Rank {rank} crashed with {name} at {place}.", "Native code crashed; the stack is above.")
    return Cause(rank, f"Rank {rank} was ended by {name}{after}.")


def _early_exit(rank: int, waiting: int, state: RunState) -> Cause:
    last = state.last_call.get(waiting)
    where = f" in {_call(last)}" if last else ""
    return Cause(
        rank,
        f"Rank {rank} exited with status 0 while rank {waiting} was waiting for it{where}.",
        f"All ranks of a group must make the same calls. Find out why rank {rank} exits earlier.",
    )


def _of_hang(hung: Hung, state: RunState) -> Cause:
    waiting = [each for each in hung.ranks if each.waits_in and each.stack]
    missing = [each for each in hung.ranks if each not in waiting]  # stopped ranks report no stack
    since = f"Nothing moved for {hung.seconds:g} s"
    raised = {rank: each for rank, each in state.raised.items() if each.time <= hung.time}  # before ranks were stopped
    if any(each.rank in raised for each in waiting):
        since = f"The process group timed out after {hung.seconds:g} s"
    if not missing:
        calls = _gathered((f"{each.waits_in} at {_where(each.file, each.line)}", each.rank) for each in waiting)
        ops = {each.waits_in for each in waiting}
        mend = advise_pairs(ops) if ops & {*POINT_TO_POINT} else SAME_CALLS
        return Cause(None, f"{since}: {_waits(calls)}.", mend)
    calls = _gathered((each.waits_in, each.rank) for each in waiting)
    absent = " and for ".join(_absent(each, hung, raised.get(each.rank), state) for each in missing)
    why = f"{since}: {_waits(calls) or 'the run waits'} for {absent}."
    mend = MAKE_THIS_CALL.format(ranks=format_ranks([each.rank for each in missing]))
    return Cause(missing[0].rank if len(missing) == 1 else None, why, mend)


def _absent(rank: RankPosition, hung: Hung, raised: Raised | None, state: RunState) -> str:
    exited = state.exited.get(rank.rank)
    if exited and exited.time < hung.time and not exited.stopped:
        return f"rank {rank.rank}, which has exited with status {exited.status}"
    if raised:
        return f"rank {rank.rank}, which raised {raised.error} but has not exited"
    if rank.line:
        return f"rank {rank.rank}, which is at {_where(rank.file, rank.line)}"
    return f"rank {rank.rank}, which does not respond: it is stopped, or busy in native code"


def _gathered(pairs: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for key, rank in pairs:
        found.setdefault(key, []).append(rank)
    return found


def _waits(calls: dict[str, list[int]]) -> str:
    return ", ".join(f"{format_ranks(ranks)} wait{'s' * (len(ranks) == 1)} in {call}" for call, ranks in calls.items())


def _call(issued: Issued) -> str:
    return f"{issued.operation.op} at {_where(issued.operation.file, issued.operation.line)}"


def _where(file: str, line: int) -> str:
    return format_place(file, line) if file else "an unknown place"


# What became of each rank: it ran on, finished, died, or left nothing behind.


@dataclass(frozen=True, slots=True)
class Fate:
    """`kind` is "late" for a rank that still runs; `words` continue the sentence "rank 2 ...".

    `file` and `line` are where it stands or died, if that is known; `limit` says what is not known. `seen` is True if a
    stack shows where it stands.
    """

    kind: Literal["late", "left", "dead"]
    words: str
    file: str = ""
    line: int = 0
    limit: str = ""
    absent: bool = False
    seen: bool = False


NO_FILE = Fate(
    "dead", "left no record", limit="Nothing of it was recorded: it died, or its file was not collected.", absent=True
)


def find_fates(state: RunState, absent: Collection[int], positions: Collection[RankPosition]) -> dict[int, Fate]:
    """Return the fate of each rank at the time when the first one failed, or now."""
    failures = [each.time for each in state.raised.values()]
    failures += [each.time for each in state.exited.values() if each.status and not each.stopped]
    first = min(failures, default=None)
    lost = any(_lost_connection(each) for each in state.raised.values())
    silent = _silent_first(state, absent) if lost else None
    standing = {each.rank: each for each in positions}
    fates = {}
    for rank in range(state.ranks):
        if rank in absent:
            fates[rank] = NO_FILE
        elif rank == silent:
            file, line = state.places.get(rank, ("", 0))
            fates[rank] = Fate("dead", "is gone: its record ends there, and the others lost the connection", file, line)
        else:
            fates[rank] = _fate(rank, state, first, standing.get(rank))
    return fates


def _fate(rank: int, state: RunState, first: float | None, position: RankPosition | None) -> Fate:
    raised, exited = state.raised.get(rank), state.exited.get(rank)
    if raised and not CONSEQUENCE.search(raised.message):
        file, line = own_frame(raised.traceback, state.script)
        return Fate("dead", f"raised {raised.error}: {_first_line(raised)}".rstrip(": "), file, line)
    if exited and not raised and exited.status == 0:
        return Fate("left", "has finished")
    in_time = exited is not None and (first is None or exited.time <= first + GRACE)
    if exited and not raised and not exited.stopped and in_time:
        return Fate("dead", _ended(exited), *state.places.get(rank, ("", 0)))
    if rank in state.finished and not raised:
        return Fate("left", "has finished")
    if position and position.line:
        return Fate("late", "is still running", position.file, position.line, seen=True)
    if position:
        return Fate("late", "does not respond: it is stopped, or busy in native code", seen=True)
    file, line = state.places.get(rank, ("", 0))
    return Fate("late", f"has not come there{' and was last seen' if line else ''}", file, line)


def _silent_first(state: RunState, absent: Collection[int]) -> int | None:
    """Return the rank that ended without a word, before all others of that kind."""
    quiet = [rank for rank in range(state.ranks) if rank not in {*state.raised, *state.exited, *absent}]
    heard = {rank: state.last_event_at.get(rank, 0.0) for rank in quiet}
    return min(heard, key=lambda rank: heard[rank]) if heard else None


def _lost_connection(raised: Raised) -> bool:
    return bool(CONSEQUENCE.search(raised.message)) and "imed out" not in raised.message


def _ended(exited: Exited) -> str:
    if exited.status < 0:
        return "was killed because memory ran out" if exited.memory else f"was ended by signal {-exited.status}"
    return f"exited with status {exited.status}"


def _first_line(raised: Raised) -> str:
    return raised.message.strip().partition("\n")[0]
