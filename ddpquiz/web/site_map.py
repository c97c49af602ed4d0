"""The map of concepts: rows by depth, and a line from each concept to those that need it."""

import textwrap
from collections.abc import Mapping, Sequence

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Concept
from ddpquiz.web.markup import Markup, element

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _LINE, _LETTERS = 152, 40, 14, 44, 14, 24
_MOST = 5  # boxes beside one another: so many fit on a page


def map_html(known: Catalog) -> Markup:
    """Return the map as a picture with links; it says the same as the list of concepts with their needs."""
    rows = [row for level in _levels(known.concepts) for row in _split(level)]
    most = max(map(len, rows), default=0)
    places = {
        concept.id: ((2 * at + most - len(row)) * (_WIDTH + _GAP_X) // 2, number * (_HEIGHT + _GAP_Y))
        for number, row in enumerate(rows)
        for at, concept in enumerate(row)
    }
    width = most * (_WIDTH + _GAP_X) - _GAP_X
    height = len(rows) * (_HEIGHT + _GAP_Y) - _GAP_Y
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
        aria_label="Map of concepts: each concept needs those above it from which a line leads to it",
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


def _levels(concepts: Sequence[Concept]) -> list[list[Concept]]:
    """Return the concepts by their depth; those in learning order come after all that they need."""
    depth: dict[str, int] = {}
    levels: list[list[Concept]] = []
    for concept in concepts:
        at = max((depth[need] + 1 for need in concept.needs if need in depth), default=0)
        depth[concept.id] = at
        levels += [[] for _ in range(at + 1 - len(levels))]
        levels[at].append(concept)
    return levels


def _split(level: Sequence[Concept]) -> list[Sequence[Concept]]:
    """Return the concepts of one depth in as few rows as fit, of about the same length."""
    rows = -(-len(level) // _MOST)
    length = -(-len(level) // rows)
    return [level[at : at + length] for at in range(0, len(level), length)]


def _line(start: tuple[int, int], end: tuple[int, int], need: str, concept: str) -> Markup:
    from_x, from_y = start[0] + _WIDTH // 2, start[1] + _HEIGHT
    to_x, to_y = end[0] + _WIDTH // 2, end[1]
    bend = _GAP_Y
    path = f"M{from_x} {from_y}C{from_x} {from_y + bend} {to_x} {to_y - bend} {to_x} {to_y}"
    return element("path", d=path, data_from=need, data_to=concept)


def _box(concept: Concept, x: int, y: int) -> Markup:
    lines = textwrap.wrap(concept.title, _LETTERS, max_lines=2, placeholder="…", break_long_words=False)
    top = y + _HEIGHT / 2 + _LINE * (0.35 - (len(lines) - 1) / 2)
    texts = (
        element("text", line, x=x + _WIDTH // 2, y=round(top + _LINE * number, 1)) for number, line in enumerate(lines)
    )
    box = element("rect", x=x, y=y, width=_WIDTH, height=_HEIGHT, rx=5)
    return element(
        "a", element("title", concept.title), box, *texts, href=f"concepts/{concept.id}.html", data_concept=concept.id
    )
