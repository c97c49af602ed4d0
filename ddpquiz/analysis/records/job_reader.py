"""Reads whatever the ranks of a job left behind: files of our recorder, Flight Recorder dumps, or a saved run."""

from pathlib import Path

from ddpquiz.analysis import saved_run
from ddpquiz.analysis.events import Began
from ddpquiz.analysis.records import dumped_job, rank_files
from ddpquiz.analysis.records.job_record import JobRecord
from ddpquiz.errors import UserError

OURS = "rank-*.jsonl"


def read_job(path: Path) -> JobRecord:
    """Return what was recorded of a job: `path` is a folder with a file for each rank, or a single file.

    UserError if there is nothing to read, or a file is not what its name says.
    """
    if path.is_dir():
        if any(path.glob(OURS)):
            return rank_files.read_rank_files(path)
        dumps = sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith("."))
        if not dumps:
            raise UserError(f"{path} is empty; name the folder with the files of the ranks.")
        return dumped_job.read_dumps(dumps)
    if not path.exists():
        raise UserError(f"There is no file or folder {path}.")
    if _is_saved_run(path):
        events = saved_run.read(path)
        began = events[0]
        ranks = began.ranks if isinstance(began, Began) else 0
        return JobRecord(events, ranks, tuple(range(ranks)), "a saved run")
    return dumped_job.read_dumps([path])


def _is_saved_run(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(20).startswith(b'{"event": "run"')
    except OSError as wrong:
        raise UserError(f"{path} cannot be read: {wrong.strerror}.") from None
