"""`ddpquiz doctor`: check that this machine can do what ddpquiz needs."""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from ddpquiz.cli.output import say
from ddpquiz.errors import UserError
from ddpquiz.events.event import End
from ddpquiz.paths import data_dir
from ddpquiz.plural import plural
from ddpquiz.ranks.device import choose_device, default_ranks
from ddpquiz.ranks.installed_torch import why_no_demos
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run
from ddpquiz.ranks.server_connection import server, temporary_folder

PROBE = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
x = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(x)
assert x.item() == 3.0, "two ranks summed 1 and 2"
dist.destroy_process_group()
"""


def doctor() -> None:
    """Check that this machine can run demos, and run a real all-reduce of two ranks."""
    good = True
    for check in (_python, _packages, _content, _data, _loopback, _torch, _ranks):
        name = check.__name__[1:]
        try:
            for found in check():
                say(f"ok   {name:<9} {found}")
        except (UserError, OSError, ImportError) as wrong:
            good = False
            say(f"BAD  {name:<9} {wrong}")
    if not good:
        raise UserError("Fix what is marked BAD above, then run `ddpquiz doctor` again.")
    if lack := why_no_demos(metadata.version("torch")):
        say(f"note torch     {lack}")
        say("Nothing else is wrong.")
        return
    say("No problems found.")


def _python() -> Iterator[str]:
    if sys.flags.optimize:
        raise UserError("Python runs with -O, which removes the asserts of the demos; start it without -O.")
    yield f"{platform.python_version()} on {platform.system()} {platform.release()}, {os.cpu_count()} cores"


def _packages() -> Iterator[str]:
    found = []
    for package in ("typer", "rich", "PyYAML", "fsrs", "torch"):
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            raise UserError(
                f"{package} is not installed in {sys.prefix}; `pip install .` in a checkout installs it."
            ) from None
    yield ", ".join(found)


def _content() -> Iterator[str]:
    from ddpquiz.curriculum.loading import load  # noqa: PLC0415  # a missing package is reported, not raised

    concepts = load().concepts
    yield f"{len(concepts)} concepts, {sum(len(each.cards) + len(each.questions) for each in concepts)} items"


def _data() -> Iterator[str]:
    folder = data_dir()
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise UserError(f"{folder} is not writable; set DDPQUIZ_HOME to a folder that is.")
    yield f"{folder} is writable"


def _loopback() -> Iterator[str]:
    with socket.socket() as here, socket.socket() as there:
        here.bind(("127.0.0.1", 0))
        here.listen(1)
        there.connect(here.getsockname())
    yield "127.0.0.1 accepts connections"


def _torch() -> Iterator[str]:
    machine = server().machine
    have = [name for name, there in (("NCCL", machine.nccl), ("Gloo", machine.gloo)) if there]
    yield f"{machine.torch}, {' and '.join(have) or 'no backend'}, {plural(machine.gpus, 'GPU')}"
    if not why_no_demos(machine.torch):
        yield f"a demo would run {choose_device('auto', default_ranks(machine), machine).reason}"


def _ranks() -> Iterator[str]:
    with temporary_folder() as folder:
        script = Path(folder) / "doctor.py"
        script.write_text(PROBE)
        *_, end = Run(Request(script, ranks=2, device="cpu", timeout=10)).events()
    if not isinstance(end, End) or not end.ok:
        raise UserError(end.why if isinstance(end, End) else "the run did not end")
    yield f"two ranks summed 1 and 2 to 3 in {end.time:.2f} s"
