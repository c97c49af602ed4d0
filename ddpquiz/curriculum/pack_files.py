"""The files of a pack, read from a folder or a wheel with limits, and checked before any of them is kept.

Nothing is run or imported, no link is followed, and only names and files that a pack may have are accepted.
"""

import os
import re
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ddpquiz.curriculum.fields import Fields
from ddpquiz.curriculum.labs import survey_labs_of_pack
from ddpquiz.curriculum.survey import MANIFEST, survey
from ddpquiz.curriculum.yaml_file import YamlFile
from ddpquiz.errors import ContentError, UserError

MOST_FILES = 2_000
LARGEST = 2_000_000  # bytes of one file
LARGEST_PACK = 20_000_000
DEEPEST = 6  # folders
_FOLDERS = ("content", "demos", "labs")
_BESIDE = (MANIFEST, "README.md", "LICENSE")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_LINK = "is a link; a pack holds files only"

Files = Mapping[str, bytes]  # by their path in the pack, with slashes


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a pack says of itself."""

    name: str
    title: str


def read_files(source: Path) -> Files:
    """Return the files of the pack in a folder or a wheel. UserError if it is not one that can be accepted."""
    try:
        return _collect(_in_wheel(source) if source.is_file() else _in_folder(source))
    except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError, ValueError) as problem:
        raise UserError(f"{source} cannot be read as a pack: {problem}.") from None


def check_files(files: Files) -> Manifest:
    """Check the files of a pack as `ddpquiz check` does. ContentError with every complaint."""
    with tempfile.TemporaryDirectory(prefix="ddpquiz-") as folder:
        write_files(files, Path(folder))
        try:
            manifest = read_manifest(Path(folder))
            complaints = (*survey(Path(folder), thorough=True).complaints, *survey_labs_of_pack(Path(folder))[1])
        except ContentError as problem:
            manifest, complaints = Manifest("", ""), problem.complaints
        if complaints:  # which name the files as they lie in the pack
            within = f"{folder}/"
            raise ContentError(tuple(replace(each, path=each.path.removeprefix(within)) for each in complaints))
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """Read ddpquiz-pack.yaml. ContentError with every complaint."""
    page = YamlFile.open(folder / MANIFEST)
    manifest = Manifest("", "")
    if page.root is not None:
        record = Fields(page, page.root, "the pack")
        manifest = Manifest(record.id("name"), record.text("title"))
        record.close()
    if page.complaints:
        raise ContentError(tuple(page.complaints))
    return manifest


def write_files(files: Files, folder: Path) -> None:
    """Write the files of a pack into an empty folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _collect(entries: Iterator[tuple[str, bytes]]) -> Files:
    """Return the entries that belong to a pack, those below the folder of the manifest."""
    found: dict[str, bytes] = {}
    total = 0
    for name, data in entries:
        total += len(data)
        if len(found) >= MOST_FILES or total > LARGEST_PACK:
            raise UserError(f"The pack has more than {MOST_FILES:,} files or {LARGEST_PACK:,} bytes.")
        found[name] = data
    if MANIFEST not in found:
        raise UserError(f"There is no {MANIFEST} in it, so it is not a pack. `ddpquiz pack new DIR` makes one.")
    return found


def _in_folder(root: Path) -> Iterator[tuple[str, bytes]]:
    top = root if (root / MANIFEST).exists() else next((path.parent for path in root.glob(f"*/{MANIFEST}")), root)
    for name in _BESIDE:
        if (top / name).is_symlink():
            raise UserError(f"{name} {_LINK}.")
        if (top / name).is_file():
            yield name, _bytes(top / name, name)
    for name in _FOLDERS:
        if (top / name).is_symlink() or (top / name).exists():
            yield from _below(top / name, name)


def _below(folder: Path, within: str) -> Iterator[tuple[str, bytes]]:
    if folder.is_symlink():
        raise UserError(f"{within} {_LINK}.")
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name == "__pycache__" or entry.name.startswith("."):
            continue
        name = _accepted(f"{within}/{entry.name}")
        if entry.is_symlink():
            raise UserError(f"{name} {_LINK}.")
        if entry.is_dir(follow_symlinks=False):
            yield from _below(Path(entry.path), name)
        else:
            yield name, _bytes(Path(entry.path), name)


def _bytes(path: Path, name: str) -> bytes:
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(opened, "rb") as file:  # noqa: PTH123  # a descriptor, so that what is checked is what is read
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise UserError(f"{name} is not a regular file.")
        return _limited(file.read(LARGEST + 1), name)


def _in_wheel(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as wheel:
        entries = wheel.infolist()
        if len(entries) > 10 * MOST_FILES:
            raise UserError(f"{path} has more than {10 * MOST_FILES:,} files.")
        places = [entry.filename for entry in entries if entry.filename.rpartition("/")[2] == MANIFEST]
        root = min(places, key=len, default="").removesuffix(MANIFEST)
        for entry in entries:
            name = entry.filename.removeprefix(root)
            top, _, below = name.partition("/")
            is_ours = entry.filename.startswith(root) and (name in _BESIDE or (top in _FOLDERS and below))
            if not is_ours or entry.is_dir() or "/__pycache__/" in name:
                continue
            if stat.S_ISLNK(entry.external_attr >> 16):
                raise UserError(f"{_accepted(name)} {_LINK}.")
            with wheel.open(entry) as file:
                yield _accepted(name), _limited(file.read(LARGEST + 1), name)


def _accepted(name: str) -> str:
    """Return a path in a pack if each part of it is a name that a pack may use."""
    parts = name.split("/")
    if not all(_NAME.fullmatch(part) for part in parts):
        raise UserError(f"{name[:200]!a} is not a name for a file of a pack; use letters, digits and . _ - in names.")
    if len(parts) > DEEPEST:
        raise UserError(f"{name} lies more than {DEEPEST - 1} folders deep.")
    return name


def _limited(data: bytes, name: str) -> bytes:
    if len(data) > LARGEST:
        raise UserError(f"{name} is larger than {LARGEST:,} bytes.")
    return data
