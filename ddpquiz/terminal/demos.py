"""The demos as a list: by the track of the concept that each one shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.terminal.layout import columns, section
from ddpquiz.terminal.listing import one_line
from ddpquiz.terminal.style import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from ddpquiz.curriculum.catalog import Catalog
    from ddpquiz.curriculum.demos import Demo


def demos(catalog: Catalog, known: Sequence[Demo]) -> Group:
    """Draw each demo once, under the first track that has a concept for it."""
    parts: list[RenderableType] = []
    left = {demo.name: demo for demo in known}
    for track in catalog.tracks:
        links = [link for concept in catalog.concepts if concept.track == track.id for link in concept.demos]
        rows = [_row(left.pop(link.run)) for link in links if link.run in left]
        if rows:
            parts += section(plain(track.title), columns(rows))
    if left:
        parts += section("Others", columns([_row(demo) for demo in left.values()]))
    return Group(*parts[1:], Text(), Text("ddpquiz demo NAME", style="code"))


def _row(demo: Demo) -> tuple[Text, Text]:
    return Text(demo.name, style="code"), one_line(demo.summary)
