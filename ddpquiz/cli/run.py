"""`ddpquiz run`: watch a script of the learner's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.cli.demo import Device, Json, Nproc, Plain, end_as, follow


def run(
    script: Annotated[Path, typer.Argument(help="A script that torchrun could run.")],
    args: Annotated[list[str] | None, typer.Argument(help="After --: what the script is given.")] = None,
    nproc: Nproc = None,
    device: Device = "auto",
    timeout: Annotated[float | None, typer.Option(help="Seconds without any movement that count as a hang.")] = None,
    plain: Plain = False,
    json: Json = False,
    save: Annotated[Path | None, typer.Option(help="Keep the run's events in this file.")] = None,
) -> None:
    """Run any torchrun-compatible script on ranks of this machine, and watch it."""
    seen = follow(script, tuple(args or ()), nproc, device, timeout, plain=plain, json=json, save=save)
    end_as(seen)
