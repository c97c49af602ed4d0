"""The process that has imported torch: it forks the ranks of runs within milliseconds, and kills them.

The launcher sends it requests over a socketpair (messages.py) and gets reports. It has a single thread, never computes
and never initializes CUDA, so the processes that it forks are as good as new. When the socket closes, for whatever
reason, it kills every process that it started, and ends.
"""

import contextlib
import gc
import importlib
import os
import select
import shutil
import signal
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ddpquiz.ranks import messages
from ddpquiz.ranks.forks import (
    STACK_SIGNAL,
    adopt_orphans,
    die_with,
    fork,
    kill_child,
    kill_orphans,
    kill_rest,
    signal_if_handled,
    use_large_pages,
)
from ddpquiz.ranks.installed_torch import probe_machine, why_no_ranks
from ddpquiz.ranks.store import host_store

_IDLE = 0.2  # seconds without a request after which there is time


@dataclass
class _LiveRun:
    """The processes of a run: its ranks and its store."""

    number: int
    ranks: dict[int, int] = field(default_factory=dict)  # process id -> rank
    store: int = 0  # process id, 0 when there is none
    agent_pipe: int = -1  # a pipe that ends when torchrun's agent and the parents of its ranks are gone

    def kill(self) -> None:
        """Kill every process, grandchildren and stopped ones included; they are reaped later."""
        for pid in (*self.ranks, self.store):
            if pid:
                kill_child(pid)

    def wait_for_agent(self) -> None:
        """Wait until the parents of the agent's ranks are gone: then those ranks are our children, to be killed."""
        if self.agent_pipe >= 0:
            while os.read(self.agent_pipe, 1):
                pass
            os.close(self.agent_pipe)
            self.agent_pipe = -1


class _Server:
    """Answers one launcher until its socket closes."""

    def __init__(self, channel: messages.Channel) -> None:
        self.channel = channel
        self.runs: dict[int, _LiveRun] = {}
        self.to_preload: list[str] = []
        self.temporary: list[messages.TemporaryFolder] = []
        self.is_spread = True  # over small pages, which are slow to fork
        self.has_run = False
        self.wake, self.wake_end = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(self.wake_end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # the wake-up byte is written only if there is a handler
        signal.set_wakeup_fd(self.wake_end)
        for ignored in (signal.SIGINT, signal.SIGHUP, STACK_SIGNAL):
            signal.signal(ignored, signal.SIG_IGN)

    def serve(self) -> None:
        """Handle requests and deaths of children until the launcher is gone."""
        try:
            while True:
                ready, _, _ = select.select([self.channel.fileno(), self.wake], [], [], self.idle_time())
                if self.wake in ready:
                    with contextlib.suppress(BlockingIOError):
                        while os.read(self.wake, 4096):
                            pass
                    self.reap()
                if self.channel.fileno() in ready:
                    received = self.channel.receive()
                    if received is None:
                        return
                    for message in received:
                        self.handle(message)
                if not ready:
                    self.work_ahead()
        except (BrokenPipeError, ConnectionResetError):
            return  # the launcher ended while we wrote to it
        finally:
            self.clean_up()

    def clean_up(self) -> None:
        """Leave nothing of what was started or made here."""
        for run in self.runs.values():
            run.kill()
            run.wait_for_agent()
        kill_orphans(())  # the ranks, too: what they leave comes to us only as long as we live
        for each in self.temporary:
            for folder in Path(each.place).glob(f"{each.prefix}*"):
                shutil.rmtree(folder, ignore_errors=True)

    def idle_time(self) -> float | None:
        """How many seconds to wait for a request before `work_ahead`; None if there is nothing to do ahead."""
        if self.to_preload:
            return 0.0
        if self.is_spread and not self.runs:
            return 0.0 if self.has_run else _IDLE  # a server whose first run was requested has no time for this
        return None

    def work_ahead(self) -> None:
        """Do what makes later runs start faster."""
        if self.to_preload:
            self.preload(self.to_preload.pop(0))
        else:
            use_large_pages()
            self.is_spread = False

    def preload(self, module: str) -> None:
        """Import a module once, here, that every rank would otherwise import."""
        if module in sys.modules:
            return
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
            gc.freeze()
            self.is_spread = True

    def handle(self, message: object) -> None:
        match message:
            case messages.QueryMachine():
                self.channel.send(probe_machine())
            case messages.Preload(modules):
                self.to_preload += modules
            case messages.TemporaryFolder():
                self.temporary.append(message)
            case messages.RunPlan():
                self.start(message)
            case messages.SignalRanks(number, which, wanted) if number in self.runs:
                for pid, rank in self.runs[number].ranks.items():
                    if wanted is None or rank in wanted:
                        signal_if_handled(pid, which)
            case messages.StopRun(number) if number in self.runs:
                self.runs[number].kill()
                self.report_if_stopped(self.runs[number])

    def start(self, plan: messages.RunPlan) -> None:
        """Fork the store and the ranks of a run; the pipes of the ranks have arrived before."""
        for module in plan.preload:
            self.preload(module)
        fds = self.channel.fds[:]
        self.channel.fds.clear()
        pipes = [fds[at : at + len(messages.PIPES)] for at in range(0, len(fds), len(messages.PIPES))]
        run = _LiveRun(plan.number)
        if plan.request.restarts:
            self.fork_agent(run, pipes, plan)
        else:
            self.fork_ranks(run, pipes, plan)
        for fd in fds:
            os.close(fd)
        self.runs[run.number] = run
        self.channel.send(messages.RanksStarted(run.number, tuple(run.ranks), run.store))

    def fork_agent(self, run: _LiveRun, pipes: list[list[int]], plan: messages.RunPlan) -> None:
        """Fork torchrun's agent, which starts the ranks."""
        from ddpquiz.ranks import elastic_agent
        from ddpquiz.ranks.elastic_run import AGENT

        run.agent_pipe, write_end = os.pipe()
        ours = [run.agent_pipe, self.channel.fileno(), self.wake, self.wake_end]
        run.ranks[fork(lambda: elastic_agent.run(pipes, plan), close=ours)] = AGENT
        os.close(write_end)

    def fork_ranks(self, run: _LiveRun, pipes: list[list[int]], plan: messages.RunPlan) -> None:
        """Fork a store on loopback, and the ranks, which find each other there."""
        from ddpquiz.ranks import fresh_rank
        from ddpquiz.ranks.inside import store_patch, worker

        start = fresh_rank.exec_rank if plan.request.fresh else worker.run
        ours = [self.channel.fileno(), self.wake, self.wake_end]
        run.store, port = host_store(close=[*ours, *(fd for fds in pipes for fd in fds)])
        for rank, fds in enumerate(pipes):
            close = [*ours, *(fd for other in pipes if other is not fds for fd in other)]
            variables = store_patch.environment(rank, plan.ranks, port)
            run.ranks[fork(lambda: start(rank, fds, plan, variables), close=close)] = rank  # noqa: B023  # runs at once

    def reap(self) -> None:
        """Collect dead children and report which ranks they were; a run without ranks has stopped."""
        for run in list(self.runs.values()):
            for pid, rank in list(run.ranks.items()):
                gone, status = os.waitpid(pid, os.WNOHANG)
                if gone:
                    kill_rest(pid)
                    del run.ranks[pid]
                    run.wait_for_agent()
                    self.channel.send(messages.RankExited(run.number, rank, os.waitstatus_to_exitcode(status)))
            if run.store and os.waitpid(run.store, os.WNOHANG)[0]:
                run.store = 0
            self.kill_orphans()
            self.report_if_stopped(run)

    def kill_orphans(self) -> None:
        """Kill processes that dead ranks left."""
        kill_orphans({pid for run in self.runs.values() for pid in (*run.ranks, run.store)})

    def report_if_stopped(self, run: _LiveRun) -> None:
        """Report that a run has stopped once all its ranks are gone; its store goes with them."""
        if run.ranks or run.number not in self.runs:
            return
        if run.store:
            kill_child(run.store)
            os.waitpid(run.store, 0)
        del self.runs[run.number]
        self.has_run = True
        self.channel.send(messages.RunStopped(run.number))


def main() -> None:
    """Import torch, then serve the launcher at the other end of the descriptor that is the only argument."""
    end = socket.socket(fileno=int(sys.argv[1]))
    die_with(os.getppid())  # while torch is imported, which takes seconds; later there are ranks to kill first
    with contextlib.suppress(BlockingIOError):
        if not end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):  # the launcher has ended before that
            os._exit(1)
    channel = messages.Channel(end)
    gc.disable()
    if why := why_no_ranks():
        channel.send(messages.Refused(why))
        os._exit(1)

    from ddpquiz.ranks.inside import kernels, worker  # noqa: F401  # once here, not in every rank

    kernels.prepare()
    gc.freeze()
    gc.enable()
    adopt_orphans()
    die_with(None)
    _Server(channel).serve()
    os._exit(0)  # to tear torch down takes longer than anything that is left to do
