"""The list of demos: by the track of the concept that each is about, with how long each one lasted here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from ddpquiz.terminal.kit.layout import columns, section
from ddpquiz.terminal.kit.style import plain, prose

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ddpquiz.curriculum.catalog import Catalog
    from ddpquiz.curriculum.concept import Concept
    from ddpquiz.curriculum.demo_scripts import Demo
    from ddpquiz.learning.side_files import Timing

_NEXT = (
    ("ddpquiz demo NAME", "run it"),
    ("ddpquiz demo NAME -- --help", "show what it is about, and its arguments"),
    ("ddpquiz demo NAME --copy .", "copy the script, to read and change it"),
    ("ddpquiz demo --replay NAME", "play a saved run, one operation at a time"),
)


def demos(catalog: Catalog, known: Sequence[Demo], timings: Mapping[str, Timing]) -> Group:
    """Draw each demo under the track of the concept that it is about."""
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
            rows = (
                (Text(demo.name.ljust(width), style="code"), _summary(demo, timings.get(demo.name))) for demo in here
            )
            parts += section(plain(title), columns(rows))
    return Group(*parts[1:], Text(), columns((Text(command, style="code"), Text(what)) for command, what in _NEXT))


def _about(demo: Demo, catalog: Catalog) -> Concept | None:
    """Return the concept that uses a demo most; of several, one that lists it first."""

    def weight(concept: Concept) -> tuple[int, bool]:
        runs = [link.run for link in concept.demos]
        return runs.count(demo.name), runs[0] == demo.name

    touching = [concept for concept in catalog.concepts if any(link.run == demo.name for link in concept.demos)]
    return max(touching, key=weight, default=None)


def _summary(demo: Demo, timing: Timing | None) -> Text:
    text = prose(demo.summary)
    if timing:
        ranks = f"{timing.ranks} rank{'s' * (timing.ranks > 1)}"
        args = f" with {plain(' '.join(timing.args))}" if timing.args else ""
        text.append(f"  {timing.seconds:.1f} s on {ranks}{args}", style="quiet")
    return text
