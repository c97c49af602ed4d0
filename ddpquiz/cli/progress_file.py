"""How commands open the file with the learner's progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddpquiz.learning.progress import Progress


def open_progress() -> Progress:
    """Open the learner's progress, which is to be closed after use."""
    from ddpquiz.learning.progress import Progress
    from ddpquiz.paths import data_dir

    return Progress(data_dir())
