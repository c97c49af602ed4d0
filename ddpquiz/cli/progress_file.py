"""How commands open the file with the learner's progress."""

from __future__ import annotations

from collections.abc import Mapping

from ddpquiz.curriculum import loading
from ddpquiz.errors import ContentError
from ddpquiz.learning.progress import Progress
from ddpquiz.paths import data_dir


def open_progress(moved: Mapping[str, str]) -> Progress:
    """Open the learner's progress, which is to be closed after use; for `moved`, see LogReader."""
    return Progress(data_dir(), moved)


def moved_items() -> Mapping[str, str]:
    """The earlier keys of items; progress can be looked after while content has complaints."""
    try:
        return loading.load().moved
    except ContentError:
        return {}
