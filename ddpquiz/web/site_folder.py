"""The folder of a site: written only where nothing else lies, and only files of an earlier site are replaced."""

import os
from collections.abc import Mapping
from pathlib import Path

from ddpquiz.atomic_file import replacing
from ddpquiz.errors import UserError

MARKER = ".ddpquiz-site"  # lists the files of the site, one per line
_HEAD = "ddpquiz site"


def write_site(folder: Path, pages: Mapping[str, str]) -> None:
    """Write pages by their path, and remove those of an earlier site that are no longer among them.

    Raises UserError, before anything is written, if the folder holds any other file.
    """
    try:
        old = _files_of_site(folder)
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / MARKER, "\n".join([_HEAD, *sorted({*old, *pages})]) + "\n")  # so that a rest can be replaced
        for path, page in pages.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            _write(folder / path, page)
        for path in old - pages.keys():
            (folder / path).unlink(missing_ok=True)
        _write(folder / MARKER, "\n".join([_HEAD, *sorted(pages)]) + "\n")
    except OSError as problem:
        raise UserError(f"The site cannot be written to {folder}: {problem.strerror}.") from None


def _files_of_site(folder: Path) -> set[str]:
    """Return the files that lie in a folder; UserError if one of them is not of a site."""
    if not folder.exists():
        return set()
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; name a new or empty one for the site.")
    found = {str(path.relative_to(folder).as_posix()) for path in _walked(folder)} - {MARKER}
    known: set[str] = set()
    marker = folder / MARKER
    if marker.is_file() and not marker.is_symlink():
        head, *lines = marker.read_text("utf-8", "replace").splitlines() or [""]
        known = set(lines) if head == _HEAD else set()
    if others := sorted(found - known):
        raise UserError(
            f"{folder} holds {others[0]}, which is not of a site of ddpquiz, so nothing was written; "
            "name a new or empty folder."
        )
    links = sorted(path for path in (*found, MARKER) if (folder / path).is_symlink())
    if links:
        raise UserError(f"{folder} holds the link {links[0]}, so nothing was written; name a new or empty folder.")
    return found


def _walked(folder: Path) -> list[Path]:
    """Return all files below a folder; a link to a folder counts as a file."""
    found = []
    for top, folders, files in os.walk(folder):
        links = [name for name in folders if Path(top, name).is_symlink()]
        found += [Path(top, name) for name in (*files, *links)]
    return found


def _write(path: Path, text: str) -> None:
    with replacing(path) as fresh:
        fresh.write_text(text, "utf-8")
