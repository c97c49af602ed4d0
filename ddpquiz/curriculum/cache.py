"""What was read from content files, kept for the next start.

The copy is taken only while every file that it was made from, content and reader alike, has the size and the time of
change that it had. It is a pickle in the learner's own folder, as private as Python's own compiled files there. In it,
most of a concept is a pickle of its own, which is opened when it is first asked for: a sitting needs few concepts.
"""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpquiz.atomic_file import replacing
from ddpquiz.curriculum.concept import Concept
from ddpquiz.paths import cache_dir

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddpquiz.curriculum.catalog import Catalog

FILE = "catalog.pickle"
_DIGEST = 32  # bytes of a SHA-256
_AT_ONCE = ("id", "track", "title", "needs", "demos", "cards")  # what lists and sittings ask of every concept
_LATER = tuple(each.name for each in fields(Concept) if each.name not in _AT_ONCE)


class Later(Concept):
    """A concept of which most is read when it is first asked for."""

    __slots__ = ("_rest",)
    _rest: bytes

    @classmethod
    def of(cls, at_once: tuple[object, ...], rest: bytes) -> Later:
        """Return the concept with these parts."""
        made = object.__new__(cls)
        for name, value in zip((*_AT_ONCE, "_rest"), (*at_once, rest), strict=True):
            object.__setattr__(made, name, value)
        return made

    def __getattr__(self, name: str) -> object:
        if name not in _LATER:
            raise AttributeError(name)
        for later, value in zip(_LATER, pickle.loads(self._rest), strict=True):  # noqa: S301  # checked with the rest
            object.__setattr__(self, later, value)
        return getattr(self, name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Concept):
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in fields(Concept))

    __hash__ = Concept.__hash__


def cached(content: Path, read: Callable[[], Catalog]) -> Catalog:
    """Return the catalog of a content folder, from the copy if it is fresh, else from `read`, which may raise."""
    fingerprint = _fingerprint(content)
    path = cache_dir() / FILE
    copy = _load(path, fingerprint)
    if copy is None:
        copy = read()
        _keep(path, fingerprint, copy)
    return copy


def _fingerprint(content: Path) -> str:
    files = sorted(_files(str(content))) + sorted(_files(str(Path(__file__).parent)))
    return f"{sys.version} {files}"


def _files(root: str) -> list[tuple[str, int, int]]:
    """Return path, size and time of change of every file below a folder."""
    found = []
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.is_dir() and entry.name != "__pycache__":
                found += _files(entry.path)
            elif entry.name.endswith((".yaml", ".yml", ".py")):
                state = entry.stat()
                found.append((entry.path, state.st_size, state.st_mtime_ns))
    return found


def _load(path: Path, fingerprint: str) -> Catalog | None:
    """Return the copy if it is whole, ours, and made from the files as they are."""
    try:
        if path.stat().st_uid != os.getuid():
            return None
        data = path.read_bytes()
    except OSError:
        return None
    digest, payload = data[:_DIGEST], data[_DIGEST:]
    if hashlib.sha256(fingerprint.encode() + payload).digest() != digest:
        return None
    collecting = gc.isenabled()
    gc.disable()  # tens of thousands of objects come, and none goes
    copy: tuple[Catalog, list[tuple[tuple[Any, ...], bytes]]] = pickle.loads(payload)  # noqa: S301  # ours, checked above
    bare, concepts = copy
    found = replace(bare, concepts=tuple(Later.of(at_once, rest) for at_once, rest in concepts))
    if collecting:
        gc.enable()
    return found


def _keep(path: Path, fingerprint: str, catalog: Catalog) -> None:
    """Write the copy, whole or not at all; a folder that cannot be written only costs time at the next start."""
    concepts = [(_parts(concept, _AT_ONCE), _pickled(_parts(concept, _LATER))) for concept in catalog.concepts]
    payload = _pickled((replace(catalog, concepts=()), concepts))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as fresh:
            fresh.write_bytes(hashlib.sha256(fingerprint.encode() + payload).digest() + payload)
    except OSError:
        return


def _parts(concept: Concept, names: tuple[str, ...]) -> tuple[object, ...]:
    return tuple(getattr(concept, name) for name in names)


def _pickled(what: object) -> bytes:
    return pickle.dumps(what, pickle.HIGHEST_PROTOCOL)
