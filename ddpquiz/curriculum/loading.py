"""Load the catalog: from the cache if it is fresh, else from the content files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddpquiz.curriculum import cache
from ddpquiz.errors import ContentError
from ddpquiz.paths import content_dir

if TYPE_CHECKING:
    from pathlib import Path

    from ddpquiz.curriculum.catalog import Catalog


def load(folder: Path | None = None) -> Catalog:
    """Load a content folder, by default the shipped one, which is cached. ContentError with all complaints."""
    if folder is not None:
        return _read(folder)
    return cache.cached(content_dir(), lambda: _read(None))


def _read(folder: Path | None) -> Catalog:
    from ddpquiz.curriculum.survey import survey

    found = survey(folder)
    if found.complaints:
        raise ContentError(found.complaints)
    return found.catalog
