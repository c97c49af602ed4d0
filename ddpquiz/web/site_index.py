"""The first page of the site: search, the concepts by track, their map, and the progress in this browser."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ddpquiz.curriculum.catalog import Catalog, Track
from ddpquiz.curriculum.concept import Concept
from ddpquiz.curriculum.demo_scripts import read_demo
from ddpquiz.curriculum.lab import Lab
from ddpquiz.terminal.kit.layout import counted
from ddpquiz.terminal.kit.style import plain
from ddpquiz.web.markup import Markup, element, joined
from ddpquiz.web.rendered_text import spans
from ddpquiz.web.site_lab import lab_address, labs_list
from ddpquiz.web.site_links import run_address, sections_with_links
from ddpquiz.web.site_map import map_html


def index_html(known: Catalog, recorded: Collection[str], labs: Sequence[Lab]) -> Markup:
    """Return the body of the page; `recorded` are the demos whose runs have a page."""
    sections = {
        "search": ("Search", _search()),
        "concepts": ("Concepts", joined(*(_track(track, known) for track in known.tracks))),
        "map": ("Map", map_html(known)),
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
        counted(len(known.concepts), "concept"),
        counted(len(known.cards()), "card"),
        counted(len(known.questions()), "question"),
        *([counted(len(labs), "lab")] if labs else []),
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
