"""What the installed torch can do here: whether ranks can run with it, and on which devices."""

import os
import re
from typing import Any

from ddpquiz.ranks.device import Machine
from ddpquiz.ranks.forks import fork

OLDEST = 2, 9  # as in pyproject.toml


def machine() -> Machine:
    """Return what torch can use here. GPUs are counted in a child, since counting may initialise CUDA."""
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
    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if version < OLDEST:
        return f"torch {torch.__version__} is too old: ranks need {OLDEST[0]}.{OLDEST[1]} or newer; {how}."
    if not torch.distributed.is_available():
        return f"torch {torch.__version__} was built without torch.distributed, so ranks cannot communicate; {how}."
    return ""
