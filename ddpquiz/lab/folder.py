"""The folder with the learner's own files for the labs: a file that is there is never overwritten."""

import os
from dataclasses import dataclass
from pathlib import Path

from ddpquiz.atomic_file import is_pipe_or_device
from ddpquiz.curriculum.lab import Lab
from ddpquiz.curriculum.pack_consent import require_consent
from ddpquiz.errors import UserError
from ddpquiz.paths import put_aside

Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class LabFolder:
    """The learner's files. UserError where the folder or a file cannot be written.

    The starter of a pack's lab is written only after consent: later, it would run as the learner's own file.
    """

    path: Path

    def file(self, lab: Lab) -> Path:
        return self.path / lab.file_name

    def has(self, lab: Lab) -> bool:
        return os.path.lexists(self.file(lab))

    def begin(self, lab: Lab) -> bool:
        """Write the starter, unless there is a file; return whether it was written."""
        from ddpquiz.ranks.installed_torch import require_demos  # lists, tasks and hints run no ranks

        require_demos()
        require_consent(lab.id.rpartition("/")[0], lab.origin)
        file = self.file(lab)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            fresh = file.open("x", encoding="utf-8")
            try:
                with fresh:
                    fresh.write(lab.solution.starter)
            except OSError:
                file.unlink()  # a part of the starter would be taken for the learner's own file
                raise
        except FileExistsError:
            if not self.path.is_dir():
                raise UserError(f"{self.path} is not a folder; name another one with --dir or DDPQUIZ_LABS.") from None
            if is_pipe_or_device(file):
                raise UserError(
                    f"{file} is a pipe or a device; remove it, or name another folder with --dir."
                ) from None
            return False
        except OSError as wrong:
            raise UserError(f"{file} cannot be written: {wrong.strerror}; name another folder with --dir.") from None
        return True

    def reset(self, lab: Lab) -> Path | None:
        """Write the starter again; return where the file that was there is now, None if there was none."""
        require_consent(lab.id.rpartition("/")[0], lab.origin)
        old = put_aside(self.file(lab)) if self.has(lab) else None
        self.begin(lab)
        return old


def stamp(file: Path) -> Stamp:
    """What changes when a file is saved; None if there is no file."""
    try:
        found = os.stat(file)  # noqa: PTH116 - the same as Path.stat, which takes longer
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
