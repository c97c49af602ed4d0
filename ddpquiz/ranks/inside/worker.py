"""Runs a script inside a rank, as torchrun would, and reports what happens.

On a signal, the rank writes the stack of its main thread into a pipe, or those of all of its threads into memory that
another process can read (process_stacks.py).
"""

import ast
import builtins
import faulthandler
import gc
import importlib.util
import io
import os
import resource
import signal
import sys
import tempfile
import types
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from ddpquiz.events.event import Started
from ddpquiz.ranks.claims import REPORT, report_claims, reporter
from ddpquiz.ranks.forks import MEMORY_FILE, STACK_BY_FORCE, STACK_SIGNAL, THREADS_BY_FORCE, THREADS_SIGNAL
from ddpquiz.ranks.inside import (
    kernels,
    object_collectives,
    pack_imports,
    process_groups,
    recorder,
    replica_sums,
    store_waits,
    torch_private,
    training_marks,
)
from ddpquiz.ranks.inside.event_writer import EventWriter, RecordedStream, move_up
from ddpquiz.ranks.inside.leaving import (
    call_excepthook,
    leave,
    send_error,
    silence_children,
    skip_present_finalizers,
    status_of,
)
from ddpquiz.ranks.inside.main_thread import answer_signals, sample_lines
from ddpquiz.ranks.inside.store_patch import note_spawned_ranks, use_store
from ddpquiz.ranks.messages import RunPlan


def run(rank: int, fds: list[int], plan: RunPlan, variables: dict[str, str], life: str = "") -> NoReturn:
    """Run the script of a plan as rank `rank`, and leave the process.

    `fds` are the rank's PIPES, `variables` those that torchrun would set; `life` differs after each restart.
    """
    gc.freeze()  # what this process inherited is not the script's, and is not finalized at its end
    writer = _open_pipes(rank, fds, plan)
    os.environ.clear()
    os.environ.update(plan.environment, **variables)
    if plan.shares_gpus:  # NCCL refuses two ranks of one machine on one GPU; it takes ranks of two machines
        os.environ.setdefault("NCCL_HOSTID", f"rank-{rank}")
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    tempfile.tempdir = None  # a module that was imported before the fork may have asked for it
    os.chdir(plan.cwd)
    torch.set_num_threads(_threads(os.environ.get("OMP_NUM_THREADS", "")))
    torch.default_generator.seed()  # forked ranks would all share one random state
    if numpy := sys.modules.get("numpy.random"):  # imported in the server by what it preloads
        numpy.seed()
    dist.set_debug_level_from_env()
    use_store(variables["MASTER_ADDR"], int(variables["MASTER_PORT"]), life, note=writer.note)
    note_spawned_ranks(writer.note)
    os.register_at_fork(after_in_child=writer.disable)  # what a script forks is not a rank of ours
    if plan.request.is_watched:
        _watch(plan, writer)
    else:
        kernels.remove()
    skip_present_finalizers()  # they are not the script's
    writer.send(Started(writer.now(), rank, os.getpid(), int(variables["TORCHELASTIC_RESTART_COUNT"])))
    leave(_run_script(plan, writer), writer)


def _watch(plan: RunPlan, writer: EventWriter) -> None:
    """Record what the script does with torch, and where it stands."""
    torch_private.exclude_from_graphs()
    forget_groups = recorder.install(writer, every_wait=plan.request.subject is not None)
    process_groups.watch_launched(writer, plan, forget_groups)
    store_waits.watch(writer)
    object_collectives.watch(writer)
    training_marks.watch(writer, plan.script)
    if plan.request.check_replicas:
        replica_sums.watch(writer, plan.script)
    sample_lines(writer)


def _open_pipes(rank: int, fds: list[int], plan: RunPlan) -> EventWriter:
    """Put the pipes where they belong, and the limit on open files as it was, in this process."""
    out, err, events, stack = fds
    if not plan.request.reads_input:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
    for ours, standard in ((out, 1), (err, 2)):
        os.dup2(ours, standard)
        os.close(ours)
    events, stack = move_up(events), move_up(stack)
    resource.setrlimit(resource.RLIMIT_NOFILE, (plan.open_files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    writer = EventWriter(events, rank, plan.epoch)
    sys.stdout = sys.__stdout__ = _unbuffered("stdout", writer)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _unbuffered("stderr", writer)  # type: ignore[misc]
    faulthandler.enable(file=stack, all_threads=False)  # a crash shows where it was
    _offer_stacks(rank, stack)
    return writer


def _threads(wanted: str) -> int:
    """How many threads OMP_NUM_THREADS means: OpenMP reads lists, and ignores what is not a number."""
    first = wanted.partition(",")[0].strip()
    return (int(first) if first.isdecimal() else 0) or os.cpu_count() or 1


def _unbuffered(name: str, writer: EventWriter) -> io.TextIOWrapper:
    """A standard stream as `python -u` has it, which torchrun calls: a half line is out before a rank dies or forks."""
    before = getattr(sys, f"__{name}__")  # from the environment: PYTHONIOENCODING, the locale
    raw = RecordedStream(before.fileno(), name, writer)
    stream: Any = io.TextIOWrapper(raw, before.encoding, before.errors, write_through=True)
    raw.name, stream.mode = f"<{name}>", "w"
    return stream  # type: ignore[no-any-return]


def _run_script(plan: RunPlan, writer: EventWriter) -> int:
    """Run the script as `__main__`, and return the exit status that Python would give."""
    request, path = plan.request, plan.script
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=builtins, __cached__=None)
    main.__loader__ = SourceFileLoader("__main__", path)
    if "__annotations__" in vars(sys.modules["__main__"]):  # not in all versions of Python
        main.__annotations__ = {}
    main.__dict__[REPORT] = reporter(plan.claims, writer)
    sys.modules["__main__"] = main
    if "__mp_main__" in sys.modules:  # what a spawned process sends back names the script so
        sys.modules["__mp_main__"] = main
    sys.argv = [str(request.script), *request.args]
    if not sys.flags.safe_path:
        file = Path(path) if plan.pack else Path(path).resolve()  # a pack's modules come from what was allowed of it
        sys.path[0] = plan.cwd if request.module else str(file.parent)
    hook, end = sys.excepthook, None
    if plan.pack:
        pack_imports.use(plan.pack)
    try:
        if request.module:
            _become_module(main, request.module)
        source = plan.pack.read(path) if plan.pack else Path(path).read_bytes()
        tree = report_claims(ast.parse(source, path))
        exec(compile(tree, path, "exec", dont_inherit=True), main.__dict__)  # noqa: S102  # what a rank is for
    except BaseException as error:  # noqa: BLE001  # whatever the script did, the launcher must know
        end = error
    status = 0
    if end:
        try:
            silence_children()
        except BaseException:  # noqa: BLE001  # raised by the script's handler, since the signal had come already
            silence_children()
        status = _report_end(end, hook, writer)
    if status == 0:
        process_groups.note_if_open(writer)
    return status


def _report_end(end: BaseException, hook: Callable[..., Any], writer: EventWriter) -> int:
    """Report what ended the script, and return the exit status; `hook` is the excepthook that it began with."""
    if isinstance(end, SystemExit):
        return status_of(end, writer)
    send_error(end, writer)
    status = -signal.SIGINT if isinstance(end, KeyboardInterrupt) else 1
    return status if sys.excepthook is hook else call_excepthook(end, writer, status)


def _become_module(main: types.ModuleType, name: str) -> None:
    """Make `main` what `python -m name` would run, so that its relative imports work."""
    sys.argv[0] = str(main.__file__)
    main.__spec__ = importlib.util.find_spec(name)  # imports the packages around it
    if main.__spec__ and main.__spec__.submodule_search_locations is not None:
        main.__spec__ = importlib.util.find_spec(f"{name}.__main__")
    if spec := main.__spec__:
        main.__dict__.update(__package__=spec.parent, __loader__=spec.loader, __cached__=spec.cached)


def _offer_stacks(rank: int, pipe: int) -> None:
    """Write the stack of the main thread into a pipe when a signal comes, and at another one those of all threads.

    The latter go into memory that others can open; so do those of forked children.
    """
    files = {STACK_SIGNAL: pipe}
    create = getattr(os, "memfd_create", None)
    if create and THREADS_SIGNAL is not None and signal.getsignal(THREADS_SIGNAL) is signal.SIG_DFL:
        files[THREADS_SIGNAL] = move_up(create(f"{MEMORY_FILE}{rank}"))
    if STACK_BY_FORCE is not None:
        answer_signals(files)
    for asked, by_force in ((STACK_SIGNAL, STACK_BY_FORCE), (THREADS_SIGNAL, THREADS_BY_FORCE)):
        for number in (asked, by_force):
            if number is not None and asked in files:
                faulthandler.register(number, file=files[asked], all_threads=asked != STACK_SIGNAL)
