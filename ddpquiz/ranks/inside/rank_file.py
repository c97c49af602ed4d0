"""The file of one rank in the folder of a recorded job, which is continued in a new file when it is long enough.

`rank-N.jsonl` is the newest file of rank N and `rank-N.old.jsonl` the one before it; `rank-N.tail` holds what is not
there yet. Files of an earlier job in the
same folder are renamed: `rank-N.jsonl.1`, then `.2` and so on.
"""

import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from time import monotonic

from ddpquiz.analysis.event_codec import decode
from ddpquiz.analysis.events import Issued, Recorded
from ddpquiz.analysis.records.rank_tail import read_tail
from ddpquiz.ranks.inside.event_writer import identity, move_up

UNCHECKED = 1.0  # seconds after which it is checked that the folder still holds the file
_ISSUED = f'{{"event": "{Issued.event}"'.encode()
_RECORDED = f'{{"event": "{Recorded.event}"'.encode()


class RankFile:
    """An open file that only grows; every method raises OSError if the file cannot be written.

    `number` says how often a file of this rank was continued in a new one, `held` how many operations this one holds.
    """

    def __init__(self, folder: Path, rank: int, *, restarted: bool) -> None:
        self.path, self.older = folder / f"rank-{rank}.jsonl", folder / f"rank-{rank}.old.jsonl"
        self.tail = folder / f"rank-{rank}.tail"
        self.number = self.held = 0
        self._checked_at = monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        self._append_tail()
        if restarted:
            self._read_what_it_holds()
        else:
            self._move_earlier_job_away()
        self._open()

    def write(self, data: bytes) -> None:
        """Append whole lines."""
        now = monotonic()
        if identity(self._fd) != self._identity:
            raise OSError("the script has closed its descriptor")
        if now - self._checked_at > UNCHECKED:
            self._checked_at = now
            with os.scandir(self.path.parent):  # FileNotFoundError if the folder was deleted
                pass
            status = self.path.stat()
            if (status.st_dev, status.st_ino) != self._identity:
                raise OSError("another process has replaced the file")
        while data:
            data = data[os.write(self._fd, data) :]

    def continue_in_a_new_one(self) -> None:
        """Rename this file to the older one, and open a new one."""
        self.path.rename(self.older)
        os.close(self._fd)
        self.number, self.held = self.number + 1, 0
        self._open()

    def _open(self) -> None:
        self._fd = move_up(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644))
        self._identity = identity(self._fd)

    def _append_tail(self) -> None:
        """Append what an earlier process could not write any more, and cut off the half of a line that it left."""
        if not self.tail.exists():
            return
        lines = read_tail(self.tail)
        if self.path.exists():
            data = self.path.read_bytes()
            held = {*data.splitlines(), *(self.older.read_bytes().splitlines() if self.older.exists() else ())}
            with self.path.open("r+b") as file:
                file.truncate(data.rfind(b"\n") + 1)
                file.seek(0, os.SEEK_END)
                file.writelines(line + b"\n" for line in lines if line not in held)
        self.tail.unlink()

    def _read_what_it_holds(self) -> None:
        """Count what the process before the restart wrote, and cut off the half of a line that it may have left."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        lines = data[: data.rfind(b"\n") + 1].splitlines()
        os.truncate(self.path, data.rfind(b"\n") + 1)
        self.held = sum(line.startswith(_ISSUED) for line in lines)
        header = next((line for line in lines if line.startswith(_RECORDED)), b"")
        with suppress(ValueError):
            recorded = decode(header)
            self.number = recorded.number if isinstance(recorded, Recorded) else 0

    def _move_earlier_job_away(self) -> None:
        found = [path for path in (self.path, self.older) if path.exists()]
        if found:
            number = next(n for n in count(1) if not any(Path(f"{path}.{n}").exists() for path in found))
            for path in found:
                path.rename(f"{path}.{number}")
