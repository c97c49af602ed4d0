"""The first page of the site: search, the concepts by track, their map, and the progress in this browser."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ddpquiz.curriculum.catalog import Catalog, Track
from ddpquiz.curriculum.concept import Concept
from ddpquiz.curriculum.lab import Lab
from ddpquiz.terminal.kit.style import plain
from ddpquiz.web.markup import Markup, element, joined
from ddpquiz.web.rendered_text import spans
from ddpquiz.web.site_lab import lab_address, labs_list
from ddpquiz.web.site_map import map_html


def index_html(known: Catalog, recorded: Collection[str], labs: Sequence[Lab]) -> Markup:
    """Return the body of the page; `recorded` are the demos whose runs have a page."""
    cards, questions = len(known.cards()), len(known.questions())
    runs = element(
        "ul", *(element("li", element("a", name, href=f"runs/{name}.html")) for name in sorted(recorded)), class_="runs"
    )
    return joined(
        element("h1", "Distributed training"),
        element("p", f"{len(known.concepts)} concepts, {cards} cards to recall and {questions} questions."),
        _search(),
        element("section", element("h2", "Concepts"), *(_track(track, known) for track in known.tracks), id="concepts"),
        element("section", element("h2", "Map"), map_html(known), id="map"),
        labs_list(labs) if labs else Markup(),
        element("section", element("h2", "Recorded runs"), runs, id="runs") if recorded else Markup(),
        _progress(),
    )


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
    return element(
        "section",
        element("h2", "Search"),
        element("label", "Words in titles, ideas, cards and labs", for_="query"),
        element("input", id="query", type="search", autocomplete="off", spellcheck="false"),
        element("p", role="status", id="found-count", class_="state"),
        element("ol", id="found"),
        id="search",
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
    return element(
        "section",
        element("h2", "Progress"),
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
        id="progress",
    )
