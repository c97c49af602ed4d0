"""Records what this process does in a job that another launcher started, without changing what it does.

torch is not imported here before the script imports it: some variables that a script may set count only until then.
"""

import atexit
import builtins
import functools
import importlib.machinery
import multiprocessing
import multiprocessing.util
import os
import runpy
import signal
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, Self

from ddpquiz.errors import UserError
from ddpquiz.events.event import Began, Exited
from ddpquiz.events.operation import MAX_RANKS
from ddpquiz.ranks import script as scripts
from ddpquiz.ranks.inside import usage
from ddpquiz.ranks.inside.after_import import after_import
from ddpquiz.ranks.inside.leaving import exit_status, hide_our_frames, send_error, silence_children
from ddpquiz.ranks.inside.rank_writer import UNKNOWN, RankWriter

LAST = 20_000  # operations
_ACTIVE: list["Recording"] = []  # of this process, at most one
_LAST_OF_ALL = -1000  # what multiprocessing finalizes with a higher priority comes first


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordOptions:
    """What is recorded: at least the `last` operations, into files in `folder`; of small tensors also the values."""

    folder: Path
    last: int = LAST
    values: bool = False


class Recording:
    """The recording of this process. As a context manager it records the exception that ends the block, too."""

    def __init__(self, options: RecordOptions, began: Began) -> None:
        restart = _number_in("TORCHELASTIC_RESTART_COUNT") or 0
        self.writer = RankWriter(options.folder.absolute(), options.last, began, restart)
        self.values = options.values
        self.status: int | None = None  # with which the process will exit, as far as is known
        self._error: BaseException | None = None  # that was recorded
        self._missed_before = 0.0  # seconds for which cores were missing until the rank had joined the others
        self._process = os.getpid()
        atexit.register(self._exit)
        _watch_os_exit(self)
        os.register_at_fork(after_in_child=self.writer.disable)  # what a script forks is not a rank
        after_import("torch", self._watch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.status = 0
        if error is not None:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Record the exception that ends this process, at once."""
        if error is self._error:
            return
        self._error = error
        self.status = exit_status(error.code) if isinstance(error, SystemExit) else 1
        if self.status:
            send_error(error, self.writer)

    def leave(self, status: int) -> None:
        """Record that the script ends this process by os._exit(), after which nothing else can; what it forked may."""
        if os.getpid() == self._process:
            self.writer.send(Exited(self.writer.now(), self.writer.rank, exit_status(status)))

    def end_child(self) -> None:
        """Record the end of a process of multiprocessing: no sys.excepthook sees its exception."""
        error = sys.exc_info()[1]
        if isinstance(error, SystemExit) and isinstance(error.__context__, Exception):
            error = error.__context__  # torch.multiprocessing hands it to the parent, and exits
        if error is not None:
            self.fail(error)
        elif self.status is None:
            self.status = 0
        self._exit()

    def set_rank(self, rank: int, ranks: int) -> None:
        """Record into the file of this rank, unless the file is that of another rank already."""
        writer = self.writer
        if not 0 <= rank < ranks <= MAX_RANKS:
            writer.stop(f"rank {rank} of {ranks} ranks; there can be up to {MAX_RANKS}")
        elif writer.rank == UNKNOWN:
            writer.began = replace(writer.began, ranks=ranks)
            writer.open(rank)
        elif (rank, ranks) != (writer.rank, writer.began.ranks):
            writer.stop(
                f"RANK and WORLD_SIZE said rank {writer.rank} of {writer.began.ranks}, "
                f"and the process group says rank {rank} of {ranks}"
            )

    def _watch(self) -> None:
        """Record from now on. These modules import torch, which the script has imported now."""
        from ddpquiz.ranks.inside import (
            direct_calls,
            object_collectives,
            process_groups,
            recorder,
            store_waits,
            training_marks,
        )

        def joined() -> None:
            group = process_groups.default_group()
            if group is None:
                return
            self._missed_before = self._missed_before or usage.missed_cores()
            rank, ranks, backend = group
            self.set_rank(rank, ranks)
            writer.began = replace(writer.began, device="cuda" if backend == "nccl" else "cpu", backend=backend)
            writer.send(writer.began)

        writer, script = self.writer, self.writer.began.script
        recording = recorder.create(writer, values=self.values)
        if recording and not self.values:
            direct_calls.install(recording)
        process_groups.watch_joining(writer, script, recording.members.clear if recording else lambda: None, joined)
        store_waits.watch(writer)
        object_collectives.watch(writer)
        training_marks.watch(writer, script)
        if process_groups.default_group():
            joined()

    def _exit(self) -> None:
        if os.getpid() != self._process:
            return
        if self.status is not None:
            usage.report_peak_memory(self.writer)
            usage.report_missed_cores(self.writer, self._missed_before)
            self.writer.send(Exited(self.writer.now(), self.writer.rank, self.status))
        if self.writer.rank == UNKNOWN:
            self.writer.stop("it formed no process group, and RANK and WORLD_SIZE are not set")
        self.writer.close()


def start(options: RecordOptions) -> Recording:
    """Record this process from now on; its rank is that of the process group that it will form or has formed."""
    if not _ACTIVE:
        main = sys.modules["__main__"]
        recording = Recording(options, _began(getattr(main, "__file__", "") or "", sys.argv[1:]))
        _ACTIVE.append(recording)
        if multiprocessing.parent_process() is None:
            _watch_exit(recording)
        else:
            multiprocessing.util.Finalize(None, recording.end_child, exitpriority=_LAST_OF_ALL)
    return _ACTIVE[0]


def run(options: RecordOptions, target: str, args: Sequence[str], *, module: bool) -> None:
    """Record while a script or module runs as `__main__`, as if Python had been called with it."""
    try:
        path = str(scripts.of_module(target)) if module else os.path.join(os.getcwd(), target)  # noqa: PTH109, PTH118
    except UserError:  # Python itself will say so
        path = ""
    recording = Recording(options, _began(path, args, target if module else ""))
    _ACTIVE.append(recording)
    rank, ranks = _number_in("RANK"), _number_in("WORLD_SIZE")
    if rank is not None and ranks is not None:
        recording.set_rank(rank, ranks)
    try:
        _run_as_main(path, target, args, module=module)
        recording.status = 0
    except BaseException as error:
        try:
            handler = silence_children()
        except BaseException:  # noqa: BLE001  # raised by the script's handler, since the signal had come already
            handler = silence_children()
        recording.fail(error)
        _print_without_our_frames(error)
        if handler:
            signal.signal(signal.SIGCHLD, handler)
        raise


def _run_as_main(path: str, target: str, args: Sequence[str], *, module: bool) -> None:
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __annotations__={})
    sys.argv = [target, *args]
    if module:
        runpy._run_module_as_main(target)  # type: ignore[attr-defined]  # noqa: SLF001  # what `python -m` calls
        return
    if not sys.flags.safe_path:
        sys.path[0] = str(Path(path).resolve().parent)
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __loader__=loader, __cached__=None)
    exec(compile(loader.get_data(path), path, "exec", dont_inherit=True), main.__dict__)  # noqa: S102


def _print_without_our_frames(error: BaseException) -> None:
    """Print the traceback of the error that ends the script without the frames that it has because of us."""
    hide_our_frames(error)
    shown, hook = error.__traceback__, sys.excepthook

    def print_error(kind: type[BaseException], value: BaseException, traceback: types.TracebackType | None) -> None:
        if value is error and shown:
            value.__traceback__ = traceback = shown
        hook(kind, value, traceback)

    sys.excepthook = print_error


def _watch_os_exit(recording: Recording) -> None:
    """Record with which status the script leaves by os._exit(): a record without an end could also be of a kill."""
    leave = os._exit

    @functools.wraps(leave)
    def record_and_leave(status: int) -> NoReturn:
        if isinstance(status, int):  # else it raises, and the script goes on
            recording.leave(status)
        leave(status)

    os._exit = record_and_leave


def _watch_exit(recording: Recording) -> None:
    """Record the exception that ends this process."""
    hook = sys.excepthook
    recording.status = 0

    def record_error(kind: type[BaseException], value: BaseException, traceback: types.TracebackType | None) -> None:
        recording.fail(value)
        hook(kind, value, traceback)

    sys.excepthook = record_error


def _began(script: str, args: Sequence[str], module: str = "") -> Began:
    """Describe the job as far as is known before a process group exists."""
    launcher, job = "", ""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        launcher, job = "torchrun", os.environ["TORCHELASTIC_RUN_ID"]
    elif "SLURM_JOB_ID" in os.environ:
        launcher, job = "Slurm", os.environ["SLURM_JOB_ID"]
    reason = f"Recorded under {launcher}, job {job}." if launcher else "Recorded by ddpquiz.record."
    return Began(script, tuple(args), 1, "cpu", "unknown", reason, module=module)


def _number_in(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else None
