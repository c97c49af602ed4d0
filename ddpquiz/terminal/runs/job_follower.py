"""Reads the files of a job that goes on again and again, and says whether it goes on."""

import os
import socket
import time
from pathlib import Path

from ddpquiz.analysis.events import Recorded
from ddpquiz.analysis.records.job_record import JobRecord
from ddpquiz.analysis.records.rank_files import read_rank_files
from ddpquiz.analysis.run_state import RunState
from ddpquiz.ranks.inside.rank_writer import boot_id

PACE = 0.5  # seconds between two looks at the folder
SHARE = 0.2  # of the time that reading may take
SETTLED = 2.0  # seconds after which a job whose ranks have all ended is over; it may restart them


class JobFollower:
    """What the files of a folder say now. `read` raises UserError for a file that no recorder wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record: JobRecord | None = None
        self.state = RunState()
        self.gone: frozenset[int] = frozenset()  # ranks whose process on this machine has ended
        self._seen: dict[Path, int] = {}  # size of each file
        self._changed_at = self._next_look = 0.0
        self._hosts: dict[int, tuple[str, str]] = {}  # machine of each rank, and its boot
        self._here = socket.gethostname()[:200], boot_id()

    def read(self) -> bool:
        """Read the files if they have grown; return whether anything is new."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        sizes = self._sizes()
        is_new = bool(sizes) and sizes != self._seen
        if is_new:
            self._seen, self._changed_at = sizes, now
            self._read_all()
        gone = frozenset(rank for rank, pid in self.state.pids.items() if self._is_gone(rank, pid))
        if gone != self.gone:
            self.gone, self._changed_at, is_new = gone, now, True
        self._next_look = time.monotonic() + max(PACE, (time.monotonic() - now) / SHARE)
        return is_new

    def now(self) -> float:
        """Return the time in the job, as far as its files tell."""
        return self.state.time + (0.0 if self.over else time.monotonic() - self._changed_at)

    @property
    def over(self) -> bool:
        """Whether all ranks that have a record have ended, and nothing was added for a while."""
        if self.record is None or time.monotonic() - self._changed_at < SETTLED:
            return False
        ended = {*self.state.exited, *self.gone}
        return all(rank in ended for rank in self.record.present)

    def _sizes(self) -> dict[Path, int]:
        try:
            places = [self.folder, *(each for each in self.folder.iterdir() if each.is_dir())]
            return {path: path.stat().st_size for place in places for path in place.glob("rank-*.jsonl")}
        except FileNotFoundError:  # the folder is not there yet, or a file was renamed meanwhile
            return {}

    def _read_all(self) -> None:
        if not any(self._seen.values()):
            return
        record, state = read_rank_files(self.folder), RunState()
        for event in record.events:
            state.add(event)
            if isinstance(event, Recorded):
                self._hosts[event.rank] = event.host, event.boot
        self.record, self.state = record, state

    def _is_gone(self, rank: int, pid: int) -> bool:
        if self._hosts.get(rank) != self._here or not pid:
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False
