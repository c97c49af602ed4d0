"""torch's own reader of Flight Recorder dumps beside `ddpquiz diagnose`, on the same dumps.

    python benchmarks/torch_reader.py            on the dumps in tests/data/flight_recorder
    python benchmarks/torch_reader.py DIR ...    on pickles trace_0, trace_1, ... of your own

torch's reader (`torchfrtrace`) gets the dumps as they are, and once more with the members of each group added as NCCL
would have recorded them: Gloo does not record them, and the reader needs them.
"""

import argparse
import pickle
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

DATA = Path(__file__).parents[1] / "tests" / "data" / "flight_recorder"
NOISE = ("tabulate is not installed", "Not all ranks joining")


def with_members(folder: Path, into: Path) -> Path:
    """Write the dumps of a folder again, with the members of each group: the ranks that used it."""
    dumps = {int(path.name.rpartition("_")[2]): pickle.loads(path.read_bytes()) for path in folder.glob("trace_*")}
    users: defaultdict[str, set[int]] = defaultdict(set)
    for rank, dump in dumps.items():
        for entry in dump["entries"]:
            users[entry["process_group"][0]].add(rank)
    for rank, dump in dumps.items():
        names = {entry["process_group"] for entry in dump["entries"]}
        dump["pg_config"] = {
            name: {"name": name, "desc": description, "ranks": str(sorted(users[name]))} for name, description in names
        }
        (into / f"trace_{rank}").write_bytes(pickle.dumps(dump))
    return into


def said(command: list[str]) -> tuple[str, float]:
    """What a command says at the end, and how many seconds it took."""
    began = time.perf_counter()
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    seconds = time.perf_counter() - began
    lines = [line.strip() for line in (ran.stdout + ran.stderr).splitlines() if line.strip()]
    lines = [re.sub("^.*? (?=Traceback)", "", line) for line in lines if not line.startswith(NOISE)]
    shown = lines[-1:] if "Traceback" in ran.stderr else lines[:3]
    return f"status {ran.returncode}: " + " / ".join(line[:150] for line in shown), seconds


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folders", nargs="*", type=Path, default=sorted(DATA.iterdir()))
    for folder in options.parse_args().folders:
        print(f"\n{folder.name}")
        with tempfile.TemporaryDirectory() as made:
            full = with_members(folder, Path(made))
            reader = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", "-p", "trace_"]
            ways = {
                "torch": [*reader, str(folder)],
                "torch, members added": [*reader, str(full)],
                "ddpquiz": [sys.executable, "-m", "ddpquiz", "diagnose", str(folder)],
                "ddpquiz, members added": [sys.executable, "-m", "ddpquiz", "diagnose", str(full)],
            }
            for name, command in ways.items():
                text, seconds = said(command)
                print(f"  {name:24}{seconds:5.1f} s  {text}")


if __name__ == "__main__":
    main()
