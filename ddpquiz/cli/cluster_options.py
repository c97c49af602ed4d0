"""The options that run a script on several machines, or under torchrun's agent, or print a job that does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from ddpquiz.ranks.machines.cluster import Cluster

Nnodes = Annotated[int, typer.Option(help="Machines that run it together; start the same command on each.")]
NodeRank = Annotated[int | None, typer.Option(help="Which of them this machine is, from 0.")]
RdzvEndpoint = Annotated[str, typer.Option(help="HOST:PORT where node 0 listens, the same on each machine.")]
MaxRestarts = Annotated[int, typer.Option(help="How often torchrun's agent starts failed ranks again.")]
Emit = Annotated[str | None, typer.Option(help="Run nothing; print a job: torchrun, slurm or kubernetes.")]


@dataclass(frozen=True)
class Machines:
    """Where a run shall be, as the command line says it; options that contradict each other are refused."""

    nnodes: int = 1
    node_rank: int | None = None
    rdzv_endpoint: str = ""
    max_restarts: int = 0

    def cluster(self) -> Cluster | None:
        """Return what torchrun's agent shall do, or None for a run that needs none."""
        if self == Machines():
            return None
        from ddpquiz.ranks.machines.cluster import Cluster

        node = -1 if self.node_rank is None and self.nnodes > 1 else self.node_rank or 0
        return _checked(Cluster(self.nnodes, node, self.rdzv_endpoint, self.max_restarts))

    def emit(
        self, kind: str, script: Path, args: tuple[str, ...], nproc: int | None, device: str, module: str = ""
    ) -> None:
        """Print what runs a script elsewhere: a command line or a job file."""
        from ddpquiz.ranks import script as reading
        from ddpquiz.ranks.machines import jobs
        from ddpquiz.ranks.machines.cluster import Cluster

        if kind not in jobs.KINDS:
            raise typer.BadParameter(f"{kind!r} is none of {', '.join(jobs.KINDS)}.", param_hint="--emit")
        _checked(Cluster(self.nnodes, 0, self.rdzv_endpoint or "any", self.max_restarts))
        ranks = 4 if nproc is None else nproc
        if ranks < 1:
            raise typer.BadParameter(
                f"{ranks} ranks run nothing; it counts those of each machine.", param_hint="--nproc"
            )
        reading.read(script)
        gpus = device == "cuda"
        job = jobs.JobFile(script, args, ranks, self.nnodes, self.rdzv_endpoint, self.max_restarts, gpus, module)
        typer.echo(jobs.KINDS[kind](job), nl=False)


def _checked(cluster: Cluster) -> Cluster:
    from ddpquiz.ranks.machines.cluster import complaint

    if wrong := complaint(cluster):
        option, sentence = wrong
        raise typer.BadParameter(sentence, param_hint=option)
    return cluster
