"""In the ranks of a pack's program: its modules are imported from the bytes that the learner allowed.

On disk, they may have changed since, and the bytecode that Python writes there is no part of what was allowed.
"""

import sys
from importlib.abc import SourceLoader
from importlib.machinery import FileFinder

from ddpquiz.curriculum.pack_consent import AllowedPack


class AllowedLoader(SourceLoader):
    """Loads one module of a pack. It neither reads nor writes bytecode, since it knows no times of files."""

    def __init__(self, pack: AllowedPack, path: str) -> None:
        self._pack, self._path = pack, path

    def get_filename(self, fullname: str) -> str:
        del fullname
        return self._path

    def get_data(self, path: str | bytes) -> bytes:
        """Return the source of the module. ImportError if it was not among what was allowed."""
        try:
            return self._pack.read(str(path))
        except FileNotFoundError as problem:
            raise ImportError(str(problem), path=self._path) from None


def use(pack: AllowedPack) -> None:
    """Import whatever lies in the folder of a pack from what was allowed: its Python files and nothing else."""

    def finder(folder: str) -> FileFinder:
        if not pack.holds(folder):
            raise ImportError
        return FileFinder(folder, (lambda _, path: AllowedLoader(pack, path), [".py"]))  # type: ignore[arg-type]

    sys.path_hooks.insert(0, finder)
    sys.path_importer_cache.clear()
