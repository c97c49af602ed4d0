"""The cards as a package for Anki. Notes have the same ids in every export, so a later import updates them."""

import html
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ddpquiz.curriculum.catalog import Catalog, Source
from ddpquiz.curriculum.concept import Card, CardLevel, Concept
from ddpquiz.errors import UserError

# Anki identifies a kind of note and a deck by these numbers: never change them.
_MODEL = 1_684_304_945
_DECKS = 1_684_304_946  # and the numbers after it: one for each track, derived from its name
FIELDS = ("Front", "Back", "Concept", "Level", "Source", "Demo", "Item")
_FRONT = '<div class="concept">{{Concept}} · {{Level}}</div>{{Front}}'
_BACK = (
    '{{FrontSide}}<hr id="answer">{{Back}}<div class="foot">{{#Demo}}<code>ddpquiz demo {{Demo}}</code> · {{/Demo}}'
    "{{Source}}</div>"
)
_STYLE = """\
.card { font-family: sans-serif; font-size: 20px; text-align: left; max-width: 40em; margin: 1em auto; }
.concept, .foot { font-size: 14px; color: #777; margin: 1em 0; }
code, pre { font-family: monospace; font-size: 0.9em; }
pre { overflow-x: auto; }
"""


def write(catalog: Catalog, path: Path, at: datetime) -> None:
    """Write the package; Anki imports its changes if `at` is later than that of the previous package."""
    try:
        import genanki
    except ImportError:
        raise UserError("Packages for Anki need genanki: `pip install 'ddpquiz[anki]'`.") from None

    templates = [{"name": "Recall", "qfmt": _FRONT, "afmt": _BACK}]
    model = genanki.Model(_MODEL, "ddpquiz", [{"name": name} for name in FIELDS], templates, css=_STYLE)
    decks = []
    for track in catalog.tracks:
        deck = genanki.Deck(_number(track.id), f"ddpquiz::{track.title}")
        for concept in (catalog.concept(name) for name in track.concepts):
            for card in concept.cards:
                deck.add_note(_note(genanki, model, card, concept, catalog.sources))
        decks.append(deck)
    genanki.Package(decks).write_to_file(str(path), timestamp=at.timestamp())


def _note(genanki: Any, model: Any, card: Card, concept: Concept, sources: Mapping[str, Source]) -> Any:
    demo = concept.demos[0].run if concept.demos else ""
    level = next(word for word in CardLevel if word.level is card.level)
    about = (html.escape(concept.title), level, _source(card.source, sources), demo, card.key)
    fields = [_html(card.front), _html(card.back), *about]
    tags = ["ddpquiz", f"track::{concept.track}", f"concept::{concept.id}", f"level::{level}"]
    return genanki.Note(model, fields, guid=genanki.guid_for("ddpquiz", card.key), tags=tags)


def _source(key: str, sources: Mapping[str, Source]) -> str:
    source = sources.get(key)
    if source is None:
        return html.escape(key)
    title = html.escape(", ".join(part for part in (source.title, source.authors, source.year) if part))
    return f'<a href="{html.escape(source.address)}">{title}</a>' if source.address else title


def _html(text: str) -> str:
    """Convert a text of a card to HTML; HTML in it is escaped."""
    from markdown_it import MarkdownIt

    made: str = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "entity"]).render(text)
    return made.strip()


def _number(track: str) -> int:
    """The number of a track's deck, which is the same in every export."""
    from zlib import crc32

    return _DECKS + 1 + crc32(track.encode()) % (1 << 30)
