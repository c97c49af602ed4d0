"""A small file of JSON beside the progress: read if it is there and ours, written whole or not at all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ddpquiz.wholefile import replacing

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path) -> Any:
    """Return what the file holds; OSError or ValueError when it cannot be read or is no JSON."""
    return json.loads(path.read_text("utf-8"))


def write(path: Path, data: Any) -> None:
    """Put data in place of what was there; OSError when that cannot be done, and then all is as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as fresh:
        fresh.write_text(json.dumps(data, indent=1, ensure_ascii=False), "utf-8")
