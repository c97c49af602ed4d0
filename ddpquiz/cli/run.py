"""`ddpquiz run`: watch a script of the learner's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.cli.watching import Args, Device, Json, Nproc, Options, Plain, Save, Timeout, end_as, follow


def run(
    script: Annotated[Path, typer.Argument(help="A script that torchrun could run.")],
    args: Args = None,
    nproc: Nproc = None,
    device: Device = "auto",
    timeout: Timeout = None,
    plain: Plain = False,
    json: Json = False,
    save: Save = None,
) -> None:
    """Run any torchrun-compatible script on ranks of this machine, and watch it."""
    end_as(follow(script, tuple(args or ()), Options(nproc, device, timeout, plain, json, save)))
