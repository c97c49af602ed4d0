"""The rendezvous of torchrun's agent on this machine: a store on loopback; each life of the ranks has its own keys."""

import uuid
from datetime import timedelta

from torch.distributed import PrefixStore, TCPStore
from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousInfo, RendezvousStoreInfo

from ddpquiz.ranks.forks import kill_group, open_files
from ddpquiz.ranks.store import host_store

HOST = "127.0.0.1"
PATIENCE = timedelta(seconds=300)


class LocalRendezvous(RendezvousHandler):  # type: ignore[misc]  # untyped in torch
    """The rendezvous of a single node: no other node joins."""

    use_agent_store = True

    def __init__(self) -> None:
        self.life = ""  # separates the keys of one life of the ranks from those of the next
        self._store_process, self.port = host_store(close=open_files(besides=[]))
        self._store = TCPStore(HOST, self.port, None, False, PATIENCE)

    def next_rendezvous(self) -> RendezvousInfo:
        """Begin a life."""
        self.life = uuid.uuid4().hex
        return RendezvousInfo(PrefixStore(self.life, self._store), 0, 1, RendezvousStoreInfo(HOST, self.port))

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
        kill_group(self._store_process)
