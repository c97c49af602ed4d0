"""How commands open the file with the learner's progress."""

from __future__ import annotations

from collections.abc import Mapping

from ddpquiz.learning.progress import Progress
from ddpquiz.paths import data_dir


def open_progress(moved: Mapping[str, str]) -> Progress:
    """Open the learner's progress, which is to be closed after use; for `moved`, see LogReader."""
    return Progress(data_dir(), moved)
