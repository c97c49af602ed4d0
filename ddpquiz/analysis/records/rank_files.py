"""The files that `ddpquiz.record` writes, one per rank, joined: the same operations of all ranks, on one clock."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import median

from ddpquiz.analysis.events import Ended, Event, Issued, Joining, RankEvent, Waited, when
from ddpquiz.analysis.operation import POINT_TO_POINT, ROOTED
from ddpquiz.analysis.records.clock_alignment import Alignment, Clock, Visit, align
from ddpquiz.analysis.records.dropped_operations import DroppedOperations, Place
from ddpquiz.analysis.records.job_record import JobRecord
from ddpquiz.analysis.records.rank_record import Life, RankReader, RankRecord
from ddpquiz.errors import UserError

SOURCE = "ddpquiz.record"
_FILE = re.compile(r"rank-(\d{1,4})(?:\.old)?\.jsonl")

Remaining = tuple[Life, list[tuple[Event, Place | None]]]  # a life of a rank, and its events that are not left out


def read_rank_files(folder: Path) -> JobRecord:
    """Read the newest job that was recorded into a folder; UserError names a line that no recorder wrote.

    A last line that is not complete is ignored: its process may be writing it, or was killed.
    """
    reader = RankReader()
    read = [reader.read(rank, each) for rank, each in sorted(_ranks_in(folder).items())]
    records, notes = _newest_job([record for record in read if record])
    if not records:
        raise UserError(f"{folder} holds no recorded ranks; `python -m ddpquiz.record --to {folder} ...` writes them.")
    began = max((each for record in records for each in record.began), key=lambda each: each.backend != "unknown")
    began = replace(began, ranks=max(each.ranks for record in records for each in record.began))
    dropped = DroppedOperations(records)
    remaining = [(life, list(dropped.remaining(record, life))) for record in records for life in dropped.lives(record)]
    alignment = _align(remaining)
    if dropped.left_out:
        notes.append("Only the newest operations of each rank are known; older ones are left out.")
    notes += [
        f"The clock of {host} was compared by its time of day only: no collective joins it with the others."
        for host in alignment.uncompared
    ]
    return JobRecord(
        events=(began, *sorted(_on_one_clock(remaining, alignment), key=when)),
        ranks=began.ranks,
        present=tuple(record.rank for record in records),
        source=SOURCE,
        clock_error=alignment.error,
        notes=tuple(notes),
    )


def _ranks_in(folder: Path) -> dict[int, Path]:
    """Return in which folder each rank has its files, also those of each machine; the newer one if there are two."""
    found: dict[int, Path] = {}
    try:
        for place in (folder, *(each for each in sorted(folder.iterdir()) if each.is_dir())):
            for path in place.iterdir():
                name = _FILE.fullmatch(path.name)
                rank = int(name[1]) if name else -1
                if rank >= 0 and (rank not in found or _written(found[rank], rank) < _written(place, rank)):
                    found[rank] = place
    except OSError as wrong:
        raise UserError(f"{folder} cannot be read: {wrong.strerror}.") from None
    return found


def _written(folder: Path, rank: int) -> float:
    """Return when the newest file of a rank in a folder was written."""
    paths = (folder / f"rank-{rank}.jsonl", folder / f"rank-{rank}.old.jsonl")
    return max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)


def _newest_job(records: Sequence[RankRecord]) -> tuple[list[RankRecord], list[str]]:
    """Return the records of the job that began last, and a note if the folder holds others, too."""

    def jobs(record: RankRecord) -> set[tuple[object, ...]]:
        return {(each.script, each.args, each.module, each.ranks, each.reason) for each in record.began}

    if not records:
        return [], []
    wanted = jobs(max(records, key=lambda record: record.lives[-1].recorded.wall))
    newest = [record for record in records if jobs(record) & wanted]
    others = [record.rank for record in records if not jobs(record) & wanted]
    if not others:
        return newest, []
    files = ", ".join(f"rank-{rank}.jsonl" for rank in others)
    return newest, [f"The folder holds files of an earlier job, which are left out: {files}."]


def _align(remaining: Sequence[Remaining]) -> Alignment:
    guesses: defaultdict[Clock, list[float]] = defaultdict(list)
    for life, _ in remaining:
        guesses[life.clock].append(life.recorded.wall - life.recorded.clock)
    visits = _visits(remaining).values() if len(guesses) > 1 else ()
    return align({clock: median(each) for clock, each in guesses.items()}, visits)


def _visits(remaining: Sequence[Remaining]) -> dict[Place, list[Visit]]:
    """Return when the ranks entered and left each collective that all of them leave together."""
    visits: defaultdict[Place, list[Visit]] = defaultdict(list)
    for life, events in remaining:
        entered: dict[int, tuple[float, Place]] = {}
        for event, place in events:
            if isinstance(event, Issued) and place and event.operation.op not in (*POINT_TO_POINT, *ROOTED):
                entered[event.number] = event.time + life.recorded.clock, place
            elif isinstance(event, Ended) and not event.failed and event.number in entered:
                since, at = entered.pop(event.number)
                visits[at].append(Visit(life.clock, since, event.time + life.recorded.clock))
    return visits


def _on_one_clock(remaining: Sequence[Remaining], alignment: Alignment) -> Iterator[Event]:
    """Yield all events; their times count from the moment when the first process began."""
    begins = [life.recorded.clock + alignment.offsets[life.clock] for life, _ in remaining]
    for (life, events), begin in zip(remaining, begins, strict=True):
        by = begin - min(begins)
        started = replace(life.started, time=_first_joining(life, (event for event, _ in events)))
        for event in (started, life.recorded, *(event for event, _ in events)):
            yield _shifted(event, by)


def _first_joining(life: Life, events: Iterable[Event]) -> float:
    """Return when a rank began to form its first group: until then it imports torch, which is no work of the run."""
    joining = (each.time for each in chain(life.repeated, events) if isinstance(each, Joining) and not each.done)
    return next(joining, life.started.time)


def _shifted(event: Event, by: float) -> Event:
    """Return an event `by` seconds later."""
    if by == 0.0 or not isinstance(event, RankEvent):
        return event
    time = round(event.time + by, 6)
    match event:
        case Issued():
            return Issued(time, event.rank, event.number, event.operation, event.before)
        case Ended(started=float(started)):
            return replace(event, time=time, started=round(started + by, 6))
        case Waited():
            return replace(event, time=time, since=round(event.since + by, 6))
    return replace(event, time=time)
