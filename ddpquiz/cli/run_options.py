"""The options that `demo` and `run` share, as one dataclass: how many ranks, where, and how the run is shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.ranks.request import Request

DEMO_PATIENCE = 10.0  # seconds without progress of a demo that count as a hang


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run is started and shown. BadParameter if a value is invalid."""

    nproc: Annotated[
        int | None, typer.Option("--nproc", "-n", help="How many ranks to start. [default: one per GPU, or 4]")
    ] = None
    device: Annotated[str, typer.Option(help="Where the ranks run: auto, cpu or cuda.")] = "auto"
    timeout: Annotated[
        float | None,
        typer.Option(help="End the run as hung after this many seconds without progress."),
    ] = None
    plain: Annotated[bool, typer.Option("--plain", help="Print plain lines instead of a live view.")] = False
    json: Annotated[bool, typer.Option("--json", help="Print one event per line as JSON, and nothing else.")] = False
    step: Annotated[bool, typer.Option("--step", help="After the run, step through it from its first operation.")] = (
        False
    )
    strict: Annotated[
        bool,
        typer.Option("--strict", help="End a script that asks for NCCL where NCCL cannot run, instead of using Gloo."),
    ] = False
    save: Annotated[
        Path | None,
        typer.Option(
            help="Save the run: .html (interactive page), .json (events), .trace.json (Perfetto), .svg (picture)."
        ),
    ] = None
    summary: Annotated[
        bool, typer.Option("--summary", help="Print where time and bytes went, and what could be better.")
    ] = False
    check_replicas: Annotated[
        bool,
        typer.Option("--check-replicas", help="Say when the replicas of a DDP model no longer hold equal weights."),
    ] = False
    stay: Annotated[
        bool, typer.Option("--stay/--no-stay", help="In a terminal, stay on the page of the ended run until a key.")
    ] = False
    max_restarts: Annotated[int, typer.Option(help="How often failed ranks are restarted.")] = 0
    emit: Annotated[
        str | None, typer.Option(help="Only print a job for another launcher: torchrun, slurm or kubernetes.")
    ] = None
    nnodes: Annotated[int, typer.Option(help="With --emit: the number of machines.")] = 1

    def __post_init__(self) -> None:
        if self.device not in ("auto", "cpu", "cuda"):
            raise typer.BadParameter(f"{self.device!r} is not one of auto, cpu, cuda.", param_hint="--device")
        if self.timeout is not None and not self.timeout > 0:  # also refuses nan
            raise typer.BadParameter(f"{self.timeout:g} is not a positive number of seconds.", param_hint="--timeout")
        if self.max_restarts < 0:
            raise typer.BadParameter(f"{self.max_restarts} is not a number of restarts.", param_hint="--max-restarts")
        if self.nnodes < 1:
            raise typer.BadParameter(f"{self.nnodes} is not a number of machines.", param_hint="--nnodes")
        if self.nnodes > 1 and self.emit is None:
            raise typer.BadParameter(
                "ddpquiz starts ranks on this machine only. To start and record a job on several machines, add --emit "
                "torchrun, slurm or kubernetes.",
                param_hint="--nnodes",
            )
        if self.save:
            from ddpquiz.cli import saving  # noqa: PLC0415  # the list of demos and the help save nothing

            saving.format_of(self.save)

    def request(self, script: Path, args: tuple[str, ...], module: str = "") -> Request:
        """Return the request for a run of this script."""
        return Request(
            script, args=args, ranks=self.nproc, device=self.device,
            timeout=self.timeout, module=module, restarts=self.max_restarts, strict=self.strict,
            check_replicas=self.check_replicas,
        )  # fmt: skip
