"""Lines that survive the process: a small mapped file, which the kernel keeps whatever ends the process.

A call costs a copy in memory and no system call. The thread that writes the rank's file clears it every tenth of a
second.
"""

import mmap
import os
from contextlib import suppress
from pathlib import Path

from ddpquiz.analysis.records.rank_tail import HALF, HEADER
from ddpquiz.ranks.inside.event_writer import move_up

# A write to a mapped page cannot fail, it can only end the process. On these file systems the pages that are reserved
# when the file is made stay usable; on those of a network they may not.
LOCAL = {"ext2", "ext3", "ext4", "xfs", "f2fs", "tmpfs", "overlay"}
ROOM = HALF - HEADER.size


class RankTail:
    """An open tail. Its caller holds a lock; OSError if the folder does not allow one."""

    def __init__(self, path: Path) -> None:
        if file_system(path.parent) not in LOCAL:
            raise OSError("not on a local file system")
        self.path = path
        fd = move_up(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644))
        try:
            os.posix_fallocate(fd, 0, 2 * HALF)
            self._map = mmap.mmap(fd, 2 * HALF)
        except (OSError, AttributeError):
            path.unlink()
            raise OSError("no room for a tail") from None
        finally:
            os.close(fd)
        self._begin = self._length = 0
        self._serial = 1
        self.is_full = False  # a line did not fit

    def append(self, data: bytes) -> None:
        """Append lines; nothing once a line did not fit, until the next `switch`."""
        end = self._length + len(data)
        if end > ROOM:
            self.is_full = True
        if self.is_full:
            return
        begin = self._begin + HEADER.size
        self._map[begin + self._length : begin + end] = data
        self._length = end
        HEADER.pack_into(self._map, self._begin, self._serial, end)

    def switch(self) -> int:
        """Append to the other half from now on; return what `clear` needs to clear this one."""
        begin = self._begin
        self._begin, self._length, self.is_full = HALF - begin, 0, False
        self._serial += 1
        return begin

    def clear(self, begin: int) -> None:
        """Forget the lines of a half, which have been written elsewhere."""
        HEADER.pack_into(self._map, begin, 0, 0)

    def remove(self) -> None:
        """Delete the file."""
        self.is_full = True
        with suppress(OSError):  # the folder may be gone
            self.path.unlink()


def file_system(folder: Path) -> str:
    """Return the type of the file system that holds a folder; nothing where the system does not say."""
    best, found = "", ""
    target = os.path.realpath(folder) + os.sep
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    for mount in mounts:
        head, _, tail = mount.partition(" - ")
        point = head.split()[4].encode().decode("unicode_escape").rstrip("/") + "/"
        if target.startswith(point) and len(point) >= len(best):
            best, found = point, tail.split()[0]
    return found
