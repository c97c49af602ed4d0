"""The stacks of all threads of a process, asked for from another one (Linux).

A rank that ddpquiz started writes its own stacks when a signal asks for them (`inside/worker.py`): that needs no other
program and no right to look into processes. Of every other process py-spy reads them.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from ddpquiz.errors import UserError
from ddpquiz.events.source_text import Frame, frames_in
from ddpquiz.jobs.stacks import Frames, parse_py_spy
from ddpquiz.ranks.forks import (
    MEMORY_FILE,
    THREADS_BY_FORCE,
    THREADS_SIGNAL,
    is_stopped,
    process_tree,
    signal_if_handled,
)

_ANSWER = 1.5  # seconds in which a process begins to write its stacks, on a busy machine; it is asked twice
_PATIENCE = 20.0  # seconds for py-spy, which reads the symbols of large libraries
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
    threads: tuple[Frames, ...] = ()
    why: str = ""


def stacks_of(pid: int) -> list[ProcessStacks]:
    """The stacks of a process and its descendants; UserError if it cannot be asked."""
    if sys.platform != "linux":
        raise UserError(f"`ddpquiz where` needs Linux; here use `py-spy dump --pid {pid}`.")
    if not Path(f"/proc/{pid}").exists():
        raise UserError(f"There is no process {pid}.")
    if not os.access(f"/proc/{pid}/fd", os.R_OK):
        raise UserError(f"Process {pid} belongs to another user: run `ddpquiz where {pid}` as that user.")
    found = [stack_of(each) for each in process_tree(pid)]
    if any(each.rank is not None for each in found):  # without the server that forked the ranks
        return [each for each in found if each.rank is not None or _has_rank_above(each.pid, found)]
    refuse_unread(found)
    if not any(each.threads for each in found):
        raise UserError(f"Process {pid}: {found[0].why}.")
    return found


def refuse_unread(found: Collection[ProcessStacks]) -> None:
    """UserError with what to do if no stack could be read because py-spy is not there, or may not look."""
    refused = next((each.why for each in found if each.why in _REFUSALS), "")
    if refused and not any(each.threads for each in found):
        raise UserError(refused)


def has_ended(process: ProcessStacks) -> bool:
    """Whether a process was gone when it was asked."""
    return process.why == _ENDED


def _has_rank_above(pid: int, found: list[ProcessStacks]) -> bool:
    return any(each.rank is not None and pid in process_tree(each.pid) for each in found)


def stack_of(pid: int) -> ProcessStacks:
    """The stacks of one process."""
    memory = _memory_of(pid)
    return _spy(pid) if memory is None else _ask(pid, *memory)


def rank_of_ours(pid: int) -> int | None:
    """The rank that a process is which ddpquiz started, or whose child it is; None for any other process."""
    memory = _memory_of(pid)
    return memory[1] if memory else None


def _ask(pid: int, path: Path, rank: int) -> ProcessStacks:
    if is_stopped(pid):
        return ProcessStacks(pid, rank, why=_STOPPED)
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            os.kill(pid, THREADS_SIGNAL or 0)
            text = _read_all(file.read)
            if not text and THREADS_BY_FORCE:
                signal_if_handled(pid, THREADS_BY_FORCE)  # what was a rank's child may be another program by now
                text = _read_all(file.read)
    except OSError:
        return ProcessStacks(pid, rank, why=_ENDED)
    if not text:
        return ProcessStacks(pid, rank, why=f"does not answer within {2 * _ANSWER:g} s: it waits inside the kernel")
    return ProcessStacks(pid, rank, tuple(_threads(text)))


_STOPPED = "stopped by a signal; `kill -CONT` lets it continue"
_ENDED = "has just ended"


# py-spy


def _spy(pid: int) -> ProcessStacks:
    """What py-spy reads of a process, which stands still for some milliseconds meanwhile."""
    if is_stopped(pid):
        return ProcessStacks(pid, None, why=_STOPPED)
    program = _py_spy()
    if program is None:
        return ProcessStacks(pid, None, why=_INSTALL)
    command = [program, "dump", "--json", "--pid", str(pid)]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return ProcessStacks(pid, None, why=f"py-spy did not read it within {_PATIENCE:g} s")
    if not Path(f"/proc/{pid}").exists():
        return ProcessStacks(pid, None, why=_ENDED)
    if ran.returncode and _REFUSED.search(ran.stderr):
        return ProcessStacks(pid, None, why=_ALLOW)
    if ran.returncode:
        said = ran.stderr.strip().partition("\n")[0].removeprefix("Error: ")
        is_other = "python version" in said.lower()
        return ProcessStacks(pid, None, why="is not a Python program" if is_other else f"py-spy says: {said}")
    try:
        threads = parse_py_spy(ran.stdout).get(pid, [])
    except ValueError as wrong:
        return ProcessStacks(pid, None, why=f"py-spy printed something else than JSON ({wrong})")
    return ProcessStacks(pid, None, tuple(threads), "" if threads else "runs no line of Python")


_REFUSED = re.compile(r"permission denied|operation not permitted", re.IGNORECASE)
_ALLOW = (
    "py-spy may not look into your processes here: run `sudo sysctl kernel.yama.ptrace_scope=0`, or start the "
    "container with --cap-add=SYS_PTRACE (in Kubernetes: `capabilities: {add: [SYS_PTRACE]}`)."
)


_INSTALL = "The stacks of a job that ddpquiz did not start are read by py-spy: `pip install py-spy`."
_REFUSALS = (_ALLOW, _INSTALL)


def _py_spy() -> str | None:
    """The program, beside this Python or on the PATH."""
    beside = Path(sysconfig.get_path("scripts")) / "py-spy"
    return str(beside) if beside.exists() else shutil.which("py-spy")


def _memory_of(pid: int) -> tuple[Path, int] | None:
    """Where a process writes its stacks, and the rank that it is, or whose child it is."""
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
    begins = _SCRIPT_BEGINS.search(text)
    return text[: begins.end()] if begins else text  # one that was asked twice may answer twice


def _threads(text: str) -> Iterator[Frames]:
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
    """Whether a thread began in our code."""
    began = [frame for frame in frames if Path(frame.file).name != "threading.py"]
    return bool(began) and bool(_OURS.search(began[-1].file))
