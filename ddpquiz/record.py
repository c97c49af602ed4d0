"""Record every rank of a job, whoever starts it: `python -m ddpquiz.record --to DIR train.py`, or `start(to=DIR)`."""

import os
import sys
from pathlib import Path

from ddpquiz.ranks.inside import job_recorder
from ddpquiz.ranks.inside.job_recorder import LAST, Recording, RecordOptions

USAGE = f"""\
usage: python -m ddpquiz.record --to DIR [--last N] [--values] SCRIPT [ARGUMENT ...]
       python -m ddpquiz.record --to DIR [--last N] [--values] -m MODULE [ARGUMENT ...]

Run a script as Python would, and record its collectives into DIR/rank-N.jsonl. Use it under any launcher:

  torchrun --nproc-per-node 4 -m ddpquiz.record --to DIR train.py --lr 1e-3
  srun python -m ddpquiz.record --to DIR train.py

  --to DIR   the folder, shared by all ranks or one for each machine
  --last N   keep at least the newest N operations of each rank ({LAST:,})
  --values   also record the values of tensors with up to 16 elements
  -m MODULE  run a module, as `python -m MODULE` does

Then read it with `ddpquiz diagnose DIR`.
"""


def start(to: str | os.PathLike[str], last: int = LAST, *, values: bool = False) -> Recording:
    """Record this process from now on into `to`/rank-N.jsonl, at least its newest `last` operations.

    Call it in each process of a job, before `init_process_group`, which says the rank. As a context manager it records
    an exception when that leaves the block, and otherwise when it ends the process.
    """
    return job_recorder.start(RecordOptions(folder=Path(to), last=last, values=values))


def main() -> None:
    """Do what the command line asks for."""
    folder, last, values = "", LAST, False
    left = sys.argv[1:]
    while left:
        match left:
            case ["-h" | "--help", *_]:
                print(USAGE, end="")
                return
            case ["--to", folder, *left]:
                pass
            case ["--last", number, *left] if number.isdecimal() and int(number) > 0:
                last = int(number)
            case ["--values", *left]:
                values = True
            case ["-m", target, *args] if folder:
                options = RecordOptions(folder=Path(folder), last=last, values=values)
                job_recorder.run(options, target, args, module=True)
                return
            case [target, *args] if folder and not target.startswith("-"):
                options = RecordOptions(folder=Path(folder), last=last, values=values)
                job_recorder.run(options, target, args, module=False)
                return
            case [option, *_]:
                sys.exit(f"ddpquiz.record: {option!r} does not fit here.\n{USAGE}")
    sys.exit(f"ddpquiz.record: name a folder and a script.\n{USAGE}")


if __name__ == "__main__":
    main()
