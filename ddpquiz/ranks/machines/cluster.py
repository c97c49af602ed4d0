"""Several machines, or one whose ranks may be restarted: the settings of torchrun's agent."""

from dataclasses import dataclass

PORT = 29400  # torchrun's
AGENT = -1  # the number of the agent among the ranks that it starts


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes that run a script together, seen from one of them; all have the same number of ranks."""

    nodes: int = 1
    node: int = 0  # the number of this one
    endpoint: str = ""  # HOST:PORT at which node 0 listens
    restarts: int = 0  # how often the ranks are started again after one has failed
    patience: float = 300.0  # seconds to wait for the other nodes

    @property
    def host(self) -> str:
        """The address of node 0."""
        return self.address[0]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port at which node 0 listens; on a single node, a port of loopback that the kernel chooses."""
        if self.nodes == 1:
            return "127.0.0.1", 0
        host, _, port = self.endpoint.rpartition(":") if ":" in self.endpoint else (self.endpoint, "", str(PORT))
        return host.strip("[]"), int(port)

    def here(self, ranks: int) -> range:
        """Return the ranks of this node, of which there are `ranks`."""
        return range(self.node * ranks, (self.node + 1) * ranks)

    def reason(self) -> str:
        """Return what differs from a plain run: where nodes meet, what listens, how many restarts there are."""
        parts = []
        if self.nodes > 1:
            host, port = self.address
            where = f"listens on {host}:{port}" if self.node == 0 else f"meets node 0 at {host}:{port}"
            parts.append(f"node {self.node} of {self.nodes} {where}, its ranks on ports of their own")
        if self.restarts:
            parts.append(f"up to {self.restarts} restart{'s' * (self.restarts != 1)}")
        return " · ".join(parts)


def complaint(cluster: Cluster) -> tuple[str, str] | None:
    """Return the option that is wrong, and why, or None if all are right."""
    if cluster.nodes < 1:
        return "--nnodes", f"{cluster.nodes} nodes run nothing; it counts the machines, this one included."
    if cluster.restarts < 0:
        return "--max-restarts", f"{cluster.restarts} is not a number of restarts; it must be 0 or more."
    if not 0 <= cluster.node < cluster.nodes:
        return "--node-rank", f"it says which of the {cluster.nodes} nodes this is: 0 to {cluster.nodes - 1}."
    if cluster.nodes == 1:
        return None
    if not cluster.endpoint:
        return "--rdzv-endpoint", "several nodes need HOST:PORT of node 0, the same on each of them."
    try:
        host, port = cluster.address
    except ValueError:
        host, port = "", 0
    if not host or not 0 < port < 65536:
        return "--rdzv-endpoint", f"{cluster.endpoint!r} is not HOST:PORT, such as 10.0.0.1:{PORT}."
    return None
