"""Explanations that were begun and not ended, in a small file beside the progress, so that nobody writes them twice."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE = "drafts.json"


def drafts(home: Path) -> dict[str, str]:
    """Return what was begun, by the prompt's `concept/id`; nothing if the file is not there or not ours."""
    try:
        return {str(key): str(text) for key, text in json.loads((home / FILE).read_text("utf-8")).items()}
    except (OSError, ValueError, AttributeError):
        return {}


def keep(home: Path, begun: Mapping[str, str]) -> None:
    """Keep these texts in place of what was there for their prompts, whole or not at all; an empty one is forgotten."""
    known = drafts(home)
    after = {key: text for key, text in {**known, **begun}.items() if text.strip()}
    if after == known:
        return
    fresh = home / f"{FILE}.{os.getpid()}"
    home.mkdir(parents=True, exist_ok=True)
    fresh.write_text(json.dumps(after, indent=1, ensure_ascii=False), "utf-8")
    fresh.replace(home / FILE)
