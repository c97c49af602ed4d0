"""Reads whatever the ranks of a job left behind: files of our recorder, Flight Recorder dumps, or a saved run."""

import re
from dataclasses import replace
from pathlib import Path

from ddpquiz.errors import UserError
from ddpquiz.events import saved_run
from ddpquiz.events.event import Began
from ddpquiz.jobs import dumped_job, rank_files
from ddpquiz.jobs.dump_file import names_a_rank
from ddpquiz.jobs.job_record import JobRecord

_OURS = re.compile(r"rank-\d{1,4}(?:\.old)?\.jsonl(?:\.\d+)?")


def read_job(path: Path, ranks: int = 0) -> JobRecord:
    """Return what was recorded of a job: `path` is a folder with a file for each rank, or a single file.

    The files may be in folders of that folder, such as one for each machine. `ranks` is the size of the job if the user
    knows it. UserError if there is nothing to read, or a file is not what its name says.
    """
    if path.is_dir():
        return _read_folder(path, ranks)
    if not path.exists():
        raise UserError(f"There is no file or folder {path}.")
    if _is_saved_run(path):
        events = saved_run.read(path)
        began = events[0]
        ranks = began.ranks if isinstance(began, Began) else 0
        return JobRecord(events, ranks, tuple(range(ranks)), "a saved run")
    return dumped_job.read_dumps([path], ranks)


def _read_folder(folder: Path, ranks: int) -> JobRecord:
    files = _files_in(folder)
    if any(_OURS.fullmatch(file.name) for file in files):
        return rank_files.read_rank_files(folder)
    dumps = [file for file in files if names_a_rank(file)]
    others = [file.name for file in files if not names_a_rank(file)]
    if not dumps:
        held = f"; it holds {others[0]}" if others else ", it is empty"
        raise UserError(
            f"{folder} holds no records{held}. Name a folder with rank-N.jsonl of `ddpquiz.record`, or with Flight "
            "Recorder dumps whose names end in the rank, such as trace_0."
        )
    record = dumped_job.read_dumps(dumps, ranks)
    if not others:
        return record
    left = f"{', '.join(others[:3])}{' and others' if len(others) > 3 else ''}"
    return replace(record, notes=(*record.notes, f"Files whose names do not end in a rank were left out: {left}."))


def _files_in(folder: Path) -> list[Path]:
    """Return the files in a folder and in its folders, without hidden ones."""
    try:
        found = [each for each in sorted(folder.iterdir()) if not each.name.startswith(".")]
        for each in [each for each in found if each.is_dir()]:
            found += [inner for inner in sorted(each.iterdir()) if not inner.name.startswith(".")]
        return [each for each in found if each.is_file()]
    except OSError as wrong:
        raise UserError(f"{folder} cannot be read: {wrong.strerror}.") from None


def _is_saved_run(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(20).startswith(b'{"event": "run"')
    except OSError as wrong:
        raise UserError(f"{path} cannot be read: {wrong.strerror}.") from None
