"""Small JSON files beside the progress: how long demos ran, texts that were begun, hints that were shown."""

import errno
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ddpquiz.atomic_file import is_pipe_or_device, replacing
from ddpquiz.errors import UserError


def load_json(path: Path) -> Any:
    """The data in a file. Raises OSError or ValueError if it cannot be read or is not valid JSON."""
    _refuse_pipe(path)
    try:
        return json.loads(path.read_text("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def save_json(path: Path, data: Any) -> None:
    """Replace a file, readable by its owner alone. Raises OSError if that fails; then the old file remains."""
    _refuse_pipe(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(path) as fresh:
        fresh.chmod(0o600)
        fresh.write_text(json.dumps(data, indent=1, ensure_ascii=False), "utf-8")


def _refuse_pipe(path: Path) -> None:
    if is_pipe_or_device(path):
        raise OSError(errno.EINVAL, "it is a pipe or a device", str(path))


TIMINGS_FILE = "timings.json"


@dataclass(frozen=True, slots=True)
class Timing:
    """The last successful run of a demo: its seconds, its ranks, and the arguments of the script."""

    seconds: float
    ranks: int
    args: tuple[str, ...] = ()


def load_timings(home: Path) -> dict[str, Timing]:
    """The last timing of each demo by its name; {} if the file is missing or not valid."""
    try:
        saved = load_json(home / TIMINGS_FILE)
        return {name: _timing(each) for name, each in saved.items()}
    except (OSError, ValueError, OverflowError, TypeError, KeyError, AttributeError):
        return {}


def save_timing(home: Path, name: str, timing: Timing) -> None:
    """Save how long a demo ran; a folder that cannot be written is ignored."""
    known = {**load_timings(home), name: timing}
    try:
        save_json(home / TIMINGS_FILE, {name: asdict(each) for name, each in sorted(known.items())})
    except OSError:
        return


def _timing(each: Mapping[str, Any]) -> Timing:
    return Timing(float(each["seconds"]), int(each["ranks"]), tuple(map(str, each["args"])))


_DRAFTS_FILE = "drafts.json"


def load_drafts(home: Path) -> dict[str, str]:
    """The texts that were begun, by prompt (`concept/id`); {} if the file is missing or not valid."""
    try:
        return {str(key): str(text) for key, text in load_json(home / _DRAFTS_FILE).items()}
    except (OSError, ValueError, AttributeError):
        return {}


def save_drafts(home: Path, begun: Mapping[str, str]) -> None:
    """Save these texts in place of those that their prompts had; an empty one deletes what was there.

    UserError when a text cannot be saved; a failure to delete is ignored, since nothing is lost.
    """
    known = load_drafts(home)
    after = {key: text for key, text in {**known, **begun}.items() if text.strip()}
    if after == known:
        return
    try:
        save_json(home / _DRAFTS_FILE, after)
    except OSError as wrong:
        if all(known.get(key) == text for key, text in after.items()):
            return
        raise UserError(
            f"{home / _DRAFTS_FILE} cannot be written ({wrong.strerror}), so what you began to write was not saved; "
            "copy it, and make room there or set DDPQUIZ_HOME to another folder."
        ) from None


_HINTS_FILE = "labs.json"


def load_hints(home: Path) -> dict[str, int]:
    """How many hints of each lab were shown, by its name; {} if the file is missing or not valid."""
    try:
        return {str(name): int(count) for name, count in load_json(home / _HINTS_FILE).items()}
    except (OSError, ValueError, OverflowError, TypeError, AttributeError):
        return {}


def save_hints(home: Path, lab: str, count: int) -> None:
    """Save how many hints of a lab were shown; a folder that cannot be written is ignored."""
    try:
        save_json(home / _HINTS_FILE, {**load_hints(home), lab: count})
    except OSError:
        return
