"""Stacks of the ranks of a job that runs now, whoever wrote them: which rank stood where.

Read are what `ddpquiz where --json` prints, `py-spy dump` (text and --json), and Python's faulthandler, also inside
logs and in the files that torch's debug server writes. Two looks at a rank tell whether it moves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from ddpquiz.errors import UserError
from ddpquiz.events.operation import MAX_RANKS
from ddpquiz.events.source_text import Frame
from ddpquiz.jobs.log_file import ranks_of_files, short_numbers, without_front

Frames = tuple[Frame, ...]  # the innermost call first
_MOST_FRAMES = 1000
_MOST_LOOKS = 100_000


@dataclass(frozen=True, slots=True)
class SeenStack:
    """Where the main thread of a rank stood. `at` says where that is read, as `file:line` or a file.

    `moved` is True if a later look found it elsewhere, False if it found it in the same place, and None if nobody
    looked again. `on_gpu` says whether the process uses CUDA, if that is known. `why` says why there are no frames.
    """

    rank: int
    frames: Frames
    at: str = ""
    moved: bool | None = None
    pid: int = 0
    on_gpu: bool | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class JobStacks:
    """Where the ranks of a job stood; `ranks` is its size, as far as that is known.

    `apart` is the time in seconds between two looks; 0 if it is not known. `is_numbered` is True if nothing named the
    ranks, so that they were numbered in the order in which they were read.
    """

    of: Mapping[int, SeenStack]
    ranks: int
    apart: float = 0.0
    is_numbered: bool = False


@dataclass(slots=True)
class _Look:
    """One look at a process, as a file shows it: its threads by name or number, the main one first if that is known."""

    at: str
    rank: int | None = None
    pid: int = 0
    threads: dict[str, list[Frame]] = field(default_factory=dict)
    main: str = ""
    moved: bool | None = None
    on_gpu: bool | None = None
    why: str = ""

    def main_thread(self) -> Frames:
        """The frames of the main thread, which is the one that runs the script from its first line."""
        if self.main in self.threads:
            return tuple(self.threads[self.main])
        of_script = [frames for frames in self.threads.values() if frames and frames[-1].name in _BEGINS]
        return tuple(next(iter([*of_script, *self.threads.values()]), ()))


def holds_stacks(head: bytes) -> bool:
    """Whether a file that begins like this holds stacks and nothing else."""
    text = head.lstrip()
    is_json = text[:1] == b"[" and b'"os_thread_id"' in head
    return text.startswith(_OURS) or is_json or bool(_SPIED.match(text) or _SERVED.match(text))


def is_in(path: Path) -> bool:
    """Whether a log holds stacks that faulthandler wrote."""
    with path.open("rb") as file:
        before = b""
        while piece := file.read(1 << 20):
            if _DUMPED in before + piece:
                return True
            before = piece[-len(_DUMPED) :]
    return False


_OURS = b'{"event": "stacks"'
_SPIED = re.compile(rb"Process \d+: [^\n]*\nPython v")
_SERVED = re.compile(rb"(?:PARTIAL DATA: [^\n]*\n(?:  Rank [^\n]*\n)*\s*)?=== Rank \d+: [^\n]* ===\n")
_DUMPED = b"(most recent call first)"
_BEGINS = ("<module>", "_run_module_as_main")  # the outermost function of a script, and of a module started with -m
_NO_RANK = re.compile(  # torchrun, and what a rank starts
    r"torch/distributed/(?:launcher|elastic)/|torch/utils/data/_utils/worker\.py|multiprocessing/resource_tracker\.py"
    r"|torch/_inductor/compile_worker/"
)


def read_stacks(paths: Sequence[Path], names: Sequence[str], ranks: int = 0) -> JobStacks | None:
    """What files show of where ranks stand; `names` are how the verdict calls them, `ranks` the size if it is known.

    None if they hold no stack of a process that runs. UserError if they hold the stacks of several jobs, or what looks
    like ours is damaged.
    """
    of_file = ranks_of_files(paths)
    looks: list[_Look] = []
    jobs: dict[str, tuple[int, float]] = {}
    for path, name in zip(paths, names, strict=True):
        for look in _looks_in(path, name, jobs):
            if any(_NO_RANK.search(frame.file) for frame in look.main_thread()):
                continue
            if look.rank is None and of_file.get(path) != (look.pid or None):  # a number may be that of the process
                look.rank = of_file.get(path)
            looks.append(look)
            if len(looks) > _MOST_LOOKS:
                raise UserError(f"There are more than {_MOST_LOOKS:,} stacks. Name the files of one job only.")
    if len(jobs) > 1:
        raise UserError(
            f"These are stacks of {len(jobs)} jobs: {', '.join(sorted(jobs))}. Name those of one; "
            "`ddpquiz where PID --json` prints the ranks that one process has started."
        )
    size, apart = next(iter(jobs.values()), (0, 0.0))
    return _put_together(looks, max(ranks, size), apart)


def _put_together(looks: Sequence[_Look], ranks: int, apart: float) -> JobStacks | None:
    """The looks by rank. Those without one are numbered, a process each; later looks at a rank say whether it moved."""
    by_rank: dict[int, list[_Look]] = {}
    unnamed: dict[str, list[_Look]] = {}
    for look in looks:
        if look.rank is not None and look.rank < MAX_RANKS:
            by_rank.setdefault(look.rank, []).append(look)
        else:
            unnamed.setdefault(str(look.pid) if look.pid else f"{look.at.partition(':')[0]} {look.main}", []).append(
                look
            )
    is_numbered = not by_rank and bool(unnamed)
    if is_numbered:
        by_rank = dict(enumerate(list(unnamed.values())[:MAX_RANKS]))
    if not by_rank:
        return None
    seen = {rank: _seen(rank, of_rank) for rank, of_rank in sorted(by_rank.items())}
    return JobStacks(seen, max(ranks, max(seen) + 1), apart, is_numbered)


def _seen(rank: int, looks: Sequence[_Look]) -> SeenStack:
    pid = next((look.pid for look in looks if look.pid), 0)
    looks = [look for look in looks if look.pid in (0, pid)]  # others are processes that the rank has started
    last, places = looks[-1], {_lines(look.main_thread()) for look in looks}
    moved = last.moved
    if len(looks) > 1:
        moved = len(places) > 1 or any(look.moved for look in looks)
    return SeenStack(rank, last.main_thread(), last.at, moved, pid, last.on_gpu, last.why)


def _lines(frames: Frames) -> tuple[tuple[str, int], ...]:
    """A stack without what programs write differently: folders, and the names of functions in functions."""
    return tuple((PurePath(frame.file).name, frame.line) for frame in frames)


# What `ddpquiz where --json` prints: a line for each job.


@dataclass(frozen=True, slots=True)
class LocalRank:
    """A rank on this machine, as `ddpquiz where` found it: all its threads, the main one first."""

    rank: int
    pid: int
    threads: tuple[Frames, ...]
    moved: bool | None
    on_gpu: bool
    why: str = ""


def stacks_as_json(job: str, ranks: int, host: str, apart: float, found: Iterable[LocalRank]) -> dict[str, Any]:
    """One job on this machine; `apart` are the seconds between the two looks at its ranks."""
    processes = [
        {
            "rank": each.rank, "pid": each.pid, "moved": each.moved, "gpu": each.on_gpu, "why": each.why,
            "threads": [[frame._asdict() for frame in frames] for frames in each.threads],
        }
        for each in found
    ]  # fmt: skip
    return {"event": "stacks", "job": job, "ranks": ranks, "host": host, "apart": apart, "processes": processes}


def stacks_of_ranks(ranks: int, apart: float, found: Iterable[LocalRank]) -> JobStacks:
    """The ranks of a job on this machine, for a verdict."""
    seen = {
        each.rank: SeenStack(
            each.rank, each.threads[0] if each.threads else (), f"process {each.pid}", each.moved, each.pid,
            each.on_gpu, each.why,
        )
        for each in found
    }  # fmt: skip
    return JobStacks(seen, max(ranks, max(seen, default=-1) + 1), apart)


def _looks_in(path: Path, name: str, jobs: dict[str, tuple[int, float]]) -> Iterator[_Look]:
    text = path.read_bytes()
    if text.startswith(_OURS):
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield from _of_where(line, f"{name}:{number}", jobs)
    elif text.lstrip()[:1] == b"[" and b'"os_thread_id"' in text:
        yield from _of_py_spy(text, name)
    else:
        yield from _TextReader(name).looks(text.decode(errors="replace").splitlines())


def _of_where(line: bytes, at: str, jobs: dict[str, tuple[int, float]]) -> Iterator[_Look]:
    try:
        values = json.loads(line)
        ranks, apart = int(values["ranks"]), float(values["apart"])
        jobs[str(values["job"])] = max(ranks, jobs.get(str(values["job"]), (0, 0.0))[0]), apart
        for each in values["processes"]:
            threads = {str(number): _frames(frames) for number, frames in enumerate(each["threads"])}
            yield _Look(at, int(each["rank"]), int(each["pid"]), threads, "0", each["moved"], each["gpu"], each["why"])
    except (ValueError, KeyError, TypeError, RecursionError) as wrong:
        raise UserError(
            f"{at} is damaged ({wrong}). Print it again with `ddpquiz where --json` on its machine."
        ) from None


def _frames(values: Iterable[Any]) -> list[Frame]:
    return [Frame(str(each["file"]), int(each["line"]), str(each["name"])) for each in values][:_MOST_FRAMES]


# What `py-spy dump` prints.


def parse_py_spy(text: bytes | str) -> dict[int, list[Frames]]:
    """The threads of each process in the output of `py-spy dump --json`, the main one first; ValueError if it is not.

    A thread without frames of Python is left out.
    """
    found: dict[int, list[Frames]] = {}
    try:
        for thread in json.loads(text):
            frames = tuple(
                Frame(str(each["filename"]), int(each["line"]), str(each["name"])) for each in thread["frames"]
            )
            threads = found.setdefault(int(thread["pid"]), [])
            is_main = thread["os_thread_id"] == thread["pid"] or thread["thread_name"] == "MainThread"
            if frames:
                threads.insert(0 if is_main else len(threads), frames[:_MOST_FRAMES])
    except (KeyError, TypeError, RecursionError) as wrong:
        raise ValueError(str(wrong)) from None
    return found


def _of_py_spy(text: bytes, name: str) -> Iterator[_Look]:
    try:
        for pid, threads in parse_py_spy(text).items():
            yield _Look(name, None, pid, {str(number): [*frames] for number, frames in enumerate(threads)}, "0")
    except ValueError as wrong:
        raise UserError(f"{name} is not what `py-spy dump --json` prints: {wrong}.") from None


_LABEL = re.compile(r"\s*\d{1,4}: ")  # srun --label
_PROCESS = re.compile(r"Process (\d{1,9}): ")
_RANK = re.compile(r"=== Rank (\d{1,4}): .* ===$")
_SPIED_THREAD = re.compile(r'Thread (0x[0-9A-Fa-f]+|\d+) \([^)]*\)(?:: "(.*)")?$')
_DUMPED_THREAD = re.compile(r"(?:Current thread|Thread) (0x[0-9a-f]+).*\(most recent call first\):$")
_SPIED_FRAME = re.compile(r"\s+(\S.*) \((.+):(\d{1,9})\)$")
_DUMPED_FRAME = re.compile(r'\s*File "([^"\n]+)", line (\d{1,9})(?: in (.+))?$')


class _TextReader:
    """Reads stacks as text: of one process or several, perhaps among the lines of a log and with its prefixes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: dict[int | None, _Look] = {}  # by rank
        self._thread: dict[int | None, list[Frame] | None] = {}
        self._crashed: set[int | None] = set()  # ranks whose stacks are those of their end
        self._looks: list[_Look] = []
        self._of_section: int | None = None
        self._pid = 0

    def looks(self, lines: Iterable[str]) -> list[_Look]:
        for number, line in enumerate(lines, 1):
            text, rank = short_numbers(line.rstrip()), None
            if text.startswith("[") or _LABEL.match(text):
                front = without_front(text, labeled=not text.startswith("["))
                text, rank = front.text.rstrip(), front.rank if front.rank is not None else front.local
            self._read(text, self._of_section if rank is None else rank, number)
        return [look for look in self._looks if look.threads]

    def _read(self, text: str, rank: int | None, number: int) -> None:
        if found := _RANK.match(text):
            self._of_section = int(found[1])
            self._pid = 0
            self._end(self._of_section)
        elif found := _PROCESS.match(text):
            self._pid = int(found[1])
            self._end(rank)
        elif found := _SPIED_THREAD.match(text) or _DUMPED_THREAD.match(text):
            self._begin(found[1], found.re is _SPIED_THREAD and found[2] == "MainThread", rank, number)
        elif (thread := self._thread.get(rank)) is not None and (frame := _frame(text)):
            if len(thread) < _MOST_FRAMES:
                thread.append(frame)
        elif text.startswith("Fatal Python error"):
            self._end(rank)
            self._crashed.add(rank)
        elif text and text.strip() != "<no Python frame>":
            self._end(rank)

    def _begin(self, thread: str, is_main: bool, rank: int | None, number: int) -> None:
        if rank in self._crashed:
            return
        look = self._open.get(rank)
        if look is None or thread in look.threads:  # the same thread again: another look
            look = self._open[rank] = _Look(f"{self._name}:{number}", rank, self._pid)
            self._looks.append(look)
        look.threads[thread] = self._thread[rank] = []
        if is_main or thread == str(self._pid):
            look.main = thread

    def _end(self, rank: int | None) -> None:
        """A line that belongs to no stack ends the look at a rank."""
        self._open.pop(rank, None)
        self._thread[rank] = None
        self._crashed.discard(rank)


def _frame(text: str) -> Frame | None:
    if found := _DUMPED_FRAME.match(text):
        return Frame(found[1], int(found[2]), found[3] or "")
    if found := _SPIED_FRAME.match(text):
        return Frame(found[2], int(found[3]), found[1])
    return None
