"""The page of a concept: lesson with its cards, commands, mistakes, demos, questions, and its neighbours."""

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from ddpquiz.curriculum.catalog import Catalog
from ddpquiz.curriculum.concept import Card, Command, Concept, DemoLink, Mistake
from ddpquiz.curriculum.lab import Lab
from ddpquiz.curriculum.stems import meaning
from ddpquiz.terminal.pages.item import sample
from ddpquiz.terminal.pages.lesson import demo_command
from ddpquiz.web.markup import Markup, element, joined
from ddpquiz.web.rendered_text import lesson_parts, listing, paragraph, spans
from ddpquiz.web.site_items import card_html, prompt_html, question_data, question_html
from ddpquiz.web.site_lab import lab_html
from ddpquiz.web.site_links import run_address, sections_with_links

_WORD = re.compile(r"\w{4,}")


def concept_html(concept: Concept, known: Catalog, recorded: Collection[str], labs: Sequence[Lab]) -> Markup:
    """Return the body of a page; `recorded` are the demos whose runs have a page, `labs` those of this concept."""
    posed = [sample(question) for question in concept.questions]
    sections = {
        "why": ("Why", joined(*(html for _, html in lesson_parts(concept.why)))),
        "lesson": ("Lesson", joined(*_lesson_with_cards(concept, known))),
        "commands": ("Commands", joined(*map(_command, concept.commands))),
        "mistakes": ("Mistakes", joined(*map(_mistake, concept.mistakes))),
        "remember": ("Remember", _listed(concept.remember)),
        "demos": ("See it run", joined(*(_demo(link, recorded) for link in concept.demos))),
        "questions": ("Questions", joined(*(question_html(each, n, known) for n, each in enumerate(posed, 1)))),
        "labs": ("Build it", joined(*map(lab_html, labs))),
        "explain": ("Explain in your own words", joined(*map(prompt_html, concept.explain))),
    }
    return joined(
        _places(concept, known),
        element("h1", concept.title),
        paragraph(concept.idea, class_="prose idea"),
        sections_with_links(sections),
        _next(concept, known),
    )


def concept_data(concept: Concept) -> dict[str, Any]:
    """Return the data of a page: its questions by their key."""
    return {question.key: question_data(sample(question), concept.cards) for question in concept.questions}


def _places(concept: Concept, known: Catalog) -> Markup:
    track = next((each.title for each in known.tracks if each.id == concept.track), concept.track)
    links = (
        element("a", "All concepts", href="../index.html"),
        element("a", "Search", href="../index.html#search"),
        element("a", "Progress", href="../index.html#progress"),
    )
    return element("nav", element("p", joined(*(joined(link, " · ") for link in links)), track), aria_label="Site")


def _lesson_with_cards(concept: Concept, known: Catalog) -> list[Markup]:
    """Return the lesson; each card follows the part with which it shares most words."""
    parts = lesson_parts(concept.lesson)
    after: dict[int, list[Card]] = {}
    for card, place in zip(concept.cards, card_places([text for text, _ in parts], concept.cards), strict=True):
        after.setdefault(place, []).append(card)
    return [
        joined(html, *(card_html(card, known) for card in after.get(place, ())))
        for place, (_, html) in enumerate(parts)
    ]


def card_places(texts: Sequence[str], cards: Sequence[Card]) -> list[int]:
    """Return for each card the place of the text that shares most words with it; rare words count more."""
    words = [_meanings(text) for text in texts]
    counts = Counter(word for each in words for word in each)

    def weight(wanted: set[str], place: int) -> float:
        return sum(math.log((len(words) + 1) / counts[word]) for word in wanted & words[place])

    found = []
    for card in cards:
        wanted = _meanings(f"{card.front} {card.back}")
        weights = [weight(wanted, place) for place in range(len(words))]
        best = max(weights)
        found.append(weights.index(best) if best else len(words) - 1)
    return found


def _meanings(text: str) -> set[str]:
    return {meaning(word) for word in _WORD.findall(text.lower())}


def _listed(texts: Sequence[str]) -> Markup:
    return element("ul", *(element("li", spans(text), class_="prose") for text in texts)) if texts else Markup()


def _command(command: Command) -> Markup:
    flags = joined(
        *(
            joined(element("dt", element("code", flag)), element("dd", spans(does)))
            for flag, does in command.flags.items()
        )
    )
    return joined(
        listing(f"$ {command.run}"),
        paragraph(command.does),
        element("dl", flags) if flags else Markup(),
        listing(command.prints, output=True) if command.prints else Markup(),
    )


def _mistake(mistake: Mistake) -> Markup:
    rows = (("wrong", mistake.do), ("then", mistake.happens), ("instead", mistake.instead))
    return element(
        "dl",
        *(joined(element("dt", name, class_=name), element("dd", spans(text), class_="prose")) for name, text in rows),
        class_="mistake",
    )


def _demo(link: DemoLink, recorded: Collection[str]) -> Markup:
    parts: list[str] = [listing(demo_command(link)), paragraph(f"Look at {link.look}")]
    if link.run in recorded:
        run = element("a", f"a recorded run of {link.run}", href=f"../{run_address(link.run)}")
        parts.append(element("p", "Play ", run, " in the browser."))
    return joined(*parts)


def _next(concept: Concept, known: Catalog) -> Markup:
    rows = [
        *(("Read before", known.concept(need)) for need in concept.needs),
        *(("Builds on this", other) for other in known.concepts if concept.id in other.needs),
    ]
    links = (element("li", f"{word}: ", element("a", other.title, href=f"{other.id}.html")) for word, other in rows)
    title = element("h2", "Before and after", id="next-title")
    return element("nav", title, element("ul", *links), aria_labelledby="next-title") if rows else Markup()
