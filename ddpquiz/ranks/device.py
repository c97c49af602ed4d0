"""What ranks compute on and communicate by: GPUs with NCCL, CPUs with Gloo, or nothing that the installed torch can do.

Each choice comes with its reason in a sentence.
"""

import contextlib
import os
import re
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from ddpquiz.errors import UserError
from ddpquiz.plural import plural
from ddpquiz.ranks.forks import fork


@dataclass(frozen=True, slots=True)
class Machine:
    """What this machine has: GPUs that torch can use, whether torch has NCCL and Gloo, and its version."""

    gpus: int
    nccl: bool
    gloo: bool
    torch: str


@dataclass(frozen=True, slots=True)
class Device:
    """What the ranks of a run compute on, the backend by which they communicate, and why."""

    kind: str  # cpu | cuda
    backend: str  # gloo | nccl
    reason: str
    lack: str = ""  # why NCCL cannot be used
    is_shared: bool = False  # several ranks use one GPU


def default_ranks(machine: Machine) -> int:
    """How many ranks to start by default: one per GPU if there are several, else four."""
    return machine.gpus if machine.gpus >= 2 else 4


def choose(wanted: str, ranks: int, machine: Machine, *, may_share: bool = False) -> Device:
    """The device for `ranks` ranks; `wanted` is auto, cpu or cuda.

    NCCL refuses two ranks of one machine on one GPU, so it is used only if there is one for each rank, or if ranks
    `may_share` GPUs and `wanted` is cuda: then each passes for a machine of its own (NCCL_HOSTID).
    """
    gpus = plural(machine.gpus, "GPU") if machine.gpus else "no GPUs"
    enough = machine.gpus >= ranks and machine.nccl
    if wanted == "cuda" and not enough and may_share and machine.gpus and machine.nccl:
        reason = f"{plural(ranks, 'rank')} on GPU over NCCL · {gpus} found, which the ranks share"
        return Device("cuda", "nccl", reason, is_shared=True)
    if wanted == "cuda" and not enough:
        lack = "this torch has no NCCL" if machine.gpus and not machine.nccl else f"{gpus} found"
        raise UserError(
            f"{plural(ranks, 'rank')} on GPUs need {ranks} GPUs and NCCL, but {lack}; "
            f"leave out --device cuda to run on CPU, or lower --nproc."
        )
    if wanted != "cpu" and enough:
        return Device("cuda", "nccl", f"{plural(ranks, 'rank')} on GPU over NCCL · {gpus} found, one for each rank")
    if not machine.gloo:
        raise UserError(
            "This torch was built without Gloo, so ranks cannot communicate on CPU; install torch from pytorch.org."
        )
    if wanted == "cpu":
        why = "as --device cpu asks"
    elif machine.gpus and not machine.nccl:
        why = f"{gpus} found, but this torch has no NCCL"
    elif machine.gpus:
        why = f"{gpus} found, NCCL needs one per rank"
    else:
        why = "no GPU found"
    return Device("cpu", "gloo", f"{plural(ranks, 'rank')} on CPU over Gloo · {why}", why)


OLDEST = 2, 6  # as in pyproject.toml
OLDEST_TAUGHT = 2, 9  # on older ones, what Gloo and FSDP do differs from what the lessons say


def release(version: str) -> tuple[int, ...]:
    """The first two numbers of a version of torch, such as (2, 13) of 2.13.0+cpu."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def why_no_demos(torch: str) -> str:
    """Return, in a sentence, why demos, labs and proofs do not run on a version of torch; "" if they do."""
    if release(torch) >= OLDEST_TAUGHT:
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


def machine() -> Machine:
    """What torch can use here. GPUs are counted in a child, since counting may initialise CUDA."""
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
    if release(torch.__version__) < OLDEST:
        return f"torch {torch.__version__} is too old: ranks need {OLDEST[0]}.{OLDEST[1]} or newer; {how}."
    if not torch.distributed.is_available():
        return f"torch {torch.__version__} was built without torch.distributed, so ranks cannot communicate; {how}."
    return ""
