"""A small file of JSON beside the progress: read if it is there and ours, written whole or not at all."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ddpquiz.atomic_file import replacing
from ddpquiz.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def load_json(path: Path) -> Any:
    """Return what the file holds; OSError or ValueError when it cannot be read or is no JSON."""
    return json.loads(path.read_text("utf-8"))


def save_json(path: Path, data: Any) -> None:
    """Put data in place of what was there; OSError when that cannot be done, and then all is as it was."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(path) as fresh:
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(data, indent=1, ensure_ascii=False), "utf-8")


TIMINGS_FILE = "timings.json"


@dataclass(frozen=True, slots=True)
class Timing:
    """The last run of a demo that ended well: its seconds, its ranks, and what the script was given."""

    seconds: float
    ranks: int
    args: tuple[str, ...] = ()


def load_timings(home: Path) -> dict[str, Timing]:
    """Return what is known of each demo, by its name; nothing if the file is not there or not ours."""
    try:
        kept = load_json(home / TIMINGS_FILE)
        return {name: _timing(each) for name, each in kept.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def save_timing(home: Path, name: str, timing: Timing) -> None:
    """Note how long a demo took, whole or not at all; a folder that cannot be written leaves it unsaid."""
    known = {**load_timings(home), name: timing}
    try:
        save_json(home / TIMINGS_FILE, {name: asdict(each) for name, each in sorted(known.items())})
    except OSError:  # the demo itself went well
        return


def _timing(each: Mapping[str, Any]) -> Timing:
    return Timing(float(each["seconds"]), int(each["ranks"]), tuple(map(str, each["args"])))


DRAFTS_FILE = "drafts.json"


def load_drafts(home: Path) -> dict[str, str]:
    """Return what was begun, by the prompt's `concept/id`; nothing if the file is not there or not ours."""
    try:
        return {str(key): str(text) for key, text in load_json(home / DRAFTS_FILE).items()}
    except (OSError, ValueError, AttributeError):
        return {}


def save_drafts(home: Path, begun: Mapping[str, str]) -> None:
    """Keep these texts in place of what was there for their prompts, whole or not at all; an empty one is forgotten.

    UserError when a text cannot be kept; that an old one cannot be forgotten is left unsaid, since nothing is lost.
    """
    known = load_drafts(home)
    after = {key: text for key, text in {**known, **begun}.items() if text.strip()}
    if after == known:
        return
    try:
        save_json(home / DRAFTS_FILE, after)
    except OSError as wrong:
        if all(known.get(key) == text for key, text in after.items()):
            return
        raise UserError(
            f"{home / DRAFTS_FILE} cannot be written ({wrong.strerror}), so what you began to write was not kept; "
            "copy it, and make room there or set DDPQUIZ_HOME to another folder."
        ) from None
