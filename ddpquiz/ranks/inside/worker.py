"""Inside a rank: run the script as torchrun would, and say what happens."""

from __future__ import annotations

import ast
import atexit
import faulthandler
import gc
import importlib.util
import io
import os
import sys
import tempfile
import threading
import traceback
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ddpquiz.analysis.events import Claimed, ClaimText, Joining, Raised, Started
from ddpquiz.ranks import claims
from ddpquiz.ranks.forks import STACK_SIGNAL
from ddpquiz.ranks.inside import operators, recorder, training_marks
from ddpquiz.ranks.inside.event_writer import EventWriter, ToldFile
from ddpquiz.ranks.inside.source_location import is_ours, line_in
from ddpquiz.ranks.inside.store_patch import meet, tell_of_spawning, wait_for_all

if TYPE_CHECKING:
    from collections.abc import Callable

_KEEP: list[object] = []  # what must outlive the script


def run(rank: int, fds: list[int], request: dict[str, Any], variables: dict[str, str], life: str = "") -> NoReturn:
    """Run the script of `request` as rank `rank` and leave the process.

    `variables` are those of the environment that torchrun would set; `life` is another one when ranks start again.
    """
    out, err, events, stack = fds
    nothing = os.open(os.devnull, os.O_RDONLY)
    for ours, standard in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(ours, standard)
        os.close(ours)
    teller = EventWriter(events, rank, request["epoch"])
    sys.stdout = sys.__stdout__ = by_lines(ToldFile(1, "stdout", teller), "replace")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = by_lines(ToldFile(2, "stderr", teller), "backslashreplace")  # type: ignore[misc]
    faulthandler.register(STACK_SIGNAL, file=stack, all_threads=False)
    faulthandler.enable(file=stack, all_threads=False)  # a crash tells where it was
    os.environ.clear()
    os.environ.update(request["env"], **variables)
    tempfile.tempdir = None  # something that was imported before the fork may have asked already
    os.chdir(request["cwd"])
    torch.set_num_threads(threads(os.environ.get("OMP_NUM_THREADS", "")))
    torch.seed()  # forked ranks would all share one random state
    if numpy := sys.modules.get("numpy.random"):  # what the server imports for ranks imports it, too
        numpy.seed()
    dist.set_debug_level_from_env()
    meet(variables["MASTER_ADDR"], int(variables["MASTER_PORT"]), life)
    watch_groups(teller, request)
    keep_models()
    tell_of_spawning(teller.note)
    os.register_at_fork(after_in_child=teller.hush)  # what a script forks is no rank of ours
    recorder.install(teller, request["script"])
    training_marks.watch(teller, request["script"])
    teller.tell(Started(teller.now(), rank, os.getpid(), int(variables["TORCHELASTIC_RESTART_COUNT"])))
    leave(run_script(request, teller))


def threads(wanted: str) -> int:
    """Return how many threads OMP_NUM_THREADS asks for: OpenMP takes a list, and what is no number for nothing."""
    first = wanted.partition(",")[0].strip()
    return (int(first) if first.isdecimal() else 0) or os.cpu_count() or 1


def by_lines(file: io.FileIO, errors: str) -> io.TextIOWrapper:
    """Return a stream that is written line by line."""
    return io.TextIOWrapper(io.BufferedWriter(file), "utf-8", errors, line_buffering=True)


def watch_groups(teller: EventWriter, request: dict[str, Any]) -> None:
    """Say when this rank waits for the others to form a group; on CPU, give Gloo to a script that asks for NCCL."""
    original, ranks = dist.init_process_group, int(os.environ["WORLD_SIZE"])

    def init_process_group(*args: Any, **kwargs: Any) -> None:
        dist.set_debug_level_from_env()  # the script may have set it before it imported torch
        asked = args[0] if args else kwargs.get("backend")
        if request["backend"] == "gloo" and asked and "nccl" in str(asked).lower():
            if request["strict"]:
                sys.exit(f"The script asks for {asked}: {request['lack']}, and --strict lets Gloo not take its place.")
            args, kwargs = args[1:], kwargs | {"backend": "gloo"}
            kwargs.pop("device_id", None)
            teller.note(f"The script asks for {asked}; Gloo takes its place on CPU.")
        operators.forget_groups()
        line = line_in(request["script"])
        teller.tell(Joining(teller.now(), teller.rank, done=False, line=line))
        original(*args, **kwargs)
        if dist.get_world_size() == ranks and "gloo" in dist.get_backend_config():
            wait_for_all()  # all of them are ranks of ours, and come here too
        teller.tell(Joining(teller.now(), teller.rank, done=True, line=line))

    dist.init_process_group = init_process_group


def keep_models() -> None:
    """Keep every DDP model alive: one that outlives destroy_process_group() deadlocks its rank (pytorch 190489)."""
    original = DistributedDataParallel.__init__

    def init(self: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:
        _KEEP.append(self)
        original(self, *args, **kwargs)

    DistributedDataParallel.__init__ = init


def run_script(request: dict[str, Any], teller: EventWriter) -> int:
    """Run the script as `__main__` and return the exit status that Python would give."""
    path = request["script"]
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=__builtins__, __cached__=None)
    main.__dict__[claims.REPORT] = reporter(teller, request["claims"])
    sys.modules["__main__"] = main
    sys.argv = [request["named"], *request["args"]]
    sys.path[0] = request["cwd"] if request["module"] else str(Path(path).parent)
    try:
        if request["module"]:
            become_module(main, request["module"])
        tree = claims.reporting(ast.parse(Path(path).read_bytes(), path))
        exec(compile(tree, path, "exec", dont_inherit=True), main.__dict__)  # noqa: S102  # what a rank is for
    except SystemExit as end:
        status = status_of(end, teller)
        if status == 0:
            notice_groups(teller)
        return status
    except BaseException as error:  # noqa: BLE001  # whatever the script did, the launcher shall know
        tell_error(error, teller)
        return 1
    notice_groups(teller)
    return 0


def notice_groups(teller: EventWriter) -> None:
    """Say it when the script has left its process group to whoever comes after it."""
    if dist.is_available() and dist.is_initialized():
        teller.note("The script ends without dist.destroy_process_group(); over NCCL torch warns that this leaks.")


def become_module(main: types.ModuleType, name: str) -> None:
    """Let `main` be what `python -m name` runs, so that its relative imports work."""
    sys.argv[0] = str(main.__file__)
    main.__spec__ = importlib.util.find_spec(name)  # imports the packages around it
    if main.__spec__ and main.__spec__.submodule_search_locations is not None:
        main.__spec__ = importlib.util.find_spec(f"{name}.__main__")
    main.__package__ = main.__spec__.parent if main.__spec__ else None


def reporter(teller: EventWriter, texts: list[dict[str, Any]]) -> Callable[[int, object], bool]:
    """Return what the asserts of the script call with their line and the value that they test."""
    told: set[tuple[int, bool]] = set()
    known = {ClaimText(**text).line for text in texts}

    def report(line: int, value: object) -> bool:
        held = bool(value)
        if line in known and (line, held) not in told:
            told.add((line, held))
            teller.tell(Claimed(teller.now(), teller.rank, line, held))
        return held

    return report


def status_of(end: SystemExit, teller: EventWriter) -> int:
    """Return the exit status of `sys.exit(...)`; a text goes to standard error, as Python does it."""
    status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    if status & 0xFF:
        if isinstance(end.code, int):
            end.args = (status & 0xFF,)  # what others see of -1 or True
        tell_error(end, teller)
        if not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    return status & 0xFF


def tell_error(error: BaseException, teller: EventWriter) -> None:
    """Send an exception with its traceback, without the frames that are ours."""
    told = traceback.TracebackException.from_exception(error)
    if not (told.stack and is_ours(told.stack[-1].filename)):  # or it is a fault of ours
        hide_ours(told)
    name = type(error).__qualname__
    if type(error).__module__ not in ("builtins", "__main__"):
        name = f"{type(error).__module__}.{name}"
    teller.tell(Raised(teller.now(), teller.rank, name, text_of(error), "".join(told.format())))


def text_of(error: BaseException) -> str:
    """Return the message of an exception; of one that cannot say it, what Python says then."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # whatever the script's class does there
        return "<exception str() failed>"


def hide_ours(told: traceback.TracebackException | None) -> None:
    """Leave our own calls out of a traceback, and of those of the exceptions that led to it."""
    if told is not None:
        told.stack[:] = [frame for frame in told.stack if not is_ours(frame.filename)]
        hide_ours(told.__cause__)
        hide_ours(told.__context__)


def leave(status: int) -> NoReturn:
    """End this process as Python would, but without tearing torch down, which can hang or abort (pytorch 190489)."""
    gc.disable()
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  # joins the threads that are no daemons
    atexit._run_exitfuncs()  # noqa: SLF001
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        stream = getattr(sys, name, None)  # a script may silence itself with None
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except Exception:  # noqa: BLE001  # nobody reads any more, or it is a stream of the script's own
            status = status or 120
    os._exit(status)
