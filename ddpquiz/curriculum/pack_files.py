"""The files of a pack as bytes: read with limits from a folder or a wheel, or from where an added pack lies.

Nothing is run or imported, no link is followed, and only names and files that a pack may have are accepted. Whatever is
done with a pack, such as reading what it teaches, asking for consent and running its programs, is done with the bytes
of one such reading, because the files may change at any time.
"""

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ddpquiz.errors import ContentError, UserError

MANIFEST = "ddpquiz-pack.yaml"  # in the folder of a pack, beside its content
MOST_FILES = 2_000
_LARGEST = 2_000_000  # bytes of one file
_LARGEST_PACK = 20_000_000
_DEEPEST = 6  # folders
_FOLDERS = ("content", "demos", "labs")
_BESIDE = (MANIFEST, "README.md", "LICENSE")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_LINK = "is a link; a pack holds files only"

Files = Mapping[str, bytes]  # by their path in the pack, with slashes


def read_files(source: Path) -> Files:
    """The files of the pack in a folder or a wheel. UserError if it is not one that can be accepted."""
    import zipfile

    try:
        return _collect(_in_wheel(source) if source.is_file() else _in_folder(source))
    except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError, ValueError) as problem:
        raise UserError(f"{source} cannot be read as a pack: {_reason(problem)}.") from None


def read_added(folder: Path) -> Files:
    """The files of a pack that was added, all of one version. UserError if they cannot be read.

    An update puts a new folder in the place of the old one, perhaps while we read.
    """
    try:
        while True:
            place = os.lstat(folder).st_ino
            try:
                files = _collect(_beside_manifest(folder))
            except FileNotFoundError:
                if os.lstat(folder).st_ino == place:
                    raise
            else:
                if os.lstat(folder).st_ino == place:
                    return files
    except OSError as problem:
        raise UserError(f"The pack in {folder} cannot be read: {_reason(problem)}.") from None


def concepts_in(files: Files) -> frozenset[str]:
    """The names of the concepts of a pack."""
    return _named(files, r"content/[^/]+/([^/]+)\.yaml")


def demos_in(files: Files) -> frozenset[str]:
    """The names of the demos of a pack."""
    return _named(files, r"demos/([^_./][^/]*)\.py")


def _named(files: Files, pattern: str) -> frozenset[str]:
    return frozenset(match[1] for name in files if (match := re.fullmatch(pattern, name)))


def write_files(files: Files, folder: Path) -> None:
    """Write the files of a pack into an empty folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@contextlib.contextmanager
def unpacked(files: Files, place: Path | None = None) -> Iterator[Path]:
    """Yield a new folder with these files, and delete it afterwards.

    In a ContentError, the files are named as they lie in the folder `place`, or else in the pack.
    """
    with tempfile.TemporaryDirectory(prefix="ddpquiz-") as folder:
        write_files(files, Path(folder))
        try:
            yield Path(folder)
        except ContentError as problem:
            within = f"{Path(folder).name}/"
            names = [complaint.path.rpartition(within)[2] for complaint in problem.complaints]
            if place:
                names = [str(place / name) for name in names]
            named = zip(problem.complaints, names, strict=True)
            raise ContentError(tuple(complaint._replace(path=name) for complaint, name in named)) from None


def _collect(entries: Iterator[tuple[str, bytes]]) -> Files:
    """The entries that belong to a pack, those below the folder of the manifest."""
    contents: dict[str, bytes] = {}
    total = 0
    for name, data in entries:
        total += len(data)
        if len(contents) >= MOST_FILES or total > _LARGEST_PACK:
            raise UserError(f"The pack has more than {MOST_FILES:,} files or {_LARGEST_PACK:,} bytes.")
        contents[name] = data
    for name in contents:
        for folder in Path(name).parents:
            if str(folder) in contents:
                raise UserError(f"{folder} is both a file and a folder.")
    if MANIFEST not in contents:
        raise UserError(f"There is no {MANIFEST} in it, so it is not a pack. `ddpquiz pack new DIR` makes one.")
    return contents


def _in_folder(root: Path) -> Iterator[tuple[str, bytes]]:
    if root.is_symlink():
        raise UserError(f"{root} is a link; name the folder that it leads to.")
    inside = (path.parent for path in sorted(root.glob(f"*/{MANIFEST}")))
    yield from _beside_manifest(root if (root / MANIFEST).exists() else next(inside, root))


def _beside_manifest(top: Path) -> Iterator[tuple[str, bytes]]:
    if top.is_symlink():
        raise UserError(f"{top.name} {_LINK}.")
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
        return _limited(file.read(_LARGEST + 1), name)


def _in_wheel(path: Path) -> Iterator[tuple[str, bytes]]:
    import zipfile

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
                yield _accepted(name), _limited(file.read(_LARGEST + 1), name)


def _accepted(name: str) -> str:
    """A path in a pack if each part of it is a name that a pack may use."""
    parts = name.split("/")
    if not all(_NAME.fullmatch(part) for part in parts):
        raise UserError(f"{name[:200]!a} is not a name for a file of a pack; use letters, digits and . _ - in names.")
    if len(parts) > _DEEPEST:
        raise UserError(f"{name} lies more than {_DEEPEST - 1} folders deep.")
    return name


def _limited(data: bytes, name: str) -> bytes:
    if len(data) > _LARGEST:
        raise UserError(f"{name} is larger than {_LARGEST:,} bytes.")
    return data


def _reason(problem: Exception) -> str:
    return problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
