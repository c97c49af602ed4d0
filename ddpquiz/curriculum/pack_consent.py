"""Consent to packs: the programs of a pack run only after the learner has allowed exactly these bytes.

It is checked where a program begins: `read` in `ranks/script.py` checks each script that lies in a pack, and passes the
allowed files on to the ranks (`ranks/inside/pack_imports.py`); `ranks/content_runner.py` checks proofs and listings,
`lab/checker.py` and `lab/folder.py` check labs.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from ddpquiz.atomic_file import open_at_once, replacing
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
        """Whether a path is the folder of the pack or lies in it."""
        return f"{os.path.realpath(path)}{os.sep}".startswith(f"{self.folder}{os.sep}")

    def read(self, path: str | Path) -> bytes:
        """What is allowed of a file in the folder. FileNotFoundError if there was no such file."""
        try:
            return self.files[os.path.relpath(os.path.realpath(path), self.folder)]
        except KeyError:
            raise FileNotFoundError(f"{path} is not among the files of the pack that were allowed") from None


def pack_fingerprint(files: Files) -> str:
    """The SHA-256 of the names and the contents of all files of a pack, in hexadecimal digits.

    It must stay the same in later versions of ddpquiz, or everybody is asked again.
    """
    import hashlib

    digest = hashlib.sha256()
    for name in sorted(files, key=lambda name: name.split("/")):
        for part in (name.encode(), files[name]):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def is_allowed(name: str, origin: str) -> bool:
    """Whether the programs of a pack may run if its files have this fingerprint."""
    return _allowed().get(name) == origin


def allow(name: str, origin: str) -> None:
    """Allow the programs of a pack with the fingerprint that was shown."""
    _save({**_allowed(), name: origin})


def withdraw(name: str) -> None:
    """Forget the consent to a pack."""
    _save({allowed: origin for allowed, origin in _allowed().items() if allowed != name})


def require_consent(name: str, origin: str) -> None:
    """Raise UserError unless the learner allowed the pack with this fingerprint; nothing is asked for the name "".

    That name stands for what came with ddpquiz. `origin` is the fingerprint of the files from which the program that is
    about to run was read.
    """
    if not name or is_allowed(name, origin):
        return
    if name in _allowed() and is_allowed(name, pack_fingerprint(read_added(packs_dir() / name))):
        raise UserError(f"The pack {name} has changed since this was read from it; start ddpquiz again.")
    why = "have changed since you allowed them" if name in _allowed() else "did not come with ddpquiz"
    raise UserError(
        f"The proofs, demos and labs of the pack {name} are programs that {why}. Look at them in"
        f" {packs_dir() / name}, then allow them with `ddpquiz pack trust {name}`."
    )


def allowed_pack(name: str) -> AllowedPack | None:
    """The files of a pack, from which its programs may run; None for "". UserError if they are not allowed."""
    if not name:
        return None
    folder = packs_dir() / name
    files = read_added(folder)
    require_consent(name, pack_fingerprint(files))
    return AllowedPack(os.path.realpath(folder), files)


def _allowed() -> dict[str, str]:
    try:
        with open_at_once(data_dir() / _FILE) as file:
            saved = json.loads(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    pairs = saved.items() if isinstance(saved, dict) else ()
    return {name: seen for name, seen in pairs if isinstance(seen, str)}


def _save(allowed: dict[str, str]) -> None:
    with replacing(data_dir() / _FILE, private=True) as fresh:
        fresh.write_text(json.dumps(allowed, indent=2, sort_keys=True) + "\n", encoding="utf-8")
