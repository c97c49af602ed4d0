"""What ranks compute on and communicate by: GPUs with NCCL, CPUs with Gloo, or nothing that the installed torch can do.

Each choice comes with its reason in a sentence.
"""

from dataclasses import dataclass

from ddpquiz.errors import UserError
from ddpquiz.plural import plural
from ddpquiz.ranks.installed_torch import Machine


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


def choose_device(wanted: str, ranks: int, machine: Machine, *, may_share: bool = False) -> Device:
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
