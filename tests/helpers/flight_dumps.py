"""Real Flight Recorder dumps: three ranks over Gloo, one at fault.

`python tests/helpers/flight_dumps.py` writes those in tests/data/flight_recorder again, with neutral paths.
"""

import contextlib
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

DATA = Path(__file__).parents[1] / "data" / "flight_recorder"
RANKS = 3
TIMEOUT = 1.5  # seconds
NEUTRAL = {
    str(Path(__file__).resolve()): "/home/user/train.py",
    str(Path(os.__file__).parent): "/opt/python/lib/python3.11",
    sys.prefix: "/opt/python",
}


def train(rank):
    """Run four steps; rank 1 leaves out the last all_reduce and sleeps."""
    import torch
    import torch.distributed as dist

    pair = dist.new_group([0, 2])
    for _ in range(4):
        dist.all_reduce(torch.ones(4))
        if rank != 1:
            dist.broadcast(torch.ones(2, 2), 0, group=pair)
    dist.all_gather([torch.empty(2) for _ in range(RANKS)], torch.ones(2))
    if rank == 1:
        time.sleep(TIMEOUT + 0.5)
    else:
        dist.all_reduce(torch.ones(8))


def run_rank(rank, folder):
    """Run one rank, which dumps as JSON while it hangs, and with stacks when its timeout has ended the hang."""
    import torch.distributed as dist
    from torch._C import _distributed_c10d as c10d

    wait = timedelta(seconds=TIMEOUT)
    dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=RANKS, timeout=wait)
    watch = threading.Timer(TIMEOUT / 2, lambda: (folder / f"json_{rank}").write_bytes(c10d._dump_fr_trace_json()))
    watch.start()
    with contextlib.suppress(RuntimeError):  # the timeout
        train(rank)
    watch.join()
    time.sleep(0.3)  # until Gloo's own thread has retired the operation
    (folder / f"trace_{rank}").write_bytes(c10d._dump_fr_trace(True, True, False))


def run_ranks(folder):
    """Fork the ranks from one process, so that torch is imported once."""
    import torch.distributed  # noqa: F401

    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=run_rank, args=(rank, Path(folder))) for rank in range(RANKS)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()


def make(folder, buffer=2000):
    """Run the ranks; their dumps are in `folder` afterwards: trace_0, ... and json_0, ..."""
    environment = os.environ | {"TORCH_FR_BUFFER_SIZE": str(buffer), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-W", "ignore", __file__, str(folder)], env=environment, timeout=60, check=True)


def recorded(name, form="trace"):
    return sorted((DATA / name).glob(f"{form}_*"))


def neutral(dump):
    """Replace the paths of this machine in the stacks of a dump."""
    for entry in dump["entries"]:
        for frame in entry["frames"]:
            for path, other in NEUTRAL.items():
                frame["filename"] = frame["filename"].replace(path, other)
    return dump


def main():
    for name, buffer in (("missing", 2000), ("ring", 6)):
        folder = DATA / name
        folder.mkdir(parents=True, exist_ok=True)
        make(folder, buffer)
        (folder / "store").unlink()
        for rank in range(RANKS):
            path = folder / f"trace_{rank}"
            path.write_bytes(pickle.dumps(neutral(pickle.loads(path.read_bytes())), protocol=2))


if __name__ == "__main__":
    if sys.argv[1:]:
        run_ranks(sys.argv[1])
    else:
        main()
