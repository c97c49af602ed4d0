"""`ddpquiz` without a command: what is due, where you stand, and what to do next."""

from __future__ import annotations

from ddpquiz.cli import sitting


def home() -> None:
    """Show what is due, where you are strong and weak, and what to do next."""
    from ddpquiz.curriculum import catalog
    from ddpquiz.learning import advice, database, mastery
    from ddpquiz.learning.progress import Progress
    from ddpquiz.learning.schedule import study_day
    from ddpquiz.terminal import layout, style
    from ddpquiz.terminal.home import home as page

    known = catalog.load()
    day = study_day(sitting.now())
    with Progress(database.folder()) as progress:
        answers = (row for row in progress.kept("answer") if not row.retry)
        strengths = mastery.strengths(answers, day)
        standing = advice.standing(known.concepts, progress.memories(), strengths, day)
    layout.show(style.console(), page(standing))
