"""The torch that is installed: its version, whether ranks and demos run on it, and what of this machine it can use."""

import contextlib
import os
import re
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from ddpquiz.errors import UserError
from ddpquiz.ranks.forks import fork


@dataclass(frozen=True, slots=True)
class Machine:
    """What this machine has: GPUs that torch can use, whether torch has NCCL and Gloo, and its version."""

    gpus: int
    nccl: bool
    gloo: bool
    torch: str


OLDEST = 2, 6  # as in pyproject.toml
OLDEST_TAUGHT = 2, 9  # on older ones, what Gloo and FSDP do differs from what the lessons say


def major_minor(version: str) -> tuple[int, ...]:
    """The first two numbers of a version of torch, such as (2, 13) of 2.13.0+cpu."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def why_no_demos(torch: str) -> str:
    """Return, in a sentence, why demos, labs and proofs do not run on a version of torch; "" if they do."""
    if major_minor(torch) >= OLDEST_TAUGHT:
        return ""
    needed = ".".join(map(str, OLDEST_TAUGHT))
    return (
        f"Demos, labs, proofs and listings of lessons need torch {needed} or newer, and {torch} is installed; "
        "`study`, `test`, `run`, `ddpquiz.record`, `diagnose` and `plan` work with it."
    )


def require_demos() -> None:
    """UserError if demos, labs and proofs do not run on the torch that is installed, which is not imported for that."""
    with contextlib.suppress(metadata.PackageNotFoundError):  # the server says what is wrong
        if why := why_no_demos(metadata.version("torch")):
            raise UserError(why)


def probe_machine() -> Machine:
    """What torch can use here. GPUs are counted in a child, since counting may initialize CUDA."""
    import torch
    import torch.distributed as dist

    gpus = 0
    if torch.version.cuda or torch.version.hip:
        ours, theirs = os.pipe()
        pid = fork(lambda: os.write(theirs, bytes([min(torch.cuda.device_count(), 255)])), close=[ours])
        os.close(theirs)
        gpus = int.from_bytes(os.read(ours, 1), "big")  # 0 if counting failed
        os.close(ours)
        os.waitpid(pid, 0)
    available: Any = dist.is_available()
    nccl, gloo = available and dist.is_nccl_available(), available and dist.is_gloo_available()
    return Machine(gpus, nccl, gloo, str(torch.__version__))  # its own class would make the launcher import torch


def why_no_ranks() -> str:
    """Return, in a sentence, why no rank can run with the torch that is installed; "" if one can."""
    how = "install it as pytorch.org/get-started says"
    try:
        import torch
    except ModuleNotFoundError as missing:
        if missing.name == "torch":
            return f"torch is not installed, and demos run on it; {how}."
        return f"torch is installed, but cannot be imported ({missing}); {how} once more."
    except (ImportError, OSError) as broken:  # a shared library is missing, or does not fit
        return f"torch is installed, but cannot be imported ({str(broken).splitlines()[0]}); {how} once more."
    if major_minor(torch.__version__) < OLDEST:
        return f"torch {torch.__version__} is too old: ranks need {OLDEST[0]}.{OLDEST[1]} or newer; {how}."
    if not torch.distributed.is_available():
        return f"torch {torch.__version__} was built without torch.distributed, so ranks cannot communicate; {how}."
    return ""
