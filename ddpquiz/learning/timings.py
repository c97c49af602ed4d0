"""How long each demo took on this machine, in a small file beside the progress; losing it costs nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ddpquiz.learning import smallfile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE = "timings.json"


@dataclass(frozen=True, slots=True)
class Timing:
    """The last run of a demo that ended well: its seconds, its ranks, and what the script was given."""

    seconds: float
    ranks: int
    args: tuple[str, ...] = ()


def timings(home: Path) -> dict[str, Timing]:
    """Return what is known of each demo, by its name; nothing if the file is not there or not ours."""
    try:
        kept = smallfile.read(home / FILE)
        return {name: _timing(each) for name, each in kept.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def keep(home: Path, name: str, timing: Timing) -> None:
    """Note how long a demo took, whole or not at all; a folder that cannot be written leaves it unsaid."""
    known = {**timings(home), name: timing}
    try:
        smallfile.write(home / FILE, {name: asdict(each) for name, each in sorted(known.items())})
    except OSError:  # the demo itself went well
        return


def _timing(each: Mapping[str, Any]) -> Timing:
    return Timing(float(each["seconds"]), int(each["ranks"]), tuple(map(str, each["args"])))
