"""The map of concepts: columns by depth, and a line from each concept to those that need it."""

import textwrap
from collections.abc import Mapping, Sequence

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Concept
from ddpquiz.web.markup import Markup, element

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _LINE, _LETTERS = 150, 40, 50, 14, 14, 22


def map_html(known: Catalog) -> Markup:
    """Return the map as a picture with links; it says the same as the list of concepts with their needs."""
    columns = _columns(known.concepts)
    most = max(map(len, columns), default=0)
    places = {
        concept.id: (column * (_WIDTH + _GAP_X), (2 * row + most - len(concepts)) * (_HEIGHT + _GAP_Y) // 2)
        for column, concepts in enumerate(columns)
        for row, concept in enumerate(concepts)
    }
    width = len(columns) * (_WIDTH + _GAP_X) - _GAP_X
    height = most * (_HEIGHT + _GAP_Y)
    every = {concept.id: concept for concept in known.concepts}
    lines = (
        _line(places[need], places[concept.id], need, concept.id)
        for concept in known.concepts
        for need in direct_needs(concept, every)
    )
    boxes = (_box(concept, *places[concept.id]) for concept in known.concepts)
    picture = element(
        "svg", *lines, *boxes,
        viewBox=f"-2 -2 {width + 4} {height + 4}", width=width + 4, height=height + 4, role="group",
        aria_label="Map of concepts: each column needs those to its left",
    )  # fmt: skip
    return element("div", picture, class_="map", tabindex=0, role="group", aria_label="Map of concepts")


def direct_needs(concept: Concept, every: Mapping[str, Concept]) -> list[str]:
    """Return the needs of a concept that none of its other needs needs too."""
    return [
        need
        for need in concept.needs
        if not any(need in _all_needs(every[other], every) for other in concept.needs if other != need)
    ]


def _all_needs(concept: Concept, every: Mapping[str, Concept]) -> set[str]:
    found: set[str] = set()
    pending = [*concept.needs]
    while pending:
        need = pending.pop()
        if need not in found:
            found.add(need)
            pending += every[need].needs
    return found


def _columns(concepts: Sequence[Concept]) -> list[list[Concept]]:
    """Return the concepts by their depth; those in learning order come after all that they need."""
    depth: dict[str, int] = {}
    columns: list[list[Concept]] = []
    for concept in concepts:
        at = max((depth[need] + 1 for need in concept.needs if need in depth), default=0)
        depth[concept.id] = at
        columns += [[] for _ in range(at + 1 - len(columns))]
        columns[at].append(concept)
    return columns


def _line(start: tuple[int, int], end: tuple[int, int], need: str, concept: str) -> Markup:
    from_x, from_y = start[0] + _WIDTH, start[1] + _HEIGHT // 2
    to_x, to_y = end[0], end[1] + _HEIGHT // 2
    bend = _GAP_X
    path = f"M{from_x} {from_y}C{from_x + bend} {from_y} {to_x - bend} {to_y} {to_x} {to_y}"
    return element("path", d=path, data_from=need, data_to=concept)


def _box(concept: Concept, x: int, y: int) -> Markup:
    lines = textwrap.wrap(concept.title, _LETTERS, max_lines=2, placeholder="…")
    top = y + _HEIGHT / 2 + _LINE * (0.35 - (len(lines) - 1) / 2)
    texts = (
        element("text", line, x=x + _WIDTH // 2, y=round(top + _LINE * number, 1)) for number, line in enumerate(lines)
    )
    box = element("rect", x=x, y=y, width=_WIDTH, height=_HEIGHT, rx=5)
    return element(
        "a", element("title", concept.title), box, *texts, href=f"concepts/{concept.id}.html", data_concept=concept.id
    )
