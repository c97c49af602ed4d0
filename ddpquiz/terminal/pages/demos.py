"""The demos as a list: by the track of the concept that each one is about, and how long each took here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from ddpquiz.terminal.kit.layout import columns, section
from ddpquiz.terminal.kit.style import plain, prose

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from ddpquiz.curriculum.catalog import Catalog
    from ddpquiz.curriculum.concept import Concept
    from ddpquiz.curriculum.demo_scripts import Demo
    from ddpquiz.learning.side_files import Timing

_NEXT = (
    ("ddpquiz demo NAME", "runs it"),
    ("ddpquiz demo NAME -- --help", "says what it shows, and which knobs it has"),
    ("ddpquiz demo NAME --copy .", "gives you the script, to read and change"),
    ("ddpquiz demo --replay NAME", "plays a saved run, one operation at a time"),
)


def demos(catalog: Catalog, known: Sequence[Demo], timings: Mapping[str, Timing]) -> Group:
    """Draw each demo once, under the track of the concept that it is about."""
    width = max((len(demo.name) for demo in known), default=0)
    parts: list[RenderableType] = []
    about = {demo.name: concept for demo in known if (concept := _about(demo, catalog))}
    tracks = {demo.name: about[demo.name].track if demo.name in about else "" for demo in known}
    order = {concept.id: place for place, concept in enumerate(catalog.concepts)}
    for track, title in [*((track.id, track.title) for track in catalog.tracks), ("", "Others")]:
        here = [demo for demo in known if tracks[demo.name] == track]
        if track:
            here.sort(key=lambda demo: order[about[demo.name].id])
        if here:
            rows = ((Text(demo.name.ljust(width), style="code"), _said(demo, timings.get(demo.name))) for demo in here)
            parts += section(plain(title), columns(rows))
    return Group(*parts[1:], Text(), columns((Text(command, style="code"), Text(what)) for command, what in _NEXT))


def _about(demo: Demo, catalog: Catalog) -> Concept | None:
    """Return the concept that shows most of a demo, rather first than beside another one; the rest only touch on it."""

    def weight(concept: Concept) -> tuple[int, bool]:
        runs = [link.run for link in concept.demos]
        return runs.count(demo.name), runs[0] == demo.name

    touching = [concept for concept in catalog.concepts if any(link.run == demo.name for link in concept.demos)]
    return max(touching, key=weight, default=None)


def _said(demo: Demo, timing: Timing | None) -> Text:
    said = prose(demo.summary)
    if timing:
        ranks = f"{timing.ranks} rank{'s' * (timing.ranks > 1)}"
        given = f" with {plain(' '.join(timing.args))}" if timing.args else ""
        said.append(f"  {timing.seconds:.1f} s on {ranks}{given}", style="quiet")
    return said
