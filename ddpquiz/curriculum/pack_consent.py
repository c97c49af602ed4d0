"""Consent: the programs of a pack run only after the learner has allowed exactly these bytes."""

import json
from pathlib import Path

from ddpquiz.atomic_file import replacing
from ddpquiz.errors import UserError
from ddpquiz.paths import data_dir, packs_dir

_FILE = "packs.json"  # the fingerprint of each pack that was allowed
_LARGEST = 1_000_000


def fingerprint(folder: Path) -> str:
    """Return the SHA-256 of the names and the contents of all files of a pack, in hexadecimal digits.

    What Python compiled is left out: a pack brings none, and its programs write it when they run.
    """
    import hashlib

    found = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()):
        if path.parent.name == "__pycache__":
            continue
        data = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        for part in (str(path.relative_to(folder)).encode(), data):
            found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()


def is_allowed(name: str) -> bool:
    """Return whether the programs of a pack may run as they are now."""
    return _allowed().get(name) == fingerprint(packs_dir() / name)


def allow(name: str, seen: str) -> None:
    """Allow the programs of a pack with the fingerprint that was shown."""
    _save({**_allowed(), name: seen})


def withdraw(name: str) -> None:
    """Forget the consent to a pack."""
    _save({other: seen for other, seen in _allowed().items() if other != name})


def require_consent(name: str) -> None:
    """Raise UserError if the programs of a pack may not run; "" stands for what came with ddpquiz."""
    if name and not is_allowed(name):
        why = "have changed since you allowed them" if name in _allowed() else "did not come with ddpquiz"
        raise UserError(
            f"The proofs, demos and labs of the pack {name} are programs that {why}. Look at them in"
            f" {packs_dir() / name}, then allow them with `ddpquiz pack trust {name}`."
        )


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
