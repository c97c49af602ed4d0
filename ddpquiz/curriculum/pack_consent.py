"""Consent: the programs of a pack run only after the learner has allowed exactly these bytes."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from ddpquiz.atomic_file import replacing
from ddpquiz.curriculum.pack_files import Files, read_added
from ddpquiz.errors import UserError
from ddpquiz.paths import data_dir, packs_dir

_FILE = "packs.json"  # the fingerprint of each pack that was allowed
_LARGEST = 1_000_000


@dataclass(frozen=True, slots=True)
class AllowedPack:
    """The files of a pack as the learner allowed them, and the folder where they lay."""

    folder: str  # without links
    files: Files

    def holds(self, path: str | Path) -> bool:
        """Return whether a path is the folder of the pack or lies in it."""
        return f"{os.path.realpath(path)}{os.sep}".startswith(f"{self.folder}{os.sep}")

    def read(self, path: str | Path) -> bytes:
        """Return what is allowed of a file in the folder. FileNotFoundError if there was no such file."""
        try:
            return self.files[os.path.relpath(os.path.realpath(path), self.folder)]
        except KeyError:
            raise FileNotFoundError(f"{path} is not among the files of the pack that were allowed") from None


def fingerprint(files: Files) -> str:
    """Return the SHA-256 of the names and the contents of all files of a pack, in hexadecimal digits.

    It must stay the same in later versions of ddpquiz, or everybody is asked again.
    """
    import hashlib

    found = hashlib.sha256()
    for name in sorted(files, key=lambda name: name.split("/")):
        for part in (name.encode(), files[name]):
            found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()


def is_allowed(name: str, seen: str) -> bool:
    """Return whether the programs of a pack may run if its files have this fingerprint."""
    return _allowed().get(name) == seen


def allow(name: str, seen: str) -> None:
    """Allow the programs of a pack with the fingerprint that was shown."""
    _save({**_allowed(), name: seen})


def withdraw(name: str) -> None:
    """Forget the consent to a pack."""
    _save({other: seen for other, seen in _allowed().items() if other != name})


def require_consent(name: str, seen: str) -> None:
    """Raise UserError unless the learner allowed the pack with this fingerprint; "" is what came with ddpquiz.

    `seen` is the fingerprint of the files from which the program that is about to run was read.
    """
    if not name or is_allowed(name, seen):
        return
    if name in _allowed() and is_allowed(name, fingerprint(read_added(packs_dir() / name))):
        raise UserError(f"The pack {name} has changed since this was read from it; start ddpquiz again.")
    why = "have changed since you allowed them" if name in _allowed() else "did not come with ddpquiz"
    raise UserError(
        f"The proofs, demos and labs of the pack {name} are programs that {why}. Look at them in"
        f" {packs_dir() / name}, then allow them with `ddpquiz pack trust {name}`."
    )


def allowed_pack(name: str) -> AllowedPack | None:
    """Return the files of a pack, from which its programs may run; None for "". UserError if they are not allowed."""
    if not name:
        return None
    folder = packs_dir() / name
    files = read_added(folder)
    require_consent(name, fingerprint(files))
    return AllowedPack(os.path.realpath(folder), files)


def _allowed() -> dict[str, str]:
    try:
        found = json.loads((data_dir() / _FILE).read_bytes()[:_LARGEST])
    except (OSError, ValueError, RecursionError):
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return {name: seen for name, seen in pairs if isinstance(seen, str)}


def _save(allowed: dict[str, str]) -> None:
    with replacing(data_dir() / _FILE, private=True) as fresh:
        fresh.write_text(json.dumps(allowed, indent=2, sort_keys=True) + "\n", encoding="utf-8")
