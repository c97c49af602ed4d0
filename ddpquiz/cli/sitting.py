"""How a command opens and closes a sitting: with the learner's progress, and status 130 if it is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ddpquiz.cli import clock
from ddpquiz.cli.progress_file import open_progress
from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.terminal.sittings.rank_runner import RankRunner
from ddpquiz.terminal.sittings.sitting import SittingContext


@contextmanager
def open_sitting(catalog: Catalog) -> Iterator[SittingContext]:
    """What a sitting needs, until it is over; the progress is closed after that."""
    with open_progress(catalog.moved) as progress:
        try:
            ranks = RankRunner(catalog, progress, clock.now)
            yield SittingContext(catalog, progress, clock.now, _open_lab, ranks)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def _open_lab(name: str, place: str) -> None:
    """Open a lab; for `place` see SittingContext."""
    from ddpquiz.cli import lab  # noqa: PLC0415  # the first card does not wait for what starts ranks

    lab.work_on(lab.load(name), lab.folder_of(None), place)
