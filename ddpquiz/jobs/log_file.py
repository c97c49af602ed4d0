"""What plain logs of a job hold: errors, timeouts, exits and where ranks stood, each with its rank and its line.

A log is text of many writers: the script, torch's C++ code, NCCL, torchrun and Slurm, of one rank or of all. It is read
once, line by line, and only what says something about a failure is kept. Wordings are those of torch 2.1 to 2.13 and
NCCL 2.28; docs/diagnose.md says which of them were seen in real logs.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, NamedTuple

from ddpquiz.errors import UserError
from ddpquiz.events.operation import MAX_LOGGED_RANKS
from ddpquiz.events.source_text import frames_in, is_library

_LONGEST_LINE = 1 << 15  # characters; of longer ones the first and the last are read
_BLOCK = 1 << 20  # characters that are read at once
_MOST_DULL = 10_000  # different lines that are remembered because they say nothing, so that they are read once
_LONGEST_DULL = 100  # characters of such a line
_LONGEST_MESSAGE = 40  # lines of an exception's message
_LONGEST_TRACEBACK = 400  # lines
_LONGEST_TEXT = 8000  # characters of a message
_QUOTED = 200  # characters of a line that a verdict quotes


class LogLine(NamedTuple):
    """A line of a log. `second` is when it was written, in whole seconds since the year began.

    If the line has no time, `second` is that of the last line that has one, and `is_timed` is False: it was written
    then or later. Fractions are left out, because torch writes them without leading zeros in some versions.
    """

    file: str
    number: int
    text: str
    second: int | None = None
    is_timed: bool = True

    def __str__(self) -> str:
        text = self.text if len(self.text) <= _QUOTED else f"{self.text[:_QUOTED]} ..."
        return f"{self.file}:{self.number}: {text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFact:
    """Something that a log says; `rank` is None if it does not say of whom."""

    at: LogLine
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedError(LogFact):
    """A Python exception, or a crash of the interpreter.

    `uncaught` is True if torch or the interpreter wrote it at the end of a rank; otherwise the script may have logged
    it and gone on, above all if a logger wrote it (`by_logger`). `beside` is True if it was raised in a thread or a
    callback, which end by it, but not the rank. `of_launcher` is True if it is torchrun's own. The frames of a `crash`
    begin with the newest.
    """

    error: str
    message: str
    traceback: str
    uncaught: bool = False
    by_logger: bool = False
    beside: bool = False
    of_launcher: bool = False
    crash: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedWait(LogFact):
    """A collective on NCCL that did not end: the `sequence`-th of its group, of so many `elements`.

    `seconds` is how long the rank waited; it is None if the connection was lost before, for the `reason`. `file` and
    `line` are those of the call, if the log has its stack.
    """

    sequence: int
    op: str
    elements: int | None
    group: str = ""
    seconds: float | None = None
    reason: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedProgress(LogFact):
    """The last collective of a group that a rank had enqueued, and the last that had completed; -1 for none."""

    group: str
    enqueued: int
    completed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedLaggards(LogFact):
    """What torch's desync report or a monitored barrier says: these ranks did not come to a collective."""

    ranks: tuple[int, ...]
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class PrintedCall:
    """A call as torch's check of collectives prints it (TORCH_DISTRIBUTED_DEBUG=DETAIL)."""

    op: str
    sequence: int | None
    shape: str
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedMismatch(LogFact):
    """A rank and another one made calls that differ."""

    call: PrintedCall
    other: int
    other_call: PrintedCall


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedExit(LogFact):
    """How a rank ended, as its launcher says: an exit status, or the negative number of a signal.

    `first` is True if the launcher calls it the first failure that it saw. A rank that `is_local` counts on its
    machine.
    """

    status: int
    first: bool = False
    is_local: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedNotice(LogFact):
    """A line of another kind. `kind` is a key of `NOTICES`, `ranks` are those that it names."""

    kind: str
    said: str
    ranks: tuple[int, ...] = ()


NOTICES = {  # kinds of notices, and how their lines read
    "nccl_warning": r"NCCL WARN (?P<said>.+)",
    "device_assert": r"(?P<said>\S+: .*block: \[\d.*Assertion `.*` failed)",
    "memory_killer": r"(?P<said>.*(?:oom[-_]kill|Out of memory: Kill|OOM Killed|OOMKilled|Out Of Memory).*)",
    "dump_signal": r".*(?P<said>Received a dump signal due to a collective timeout from +rank \d+)",
    "launcher_signal": r".*(?P<said>Received \S+ death signal, shutting down workers)",
    "time_limit": r"(?P<said>.*CANCELLED AT .*)",
    "restart": r".*(?P<said>attempts left; will restart worker group|Stopping worker group.*restart)",
    "heartbeat": r".*?(?P<said>ProcessGroupNCCL's watchdog got stuck for \d+ seconds|Heartbeat monitor timed out)",
    "abort": r"\s*what\(\):\s+(?P<said>.+)",
    "stopping": r".*(?P<said>Sending process \d+ closing signal SIGTERM)",
    # Errors that a script has caught and printed: of the communication, and any other
    "caught_loss": r"(?!.*debug_logger)(?P<said>.*gloo/transport/.*)",
    "printed_error": r"(?P<said>.{0,40}?\b(?:\w*Error|ERROR|\w*Exception|FATAL)\b.*)",
}


@dataclass(frozen=True, slots=True)
class JobLog:
    """The facts of a job's logs, in the order of each file.

    `ranks` is the size of the job as far as the logs show it, `seen` are the ranks that wrote lines or are named.
    `has_launcher` is True if torchrun wrote into them. `went_on` holds errors after which their writer printed more.
    """

    facts: tuple[LogFact, ...]
    ranks: int
    seen: tuple[int, ...]
    files: tuple[str, ...]
    lines: int
    has_launcher: bool
    went_on: tuple[LoggedError, ...] = ()


def read_logs(paths: Sequence[Path], names: Sequence[str], ranks: int = 0) -> JobLog:
    """Read the logs of a job; `names` are how the verdict calls them. UserError names a file that cannot be read."""
    of_file = ranks_of_files(paths)
    reader = _Reader()
    for path, name in zip(paths, names, strict=True):
        reader.read(path, name, of_file.get(path))
    return reader.job(ranks, tuple(names))


# Which rank wrote a file: the name says it, or the folder in which torchrun puts its --log-dir.

_NAMED = re.compile(r"rank[-_.= ]?(\d{1,5})(?!\d)", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:^|[-_.])(\d{1,4})(?:\.(?:log|out|err|txt|json|stdout|stderr))*$")
_STREAMS = ("stdout", "stderr", "out", "err", "log", "output", "error")


def ranks_of_files(paths: Sequence[Path]) -> dict[Path, int]:
    """The rank of each file whose name or folder is one. A number at the end counts if several files have one."""
    found: dict[Path, int] = {}
    numbered: dict[Path, int] = {}
    for path in paths:
        if named := _NAMED.search(path.name):
            found[path] = int(named[1])
        elif path.name.partition(".")[0] in _STREAMS and re.fullmatch(r"(?:rank[-_]?)?\d{1,5}", path.parent.name):
            found[path] = int(re.sub(r"\D", "", path.parent.name))
        elif (number := _NUMBERED.search(path.name)) and not re.fullmatch(r"slurm-\d+\.\w+", path.name):
            numbered[path] = int(number[1])
    if len({*numbered.values()}) > 1:
        found |= numbered
    return {path: rank for path, rank in found.items() if rank < MAX_LOGGED_RANKS}


def rank_of_folder(path: Path) -> int | None:
    """The rank of an error file, which torchrun writes into a folder with the name of the rank on its machine."""
    return ranks_of_files([path.parent / path.parent.name / "error"]).get(path.parent / path.parent.name / "error")


# One line: what stands in front of its text.

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*(?:\x07|$)|[()][A-Z0-9])")
_FRONT = re.compile(
    r"\s*(?:"
    r"\[rank(?P<rank>\d{1,5})\]:?"  # torch, since 2.2
    r"|\[(?P<role>[a-z_][\w-]*?)(?P<local>\d{1,4})\]:"  # torchrun --tee
    r"|\([\w.-]+(?:\([^()]*\))? pid=\d+[^()]*\)"  # Ray
    r"|\[?(?:\d{4}[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T _]?)?(?P<clock>\d\d:\d\d:\d\d)"  # a time
    r"(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:?(?=\s|$)"
    r"|[\w.-]+: (?=\[rank\d)"  # a node
    r")\s?"
)
_LABEL = re.compile(r"\s*(\d{1,5}): ?")  # srun --label
_GLOG = re.compile(r"\[?(?P<level>[IWEF])(?P<month>\d?\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)|\[[IWEF] \S+:\d+\]")

_GLOG_FRONT = re.compile(r"^\[?[IWEF]\d{3,4} [\d:.]+ (?:\d+ )?\S+:\d+\] |^\[[IWEF] \S+:\d+\] ")


_OLD_TORCH = re.compile(r"(?:[A-Z]+:)?torch\.distributed\.[\w.]+:")  # up to 2.2
_LONG_NUMBER = re.compile(r"\d{19,}")
_GLUED = re.compile(r"(?<=[^\s:\]])(?=\[rank\d{1,5}\]:[\[ ])")  # two ranks wrote at once


class _Text(NamedTuple):
    """A line without its front. `logged` is True if a logger of torch, or one that writes the time, wrote it."""

    text: str
    rank: int | None
    local: int | None
    second: int | None
    logged: bool
    is_timed: bool = True


def _ranks_of(fact: LogFact) -> set[int]:
    """The ranks that a line names."""
    one = {getattr(fact, "rank", None), getattr(fact, "other", None)} - {None}
    return {*one, *getattr(fact, "ranks", ())}


def _names_ranks(fact: LogFact) -> bool:
    """Whether the numbers that a line gives to ranks can be ranks."""
    return max(_ranks_of(fact), default=0) < MAX_LOGGED_RANKS


def _may_say(text: str) -> bool:
    """Whether a line may say something about a failure."""
    return bool(_TRIGGER.search(text) or _TRIGGER_IN_FRONT.match(text))


def _is_of_torch(text: str) -> bool:
    """Whether a logger of torch wrote a line; a script that uses absl begins its lines in the same way."""
    is_glog = text[:1] in "[IWEF" and bool(_GLOG.match(text))
    return bool(_OLD_TORCH.match(text)) or (is_glog and (text.startswith("[") or "torch/" in text))


def short_numbers(text: str) -> str:
    """A text whose numbers have at most 18 digits: no program means longer ones, and Python may refuse to read them."""
    return _LONG_NUMBER.sub(lambda found: found[0][:18], text)


def _second(month: str | None, day: str | None, clock: str) -> int | None:
    """Seconds since the year began, if every month had 31 days; None without a date."""
    if month is None or day is None:
        return None
    hours, minutes, seconds = map(int, clock.split(":"))
    return ((int(month) * 31 + int(day)) * 24 + hours) * 3600 + minutes * 60 + seconds


def without_front(line: str, *, labeled: bool) -> _Text:
    """A line without what launchers and loggers put before it. `labeled` is True after srun --label."""
    rank = local = second = None
    logged = False
    if labeled and (label := _LABEL.match(line)):
        local, line = int(label[1]), line[label.end() :]
    at = 0
    while front := _FRONT.match(line, at):
        if front.end() == at:
            break
        if front["rank"]:
            rank = int(front["rank"])
        elif front["local"]:
            local = int(front["local"])
        elif front["clock"]:
            second, logged = _second(front["month"], front["day"], front["clock"]), True
        at = front.end()
    text = line[at:] if at else line
    if text[:1] in "[IWEF" and (glog := _GLOG.match(text)):
        logged = True
        if glog["clock"]:
            second = _second(glog["month"], glog["day"], glog["clock"])
    return _Text(text, rank, local, second, logged)


# What lines say.

_TRIGGER = re.compile(
    r"Watchdog caught|ast enqueued|async exception|Stack trace of the failed|finished collective #|didn't finish|"
    r"lagging ranks|failed to pass monitoredBarrier|Detected mismatch between collectives|exitcode|Root Cause|"
    r"global rank: |srun: error|NCCL WARN|Assertion `|oom[-_]kill|ut of memory: Kill|OOM ?Killed|Out Of Memory|"
    r"death signal|CANCELLED AT|restart|watchdog got stuck|Heartbeat monitor timed out|what\(\):|closing signal|"
    r"thread terminated with exception|exits with return code|"
    r"gloo/transport/|Error\b|ERROR\b|Exception\b|FATAL\b|"
    r"Fatal Python error|torch/distributed/elastic"
)  # without `^`, which would make it twice as slow
_TRIGGER_IN_FRONT = re.compile(r"Failures:|-- Process \d+ terminated|#\d")
_OP = r"OpType=(?P<op>\w+)(?:, NumelIn=(?P<elements>\d+))?"
_WATCHDOG = re.compile(rf"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(?P<sequence>\d+), {_OP}.*?"
                       r"\) ran for (?P<ms>\d+) milliseconds")  # fmt: skip
_OLD_WATCHDOG = re.compile(rf"Watchdog caught collective operation timeout: WorkNCCL\({_OP}.*?\) ran for (?P<ms>\d+)")
_ASYNC = re.compile(rf"WorkNCCL\(SeqNum=(?P<sequence>\d+), {_OP}.*?\).*?async exception: (?P<reason>.*)")
_GROUP = re.compile(
    r"\[PG (?:ID \d+ PG GUID (?P<guid>[^\s(\]]+)|(?P<old>\d+))(?: ?\((?P<name>[^)]*)\))? Rank (?P<in_group>\d+)\]"
)
_DEFAULT = "default_pg"
_CUDA_ERROR = re.compile(r"terminated with exception: CUDA error: (.+)")
_DEEPSPEED = re.compile(r"--local_rank=(\d{1,5})'.* exits with return code = (-?\d+)")
_IN_GROUP = re.compile(r"\[Rank (\d+)\]")
_STATUS = re.compile(
    r"(?:(?:work sequence id|at work|NCCL work): (?P<sequence>-?\d+)[^\d]*?)?[Ll]ast enqueued (?:\w+ )?work: "
    r"(?P<enqueued>-?\d+)(?:, last started (?:\w+ )?work: -?\d+)?, last completed (?:\w+ )?work: (?P<completed>-?\d+)"
)
_LAGGING = re.compile(r"\[([\d, ]+)\] finished collective #(\d+), but didn't join")
_JOINED = re.compile(r"\[([\d, ]+)\] joined but didn't finish collective #(\d+)")
_NEVER = re.compile(r"ranks \[([\d, ]+)\] are the lagging ranks")
_BARRIER = re.compile(r"(?:Ranks?|\[Rank \d+\]: Ranks?) ([\d, ]+?) failed to pass monitoredBarrier")
_FINGERPRINT = r"CollectiveFingerPrint\((.*?)(?:, TensorDeviceTypes=|\))"
_MISMATCH = re.compile(
    rf"Detected mismatch between collectives on ranks\. Rank (\d+) is running collective: {_FINGERPRINT}"
    rf".*?but Rank (\d+) is running collective: {_FINGERPRINT}"
)
_SIZE = re.compile(r"initialization options: size: (\d{1,5}), global rank: (\d{1,5})")
_FAILED = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+)")
_SRUN = re.compile(r"srun: error: \S+: tasks? ([\d,-]+): (?P<how>Exited with exit code (?P<code>\d+)|[A-Z][\w ]+)")
_SIGNALS = {"Killed": -9, "Segmentation fault": -11, "Aborted": -6, "Terminated": -15, "Bus error": -7,
            "Out Of Memory": -9, "Floating point exception": -8}  # fmt: skip
_NATIVE_FRAME = re.compile(r"#\d+ (\S+) from (.+?):(\d+)")
_TRACEBACK = "Traceback (most recent call last):"
_ERROR = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Z_]\w*)(?:: (.*))?$")
_LAUNCHERS = re.compile(r'File "[^"]*(?:/bin/(?:torchrun|accelerate|deepspeed)|torch/distributed/(?:run|launch)\.py|'
                        r"torch/distributed/launcher/|torch/multiprocessing/spawn\.py)")  # fmt: skip
# That a connection to another rank was lost. Fewer texts than `_CONSEQUENCE` of diagnosis/root_cause.py: a script that
# handles `Broken pipe` or `Connection refused` may have lost a file or a service; then what its handler raises counts.
_LOST = re.compile(r"Connection (?:closed|reset)|Timed out waiting|remote process exited|wait timeout after")
# What stands before the traceback of an exception that ends a thread, a callback or a clean-up, and no rank.
_BESIDE = re.compile(
    r"Exception in thread |Exception ignored in|Exception in callback |Exception in default exception handler|"
    r"Task exception was never retrieved|^(?:future|handle): <|unhandled exception during asyncio\.run|"
    r"^--- Logging error ---|^Error in atexit\._run_exitfuncs"
)
# A line of a logger that may tell an exception: logging, loguru, absl, structlog, and what frameworks make of them.
_LOGGER = re.compile(
    r"\[?[EF]\d{4} \d|(?:^|[\s\[|(<:])(?:ERROR|CRITICAL|FATAL|EXCEPTION|error|critical)"
    r"(?:\s*[:|\])>]|\s+-|\s+\[|(?<=[A-Z])\s+\S)"
)
_LOGGER_FRONT = 160  # characters in which the level of a line stands
# What a process writes at its end, also after an exception that ended it.
_AT_END = re.compile(r"wandb: |terminate called|.*(?:resource_tracker|leaked \w+ objects)|\s*warnings\.warn\(")
_PROGRESS_BAR = re.compile(r"\d+%\||it/s|s/it")
_FEW = {"caught_loss": 3, "printed_error": 3}  # how many of a file are kept
_NOTICE = {kind: re.compile(pattern) for kind, pattern in NOTICES.items()}
_FIELD = re.compile(r"\s+(time|host|rank|exitcode|error_file|traceback)\s*: ?(.*)")


def op_name(printed: str) -> str:
    """The name of an operation as scripts call it: `all_reduce` for ALLREDUCE."""
    return _OPS.get(printed.upper(), printed.lower().lstrip("_"))


_OPS = {
    "ALLREDUCE": "all_reduce", "ALLREDUCE_COALESCED": "all_reduce_coalesced", "ALLGATHER": "all_gather",
    "_ALLGATHER_BASE": "all_gather_into_tensor", "ALLGATHER_COALESCED": "all_gather_coalesced",
    "_REDUCE_SCATTER_BASE": "reduce_scatter_tensor", "ALLTOALL_BASE": "all_to_all_single", "ALLTOALL": "all_to_all",
    "RECVANYSOURCE": "recv",
}  # fmt: skip


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted({int(number) for number in re.findall(r"\d+", text) if int(number) < MAX_LOGGED_RANKS}))


def _tasks(text: str) -> Iterator[int]:
    """The tasks in Slurm's list, such as `0-2,5`."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), min(int(last or first), MAX_LOGGED_RANKS - 1) + 1)


def _printed_call(text: str) -> PrintedCall:
    op = re.search(r"OpType=(\w+)", text)
    sequence = re.search(r"SequenceNumber=(\d+)", text)
    shape = re.search(r"TensorShape=\[(.*?)\]", text)
    dtype = re.search(r"TensorDtypes=(\w+)", text)
    return PrintedCall(
        op_name(op[1]) if op else "a collective", int(sequence[1]) if sequence else None,
        shape[1].replace(", ", "x") if shape else "", dtype[1].lower() if dtype else "",
    )  # fmt: skip


# A writer: the lines of one rank, or those whose rank is not known.


@dataclass(slots=True)
class _OpenError:
    at: LogLine
    rank: int | None
    frames: list[str] = field(default_factory=list)
    error: str = ""
    message: list[str] = field(default_factory=list)
    uncaught: bool = False
    by_logger: bool = False
    beside: bool = False
    crash: bool = False
    in_message: bool = False

    def add_to_crash(self, text: str) -> bool:
        """Add a line of the stack that faulthandler writes; return whether it is one."""
        if text.startswith(("  File ", "Current thread", "Thread 0x")):
            self.frames.append(text)
            return True
        return not text.strip() and not self.frames

    def add_frame(self, text: str, number: int) -> bool:
        """Add a line between the head of a traceback and its message, or the first of the message.

        Loguru puts empty lines around the frames, and an arrow before the one that caught the exception.
        """
        if text.startswith("> File "):
            text = f"  {text[2:]}"
        is_empty = not text.strip()
        if text.startswith((" ", "\t")) or (is_empty and not (self.frames and self.frames[0])):
            if len(self.frames) < _LONGEST_TRACEBACK:
                self.frames.append(text.rstrip())
            return True
        found = _ERROR.match(text)
        if found and not self.error:
            self.error, self.message = found[1], [found[2] or ""]
            self.at = self.at._replace(text=text.strip(), number=number)
        self.in_message = found is not None
        return self.in_message

    def add_to_message(self, line: _Text) -> bool:
        """Add a further line of the message; return whether it is one."""
        text = line.text
        if "Original Traceback" in text:  # of a DataLoader's worker: its frames say where
            self.in_message = False
            return True
        is_other = line.logged or not text.strip() or _PROGRESS_BAR.search(text) or text.endswith(_TRACEBACK)
        if is_other or " exception" in text or len(self.message) >= _LONGEST_MESSAGE:
            return False
        if not text.startswith("frame #"):
            self.message.append(text.rstrip())
        return True

    def fact(self) -> LoggedError | None:
        if not self.error:
            return None
        traceback, message = "\n".join(self.frames), "\n".join(self.message)
        name = self.error.rpartition(".")[2]
        return LoggedError(
            at=self.at, rank=self.rank, error=name, message=message[:_LONGEST_TEXT], traceback=traceback,
            uncaught=self.uncaught or self.crash, crash=self.crash, by_logger=self.by_logger, beside=self.beside,
            of_launcher=name in ("ChildFailedError", "SignalException") or bool(_LAUNCHERS.search(traceback)),
        )  # fmt: skip


@dataclass(slots=True)
class _Writer:
    """What is known of a writer while its lines are read."""

    open: _OpenError | None = None
    before: _Text | None = None  # its last line outside tracebacks
    bare: LoggedError | None = None  # its last line that reads like the message of an exception without a traceback
    last: int | None = None  # index of its last error
    handling: bool = False  # the next traceback was raised while that error was handled
    caused: bool = False  # the next traceback was raised from that error
    lines_since: int = 0  # since that error, without torch's own
    wait: int | None = None  # index of its last wait, of which the group or the stack may follow
    process: int | None = None  # of torch.multiprocessing.spawn

    def note(self, text: str) -> None:
        """Note a line outside tracebacks, which none of torch's loggers wrote."""
        if "above exception was the direct cause" in text:
            self.caused = True
        elif "another exception occurred:" in text:
            self.handling = True
        elif not text.startswith(("Exception raised from", "frame #", "#")) and not _AT_END.match(text):
            self.lines_since += 1

    def tells_beside(self) -> bool:
        """Whether the next traceback is of an exception that ends a thread or a callback, and not its rank."""
        return self.before is not None and bool(_BESIDE.search(self.before.text))

    def tells_as_logger(self, head: _Text) -> bool:
        """Whether a logger writes the traceback that begins with `head`: in a line of its own, or after one."""
        if head.text.removesuffix(_TRACEBACK).strip():
            return True
        return self.before is not None and bool(_LOGGER.search(self.before.text[:_LOGGER_FRONT]))


class _Reader:
    """Reads files one after the other and collects their facts."""

    def __init__(self) -> None:
        self._facts: list[LogFact] = []
        self._seen: set[int] = set()
        self._size = 0
        self._lines = 0
        self._has_launcher = False
        self._unsure: dict[int, _Writer] = {}

    def read(self, path: Path, name: str, rank: int | None) -> None:
        self._file, self._file_rank = name, rank
        self._writers: dict[int | None, _Writer] = {}
        self._in_stack: _Writer | None = None
        self._clock: int | None = None
        self._local: dict[int, int] = {}
        self._first = len(self._facts)
        self._told: Counter[str] = Counter()
        self._dull: dict[str, _Text] = {}
        self._summary: dict[str, str] | None = None
        self._in_summary = self._is_root = False
        self._summary_error: _OpenError | None = None
        try:
            with path.open("r", encoding="utf-8", errors="replace", newline="\n") as file:
                labeled, pieces = _is_labeled(_pieces(file))
                number = 0
                for number, piece in pieces:
                    if not self._is_dull(piece):
                        for part in _parts(short_numbers(piece)):
                            self._line(part, number, labeled=labeled)
                self._lines += number
        except OSError as wrong:
            raise UserError(f"{path} cannot be read: {wrong.strerror}.") from None
        self._end_summary()
        for writer in self._writers.values():
            self._close(writer)
            if writer.last is not None:
                self._unsure[writer.last] = writer
        for index, fact in enumerate(self._facts[self._first :], self._first):
            if isinstance(fact, LoggedExit) and fact.is_local:
                self._facts[index] = replace(fact, rank=self._local.get(fact.rank or 0, fact.rank))
        if rank is not None and {*self._writers} <= {rank}:
            self._seen.add(rank)

    def job(self, ranks: int, names: tuple[str, ...]) -> JobLog:
        went_on = []
        for index, writer in self._unsure.items():
            fact = self._facts[index]
            if isinstance(fact, LoggedError) and not fact.uncaught and writer.lines_since > 0 and _names_ranks(fact):
                went_on.append(fact)
        order = {name: number for number, name in enumerate(names)}
        real = filter(_names_ranks, self._facts)
        facts = tuple(sorted(real, key=lambda fact: (order[fact.at.file], fact.at.number)))
        named = {rank for rank in self._seen if rank < MAX_LOGGED_RANKS}.union(*map(_ranks_of, facts))
        return JobLog(
            facts, max(ranks, self._size, max(named, default=0) + 1), tuple(sorted(named)), names, self._lines,
            self._has_launcher, tuple(went_on),
        )  # fmt: skip

    # A line, and what it belongs to.

    def _line(self, raw: str, number: int, *, labeled: bool) -> None:
        line = without_front(raw, labeled=labeled)
        if line.second is not None:
            self._clock = line.second
        elif self._clock is not None:
            line = line._replace(second=self._clock, is_timed=False)
        rank, writer = self._writer_of(line)
        text = line.text
        if self._in_summary and self._read_summary(text, number, line.second):
            return
        if writer.open and self._continue(writer, writer.open, line, number):
            return
        if text.endswith(_TRACEBACK):
            self._begin(writer, raw, line, number, rank)
            return
        since = writer.lines_since
        if is_said := bool(text.strip()) and not _is_of_torch(text):
            writer.note(text)
            writer.before = line
            if (writer.caused or writer.handling) and writer.bare is not None:
                self._keep_bare(writer, writer.bare)
        if line.rank is not None and (bare := _ERROR.match(text)) and bare[2]:
            at = LogLine(self._file, number, text.strip(), line.second, line.is_timed)
            error = _OpenError(at, rank, error=bare[1], message=[bare[2]], uncaught=True)
            writer.bare = error.fact()
        if _may_say(text):
            said = _GLOG_FRONT.sub("", text).strip()[:400]
            self._say(writer, line, LogLine(self._file, number, said, line.second, line.is_timed), rank)
        else:
            self._remember(raw, line, is_noted=writer.lines_since > since, is_said=is_said)

    def _remember(self, raw: str, line: _Text, *, is_noted: bool, is_said: bool) -> None:
        """Remember a line that says nothing of its own, so that the same line is not looked at again."""
        if line.logged or len(raw) > _LONGEST_DULL or len(self._dull) == _MOST_DULL or line.text != raw:
            return
        if is_noted == is_said:
            self._dull[raw] = line if is_said else line._replace(text="")

    def _is_dull(self, piece: str) -> bool:
        """Note a line that was read before and says nothing of its own; return whether it is one."""
        line = self._dull.get(piece)
        if line is None:
            return False
        writer = self._writers[self._file_rank]
        if writer.open or writer.bare or (self._in_summary and line.text):
            return False
        if line.text:
            writer.lines_since += 1
            writer.before = line
        return True

    def _writer_of(self, line: _Text) -> tuple[int | None, _Writer]:
        """Which rank wrote a line, as far as it is known, and what was read of that writer."""
        rank = line.rank
        if rank is None:
            rank = self._file_rank if line.local is None else line.local
        if rank is not None and (line.rank is not None or line.local is not None):
            self._seen.add(rank)
        writer = self._writers.get(rank)
        if writer is None:
            writer = self._writers[rank] = _Writer()
        return rank, writer

    def _begin(self, writer: _Writer, raw: str, line: _Text, number: int, rank: int | None) -> None:
        self._close(writer)
        at = LogLine(self._file, number, raw.strip(), line.second, line.is_timed)
        owner = writer.process if rank is None else rank
        is_signed = line.rank is not None
        writer.open = _OpenError(
            at, owner, uncaught=is_signed, beside=writer.tells_beside(),
            by_logger=not is_signed and writer.tells_as_logger(line),
        )  # fmt: skip
        writer.lines_since, writer.bare, writer.before = 0, None, None

    def _continue(self, writer: _Writer, error: _OpenError, line: _Text, number: int) -> bool:
        """Read a line of an open traceback; return whether it says nothing else."""
        if error.crash:
            belongs = error.add_to_crash(line.text)
        elif error.in_message:
            belongs = error.add_to_message(line)
            if belongs:
                return not _may_say(line.text) or bool(_MISMATCH.search(line.text))
        else:
            belongs = error.add_frame(line.text, number)
            if belongs and error.in_message:
                self._mismatch(line.text, error.at, error.rank)
                belongs_to_launcher = error.error.endswith("ChildFailedError")  # torchrun's summary follows
                if belongs_to_launcher:
                    self._close(writer)
        if not belongs:
            self._close(writer)
        return belongs

    def _close(self, writer: _Writer) -> None:
        """Keep an error that is complete."""
        if writer.open is not None:
            fact, writer.open = writer.open.fact(), None
            if fact is not None:
                self._keep(writer, fact)

    def _keep_bare(self, writer: _Writer, bare: LoggedError) -> None:
        """Keep an exception without a traceback, from which or behind which the next one was raised."""
        chain = writer.caused, writer.handling
        writer.caused = writer.handling = False
        self._keep(writer, bare)
        writer.bare, (writer.caused, writer.handling) = None, chain

    def _keep(self, writer: _Writer, fact: LoggedError) -> None:
        """Keep an error, or what counts of it and the one before.

        Of errors that were raised from each other, the first counts. Of those that were raised while another one was
        handled, the last does, unless the first one was that a connection was lost.
        """
        before = None if writer.last is None else self._facts[writer.last]
        if writer.last is not None and isinstance(before, LoggedError) and (writer.caused or writer.handling):
            counts = before if writer.caused or _LOST.search(before.message) else fact
            tracebacks = [counts.traceback, before.traceback, fact.traceback]
            self._facts[writer.last] = replace(
                counts, uncaught=before.uncaught or fact.uncaught, by_logger=before.by_logger, beside=before.beside,
                traceback=next(filter(_has_own_frame, tracebacks), counts.traceback),
            )  # fmt: skip
        else:
            if writer.last is not None:
                self._unsure[writer.last] = _Writer(lines_since=1)
            writer.last = len(self._facts)
            self._facts.append(fact)
        writer.caused = writer.handling = False
        writer.lines_since = 0

    # What a line outside tracebacks says.

    def _say(self, writer: _Writer, line: _Text, at: LogLine, rank: int | None) -> None:
        text = line.text
        if rank is None:
            rank = _rank_in(text)
        if self._in_stack and (frame := _NATIVE_FRAME.match(text)):  # these lines name no rank
            self._add_frame(self._in_stack, frame)
            return
        self._say_of_nccl(writer, text, at, rank)
        self._mismatch(text, at, rank)
        self._say_of_launcher(text, at)
        if text.startswith("Fatal Python error"):
            writer.open = _OpenError(at, rank, error="Crash", message=[text.partition(": ")[2]], crash=True)
            writer.lines_since = 0
        if found := re.match(r"-- Process (\d{1,4}) terminated", text):
            writer.process = int(found[1])
        self._notice(text, at, rank)

    def _say_of_nccl(self, writer: _Writer, text: str, at: LogLine, rank: int | None) -> None:
        """What the watchdog, its desync report and the monitored barrier write."""
        if "thread terminated with exception" in text:  # it tells again what the watchdog has said
            if found := _CUDA_ERROR.search(text):
                self._facts.append(
                    LoggedError(at=at, rank=rank, error="CUDA error", message=found[1], traceback="", uncaught=True)
                )
        elif found := _WATCHDOG.search(text) or _OLD_WATCHDOG.search(text) or _ASYNC.search(text):
            self._add_wait(writer, _wait(found.groupdict(), at, rank))
        if "ast enqueued" in text and (found := _STATUS.search(text)):
            self._add_progress(writer, text, found, at, rank)
        if "Stack trace of the failed collective:" in text:
            self._in_stack = writer
        if found := _LAGGING.search(text):
            ranks, sequence = _numbers(found[1]), int(found[2]) + 1
            self._facts.append(LoggedLaggards(at=at, rank=rank, ranks=ranks, sequence=sequence))
        elif found := _NEVER.search(text) or _BARRIER.search(text):
            self._facts.append(LoggedLaggards(at=at, rank=rank, ranks=_numbers(found[1])))
        if found := _SIZE.search(text):
            self._size = max(self._size, min(int(found[1]), MAX_LOGGED_RANKS))
            self._seen.add(min(int(found[2]), MAX_LOGGED_RANKS - 1))

    def _say_of_launcher(self, text: str, at: LogLine) -> None:
        """What torchrun and Slurm write about the end of ranks."""
        if "torch/distributed/elastic" in text:
            self._has_launcher = True
        if found := _FAILED.search(text):
            self._facts.append(LoggedExit(at=at, rank=int(found[2]), status=int(found[1]), first=True, is_local=True))
        elif "Root Cause (first observed failure)" in text or text.startswith("Failures:"):
            self._in_summary, self._is_root = True, "Root Cause" in text
        elif found := _DEEPSPEED.search(text):
            self._facts.append(LoggedExit(at=at, rank=int(found[1]), status=int(found[2]), first=True, is_local=True))
        elif found := _SRUN.search(text):
            status = int(found["code"]) if found["code"] else _SIGNALS.get(found["how"].strip(), 1)
            status = 128 - status if 128 < status < 192 else status  # how a shell reports signals
            self._facts += [LoggedExit(at=at, rank=task, status=status) for task in _tasks(found[1])]

    def _notice(self, text: str, at: LogLine, rank: int | None) -> None:
        for kind, pattern in _NOTICE.items():
            if found := pattern.match(text) if kind != "nccl_warning" else pattern.search(text):
                if kind in _FEW:
                    self._told[kind] += 1
                    if self._told[kind] > _FEW[kind]:
                        return
                said = found["said"].strip()
                ranks = _numbers(" ".join(re.findall(r"\brank (\d+)", said)))
                self._facts.append(LoggedNotice(at=at, rank=rank, kind=kind, said=said, ranks=ranks))
                return

    def _mismatch(self, text: str, at: LogLine, rank: int | None) -> None:
        if found := _MISMATCH.search(text):
            own, call, other, other_call = found.groups()
            self._facts.append(
                LoggedMismatch(
                    at=at,
                    rank=int(own) if rank is None else rank,
                    call=_printed_call(call),
                    other=int(other),
                    other_call=_printed_call(other_call),
                )
            )

    def _add_wait(self, writer: _Writer, wait: LoggedWait) -> None:
        """Keep a wait; an exception that repeats the message adds nothing."""
        before = self._facts[writer.wait] if writer.wait is not None else None
        if isinstance(before, LoggedWait) and (before.sequence, before.op) == (wait.sequence, wait.op):
            return
        writer.wait = len(self._facts)
        self._facts.append(wait)

    def _add_progress(self, writer: _Writer, text: str, found: re.Match[str], at: LogLine, rank: int | None) -> None:
        group = _group_in(text)
        self._facts.append(
            LoggedProgress(
                at=at, rank=rank, group=group, enqueued=int(found["enqueued"]), completed=int(found["completed"])
            )
        )
        wait = None if writer.wait is None else self._facts[writer.wait]
        is_open = isinstance(wait, LoggedWait) and not wait.group and str(wait.sequence) == found["sequence"]
        if writer.wait is not None and isinstance(wait, LoggedWait) and is_open:
            self._facts[writer.wait] = replace(wait, group=group)

    def _add_frame(self, writer: _Writer, frame: re.Match[str]) -> None:
        """The first frame of a script or a library is the call; those before it are torch's."""
        wait = self._facts[writer.wait] if writer.wait is not None else None
        is_torch = re.search(r"/(?:site|dist)-packages/torch/|/torch/(?:distributed|nn|_\w+)/", frame[2])
        if isinstance(wait, LoggedWait) and not wait.line and not is_torch and writer.wait is not None:
            self._facts[writer.wait] = replace(wait, file=frame[2], line=int(frame[3]))
            self._in_stack = None

    # torchelastic's summary, at the end.

    def _read_summary(self, text: str, number: int, second: int | None) -> bool:
        """Read a line of the summary; return whether it is one."""
        if self._summary_error is not None and not text.startswith(("=====", "-----", "[")):
            self._read_summary_error(self._summary_error, text, number)
            return True
        if text.startswith("====="):
            self._end_summary()
            self._in_summary = False
        elif "Root Cause (first observed failure)" in text:
            self._end_summary()
            self._is_root = True
        elif re.match(r"\[\d+\]:", text) or text.startswith("-----"):
            self._end_summary()
        elif found := _FIELD.match(text):
            self._summary = self._summary if self._summary is not None else {}
            self._summary[found[1]] = found[2].strip()
            if found[1] == "exitcode":
                self._summary["line"] = str(number)
            if found[1] == "traceback" and found[2].startswith("Traceback"):
                at = LogLine(self._file, number, found[2], second)
                self._summary_error = _OpenError(at, None, uncaught=True)
        else:
            return False
        return True

    def _read_summary_error(self, error: _OpenError, text: str, number: int) -> None:
        text = text.removeprefix("  ")
        if not error.error and text.startswith(" "):
            error.frames.append(text)
        elif not error.error and (found := _ERROR.match(text)):
            error.error, error.message = found[1], [found[2] or ""]
            error.at = error.at._replace(text=text.strip(), number=number)
        elif error.error and text.strip() and len(error.message) < _LONGEST_MESSAGE:
            error.message.append(text)

    def _end_summary(self) -> None:
        summary, self._summary = self._summary, None
        error, self._summary_error = self._summary_error, None
        if not summary or "rank" not in summary or "exitcode" not in summary:
            return
        rank, status = re.match(r"\d{1,5}", summary["rank"]), re.match(r"-?\d+", summary["exitcode"])
        if not rank or not status:
            return
        self._has_launcher = True
        if local := re.search(r"local_rank: (\d{1,5})", summary["rank"]):
            self._local[int(local[1])] = int(rank[0])
        at = LogLine(
            self._file, int(summary["line"]), f"rank {rank[0]}, exitcode {summary['exitcode']}",
            _date(summary.get("time", "")),
        )  # fmt: skip
        if error and (fact := error.fact()):
            self._facts.append(replace(fact, rank=int(rank[0]), of_launcher=False))
        self._facts.append(LoggedExit(at=at, rank=int(rank[0]), status=int(status[0]), first=self._is_root))


def _has_own_frame(traceback: str) -> bool:
    """Whether a traceback shows a line outside libraries: torch raises some exceptions far from the script."""
    return any(not is_library(frame.file) for frame in frames_in(traceback))


def _wait(found: dict[str, str | None], at: LogLine, rank: int | None) -> LoggedWait:
    """A wait, by the parts of the watchdog's message."""
    elements, milliseconds = found.get("elements"), found.get("ms")
    return LoggedWait(
        at=at, rank=rank, sequence=int(found.get("sequence") or -1), op=op_name(found["op"] or ""),
        elements=int(elements) if elements else None, reason=found.get("reason") or "",
        seconds=int(milliseconds) / 1000 if milliseconds else None,
    )  # fmt: skip


def _rank_in(text: str) -> int | None:
    """The rank that a message of torch names, if it is one of the job: other groups number their members anew."""
    found = _GROUP.search(text)
    if found:
        is_default = found["name"] == _DEFAULT or (found["guid"] or found["old"]) == "0"
        return int(found["in_group"]) if is_default else None
    found = _IN_GROUP.search(text)
    return int(found[1]) if found else None


def _group_in(text: str) -> str:
    found = _GROUP.search(text)
    if not found:
        return ""
    name = found["guid"] or found["old"]
    return f"{name} ({found['name']})" if found["name"] and found["name"] != _DEFAULT else name


def _date(text: str) -> int | None:
    found = re.match(r"\d{4}-(\d\d)-(\d\d)_(\d\d:\d\d:\d\d)", text)
    return _second(found[1], found[2], found[3]) if found else None


def _parts(piece: str) -> Iterable[str]:
    """The texts of a line: a progress bar writes many, each over the one before."""
    piece = piece.rstrip("\r\n")
    if "\x1b" in piece:
        piece = _ANSI.sub("", piece)
    if "[rank" in piece and piece.find("[rank", 1) > 0:
        piece = _GLUED.sub("\r", piece)
    if "\r" not in piece:
        return (piece,)
    return [part for part in piece.split("\r") if part.strip()]


def _pieces(file: IO[str]) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers. Of a long line come the ends of each block."""
    number, rest = 1, ""
    while block := file.read(_BLOCK):
        *lines, rest = (rest + block).split("\n")
        for line in lines:
            if len(line) <= _LONGEST_LINE:
                yield number, line
            else:
                yield from ((number, end) for end in _ends(line))
            number += 1
        if len(rest) > 2 * _LONGEST_LINE:
            *ends, rest = _ends(rest)
            yield from ((number, end) for end in ends)
    if rest:
        yield from ((number, end) for end in _ends(rest))


def _ends(line: str) -> Iterator[str]:
    """The parts that a progress bar writes over each other; of a long one the first and the last characters."""
    for part in line.split("\r"):
        yield part[:_LONGEST_LINE]
        if len(part) > _LONGEST_LINE:
            yield part[max(_LONGEST_LINE, len(part) - _LONGEST_LINE) :]


def _is_labeled(pieces: Iterator[tuple[int, str]]) -> tuple[bool, Iterator[tuple[int, str]]]:
    """Whether srun put the task in front of each line, by the first lines; and all lines."""
    first = [*islice(pieces, 50)]
    written = [piece for _, piece in first if piece.strip()]
    labels = [label for piece in written if (label := _LABEL.match(piece))]
    is_labeled = len(written) > 2 and len(labels) > 0.9 * len(written)
    return is_labeled, chain(first, pieces)


def read_error_file(values: object, name: str, rank: int | None) -> LoggedError | None:
    """The error in a file that torchelastic's `record` wrote when a rank raised; None if the file is another one."""
    match values:
        case {"message": {"message": str(said), "extraInfo": {"py_callstack": str(stack)}}}:
            first = said.partition("\n")[0]
            found = _ERROR.match(first)
            error, _, text = said.partition(": ")
            return LoggedError(
                at=LogLine(name, 1, first), rank=rank, error=(found[1] if found else error).rpartition(".")[2],
                message=text[:_LONGEST_TEXT], traceback=stack, uncaught=True,
            )  # fmt: skip
    return None


def add_errors(log: JobLog, errors: Sequence[LoggedError], names: Sequence[str]) -> JobLog:
    """The logs of a job together with what its error files say."""
    ranks = {error.rank for error in errors if error.rank is not None}
    seen = tuple(sorted({*log.seen, *ranks}))
    return replace(
        log, facts=(*log.facts, *errors), seen=seen, ranks=max(log.ranks, max(seen, default=0) + 1),
        files=(*log.files, *names),
    )  # fmt: skip


def since_restart(log: JobLog, restarts: int) -> JobLog:
    """The logs of a job without what was written before its ranks were restarted for the last time.

    torchrun tells each failure that leads to a restart. That it restarts, it writes only if it logs at level INFO.
    """
    if not restarts:
        return log
    failures: defaultdict[str, list[int]] = defaultdict(list)
    begin: defaultdict[str, int] = defaultdict(int)
    for fact in log.facts:
        if isinstance(fact, LoggedExit) and fact.first and fact.is_local:
            failures[fact.at.file].append(fact.at.number)
        if isinstance(fact, LoggedNotice) and fact.kind == "restart":
            begin[fact.at.file] = max(begin[fact.at.file], fact.at.number)
    for file, numbers in failures.items():
        begin[file] = max([begin[file], *numbers[restarts - 1 : restarts]])

    def is_later(fact: LogFact) -> bool:
        return fact.at.number > begin[fact.at.file]

    return replace(log, facts=tuple(filter(is_later, log.facts)), went_on=tuple(filter(is_later, log.went_on)))


def parse_log_json(text: bytes) -> object:
    """The value of a JSON text, or None."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
