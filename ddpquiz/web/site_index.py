"""The first page of the site: search, concepts by track, their map, labs, runs, and the progress in this browser."""

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ddpquiz.curriculum.catalog import Catalog, Track
from ddpquiz.curriculum.concept import Concept
from ddpquiz.curriculum.demo_scripts import read_demo
from ddpquiz.curriculum.lab import Lab
from ddpquiz.plural import plural
from ddpquiz.terminal.kit.style import plain
from ddpquiz.web.rendered_text import spans
from ddpquiz.web.site_concept import lab_address, labs_list, run_address, sections_with_links
from ddpquiz.web.site_markup import Markup, element, joined


def index_html(known: Catalog, recorded: Collection[str], labs: Sequence[Lab]) -> Markup:
    """The body of the page; `recorded` are the demos whose runs have a page."""
    sections = {
        "search": ("Search", _search()),
        "concepts": ("Concepts", joined(*(_track(track, known) for track in known.tracks))),
        "map": ("Map", _map_html(known)),
        "labs": ("Labs", labs_list(labs) if labs else Markup()),
        "runs": ("Recorded runs", _runs(recorded, known) if recorded else Markup()),
        "progress": ("Progress", _progress()),
    }
    return joined(
        element("h1", "Distributed training"),
        *_introduction(known, labs),
        sections_with_links(sections),
    )


def _introduction(known: Catalog, labs: Sequence[Lab]) -> Iterator[Markup]:
    """Yield what the site is, and where to begin."""
    counts = [
        plural(len(known.concepts), "concept"),
        plural(len(known.cards()), "card"),
        plural(len(known.questions()), "question"),
        *([plural(len(labs), "lab")] if labs else []),
    ]
    yield element(
        "p",
        "A course on distributed training with PyTorch: read a lesson, recall its cards, answer its questions, and "
        f"watch recorded runs of real ranks. It has {', '.join(counts[:-1])} and {counts[-1]}.",
    )
    if known.concepts:
        first = known.concepts[0]
        yield element("p", "New here? Begin with ", element("a", first.title, href=f"concepts/{first.id}.html"), ".")
    yield element(
        "p",
        "All of this works in the browser. To run the demos and labs yourself, use ",
        element("code", "ddpquiz"),
        " in a terminal.",
    )


def _runs(recorded: Collection[str], known: Catalog) -> Markup:
    rows = (
        element(
            "li",
            element("a", name, href=run_address(name)),
            f": {plain(read_demo(known.demos / f'{name}.py').summary)}",
        )
        for name in sorted(recorded)
    )
    return element("ul", *rows)


def search_index(known: Catalog, labs: Sequence[Lab]) -> Iterator[dict[str, Any]]:
    """Yield what the search finds: concepts by title and idea, cards, and labs by title and task."""
    for concept in known.concepts:
        page = f"concepts/{concept.id}.html"
        yield {"href": page, "kind": "concept", "head": plain(concept.title), "more": plain(concept.idea)}
        for card in concept.cards:
            address = f"{page}#card-{card.id}"
            yield {"href": address, "kind": "card", "head": plain(card.front), "more": plain(card.back)}
    for lab in labs:
        yield {"href": lab_address(lab), "kind": "lab", "head": plain(lab.title), "more": plain(lab.task)}


def _search() -> Markup:
    return joined(
        element("label", "Words in titles, ideas, cards and labs", for_="query"),
        element("input", id="query", type="search", autocomplete="off", spellcheck="false"),
        element("p", role="status", id="found-count", class_="state"),
        element("ol", id="found"),
    )


def _track(track: Track, known: Catalog) -> Markup:
    concepts = (known.concept(each) for each in track.concepts)
    return joined(element("h3", track.title), element("ul", *(_row(concept, known) for concept in concepts)))


def _row(concept: Concept, known: Catalog) -> Markup:
    needs = [element("a", known.concept(need).title, href=f"concepts/{need}.html") for need in concept.needs]
    parts: list[str] = [element("a", concept.title, href=f"concepts/{concept.id}.html", class_="head")]
    parts.append(element("p", spans(concept.idea), class_="prose"))
    if needs:
        parts.append(element("p", "Needs: ", needs[0], *(joined(", ", need) for need in needs[1:]), class_="quiet"))
    state = element(
        "p",
        class_="state",
        data_concept=concept.id,
        data_cards=len(concept.cards),
        data_questions=len(concept.questions),
    )
    return element("li", *parts, state)


def _progress() -> Markup:
    return joined(
        element(
            "p",
            "Grades and answers stay in this browser. Download them and run ",
            element("code", "ddpquiz import ddpquiz-progress.json"),
            " to schedule your cards in the terminal; a file of ",
            element("code", "ddpquiz export json"),
            " can be read here.",
        ),
        element(
            "p",
            element("button", "Download progress", type="button", id="download"),
            " ",
            element("label", "Read a file: ", for_="upload"),
            element("input", type="file", id="upload", accept=".json,application/json"),
            " ",
            element("button", "Delete progress here", type="button", id="forget"),
        ),
        element("p", role="status", id="progress-state", class_="state"),
    )


# The map of concepts: rows by depth, and a line from each concept to those that need it

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _LINE, _LETTERS = 152, 40, 14, 44, 14, 24
_MOST = 5  # boxes beside one another: so many fit on a page


def _map_html(known: Catalog) -> Markup:
    """The map as a picture with links; it says the same as the list of concepts with their needs."""
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
    """The needs of a concept that none of its other needs needs too."""
    return [
        need
        for need in concept.needs
        if not any(need in _all_needs(every[other], every) for other in concept.needs if other != need)
    ]


def _all_needs(concept: Concept, every: Mapping[str, Concept]) -> set[str]:
    needs: set[str] = set()
    pending = [*concept.needs]
    while pending:
        need = pending.pop()
        if need not in needs:
            needs.add(need)
            pending += every[need].needs
    return needs


def _levels(concepts: Sequence[Concept]) -> list[list[Concept]]:
    """The concepts by their depth; those in learning order come after all that they need."""
    depth: dict[str, int] = {}
    levels: list[list[Concept]] = []
    for concept in concepts:
        at = max((depth[need] + 1 for need in concept.needs if need in depth), default=0)
        depth[concept.id] = at
        levels += [[] for _ in range(at + 1 - len(levels))]
        levels[at].append(concept)
    return levels


def _split(level: Sequence[Concept]) -> list[Sequence[Concept]]:
    """The concepts of one depth in as few rows as fit, of about the same length."""
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
