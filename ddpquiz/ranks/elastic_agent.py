"""torchrun's elastic agent in a process of its own: it starts the ranks, and starts them again when one has failed.

Its rendezvous is a store on loopback, in which each life of the ranks has its own keys.
"""

import contextlib
import faulthandler
import logging
import multiprocessing
import multiprocessing.process
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn

from torch.distributed import PrefixStore, TCPStore
from torch.distributed.elastic.agent.server import WorkerSpec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import LogsDest, LogsSpecs
from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousInfo, RendezvousStoreInfo

from ddpquiz.events.event import Exited
from ddpquiz.ranks.forks import adopt_orphans, die_with, fork, kill_child, kill_orphans, kill_rest, open_files
from ddpquiz.ranks.inside import worker
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.inside.store_patch import SIGNALS
from ddpquiz.ranks.messages import RunPlan
from ddpquiz.ranks.store import host_store, no_lookups


def run(pipes: list[list[int]], plan: RunPlan) -> NoReturn:
    """Be the agent of one run, and leave. The last pipes are its own, the others those of its ranks."""
    out, err, _, _ = pipes[-1]
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.environ.clear()
    os.environ.update(plan.environment, TORCHELASTIC_SIGNALS_TO_HANDLE=SIGNALS)
    tempfile.tempdir = plan.temporary
    sys.stdin = None  # else multiprocessing would close it in the ranks
    os.chdir(plan.cwd)
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # to print a traceback costs it seconds
    logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)  # that it ends ranks is no error
    os._exit(_lead(pipes, plan))


def _lead(pipes: list[list[int]], plan: RunPlan) -> int:
    """Have torchrun's agent run the ranks to their end, and return 0 if they all end well."""
    agent, loopback = os.getpid(), "lo0" if sys.platform == "darwin" else "lo"
    for variable in ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):  # else Gloo would listen where the hostname points
        os.environ.setdefault(variable, loopback)
    # Lookups: of its own name, which it logs nowhere, and of loopback's
    with no_lookups() as allow_lookups, contextlib.closing(_LocalRendezvous()) as rendezvous:
        spec = WorkerSpec(
            role="default", local_world_size=plan.ranks, rdzv_handler=rendezvous, max_restarts=plan.request.restarts,
            entrypoint=lambda: _supervise_rank(agent, pipes, plan, rendezvous.life, allow_lookups),
            monitor_interval=0.05,
        )  # fmt: skip
        result = LocalElasticAgent(spec, _NoLogs(), start_method="fork").run()
    return int(result is None or result.is_failed())


# Signals that torchrun passes on to its workers, which may handle them. In the process of a rank, the handlers of the
# agent would raise, and torch would write that error into a file that only a living agent removes.
_PASSED_ON = frozenset(getattr(signal, name) for name in SIGNALS.split(","))


class _NoLogs(LogsSpecs):  # type: ignore[misc]  # untyped in torch
    """No files, and no threads that read them: each rank has its own pipes."""

    root_log_dir = ""

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Return destinations that are nowhere, for each rank."""
        for variables in envs.values():
            variables["TORCHELASTIC_ERROR_FILE"] = ""
        return LogsDest(dict.fromkeys(envs, ""), dict.fromkeys(envs, ""), error_files=dict.fromkeys(envs, os.devnull))


def _supervise_rank(
    agent: int, pipes: list[list[int]], plan: RunPlan, life: str, allow_lookups: Callable[[], None]
) -> None:
    """Start the rank that this process stands for, in a group of its own; report its end, and end as it did."""
    die_with(agent)
    adopt_orphans()
    faulthandler.disable()  # the agent's library enabled it, but that is for the script to decide
    environment = {**os.environ, "TORCHELASTIC_ERROR_FILE": os.devnull}
    fds, rank = pipes[int(environment["LOCAL_RANK"])], int(environment["RANK"])
    others = open_files(besides=fds)  # the agent's store and its port, too
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    for agents in (signal.SIGTERM, signal.SIGQUIT):
        signal.signal(agents, signal.SIG_DFL)

    def work() -> NoReturn:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
        allow_lookups()
        _forget_multiprocessing()
        worker.run(rank, fds, plan, environment, life)

    pid, ended_by = fork(work, close=others), 0

    def end_rank(number: int, _: object) -> None:
        nonlocal ended_by
        ended_by = number
        with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(pid, number)

    for number in _PASSED_ON:
        signal.signal(number, end_rank)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)  # first report its end
    kill_rest(pid)
    kill_orphans(())
    with contextlib.suppress(BrokenPipeError):  # of a launcher that was killed; torch would write the error into a file
        os.write(fds[2], b"\n")  # a killed rank may have stopped in the middle of a line
    writer = EventWriter(fds[2], rank, plan.epoch)
    writer.send(Exited(writer.now(), rank, status, stopped=ended_by > 0 and status in (-ended_by, 0)))
    if status or ended_by:  # a process that returns is waited for until all have returned
        os._exit(1)
    for number in _PASSED_ON:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)


def _forget_multiprocessing() -> None:
    """Let this process find what it would in an interpreter of its own: the agent forked it by multiprocessing."""
    multiprocessing.set_start_method(None, force=True)
    process: Any = multiprocessing.process
    process._current_process, process._parent_process = _MAIN, None  # noqa: SLF001  # no other way
    sys.stdin = sys.__stdin__


_MAIN = multiprocessing.current_process()  # this module is imported before anything is forked
_HOST = "127.0.0.1"
_PATIENCE = timedelta(seconds=300)


class _LocalRendezvous(RendezvousHandler):  # type: ignore[misc]  # untyped in torch
    """The rendezvous of a single node: no other node joins."""

    use_agent_store = True

    def __init__(self) -> None:
        self.life = ""  # separates the keys of one life of the ranks from those of the next
        self._store_process, self.port = host_store(close=open_files(besides=[]))
        self._store = TCPStore(_HOST, self.port, None, False, _PATIENCE)

    def next_rendezvous(self) -> RendezvousInfo:
        """Begin a life."""
        self.life = uuid.uuid4().hex
        return RendezvousInfo(PrefixStore(self.life, self._store), 0, 1, RendezvousStoreInfo(_HOST, self.port))

    def get_backend(self) -> str:
        return "static"

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None:
        pass

    def num_nodes_waiting(self) -> int:
        return 0

    def get_run_id(self) -> str:
        return "ddpquiz"

    def shutdown(self) -> bool:
        return True

    def close(self) -> None:
        """End the store."""
        kill_child(self._store_process)
