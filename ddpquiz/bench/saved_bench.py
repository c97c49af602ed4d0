"""The file with what `ddpquiz bench` measured, in the learner's data folder."""

from __future__ import annotations

from ddpquiz.bench.measurements import BenchGroup, MachineBench, decode
from ddpquiz.errors import UserError
from ddpquiz.learning.side_files import load_json, save_json
from ddpquiz.paths import data_dir

BENCH_FILE = "bench.json"


def load_bench() -> MachineBench:
    """What was measured here; nothing if there is no file, or if it is not valid."""
    try:
        return decode(load_json(data_dir() / BENCH_FILE))
    except (OSError, ValueError, RecursionError):
        return MachineBench()


def save_bench(new: BenchGroup) -> MachineBench:
    """Add a group to the file and return all; UserError if it cannot be written."""
    bench, path = load_bench().merged(new), data_dir() / BENCH_FILE
    try:
        save_json(path, bench.as_json())
    except OSError as wrong:
        raise UserError(
            f"{path} cannot be written ({wrong.strerror}), so these times were not saved; make room there, or set "
            "DDPQUIZ_HOME to another folder."
        ) from None
    return bench
