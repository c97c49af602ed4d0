"""What was read from content files, kept for the next start.

The copy is taken only while every file that it was made from, content and reader alike, has the size and the time of
change that it had. It is a pickle in the learner's own folder, as private as Python's own compiled files there.
"""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddpquiz.curriculum.catalog import Catalog

FILE = "catalog.pickle"
_DIGEST = 32  # bytes of a SHA-256


def folder() -> Path:
    """Return where the copy is kept: under DDPQUIZ_HOME, or where this system keeps what can be made again."""
    if home := os.environ.get("DDPQUIZ_HOME"):
        return Path(home).expanduser() / "cache"
    from platformdirs import user_cache_path

    return user_cache_path("ddpquiz")


def kept(content: Path, read: Callable[[], Catalog]) -> Catalog:
    """Return the catalog of a content folder, from the copy if it is fresh, else from `read`, which may raise."""
    fingerprint = _fingerprint(content)
    path = folder() / FILE
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
    copy: Any = pickle.loads(payload)  # noqa: S301  # our own file, checked above
    if collecting:
        gc.enable()
    found: Catalog = copy
    return found


def _keep(path: Path, fingerprint: str, catalog: Catalog) -> None:
    """Write the copy, whole or not at all; a folder that cannot be written only costs time at the next start."""
    payload = pickle.dumps(catalog, pickle.HIGHEST_PROTOCOL)
    fresh = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_bytes(hashlib.sha256(fingerprint.encode() + payload).digest() + payload)
        fresh.replace(path)
    except OSError:
        return
