"""torchrun's rendezvous, in a store at one known address."""

import contextlib
import errno
import fcntl
import hashlib
import json
import pickle
import socket
import struct
import sys
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch.distributed import DistError, PrefixStore, Store, TCPStore
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
)
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import Token, create_handler

from ddpquiz.analysis.events import VERSION, Nodes
from ddpquiz.errors import UserError
from ddpquiz.ranks.forks import kill_group, open_files
from ddpquiz.ranks.inside.event_writer import EventWriter
from ddpquiz.ranks.machines.cluster import Cluster
from ddpquiz.ranks.messages import RunPlan
from ddpquiz.ranks.store import host_store

RUN = "ddpquiz"  # torchrun's --rdzv-id
ANSWER = 10  # seconds in which a store that listens must answer


class Backend(C10dRendezvousBackend):  # type: ignore[misc]
    """torchrun's rendezvous state, which also reports the number of nodes whenever it changes."""

    def __init__(self, store: Store, nodes: int, writer: EventWriter) -> None:
        super().__init__(store, RUN)
        self.nodes, self.writer = nodes, writer
        self.joined = 0  # now
        self.most = 0  # in this round, before some gave up

    def report(self) -> None:
        """Send how many nodes have joined."""
        if self.nodes > 1:
            self.writer.send(Nodes(self.writer.now(), self.joined, self.nodes))

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
            self.report()


class Alone(RendezvousHandler):  # type: ignore[misc]
    """The rendezvous of a single node: a store on loopback, with separate keys for each life of the ranks."""

    use_agent_store = True
    joined = 1

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.life = ""  # sets the keys of one life of the ranks apart from those of the next
        self.hosting, self.port = host(cluster) if cluster.node == 0 else (0, find(cluster))
        self.store = join(cluster, self.port)
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
        """Return whether a node has closed the rendezvous."""
        return False

    def set_closed(self) -> None:
        """Tell every node that the run is over."""

    def num_nodes_waiting(self) -> int:
        """Count the nodes that want to begin anew."""
        return 0

    def get_run_id(self) -> str:
        """Return torchrun's --rdzv-id."""
        return RUN

    def shutdown(self) -> bool:
        """Leave."""
        return True

    def close(self) -> None:
        """End the store, if it is ours."""
        if self.hosting:
            kill_group(self.hosting)


class NodeRendezvous(Alone):
    """torchrun's rendezvous, but each node has the number of its --node-rank, and introduces itself to the others."""

    def __init__(self, cluster: Cluster, plan: RunPlan, writer: EventWriter) -> None:
        super().__init__(cluster)
        self.plan = plan
        self.backend = Backend(self.store, cluster.nodes, writer)
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
        """Wait until all nodes have joined, and check that they fit together."""
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
        script = Path(self.plan.script).read_bytes()
        ours = {
            "node": self.cluster.node,
            "version of ddpquiz's events": VERSION,
            "torch": torch.__version__.partition("+")[0],
            "--nproc": self.plan.ranks,
            "--max-restarts": self.cluster.restarts,
            "backend": self.plan.backend,
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
        """Return whether a node has closed the rendezvous."""
        return bool(self.handler.is_closed())

    def set_closed(self) -> None:
        """Tell every node that the run is over."""
        self.handler.set_closed()

    def num_nodes_waiting(self) -> int:
        """Count the nodes that want to begin anew."""
        return int(self.handler.num_nodes_waiting())

    def shutdown(self) -> bool:
        """Leave."""
        return bool(self.handler.shutdown())


def host(cluster: Cluster) -> tuple[int, int]:
    """Host the store, at the address of node 0 only; return its process and its port."""
    with listen(cluster) as listener:
        return host_store(listener, close=open_files(besides=[listener.fileno()])), listener.getsockname()[1]


def listen(cluster: Cluster) -> socket.socket:
    """Return a socket that listens there."""
    where, port = cluster.address
    try:
        family, _, _, _, address = socket.getaddrinfo(where, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except socket.gaierror:
        raise UserError(unresolved(where)) from None
    except OSError as wrong:
        if wrong.errno == errno.EADDRINUSE:
            raise UserError(
                f"Port {port} of {where} is taken; end what listens there, or give another one on every node."
            ) from None
        if wrong.errno == errno.EADDRNOTAVAIL:
            raise UserError(
                f"{where} is not an address of this machine; --rdzv-endpoint must name the machine of --node-rank 0."
            ) from None
        raise UserError(
            f"Nothing can listen on {where}:{port} ({wrong.strerror}); give another one on every node."
        ) from None


def find(cluster: Cluster) -> int:
    """Return the port of node 0, once it listens there."""
    where, port = cluster.address
    began, answer = time.monotonic(), "no answer"
    while time.monotonic() - began < cluster.patience:
        try:
            socket.create_connection((where, port), timeout=2).close()
        except socket.gaierror:
            raise UserError(unresolved(where)) from None
        except OSError as wrong:
            answer = wrong.strerror or "no answer"
            time.sleep(0.2)
        else:
            return port
    raise UserError(
        f"Nobody listened on {where}:{port} for {cluster.patience:g} s ({answer}); "
        "start --node-rank 0 there, and see that its port can be reached from here."
    )


def join(cluster: Cluster, port: int) -> Store:
    """Return the store of node 0."""
    where = cluster.host
    try:
        store = TCPStore(where, port, None, False, timedelta(seconds=ANSWER))
    except (DistError, RuntimeError):
        raise UserError(
            f"What listens on {where}:{port} is not node 0 of ddpquiz or torchrun; give the port of node 0."
        ) from None
    store.set_timeout(timedelta(seconds=cluster.patience))
    return store


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
