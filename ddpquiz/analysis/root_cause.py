"""Why a run failed and what to do about it: the rank that failed first, not those that only noticed. Pure."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ddpquiz.analysis.events import FAULT, Hung, RankPosition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ddpquiz.analysis.events import Raised
    from ddpquiz.analysis.mismatch import Mismatch
    from ddpquiz.analysis.run_state import RunState

GRACE = 0.3  # seconds after the first failure in which the other ranks may still say what they saw; then we end them
# What a rank raises because another one is gone or does not come: never the cause.
CONSEQUENCE = re.compile(
    r"Connection (closed|reset|was likely closed)|Broken pipe|Timed out waiting|timeout caused pair closure|"
    r"wait timeout after|Socket Timeout|Connection refused|failed to pass monitoredBarrier|recvValue failed|"
    r"sendBytes failed|client socket has timed out|Timed out after \d+ seconds waiting"
)
GAVE_UP = re.compile(r"Timed out waiting (\d+)ms|wait timeout after (\d+)ms|Timed out after (\d+) seconds waiting")
FRAME = re.compile(r'File "(.+?)", line (\d+)')
PLACE = re.compile(r"site-packages|dist-packages|lib/python3|<frozen|<string>")  # nobody's own file

ALIKE = "Every rank of a group must make the same calls in the same order, with equal shapes, types and roots."
# How an exception begins (its type, its message, then the line of code that raised it): what it means, and what to do.
# {rank} raised it at {where}.
_MEMORY = "{ranks} ranks share this machine's memory: make the model or the batch smaller, or lower --nproc."
MEANINGS = {
    r"ValueError: Default process group has not been initialized": (
        "Rank {rank} uses torch.distributed at {where}, and is in no process group there.",
        "Call dist.init_process_group() before that line, and dist.destroy_process_group() only at the end.",
    ),
    r"ValueError: trying to initialize the default process group twice": (
        "Rank {rank} calls init_process_group at {where}, and is in a process group already.",
        "Call it once, or dist.destroy_process_group() before the next one.",
    ),
    r".*you tried to allocate (?P<bytes>\d+) bytes": (
        "Rank {rank} ran out of memory at {where}: it asked for {size} at once.",
        _MEMORY,
    ),
    r".*CUDA out of memory\. Tried to allocate (?P<size>[\d.]+ \w+)": (
        "Rank {rank} ran out of GPU memory at {where}: it asked for {size} more.",
        "Make the model or the batch smaller, or shard it (FSDP); `nvidia-smi` shows who else holds memory there.",
    ),
    r"MemoryError": (
        "Rank {rank} ran out of memory at {where}.",
        _MEMORY,
    ),
    r".*(Torch not compiled with CUDA|No CUDA GPUs are available|Found no NVIDIA driver|_cuda_setDevice|"
    r"requires CUDA support|no CUDA-capable device|CUDA error: invalid device ordinal|"
    r"on a CUDA device but torch\.cuda\.is_available\(\) is False|Cannot access accelerator device)|"
    r"IndexError: list index out of range\n[^\n]*(device|cuda|gpu)": (  # a list of the GPUs, which is empty
        "Rank {rank} wants a GPU at {where}, and this run has none for it: {reason}.",
        'Choose the device: torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu").',
    ),
    r"ModuleNotFoundError: No module named '(?P<module>[^']+)'": (
        "Rank {rank} imports {module} at {where}, and there is no such module.",
        "Install it where ddpquiz is installed; modules beside the script are found, as under torchrun.",
    ),
    r"torch\.multiprocessing\.spawn\.Process\w+Exception: .*?-- Process (?P<process>\d+) terminated": (
        "Process {process} of those that rank {rank} starts at {where} failed; its traceback stands above.",
        "To have it watched, let `ddpquiz run` start the ranks instead of the script.",
    ),
    r"EOFError: EOF when reading a line": (
        "Rank {rank} waits for typed input at {where}, and a rank has no keyboard.",
        "Make it an argument of the script: what follows -- goes to it.",
    ),
    r".*op\.preamble\.length <= op\.nbytes\. (?P<got>\d+) vs\.? (?P<room>\d+)": (
        "Rank {rank} was sent {got} bytes in {op} at {where}, where it has room for {room}.",
        "Bring the same shape and dtype on every rank; print x.shape before that line to see whose differs.",
    ),
}


@dataclass(frozen=True, slots=True)
class Cause:
    """The rank that is at fault, if it is one, what happened in a sentence, and what to do about it."""

    rank: int | None = None
    why: str = ""
    mend: str = ""


def find(seen: RunState, mismatches: Sequence[Mismatch] = ()) -> Cause:
    """Return why a run that is over failed; a cause without `why` when it did not."""
    if mismatches and (seen.hung or _in_communication(seen)):
        return Cause(None, str(mismatches[0]), ALIKE)
    if seen.hung:
        return _of_hang(seen.hung, seen)
    failures = [failure for rank in range(seen.ranks) if (failure := _failure(rank, seen))]
    if not failures:
        broken = any(verdict == "broken" for _, verdict, _ in seen.verdicts())
        return Cause(why="A claim is broken.") if broken else Cause()
    consequence, at, first = min(failures)
    if consequence:
        for rank, exited in sorted(seen.exited.items()):
            if exited.status == 0 and exited.time <= at + GRACE:
                return _left_early(rank, first, seen)
    return _of_rank(first, seen)


def _in_communication(seen: RunState) -> bool:
    """Whether every rank that failed did so while it talked to others."""
    texts = [raised.message for raised in seen.raised.values()]
    texts += [_complaint(rank, seen) for rank, left in seen.exited.items() if left.status == -signal.SIGABRT]
    return bool(texts) and all(re.search(CONSEQUENCE, text) or "gloo" in text.lower() for text in texts)


def _complaint(rank: int, seen: RunState) -> str:
    return "\n".join(line.text for line in seen.lines if line.rank == rank and line.stream == "stderr")


def gave_up(now: float, standing: tuple[RankPosition, ...], seen: RunState) -> Hung | None:
    """Return the hang that made every rank that failed fail: it waited as long as its group's time-out allows."""
    failures = [_failure(rank, seen) for rank in range(seen.ranks)]
    texts = [raised.message for raised in seen.raised.values()]
    waited = [max(map(_seconds, GAVE_UP.findall(text)), default=0.0) for text in texts]
    if not any(waited) or not all(failure[0] for failure in failures if failure):
        return None
    return Hung(now, max(waited), tuple(_stood(each, seen) for each in standing))


def _seconds(found: tuple[str, str, str]) -> float:
    send, store, join = (float(text or 0) for text in found)
    return max(send / 1000, store / 1000, join)


def _stood(now: RankPosition, seen: RunState) -> RankPosition:
    """Return where a rank stood before it gave up, if it did."""
    raised = seen.raised.get(now.rank)
    if raised is None:
        return now
    brought = seen.brought.get(now.rank)
    file, line = _frame(raised.traceback, seen)
    waited_in = seen.waits_in(now.rank) or (brought.op if brought else "init_process_group")
    return RankPosition(now.rank, waited_in, file, line, raised.traceback)


def _failure(rank: int, seen: RunState) -> tuple[bool, float, int] | None:
    """Return whether only another rank's failure made this one fail, and when; None when it did not fail by itself."""
    if raised := seen.raised.get(rank):
        return bool(CONSEQUENCE.search(raised.message)), raised.time, rank
    exited = seen.exited.get(rank)
    return (False, exited.time, rank) if exited and exited.status and not exited.stopped else None


def _of_rank(rank: int, seen: RunState) -> Cause:
    raised = seen.raised.get(rank)
    if raised is None:
        return _of_exit(rank, seen)
    frame = _frame(raised.traceback, seen)
    where = _where(*frame)
    if raised.error == "SystemExit":
        return _of_sys_exit(rank, raised.message, where, seen)
    if told := _meaning(rank, f"{raised.error}: {raised.message}\n{_code(raised.traceback, *frame)}", where, seen):
        return told
    first = raised.message.strip().partition("\n")[0]
    return Cause(rank, f"Rank {rank} raised {raised.error}: {first}".rstrip(": "))


def _meaning(rank: int, text: str, where: str, seen: RunState) -> Cause | None:
    """Return what the text of an exception means, where it is one of those that we know."""
    for pattern, (why, mend) in MEANINGS.items():
        if found := re.match(pattern, text, re.DOTALL):
            facts = found.groupdict() | {"rank": rank, "ranks": seen.ranks, "where": where}
            facts["reason"] = seen.began.reason.rpartition("· ")[2] if seen.began else ""
            facts["op"] = seen.brought[rank].op if rank in seen.brought else "a communication"
            if "bytes" in facts:
                facts["size"] = sized(int(facts["bytes"]))
            return Cause(rank, why.format(**facts), mend.format(**facts))
    return None


def _of_sys_exit(rank: int, message: str, where: str, seen: RunState) -> Cause:
    if message.strip() and not re.fullmatch(r"\d+", message):
        return Cause(rank, message)  # sys.exit("a sentence")
    if message == "2" and (said := re.search(r": error: (.+)$", _complaint(rank, seen))):  # argparse
        return Cause(
            rank,
            f"The script refuses its arguments: {said[1].rstrip('.')}.",
            "What follows -- goes to the script; `-- --help` prints what it takes.",
        )
    status = message.strip() or "1"  # Python's for a text, also for an empty one
    return Cause(rank, f"Rank {rank} exited with status {status} at {where}.", "It called sys.exit there.")


def _of_exit(rank: int, seen: RunState) -> Cause:
    exited = seen.exited[rank]
    last = seen.brought.get(rank)
    place = f", after {last.op} at {_where(last.file, last.line)}" if last else ""
    if exited.status == -signal.SIGKILL:
        if exited.memory:
            why = f"Rank {rank} was killed by the kernel because memory ran out{place}."
            return Cause(rank, why, _MEMORY.format(ranks=seen.ranks))
        return Cause(
            rank,
            f"Rank {rank} was killed by SIGKILL{place}.",
            "Something outside of it did that: kill -9, or a batch system that enforces a limit.",
        )
    if exited.status < 0:
        told = _meaning(rank, _complaint(rank, seen), _where(last.file, last.line) if last else "a place unknown", seen)
        if told:
            return told
        name = _signal(-exited.status)
        stack = FRAME.findall(exited.stack)
        at = f" at {_where(*_frame(exited.stack, seen, newest_first=True))}" if stack else place
        crash = "Code that is not Python crashed there; the calls that led to it stand above." if stack else ""
        return Cause(rank, f"Rank {rank} was ended by {name}{at}.", crash)
    if exited.status == FAULT and "ddpquiz" in _complaint(rank, seen):
        return Cause(rank, f"ddpquiz itself failed in rank {rank}; its traceback stands above.", "Please report it.")
    return Cause(rank, f"Rank {rank} exited with status {exited.status}{place}.", "It left without an exception.")


def _signal(number: int) -> str:
    """Name a signal; those of a real-time system have numbers only."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _left_early(rank: int, waiting: int, seen: RunState) -> Cause:
    last = seen.brought.get(waiting)
    where = f" in {last.op}, {_where(last.file, last.line)}" if last else ""
    return Cause(
        rank,
        f"Rank {rank} had ended (exit status 0) while {_waiting([waiting])} for it{where}.",
        "Every rank must make the same calls: look at what lets this one leave sooner.",
    )


def _of_hang(hung: Hung, seen: RunState) -> Cause:
    waiting = [each for each in hung.ranks if each.waits_in and each.stack]
    missing = [each for each in hung.ranks if each not in waiting]  # stopped ones do not tell a stack
    since = f"Nothing moved for {hung.seconds:g} s"
    raised = {rank: each for rank, each in seen.raised.items() if each.time <= hung.time}  # not since we end the others
    if any(each.rank in raised for each in waiting):
        since = f"The group's time-out of {hung.seconds:g} s is over"
    if not missing:
        calls = _gathered((f"{each.waits_in} at {_where(each.file, each.line)}", each.rank) for each in waiting)
        said = ", ".join(f"{_waiting(ranks)} in {call}" for call, ranks in calls.items())
        mend = ALIKE
        if any(each.waits_in in ("send", "recv") for each in waiting):
            mend = "Each send needs a receive that runs at the same time: let one side receive first, or use isend."
        return Cause(None, f"{since}: {said}.", mend)
    ops = _gathered((each.waits_in, each.rank) for each in waiting)
    said = ", ".join(f"{_waiting(ranks)} in {op}" for op, ranks in ops.items())
    absent = ", ".join(_absent(each, hung, raised.get(each.rank), seen) for each in missing)
    mend = "Every rank of a group must make the same calls: look at what keeps this one from it."
    return Cause(missing[0].rank if len(missing) == 1 else None, f"{since}: {said} for {absent}.", mend)


def _absent(rank: RankPosition, hung: Hung, raised: Raised | None, seen: RunState) -> str:
    exited = seen.exited.get(rank.rank)
    if exited and exited.time < hung.time and not exited.stopped:
        return f"rank {rank.rank}, which has ended with status {exited.status}"
    if raised:
        return f"rank {rank.rank}, which raised {raised.error} and does not end"
    if rank.line:
        return f"rank {rank.rank}, which stands at {_where(rank.file, rank.line)}"
    return f"rank {rank.rank}, which does not answer: it is stopped, or busy outside Python"


def _gathered(pairs: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for key, rank in pairs:
        found.setdefault(key, []).append(rank)
    return found


def _waiting(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]} waits"
    return f"ranks {', '.join(map(str, ranks))} wait"


def _frame(stack: str, seen: RunState, *, newest_first: bool = False) -> tuple[str, int]:
    """Return the place of a traceback that the reader knows: the innermost line of the script, or of a file near it."""
    frames = [(file, int(line)) for file, line in FRAME.findall(stack)]
    if newest_first:
        frames.reverse()
    script = str(Path(seen.began.script).absolute()) if seen.began else ""
    own = [frame for frame in frames if frame[0] == script] or [f for f in frames if not PLACE.search(f[0])] or frames
    return own[-1] if own else ("", 0)


def _code(stack: str, file: str, line: int) -> str:
    """Return the line of code that a traceback shows for one of its frames."""
    _, _, rest = stack.rpartition(f'File "{file}", line {line}')
    return rest.partition("\n")[2].partition("\n")[0].strip()


def _where(file: str, line: int) -> str:
    return f"{Path(file).name}:{line}" if file else "a place that it did not tell"


def sized(count: float) -> str:
    """Return a number of bytes as people say it."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{_brief(count)} {unit}" if unit != "bytes" else f"{count:g} bytes"
        count /= 1024
    return f"{_brief(count)} TiB"


def _brief(number: float) -> str:
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"  # the former would say 1e+03
