"""In the ranks of a pack's program: its modules are imported from the bytes that the learner allowed.

On disk, they may have changed since, and the bytecode that Python writes there is no part of what was allowed.
"""

import sys
from importlib.machinery import FileFinder, SourceFileLoader
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from ddpquiz.curriculum.pack_consent import AllowedPack


class _AllowedLoader(SourceFileLoader):
    """Loads one module of a pack."""

    def __init__(self, pack: "AllowedPack", name: str, path: str) -> None:
        super().__init__(name, path)
        self._pack = pack

    def get_data(self, path: Any) -> bytes:
        """The source of the module. ImportError if it was not among what was allowed."""
        try:
            return self._pack.read(path)
        except FileNotFoundError as problem:
            raise ImportError(str(problem), path=path) from None

    def path_stats(self, path: Any) -> NoReturn:
        """Raise OSError: without the time of a file, Python neither reads nor writes its bytecode."""
        raise FileNotFoundError(path)


def use(pack: "AllowedPack") -> None:
    """Import whatever lies in the folder of a pack from what was allowed: its Python files and nothing else."""

    def finder(folder: str) -> FileFinder:
        if not pack.holds(folder):
            raise ImportError
        return FileFinder(folder, (lambda name, path: _AllowedLoader(pack, name, path), [".py"]))  # type: ignore[arg-type]

    sys.path_hooks.insert(0, finder)
    sys.path_importer_cache.clear()
