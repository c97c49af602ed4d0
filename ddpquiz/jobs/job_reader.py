"""Reads whatever is known of a job: recordings, Flight Recorder dumps, logs, stacks, error files, or a saved run.

What a file is, its contents say; only the rank comes from its name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from ddpquiz.errors import UserError
from ddpquiz.events import saved_run
from ddpquiz.events.event import Began
from ddpquiz.jobs import dumped_job, log_file, rank_files, ras, stacks
from ddpquiz.jobs.dump_file import names_a_rank
from ddpquiz.jobs.job_record import JobRecord, record_of_stacks
from ddpquiz.jobs.log_file import JobLog, LoggedError, LoggedNotice
from ddpquiz.plural import plural
from ddpquiz.safe_text import one_line

_DEPTH = 6  # folders; torchrun --log-dir makes four
_MOST_FILES = 20_000
_HEAD = 4096  # bytes that show what a file is
_DUMP_KEYS = re.compile(rb'"(?:entries|pg_config|pg_status|comm_lib_version|nccl_comm_state|nccl_version)"')
_NO_LOGS = {".py", ".pyc", ".ipynb", ".sh", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".md", ".rst", ".html", ".csv",
            ".tsv", ".json", ".jsonl", ".sbatch", ".c", ".cpp", ".cu", ".h"}  # fmt: skip
_HOW = (
    "Name rank-N.jsonl of `ddpquiz.record`, Flight Recorder dumps, stacks, or the logs of the job, as files or as the "
    "folder that holds them."
)


@dataclass
class _Found:
    """The files of a job by what they are; `names` is how a verdict calls them."""

    names: dict[Path, str] = field(default_factory=dict)
    recordings: list[Path] = field(default_factory=list)
    saved_runs: list[Path] = field(default_factory=list)
    dumps: list[Path] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)
    stacks: list[Path] = field(default_factory=list)
    ras: list[Path] = field(default_factory=list)
    error_files: list[LoggedError] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)


def read_job(paths: Path | Sequence[Path], ranks: int = 0) -> JobRecord:
    """What is known of a job: `paths` are files, and folders that hold them, of any kind and mixed.

    `ranks` is the size of the job if the user knows it. UserError if there is nothing to read, or a file is damaged.
    """
    paths = [paths] if isinstance(paths, Path) else paths
    found = _find(paths)
    notes: list[str] = []
    record: JobRecord | None = None
    if found.saved_runs:
        _refuse_if_several(found.saved_runs)
        record = _read_saved_run(found.saved_runs[0])
        notes += _left_out(found, found.recordings + found.dumps, "Only one run is read")
    elif found.recordings:
        ranks_in = _refuse_two_recordings(found.recordings, paths)
        record = rank_files.read_rank_files(*dict.fromkeys(path.parent for path in found.recordings))
        if left_out := [path for path, of_path in ranks_in.items() if not of_path & {*record.present}]:
            read = next(path for path in ranks_in if path not in left_out)
            _refuse_if_several([read, left_out[0]])
        notes += _left_out(found, found.dumps, "Recordings say more than dumps")
    elif found.dumps:
        record = dumped_job.read_dumps(found.dumps, ranks)
    known = record.ranks if record and (found.saved_runs or found.recordings) else 0  # a recorder knows the size
    if found.logs or found.error_files:
        record = _with_logs(record, found, ranks)
        if record.log:
            _refuse_two_logs(record.log, found, paths)
    record = _with_ras(_with_stacks(record, found, ranks), found)
    if record and known:
        _check_size(record, known)
        record = replace(record, ranks=known)
    if record is None:
        held = f"; it holds {found.names[found.others[0]]}" if found.others else ", it is empty"
        raise UserError(f"{', '.join(map(str, paths))} holds no records{held}. {_HOW}")
    notes += _left_out(found, found.others, "Files that are no records and no logs")
    return replace(record, notes=(*record.notes, *notes))


_ONE = "Name one job at a time."


def _refuse_if_several(jobs: Sequence[Path]) -> None:
    """Raise UserError if there are several jobs: only one of them would be diagnosed."""
    if len(jobs) > 1:
        raise UserError(f"{jobs[0]} and {jobs[1]} are of two jobs. {_ONE}")


def _refuse_two_recordings(recordings: Sequence[Path], named: Sequence[Path]) -> dict[Path, set[int]]:
    """The ranks with a recording in each path that the user named; UserError if two of them are of two jobs."""
    files: dict[str, Path] = {}
    held: dict[Path, set[int]] = {}
    for path in recordings:
        if (rank := rank_files.rank_of_file(path.name)) is not None:
            held.setdefault(_named_above(path, named), set()).add(rank)
        other = files.setdefault(path.name, path)
        if _named_above(path, named) != _named_above(other, named) and rank_files.are_of_two_jobs(other, path):
            raise UserError(f"{other} and {path} are of two jobs. {_ONE}")
    return held


def _named_above(path: Path, named: Sequence[Path]) -> Path:
    """The folder that the user named and that holds a file, or the folder of a file that was named itself."""
    return next((each for each in named if each in path.parents), path.parent)


def _refuse_two_logs(log: JobLog, found: _Found, named: Sequence[Path]) -> None:
    """Raise UserError if a rank ended in two ways, in logs that the user named one beside the other.

    torchrun may have restarted the ranks; then both may be of one job.
    """
    if any(isinstance(fact, LoggedNotice) and fact.kind == "restart" for fact in log.facts):
        return
    whose = {name: path for path, name in found.names.items()}
    ends: dict[int, dict[Path, set[tuple[str, str]]]] = {}
    for fact in log.facts:
        if not isinstance(fact, LoggedError) or not fact.uncaught or fact.beside or fact.of_launcher:
            continue
        if fact.rank is not None and "attempt_" not in str(whose[fact.at.file]):
            path = whose[fact.at.file]
            by_path = ends.setdefault(fact.rank, {})
            place = path if path in named else _named_above(path, named)
            by_path.setdefault(place, set()).add((fact.error, fact.message))
    for rank, by_path in ends.items():
        (one, first), *others = by_path.items()
        for other, second in others:
            if not first & second:
                raise UserError(
                    f"Rank {rank} ended by different errors in {one} and {other}, as in two jobs. {_ONE} If they are "
                    "of one job, name a folder that holds both."
                )


def _check_size(record: JobRecord, size: int) -> None:
    """Raise UserError if files beside a record name a rank that its job does not have."""
    log, seen, report = record.log, record.stacks, record.ras
    named = (
        (log.files[0] if log and len(log.files) == 1 else "One of the logs", max(log.seen, default=0) if log else 0),
        ("A file with stacks", max(seen.of, default=0) if seen else 0),
        ("A report of RAS", report.ranks - 1 if report else 0),
    )
    for what, highest in named:
        if highest >= size:
            raise UserError(
                f"{what} names rank {highest}, but the record is of {plural(size, 'rank')}: they are not of one job. "
                "Name only files of the same job."
            )


def _read_saved_run(path: Path) -> JobRecord:
    events = saved_run.read(path)
    began = events[0]
    ranks = began.ranks if isinstance(began, Began) else 0
    return JobRecord(events, ranks, tuple(range(ranks)), "a saved run")


def _with_logs(record: JobRecord | None, found: _Found, ranks: int) -> JobRecord:
    """What is known of a job together with its logs."""
    log = log_file.read_logs(
        found.logs, [found.names[path] for path in found.logs], max(ranks, record.ranks if record else 0)
    )
    if found.error_files:
        names = [error.at.file for error in found.error_files]
        log = log_file.add_errors(log, found.error_files, names)
    count = plural(len(log.files), "log")
    if record is not None:
        return replace(record, source=f"{record.source} and {count}", ranks=max(record.ranks, log.ranks), log=log)
    began = Began("", (), max(1, log.ranks), "cpu", "unknown", "as the logs of the job say")
    return JobRecord((began,), log.ranks, log.seen, count, log=log)


def _with_stacks(record: JobRecord | None, found: _Found, ranks: int) -> JobRecord | None:
    """What is known of a job together with where its ranks stood; logs may hold stacks, too."""
    paths = [*found.stacks, *(path for path in found.logs if stacks.is_in(path))]
    known = max(ranks, record.ranks if record else 0)
    seen = stacks.read_stacks(paths, [found.names[path] for path in paths], known) if paths else None
    if seen is None:
        return record
    source = plural(len(paths), "file") + " with stacks"
    if record is None:
        return record_of_stacks(seen, source)
    source = f"{record.source} and {source}" if found.stacks else record.source
    return replace(record, source=source, ranks=max(record.ranks, seen.ranks), stacks=seen)


def _with_ras(record: JobRecord | None, found: _Found) -> JobRecord | None:
    """What is known of a job together with what RAS says of it."""
    if not found.ras:
        return record
    report = ras.read_ras(found.ras, [found.names[path] for path in found.ras])
    source = plural(len(found.ras), "report") + " of RAS"
    if record is None:
        began = Began("", (), max(1, report.ranks), "cuda", "nccl", "as RAS says")
        return JobRecord((began,), report.ranks, tuple(range(report.ranks)), source, ras=report)
    return replace(record, source=f"{record.source} and {source}", ranks=max(record.ranks, report.ranks), ras=report)


def _left_out(found: _Found, paths: Sequence[Path], why: str) -> list[str]:
    if not paths:
        return []
    names = [found.names[path] for path in paths]
    more = " and others" if len(names) > 3 else ""
    return [f"{why}; left out: {', '.join(names[:3])}{more}."]


# Which files there are, and what each of them is.


def _find(paths: Sequence[Path]) -> _Found:
    found = _Found()
    for path in paths:
        if not path.exists():
            raise UserError(f"There is no file or folder {path}.")
        if not path.is_file() and not path.is_dir():
            raise UserError(
                f"{path} is a pipe or a device, which cannot be read twice. Save it as a file, and name that."
            )
        inside = islice(_files_in(path, _DEPTH), _MOST_FILES + 1) if path.is_dir() else [path]
        known = {each.resolve() for each in found.names}
        for each in inside:
            if not known or each.resolve() not in known:  # to resolve takes long
                found.names[each] = str(each.relative_to(path)) if path.is_dir() else path.name
    if len(found.names) > _MOST_FILES:
        raise UserError(f"There are more than {_MOST_FILES:,} files. Name the folder of one job only.")
    often = Counter(found.names.values())
    found.names = {path: one_line(str(path) if often[name] > 1 else name) for path, name in found.names.items()}
    for path in found.names:
        _sort_in(found, path, is_named=path in paths)
    return found


def _files_in(folder: Path, depth: int) -> Iterator[Path]:
    """The files in a folder and in its folders, without hidden ones."""
    try:
        inside = sorted(each for each in folder.iterdir() if not each.name.startswith("."))
    except OSError as wrong:
        raise UserError(f"{folder} cannot be read: {wrong.strerror}.") from None
    yield from (each for each in inside if each.is_file())
    for each in inside:
        if depth and each.is_dir() and not each.is_symlink():
            yield from _files_in(each, depth - 1)


def _sort_in(found: _Found, path: Path, *, is_named: bool) -> None:
    """Find out what a file is. A file that the user names and that is nothing else is taken for a dump or a log."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            rest = (
                file.read(1 << 20)
                if head.lstrip()[:1] == b"{" and len(head) == _HEAD and b"py_callstack" in head
                else b""
            )
    except OSError as wrong:
        raise UserError(f"{path} cannot be read: {wrong.strerror}.") from None
    if rank_files.is_rank_file(path.name):
        found.recordings.append(path)
    elif head.startswith(b'{"event": "run"'):
        found.saved_runs.append(path)
    elif (of_now := _of_a_running_job(found, head)) is not None:
        of_now.append(path)
    elif head.startswith(b"\x80"):
        found.dumps.append(path)
    elif head.lstrip()[:1] == b"{" and b"py_callstack" in head:
        values = log_file.parse_log_json(head + rest)
        error = log_file.read_error_file(values, found.names[path], log_file.rank_of_folder(path))
        found.error_files += [error] if error else []
        found.others += [] if error else [path]
    elif head.lstrip()[:1] == b"{" and (_DUMP_KEYS.search(head) or path.suffix == ".json" or _is_bare(path)):
        (found.dumps if _DUMP_KEYS.search(head) or names_a_rank(path) else found.others).append(path)
    elif b"\0" in head or path.suffix in _NO_LOGS:
        (found.dumps if is_named and names_a_rank(path) else found.others).append(path)
    elif not head and names_a_rank(path) and not path.suffix:
        found.dumps.append(path)  # the dump of a rank that ended before it was written
    else:
        found.logs.append(path)


def _of_a_running_job(found: _Found, head: bytes) -> list[Path] | None:
    """Where a file belongs that somebody wrote who looked at a job; None for what a job wrote itself."""
    if ras.holds_ras(head):
        return found.ras
    return found.stacks if stacks.holds_stacks(head) else None


def _is_bare(path: Path) -> bool:
    """Whether a name has nothing but a rank at its end, as dumps have."""
    return names_a_rank(path) and not path.suffix
