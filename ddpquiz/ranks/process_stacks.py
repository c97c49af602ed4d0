"""The stacks of all threads of a rank and of its children, asked for from another process (Linux)."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ddpquiz.errors import UserError
from ddpquiz.events.formatting import Frame, frames_in
from ddpquiz.ranks.forks import family, is_stopped

MEMORY_FILE = "ddpquiz-stacks-of-rank-"  # the name of the file in memory into which a rank writes its stacks
THREADS_SIGNAL = signal.SIGRTMAX - 1 if hasattr(signal, "SIGRTMAX") else None  # makes a rank write them
_ANSWER = 3.0  # seconds in which a process begins to write its stacks, on a busy machine
_QUIET = 0.5  # seconds without another line, after which it has written all of a stack that is cut off
_NAME = re.compile(rf"/memfd:{MEMORY_FILE}(\d{{1,4}}) \(deleted\)")
_THREAD = re.compile(r"^(Current thread|Thread) 0x[0-9a-f]+.*:$", re.MULTILINE)
_SCRIPT_BEGINS = re.compile(r"/ddpquiz/ranks/inside/worker\.py\", line \d+ in (_run_script|run)\n")
_OURS = re.compile(r"/ddpquiz/ranks/")


@dataclass(frozen=True, slots=True)
class ProcessStacks:
    """Where the threads of a process are, each with its innermost frame first; the main thread comes first.

    `rank` is None for a process that is not a rank of ddpquiz and was not forked by one. `why` says why there are no
    threads.
    """

    pid: int
    rank: int | None
    threads: tuple[tuple[Frame, ...], ...] = ()
    why: str = ""


def stacks_of(pid: int) -> list[ProcessStacks]:
    """Return the stacks of a process and its descendants; UserError if it cannot be asked."""
    if sys.platform != "linux":
        raise UserError(f"`ddpquiz where` needs Linux; here use `py-spy dump --pid {pid}`.")
    if not Path(f"/proc/{pid}").exists():
        raise UserError(f"There is no process {pid}.")
    if not os.access(f"/proc/{pid}/fd", os.R_OK):
        raise UserError(f"Process {pid} belongs to another user: run `ddpquiz where {pid}` as that user.")
    found = [_ask(each) for each in family(pid)]
    if all(each.rank is None for each in found):
        raise UserError(
            f"Process {pid} is neither a rank of `ddpquiz run` or `ddpquiz demo` nor the parent of one. Its stacks: "
            f"`pip install py-spy`, then `py-spy dump --pid {pid} --subprocesses`."
        )
    return [each for each in found if each.rank is not None or _has_rank_above(each.pid, found)]


def _has_rank_above(pid: int, found: list[ProcessStacks]) -> bool:
    return any(each.rank is not None and pid in family(each.pid) for each in found)


def _ask(pid: int) -> ProcessStacks:
    memory = _memory_of(pid)
    if memory is None:
        return ProcessStacks(pid, None, why="another program; `py-spy dump` shows its stacks if it is Python")
    path, rank = memory
    if is_stopped(pid):
        return ProcessStacks(pid, rank, why="stopped by a signal; `kill -CONT` lets it continue")
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            os.kill(pid, THREADS_SIGNAL or 0)
            text = _read_all(file.read)
    except OSError:
        return ProcessStacks(pid, rank, why="has just ended")
    if not text:
        return ProcessStacks(pid, rank, why=f"does not answer within {_ANSWER:g} s: it waits inside the kernel")
    return ProcessStacks(pid, rank, tuple(_threads(text)))


def _memory_of(pid: int) -> tuple[Path, int] | None:
    """Return where a process writes its stacks, and the rank that it is, or whose child it is."""
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            if found := _NAME.fullmatch(str(descriptor.readlink())):
                return descriptor, int(found[1])
    except OSError:  # it has ended, or belongs to another user
        pass
    return None


def _read_all(read: Callable[[], bytes]) -> str:
    """Read until all is there: the main thread comes last, and the script is at the bottom of its stack."""
    text, since = "", time.monotonic()
    while not _SCRIPT_BEGINS.search(text) and time.monotonic() - since < (_QUIET if text else _ANSWER):
        if more := read():
            text, since = text + more.decode(errors="replace"), time.monotonic()
        else:
            time.sleep(0.01)
    return text


def _threads(text: str) -> Iterator[tuple[Frame, ...]]:
    """Yield the frames of each thread, the main thread's first; without our own threads, and what called the script."""
    heads = [*_THREAD.finditer(text)]
    ends = [*(head.start() for head in heads[1:]), len(text)]
    others = []
    for head, end in zip(heads, ends, strict=True):
        stack = text[head.end() : end]
        begins = _SCRIPT_BEGINS.search(stack)
        frames = frames_in(stack[: begins.start()].rpartition("\n")[0] if begins else stack)
        if begins and frames:
            yield tuple(frames)
        elif frames and not _is_ours(frames):
            others.append(tuple(frames))
    yield from others


def _is_ours(frames: list[Frame]) -> bool:
    """Return whether a thread began in our code."""
    began = [frame for frame in frames if Path(frame.file).name != "threading.py"]
    return bool(began) and bool(_OURS.search(began[-1].file))
