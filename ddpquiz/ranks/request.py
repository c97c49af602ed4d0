"""What a run is asked to do."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """A script that torchrun could run, its arguments, and how to run it."""

    script: Path
    _: KW_ONLY
    args: Sequence[str] = ()
    ranks: int | None = None  # None: one per GPU if there are several, else four
    device: str = "auto"  # auto, cpu or cuda
    may_share_gpus: bool = False  # on cuda, where the script says which GPU each rank takes
    timeout: float | None = None  # seconds without any movement that count as a hang; None: never
    module: str = ""  # the script's name for `python -m`, if it runs that way
    restarts: int = 0  # how often failed ranks are started again, under torchrun's agent
    diagnose: bool = False  # say what is wrong while the run goes on, and end it where the calls of ranks do not match
    fresh: bool = False  # start each rank in an interpreter of its own, as torchrun does
    strict: bool = False  # refuse a script that asks for NCCL where NCCL cannot run
    replaces_nccl: bool = True  # by Gloo where it cannot run; False: torch itself says so
    check_replicas: bool = False  # compare the parameters of DDP models after each step of an optimizer
    subject: Path | None = None  # a file that the script loads: its lines are named, and every wait is reported
    reads_input: bool = False  # the ranks have the standard input of the command, unless that is a terminal
    is_watched: bool = True  # operations, marks and lines are recorded; False measures how fast they are without that
    environment: Mapping[str, str] = field(default_factory=dict)  # extra variables for the ranks
