"""torchrun's elastic agent in a process of its own: it meets the other nodes, starts this one's ranks, and again."""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import fcntl
import hashlib
import json
import logging
import os
import pickle
import signal
import socket
import struct
import sys
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch.distributed import DistError, PrefixStore, Store, TCPStore
from torch.distributed.elastic.agent.server import WorkerSpec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import LogsDest, LogsSpecs
from torch.distributed.elastic.rendezvous import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

from ddpquiz.errors import UserError
from ddpquiz.ranks import worker
from ddpquiz.ranks.cluster import AGENT, Cluster
from ddpquiz.ranks.events import VERSION, Exited, Nodes
from ddpquiz.ranks.forks import die_with, fork, kill_group
from ddpquiz.ranks.telling import Teller

if TYPE_CHECKING:
    from torch.distributed.elastic.rendezvous.dynamic_rendezvous import Token

RUN = "ddpquiz"  # torchrun's --rdzv-id
ANSWER = 10  # seconds in which a store that listens must answer


def run(pipes: list[list[int]], request: dict[str, Any]) -> NoReturn:
    """Be the agent of one run and leave: the last pipes are its own, the others those of its ranks.

    Why it could not do its work is printed as one sentence.
    """
    cluster = Cluster(**request["cluster"])
    out, err, events, _ = pipes[-1]
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.environ.clear()
    os.environ.update(request["env"], TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")  # else a restart hangs (pytorch 135712)
    os.chdir(request["cwd"])
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # to print a traceback takes it seconds
    teller = Teller(events, AGENT, request["epoch"])
    status = 1
    try:
        status = follow(cluster, pipes, request, teller)
    except UserError as wrong:
        print(wrong, flush=True)
    os._exit(status)


def follow(cluster: Cluster, pipes: list[list[int]], request: dict[str, Any], teller: Teller) -> int:
    """Have torchrun's agent run the ranks to their end, and return 0 if they all end well."""
    meeting = Meeting(cluster, request, teller) if cluster.nodes > 1 else Alone(cluster)
    local = interface(meeting.local)
    for variable in ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):  # Gloo would listen where the hostname points
        if local:
            os.environ.setdefault(variable, local)
    agent = os.getpid()
    spec = WorkerSpec(
        role="default", local_world_size=request["ranks"], rdzv_handler=meeting, max_restarts=cluster.restarts,
        entrypoint=lambda: shepherd(agent, pipes, request, meeting.life), monitor_interval=0.05,
    )  # fmt: skip
    try:
        result = LocalElasticAgent(spec, NoLogs(), start_method="fork").run()
    except RendezvousTimeoutError:
        came = f"{meeting.joined} of {cluster.nodes} nodes joined"
        raise UserError(
            f"Only {came} in {cluster.patience:g} s; start the others with the same command line."
        ) from None
    except RendezvousClosedError:
        raise UserError(
            "Another node has failed and given up, so the run is over; look there for the reason."
        ) from None
    except (RendezvousConnectionError, DistError) as lost:
        if cluster.node == 0:
            raise
        raise UserError(f"Node 0 at {cluster.endpoint} is gone ({str(lost).splitlines()[0]}).") from None
    with contextlib.suppress(RendezvousConnectionError):
        meeting.shutdown()
    return int(result is None or result.is_failed())


class NoLogs(LogsSpecs):  # type: ignore[misc]  # torch leaves it untyped
    """No files, and no threads that read them: each rank has its own pipes."""

    root_log_dir = ""

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Say so for each rank."""
        for variables in envs.values():
            variables["TORCHELASTIC_ERROR_FILE"] = ""
        return LogsDest(dict.fromkeys(envs, ""), dict.fromkeys(envs, ""), error_files=dict.fromkeys(envs, os.devnull))


class Backend(C10dRendezvousBackend):  # type: ignore[misc]
    """torchrun's rendezvous state, which also says how many nodes have joined whenever that changes."""

    def __init__(self, store: Store, nodes: int, teller: Teller) -> None:
        super().__init__(store, RUN)
        self.nodes, self.teller = nodes, teller
        self.joined = 0  # now
        self.most = 0  # in this round, before some gave up

    def tell(self) -> None:
        """Say it, where there are several."""
        if self.nodes > 1:
            self.teller.tell(Nodes(self.teller.now(), self.joined, self.nodes))

    def get_state(self) -> tuple[bytes, Token] | None:
        """Read the state."""
        found: tuple[bytes, Token] | None = super().get_state()
        if found:
            self._count(found[0])
        return found

    def set_state(self, state: bytes, token: Token | None = None) -> tuple[bytes, Token, bool] | None:
        """Write the state, and read what has become of it."""
        found: tuple[bytes, Token, bool] | None = super().set_state(state, token)
        if found:
            self._count(found[0])
        return found

    def _count(self, state: bytes) -> None:
        joined = len(pickle.loads(state).participants)  # noqa: S301  # torch reads it just so
        if joined != self.joined:
            self.joined, self.most = joined, max(joined, self.most)
            self.tell()


class Alone(RendezvousHandler):  # type: ignore[misc]
    """The rendezvous of a node that meets no other: a store on loopback, in which each life has keys of its own."""

    use_agent_store = True
    joined = 1

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.life = ""  # sets the keys of one life of the ranks apart from those of the next
        self.store, self.port = host(cluster) if cluster.node == 0 else join(cluster)
        self.local = cluster.host if cluster.node == 0 else outgoing(cluster)

    def next_rendezvous(self) -> RendezvousInfo:
        """Begin a life."""
        self.life = uuid.uuid4().hex
        return self.found(PrefixStore(self.life, self.store))

    def found(self, store: Store) -> RendezvousInfo:
        """Return what torchrun's agent and the ranks must know; `store` is the agents' own."""
        ranks = RendezvousStoreInfo(self.cluster.host, self.port)
        return RendezvousInfo(store, self.cluster.node, self.cluster.nodes, ranks)

    def get_backend(self) -> str:
        """Name the kind."""
        return "static"

    def is_closed(self) -> bool:
        """Whether a node has given up."""
        return False

    def set_closed(self) -> None:
        """Let every node know that it is over."""

    def num_nodes_waiting(self) -> int:
        """Count the nodes that want to begin anew."""
        return 0

    def get_run_id(self) -> str:
        """Return torchrun's --rdzv-id."""
        return RUN

    def shutdown(self) -> bool:
        """Leave."""
        return True


class Meeting(Alone):
    """torchrun's rendezvous, except that each node keeps the number that it was given and is known to the others."""

    def __init__(self, cluster: Cluster, request: dict[str, Any], teller: Teller) -> None:
        super().__init__(cluster)
        self.request = request
        self.backend = Backend(self.store, cluster.nodes, teller)
        self.handler = create_handler(
            self.store,
            self.backend,
            RendezvousParameters(
                "c10d", cluster.endpoint, RUN, cluster.nodes, cluster.nodes, self.local,
                join_timeout=int(cluster.patience),
            ),
        )  # fmt: skip

    @property
    def joined(self) -> int:  # type: ignore[override]
        """How many nodes came to the last meeting."""
        return self.backend.most

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait until all nodes are there, and see that they fit together."""
        self.backend.most = 0
        met = self.handler.next_rendezvous()
        ours, others = self.introduce(met.store, met.rank, met.world_size)
        self.compare(ours, others)
        if met.rank == 0:
            met.store.set("ddpquiz/life", uuid.uuid4().hex)
        self.life = met.store.get("ddpquiz/life").decode()
        return self.found(met.store)

    def compare(self, ours: dict[str, Any], others: list[dict[str, Any]]) -> None:
        """Refuse nodes that do not fit together."""
        for card in others:
            if card["node"] == ours["node"]:
                raise UserError(f"Two nodes have --node-rank {ours['node']}; each needs one of its own.")
            for what in ours.keys() - {"node"}:
                if card[what] != ours[what]:
                    raise UserError(
                        f"All nodes must have the same {what}: "
                        f"node {card['node']} has {card[what]}, this one {ours[what]}."
                    )

    def introduce(self, store: Store, rank: int, nodes: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Exchange with the other nodes what must be the same on all of them; return ours, and theirs."""
        script = Path(self.request["script"]).read_bytes()
        ours = {
            "node": self.cluster.node,
            "version of ddpquiz's events": VERSION,
            "torch": torch.__version__.partition("+")[0],
            "--nproc": self.request["ranks"],
            "--max-restarts": self.cluster.restarts,
            "backend": self.request["backend"],
            "script": f"the one of sha256 {hashlib.sha256(script).hexdigest()[:8]}",
        }
        store.set(f"ddpquiz/{rank}", json.dumps(ours))
        others = [json.loads(store.get(f"ddpquiz/{other}")) for other in range(nodes) if other != rank]
        store.set(f"ddpquiz/read/{rank}", "")
        if self.cluster.node == 0:  # whose store must not go before all have read
            store.wait([f"ddpquiz/read/{each}" for each in range(nodes)])
        return ours, others

    def get_backend(self) -> str:
        """Name the kind."""
        return "c10d"

    def is_closed(self) -> bool:
        """Whether a node has given up."""
        return bool(self.handler.is_closed())

    def set_closed(self) -> None:
        """Let every node know that it is over."""
        self.handler.set_closed()

    def num_nodes_waiting(self) -> int:
        """Count the nodes that want to begin anew."""
        return int(self.handler.num_nodes_waiting())

    def shutdown(self) -> bool:
        """Leave."""
        return bool(self.handler.shutdown())


def host(cluster: Cluster) -> tuple[Store, int]:
    """Open the store in which all meet, at the address of node 0 and no other; return it with its port."""
    where, port = cluster.address
    try:
        family, _, _, _, address = socket.getaddrinfo(where, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family)
    except socket.gaierror:
        raise UserError(unresolved(where)) from None
    except OSError as wrong:
        if wrong.errno == errno.EADDRINUSE:
            raise UserError(
                f"Port {port} of {where} is taken; end what listens there, or give another one on every node."
            ) from None
        if wrong.errno == errno.EADDRNOTAVAIL:
            raise UserError(
                f"{where} is no address of this machine; --rdzv-endpoint must name the machine of --node-rank 0."
            ) from None
        raise UserError(
            f"Nothing can listen on {where}:{port} ({wrong.strerror}); give another one on every node."
        ) from None
    port = listener.getsockname()[1]
    store = TCPStore(  # without libuv, since torch 2.6 refuses a listening socket with it
        where, port, None, True, timedelta(seconds=cluster.patience), wait_for_workers=False,
        master_listen_fd=listener.detach(), use_libuv=False,
    )  # fmt: skip
    return store, port


def join(cluster: Cluster) -> tuple[Store, int]:
    """Return the store of node 0 and its port, once it listens."""
    where, port = cluster.address
    began, answer = time.monotonic(), "no answer"
    while time.monotonic() - began < cluster.patience:
        try:
            socket.create_connection((where, port), timeout=2).close()
            break
        except socket.gaierror:
            raise UserError(unresolved(where)) from None
        except OSError as wrong:
            answer = wrong.strerror or "no answer"
            time.sleep(0.2)
    else:
        raise UserError(
            f"Nobody listened on {where}:{port} for {cluster.patience:g} s ({answer}); "
            "start --node-rank 0 there, and see that its port can be reached from here."
        )
    try:
        store = TCPStore(where, port, None, False, timedelta(seconds=ANSWER))
    except (DistError, RuntimeError):
        raise UserError(f"What listens on {where}:{port} is no node 0 of ddpquiz or torchrun; give its port.") from None
    store.set_timeout(timedelta(seconds=cluster.patience))
    return store, port


def unresolved(name: str) -> str:
    """Say that a name leads nowhere."""
    return f"This machine knows no address of {name}; write it in numbers in --rdzv-endpoint."


def outgoing(cluster: Cluster) -> str:
    """Return our own address on the way to node 0."""
    family, _, _, _, address = socket.getaddrinfo(*cluster.address, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)  # sends nothing
        return str(probe.getsockname()[0])


def interface(address: str) -> str:
    """Return the name of the network interface that has an IPv4 address (Linux), or nothing."""
    if address == "127.0.0.1":
        return "lo0" if sys.platform == "darwin" else "lo"
    if sys.platform != "linux":
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has no address
                found = fcntl.ioctl(asked, 0x8915, struct.pack("256s", name.encode()))  # SIOCGIFADDR
                if socket.inet_ntoa(found[20:24]) == socket.gethostbyname(address):
                    return name
    return ""


def shepherd(agent: int, pipes: list[list[int]], request: dict[str, Any], life: str) -> None:
    """Start the rank that this process stands for, in a group of its own; say how it ended, and end as it did."""
    die_with(agent)
    faulthandler.disable()  # the agent's library turned it on, and it is the script's to choose
    environment = dict(os.environ)
    fds, rank = pipes[int(environment["LOCAL_RANK"])], int(environment["RANK"])
    others = [fd for fd in open_files() if fd > 2 and fd not in fds]  # the agent's store and its port, too
    end = {signal.SIGTERM}  # torchrun's way to end a rank, which is the rank's to handle
    signal.pthread_sigmask(signal.SIG_BLOCK, end)
    for agents in (signal.SIGTERM, signal.SIGQUIT):
        signal.signal(agents, signal.SIG_DFL)

    def work() -> NoReturn:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, end)
        worker.run(rank, fds, request, environment, life)

    pid, told = fork(work, close=others), []

    def tell(*_: object) -> None:
        told.append(pid)
        os.kill(pid, signal.SIGTERM)

    signal.signal(signal.SIGTERM, tell)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, end)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    kill_group(pid)
    os.write(fds[2], b"\n")  # a killed rank may have stopped in the middle of a line
    teller = Teller(fds[2], rank, request["epoch"])
    teller.tell(Exited(teller.now(), rank, status))
    if status or told:  # who returns is waited for until all have done so
        os._exit(1)


def open_files() -> list[int]:
    """Return the file descriptors that this process holds."""
    return [fd for fd in map(int, os.listdir("/dev/fd")) if is_open(fd)]  # noqa: PTH208  # which is open while it lists


def is_open(fd: int) -> bool:
    """Whether a file descriptor stands for something."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
