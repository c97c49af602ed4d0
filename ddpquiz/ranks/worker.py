"""Inside a rank: run the script as torchrun would, and say what happens."""

from __future__ import annotations

import ast
import atexit
import faulthandler
import gc
import importlib
import itertools
import os
import signal
import sys
import threading
import time
import traceback
import types
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ddpquiz.ranks import claims, recorder
from ddpquiz.ranks.events import Claimed, ClaimText, Event, Joining, Note, Raised, Started, encode

if TYPE_CHECKING:
    from collections.abc import Callable

_KEEP: list[object] = []  # what must outlive the script


class Teller:
    """Writes events to the launcher; a fault of the pipe never reaches the script."""

    def __init__(self, fd: int, rank: int, epoch: float) -> None:
        self.fd, self.rank, self.epoch = fd, rank, epoch
        self.lock = threading.Lock()

    def now(self) -> float:
        """Return the seconds since the run was asked for; all processes of a machine share this clock."""
        return round(time.monotonic() - self.epoch, 6)

    def tell(self, event: Event) -> None:
        """Send one event."""
        data = encode(event).encode() + b"\n"
        with self.lock:
            try:
                while data:
                    data = data[os.write(self.fd, data) :]
            except OSError:
                return


def run(rank: int, port: int, fds: list[int], request: dict[str, Any]) -> NoReturn:
    """Run the script of `request` as rank `rank` and leave the process; the store listens on loopback at `port`."""
    out, err, events, stack = fds
    nothing = os.open(os.devnull, os.O_RDONLY)
    for ours, standard in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(ours, standard)
        os.close(ours)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)
    teller = Teller(events, rank, request["epoch"])
    os.environ.clear()
    os.environ.update(request["env"], **environment(rank, request["ranks"], port))
    os.chdir(request["cwd"])
    torch.set_num_threads(1)
    torch.seed()  # forked ranks would all share one random state
    dist.set_debug_level_from_env()
    meet_on_loopback(port)
    watch_groups(teller, request["backend"], request["script"])
    keep_models()
    recorder.install(teller, request["script"])
    teller.tell(Started(teller.now(), rank, os.getpid()))
    leave(run_script(request, teller))


def environment(rank: int, ranks: int, port: int) -> dict[str, str]:
    """Return what torchrun would set, and what keeps all traffic on this machine."""
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    r, n = str(rank), str(ranks)
    return {
        "RANK": r, "LOCAL_RANK": r, "ROLE_RANK": r, "GROUP_RANK": "0", "ROLE_NAME": "default",
        "WORLD_SIZE": n, "LOCAL_WORLD_SIZE": n, "ROLE_WORLD_SIZE": n, "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0",
        "GLOO_SOCKET_IFNAME": loopback, "TP_SOCKET_IFNAME": loopback,
    }  # fmt: skip


def meet_on_loopback(store_port: int) -> None:
    """Let every rendezvous of the script use our store, whatever address it names: torch's own listen everywhere."""
    rendezvous: Any = importlib.import_module("torch.distributed.rendezvous")  # the package's attribute is a function
    calls = itertools.count()

    def store(*_: Any, **kwargs: Any) -> dist.Store:
        ours = dist.TCPStore(
            "127.0.0.1", store_port, is_master=False, timeout=kwargs.get("timeout", timedelta(minutes=5))
        )
        return dist.PrefixStore(f"rendezvous {next(calls)}", ours)  # a second group must not find keys of the first

    rendezvous.TCPStore = store


def watch_groups(teller: Teller, backend: str, script: str) -> None:
    """Say when this rank waits for the others to form a group; on CPU, give Gloo to a script that asks for NCCL."""
    original = dist.init_process_group

    def init_process_group(*args: Any, **kwargs: Any) -> None:
        dist.set_debug_level_from_env()  # the script may have set it before it imported torch
        asked = args[0] if args else kwargs.get("backend")
        if backend == "gloo" and asked and "nccl" in str(asked).lower():
            args, kwargs = args[1:], kwargs | {"backend": "gloo"}
            kwargs.pop("device_id", None)
            teller.tell(Note(teller.now(), teller.rank, f"The script asks for {asked}; Gloo takes its place on CPU."))
        recorder.forget_groups()
        line = recorder.standing(script)[1]
        teller.tell(Joining(teller.now(), teller.rank, done=False, line=line))
        original(*args, **kwargs)
        teller.tell(Joining(teller.now(), teller.rank, done=True, line=line))

    dist.init_process_group = init_process_group


def keep_models() -> None:
    """Keep every DDP model alive: one that outlives destroy_process_group() deadlocks its rank (pytorch 190489)."""
    original = DistributedDataParallel.__init__

    def init(self: DistributedDataParallel, *args: Any, **kwargs: Any) -> None:
        _KEEP.append(self)
        original(self, *args, **kwargs)

    DistributedDataParallel.__init__ = init


def run_script(request: dict[str, Any], teller: Teller) -> int:
    """Run the script as `__main__` and return the exit status that Python would give."""
    path = request["script"]
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=__builtins__, __cached__=None)
    main.__dict__[claims.REPORT] = reporter(teller, request["claims"])
    sys.modules["__main__"] = main
    sys.argv = [path, *request["args"]]
    sys.path[0] = str(Path(path).parent)
    try:
        tree = claims.reporting(ast.parse(Path(path).read_bytes(), path))
        exec(compile(tree, path, "exec", dont_inherit=True), main.__dict__)  # noqa: S102  # what a rank is for
    except SystemExit as end:
        return status_of(end, teller)
    except BaseException as error:  # noqa: BLE001  # whatever the script did, the launcher shall know
        tell_error(error, teller)
        return 1
    return 0


def reporter(teller: Teller, texts: list[dict[str, Any]]) -> Callable[[int, object], bool]:
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


def status_of(end: SystemExit, teller: Teller) -> int:
    """Return the exit status of `sys.exit(...)`; a text goes to standard error, as Python does it."""
    if end.code is None or isinstance(end.code, int):
        return (end.code or 0) & 0xFF
    print(end.code, file=sys.stderr)
    teller.tell(Raised(teller.now(), teller.rank, "SystemExit", str(end.code), ""))
    return 1


def tell_error(error: BaseException, teller: Teller) -> None:
    """Send an exception with its traceback, without the frames that are ours."""
    frames = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    lines = traceback.format_exception(type(error), error.with_traceback(frames), frames)
    name = type(error).__qualname__
    if type(error).__module__ not in ("builtins", "__main__"):
        name = f"{type(error).__module__}.{name}"
    teller.tell(Raised(teller.now(), teller.rank, name, str(error), "".join(lines)))


def leave(status: int) -> NoReturn:
    """End this process as Python would, but without tearing torch down, which can hang or abort (pytorch 190489)."""
    gc.disable()
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  # joins the threads that are no daemons
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # closed by the script, or nobody reads any more
            status = status or 120
    os._exit(status)
