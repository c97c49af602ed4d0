"""Explanations that were begun and not ended, in a small file beside the progress, so that nobody writes them twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpquiz.errors import UserError
from ddpquiz.learning import smallfile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE = "drafts.json"


def drafts(home: Path) -> dict[str, str]:
    """Return what was begun, by the prompt's `concept/id`; nothing if the file is not there or not ours."""
    try:
        return {str(key): str(text) for key, text in smallfile.read(home / FILE).items()}
    except (OSError, ValueError, AttributeError):
        return {}


def keep(home: Path, begun: Mapping[str, str]) -> None:
    """Keep these texts in place of what was there for their prompts, whole or not at all; an empty one is forgotten.

    UserError when a text cannot be kept; that an old one cannot be forgotten is left unsaid, since nothing is lost.
    """
    known = drafts(home)
    after = {key: text for key, text in {**known, **begun}.items() if text.strip()}
    if after == known:
        return
    try:
        smallfile.write(home / FILE, after)
    except OSError as wrong:
        if all(known.get(key) == text for key, text in after.items()):
            return
        raise UserError(
            f"{home / FILE} cannot be written ({wrong.strerror}), so what you began to write was not kept; "
            "copy it, and make room there or set DDPQUIZ_HOME to another folder."
        ) from None
