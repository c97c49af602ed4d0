"""A GPU, and the links between GPUs, as numbers."""

from dataclasses import dataclass

MEMORY_REACHED = 0.85  # share of the memory's bandwidth that kernels reach, where nobody fitted it: an assumption


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link of one GPU: seconds before the first byte (alpha), and bytes per second in one direction (1 / beta).

    `ranks` is how many GPUs it joins. `reached` is the share of the bandwidth that collectives reach.
    """

    latency: float
    bandwidth: float
    ranks: int
    reached: float = 1.0

    @property
    def bytes_per_second(self) -> float:
        return self.bandwidth * self.reached


@dataclass(frozen=True, eq=False, kw_only=True)
class Hardware:
    """A kind of GPU, or of CPU, in its usual machine.

    `memory` is in bytes, `memory_bandwidth` in bytes per second, `flops` in FLOP per second by number format, without
    sparsity. `memory_reached` and `efficiency` are the shares of them that element-wise kernels and matrix products
    reach. `launch` is how many seconds a program needs to start the kernels of one layer's forward, which a GPU may
    finish sooner. `near` joins the GPUs of a machine, `far` joins the machines.
    """

    name: str
    memory: float
    memory_bandwidth: float
    flops: dict[str, float]
    efficiency: float
    near: Link
    far: Link
    memory_reached: float = MEMORY_REACHED
    launch: float = 0.0

    @property
    def memory_speed(self) -> float:
        """Bytes per second that kernels reach."""
        return self.memory_bandwidth * self.memory_reached
