"""How commands open the file with the learner's progress."""

from __future__ import annotations

from ddpquiz.learning.progress import Progress
from ddpquiz.paths import data_dir


def open_progress() -> Progress:
    """Open the learner's progress, which is to be closed after use."""
    return Progress(data_dir())
