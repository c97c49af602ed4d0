"""Load the catalog: from a copy if there is a fresh one, else from the content files, which takes half a second.

A copy is used only if neither the files nor the code has changed since it was made. Proofs run from it, so it is found
by hashes of which nobody can make two contents share one. It contains plain data in the format of Python's own compiled
files (`marshal`), and what the first screen of a command does not need is built when it is used. A wheel contains a
copy (see hatch_build.py); otherwise the first start writes one into the user's cache folder, and later starts refuse a
file there that another user can write to.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import stat
from binascii import crc32
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ddpquiz.atomic_file import replacing
from ddpquiz.curriculum import concept as data
from ddpquiz.curriculum.catalog import Catalog, LabTitle, Source, Track
from ddpquiz.errors import ContentError
from ddpquiz.paths import cache_dir, content_dir, has_packs, packed_content

try:
    from _blake2 import blake2b  # hashlib also loads OpenSSL, for which every start would wait
except ImportError:  # a Python without it
    from hashlib import blake2b

if TYPE_CHECKING:
    from ddpquiz.curriculum.pack_files import Files
    from ddpquiz.curriculum.packs import LoadedPack, Pack

FILE = "catalog.marshal"
_LATER = ("steps", "commands", "mistakes", "questions", "explain")  # fields of a concept that are built when used


class _StoredTuple(Sequence[Any]):
    """The items of a tuple, which are built when the first one is needed; how many there are is known before."""

    __slots__ = ("_count", "_items", "_stored")

    def __init__(self, count: int, stored: bytes) -> None:
        self._count, self._stored = count, stored
        self._items: tuple[Any, ...] | None = None

    def _all(self) -> tuple[Any, ...]:
        if self._items is None:
            self._items = _objects(marshal.loads(self._stored))  # noqa: S302  # our own file, see below
        return self._items

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, place: int | slice) -> Any:
        return self._all()[place]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return self._all() == (other._all() if isinstance(other, _StoredTuple) else other)

    def __hash__(self) -> int:
        return hash(self._all())


_CLASSES: tuple[type, ...] = (
    _StoredTuple,
    *(
        kind
        for kind in (*vars(data).values(), Track, Source, LabTitle)
        if isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, Enum))
    ),
)
_NUMBERS: dict[Any, int] = {kind: number for number, kind in enumerate(_CLASSES)}


def load(folder: Path | None = None) -> Catalog:
    """Load a content folder, by default the shipped one with the packs, cached. ContentError with all complaints."""
    if folder:
        return _read(folder)
    shipped = cached(shipped_fingerprint(content_dir()), lambda: _read(None))
    if not has_packs():
        return shipped
    from ddpquiz.curriculum.packs import with_packs

    return with_packs(shipped, load_pack)


def load_pack(pack: Pack, files: Files | None = None) -> LoadedPack:
    """Load what a pack teaches, with its own ids, cached; `files` are those of the pack if they were read already.

    UserError if its files cannot be read or have complaints.
    """
    from ddpquiz.curriculum.pack_consent import pack_fingerprint
    from ddpquiz.curriculum.pack_files import demos_in, read_added, unpacked
    from ddpquiz.curriculum.packs import LoadedPack

    files = files or read_added(pack.folder)
    origin = pack_fingerprint(files)

    def read() -> Catalog:
        with unpacked(files, pack.folder) as folder:
            return _read(folder)

    catalog = cached(f"{origin} {_code_hash()}", read, pack_copy(pack.name))
    return LoadedPack(pack, replace(catalog, demos=pack.demos), demos_in(files), origin)


def pack_copy(name: str) -> str:
    """The name of the file in the cache folder with the copy of a pack's catalog."""
    return f"pack-{name}.marshal"


def _read(folder: Path | None) -> Catalog:
    from ddpquiz.curriculum.survey import survey

    surveyed = survey(folder)
    if surveyed.complaints:
        raise ContentError(surveyed.complaints)
    return surveyed.catalog


def cached(fingerprint: str, read: Callable[[], Catalog], file: str = FILE) -> Catalog:
    """The catalog with a fingerprint: a copy in the cache folder or the wheel, else what `read` returns."""
    path = cache_dir() / file
    packed = _load(packed_content(), fingerprint, shipped=True) if file == FILE else None
    catalog = packed or _load(path, fingerprint)
    if catalog is None:
        catalog = read()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            save_copy(catalog, fingerprint, path)
        except OSError:
            return catalog  # the next start takes as long as this one
    return catalog


def save_copy(catalog: Catalog, fingerprint: str, path: Path) -> None:
    """Write the copy of a catalog. OSError if that fails."""
    payload = marshal.dumps(
        _plain((catalog.tracks, catalog.concepts, catalog.sources, catalog.labs, catalog.core, dict(catalog.moved)))
    )
    with replacing(path, private=True) as fresh:
        fresh.write_bytes(_header(fingerprint, payload) + payload)


def shipped_fingerprint(content: Path) -> str:
    """Return hashes of what the copy of a content folder depends on: its files, those of the labs, and this package."""
    return f"{_hash(content, '.yaml')} {_hash(content.parent / 'labs', 'lab.yaml')} {_code_hash()}"


@cache
def _code_hash() -> str:
    return f"{_hash(Path(__file__).parent, '.py')} {marshal.version}"


def _hash(root: Path, ending: str) -> str:
    """A hash of the files below a folder whose names end in a certain way; it may be missing."""
    digest = blake2b(digest_size=32)
    for name in sorted(_files(str(root), "", ending)):
        with open(f"{root}/{name}", "rb", 0) as file:  # noqa: PTH123  # Path.open takes longer, and every start waits
            content = file.read()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _files(root: str, below: str, ending: str) -> list[str]:
    names = []
    with contextlib.suppress(FileNotFoundError), os.scandir(f"{root}/{below}") as entries:
        for entry in entries:
            if entry.name.endswith(ending):
                names.append(below + entry.name)
            elif entry.is_dir():
                names += _files(root, f"{below}{entry.name}/", ending)
    return names


def _header(fingerprint: str, payload: bytes) -> bytes:
    return f"ddpquiz {fingerprint} {crc32(payload):08x}\n".encode()


def _load(path: Path, fingerprint: str, *, shipped: bool = False) -> Catalog | None:
    """The copy in a file if it is complete and fresh, and writable by this user only or `shipped`."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(opened, "rb") as file:  # noqa: PTH123  # a descriptor, so that what is checked is what is read
        state = os.fstat(opened)
        ours = state.st_uid == os.geteuid() and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not stat.S_ISREG(state.st_mode) or not (ours or shipped):
            return None
        header, payload = file.readline(300), file.read()
    if header != _header(fingerprint, payload):
        return None
    tracks, concepts, sources, labs, core, moved = _objects(marshal.loads(payload))  # noqa: S302  # our own file
    return Catalog(tracks, concepts, sources, labs=labs, core=core, moved=moved)


def _plain(value: Any) -> Any:
    """Return plain data: a dataclass or enum as a tuple with the class's number, a tuple as a list."""
    if isinstance(value, Enum):
        return (_NUMBERS[type(value)], value.value)
    if isinstance(value, data.Concept):
        return (_NUMBERS[data.Concept], *(_plain_field(value, field.name) for field in fields(value)))
    if is_dataclass(value):
        return (_NUMBERS[type(value)], *(_plain(getattr(value, field.name)) for field in fields(value)))
    if isinstance(value, tuple):
        return list(map(_plain, value))
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return value


def _plain_field(concept: data.Concept, name: str) -> Any:
    """A field of a concept as plain data; of one that is built later, the number of items and their bytes."""
    value = _plain(getattr(concept, name))
    return (_NUMBERS[_StoredTuple], len(value), marshal.dumps(value)) if name in _LATER else value


def _objects(value: Any) -> Any:
    """Undo `_plain`."""
    kind = type(value)
    if kind is list:
        return tuple([part if type(part) is str else _objects(part) for part in value])
    if kind is tuple:
        number, *values = value
        return _CLASSES[number](*[part if type(part) is str else _objects(part) for part in values])
    if kind is dict:
        return {key: _objects(part) for key, part in value.items()}
    return value
