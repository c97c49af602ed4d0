"""Seconds of a collective: alpha for each step and beta for each byte, over the links that a group of ranks spans."""

from dataclasses import dataclass, replace
from functools import cache

from ddpquiz.planning.hardware import Hardware


@dataclass(frozen=True, slots=True)
class Path:
    """What a group's ring runs over: seconds of all hops of one round, and bytes per second of a rank."""

    ranks: int
    round_latency: float
    bytes_per_second: float
    in_machine: bool


@cache
def path(hardware: Hardware, ranks: int, stride: int) -> Path:
    """Return the path of a group whose ranks are `stride` apart.

    A ring that leaves the machine enters and leaves it through the network cards of all its members there, so the more
    of them are in one machine, the faster it is, up to the links inside. Each round passes every hop once.
    """
    near, far = hardware.near, hardware.far
    if ranks * stride <= near.ranks:
        return Path(ranks, (ranks - 1) * near.latency, near.bytes_per_second, in_machine=True)
    inside = max(1, min(ranks, near.ranks // stride))
    machines = -(-ranks // inside)
    latency = (machines - 1) * far.latency + (ranks - machines) * near.latency
    speed = min(near.bytes_per_second, far.bytes_per_second * inside) if inside > 1 else far.bytes_per_second
    return Path(ranks, latency, speed, in_machine=False)


def exchange_path(hardware: Hardware, ranks: int, stride: int) -> Path:
    """Return the path of an all-to-all: each rank sends what leaves the machine, (n-g)/n, through its own card.

    No member carries it for another, so more of them in a machine, g, only let more stay inside.
    """
    ring = path(hardware, ranks, stride)
    if ring.in_machine:
        return ring
    inside = max(1, min(ranks, hardware.near.ranks // stride))
    speed = hardware.far.bytes_per_second * (ranks - 1) / (ranks - inside)
    return replace(ring, bytes_per_second=min(hardware.near.bytes_per_second, speed))


def rounds(op: str, ranks: int) -> float:
    """Return how often a ring goes round: twice for an all-reduce, once for others; a send passes one hop of it."""
    if op == "send":
        return 1 / max(ranks - 1, 1)
    return 2 if op == "all_reduce" else 1


def sent_bytes(op: str, ranks: int, brought: float) -> float:
    """Return the bytes that a rank sends with a ring, for the bytes of the tensors that it brings.

    Patarasuk and Yuan 2009; an all-gather brings only the rank's own part.
    """
    match op:
        case "all_reduce":
            return 2 * (ranks - 1) / ranks * brought
        case "all_gather":
            return (ranks - 1) * brought
        case "reduce_scatter" | "all_to_all":
            return (ranks - 1) / ranks * brought
    return brought


def transfer_seconds(op: str, way: Path, calls: float, brought: float) -> float:
    """Return the seconds of some calls that bring `brought` bytes together: calls x alpha x hops + bytes x beta."""
    return calls * rounds(op, way.ranks) * way.round_latency + sent_bytes(op, way.ranks, brought) / way.bytes_per_second
