"""The package for Anki: whole, the same notes in every export, and opened by Anki's own importer where there is one."""

import html
import sqlite3
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from inline_snapshot import snapshot
from run_program import piped
from sample import DDP, RING

from ddpquiz.curriculum import loading
from ddpquiz.curriculum.catalog import Catalog, Source, Track
from ddpquiz.learning import anki

AT = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
SOURCES = {"dist": Source("dist", "PyTorch <docs>", "P. & T.", "2026", "https://pytorch.org/?a=1&b=2")}


def known(first="Front of one?"):
    ring = replace(RING, cards=(replace(RING.cards[0], front=first), *RING.cards[1:]))
    return Catalog((Track("collectives", "Collectives", ("ring", "ddp")),), (ring, DDP), SOURCES)


def notes(path):
    """Return the notes of a package by their guid, each with its fields, tags and time; and the decks by number."""
    with zipfile.ZipFile(path) as package:
        path.with_suffix(".db").write_bytes(package.read("collection.anki2"))
    with sqlite3.connect(path.with_suffix(".db")) as database:
        rows = database.execute("SELECT guid, mid, mod, tags, flds FROM notes").fetchall()
        decks = {row[0] for row in database.execute("SELECT did FROM cards")}
    database.close()
    return {guid: (mid, mod, tags.split(), fields.split("\x1f")) for guid, mid, mod, tags, fields in rows}, decks


def test_a_later_export_has_the_same_notes_and_is_newer(tmp_path):
    anki.write(known(), tmp_path / "a.apkg", AT)
    anki.write(known("Another text?"), tmp_path / "b.apkg", AT + timedelta(hours=1))
    (first, decks), (second, decks_later) = notes(tmp_path / "a.apkg"), notes(tmp_path / "b.apkg")
    assert first.keys() == second.keys()
    assert len(first) == len(RING.cards) + len(DDP.cards)
    assert decks == decks_later
    assert len({note[0] for note in (*first.values(), *second.values())}) == 1
    assert {note[1] for note in first.values()} == {int(AT.timestamp())}
    assert {note[1] for note in second.values()} == {int(AT.timestamp()) + 3600}
    changed = [guid for guid in first if first[guid][3] != second[guid][3]]
    assert [second[guid][3][0] for guid in changed] == ["<p>Another text?</p>"]


def test_a_note_has_level_concept_and_source_as_fields_and_tags(tmp_path):
    anki.write(known(), tmp_path / "a.apkg", AT)
    found, _ = notes(tmp_path / "a.apkg")
    (note,) = (note for note in found.values() if note[3][-1] == "ring/two")
    source = '<a href="https://pytorch.org/?a=1&amp;b=2">PyTorch &lt;docs&gt;, P. &amp; T., 2026</a>'
    assert dict(zip(anki.FIELDS, note[3], strict=True)) == {
        "Front": "<p>Front of two?</p>",
        "Back": "<p>Back of two.</p>",
        "Concept": "The ring",
        "Level": "intermediate",
        "Source": source,
        "Demo": "allreduce",
        "Item": "ring/two",
    }
    assert note[2] == ["ddpquiz", "track::collectives", "concept::ring", "level::intermediate"]


def test_markdown_and_code_become_html_and_html_stays_text(tmp_path):
    text = "Is `a < b` **so**, <b>x</b> &amp;?\n\n    x = {{y}}\n\n- one\n- two"
    anki.write(known(text), tmp_path / "a.apkg", AT)
    found, _ = notes(tmp_path / "a.apkg")
    (front,) = (note[3][0] for note in found.values() if note[3][-1] == "ring/one")
    assert front == (
        snapshot(
            "<p>Is <code>a &lt; b</code> <strong>so</strong>, &lt;b&gt;x&lt;/b&gt; &amp;amp;?</p>\n"
            "<pre><code>x = {{y}}\n</code></pre>\n<ul>\n<li>one</li>\n<li>two</li>\n</ul>"
        )
    )
    assert html.unescape("&lt;b&gt;") == "<b>"


def test_the_command_writes_a_package_of_what_is_shipped(tmp_path):
    done = piped(tmp_path, "export", "anki", "--to", str(tmp_path / "cards.apkg"))
    assert done.stdout.startswith(f"{tmp_path / 'cards.apkg'}: in Anki, choose File > Import.")
    assert len(notes(tmp_path / "cards.apkg")[0]) == len(RING.cards) + len(DDP.cards)


def test_anki_itself_takes_it_in_and_brings_its_notes_up_to_date(tmp_path):
    pytest.importorskip("anki")
    from anki.collection import Collection, ImportAnkiPackageOptions, ImportAnkiPackageRequest

    collection = Collection(str(tmp_path / "collection.anki2"))
    whole = loading.load()
    try:
        for at, later in ((AT, "Front of one?"), (AT + timedelta(hours=1), "Another text?")):
            path = tmp_path / "cards.apkg"
            anki.write(known(later), path, at)
            request = ImportAnkiPackageRequest(package_path=str(path), options=ImportAnkiPackageOptions())
            log = collection.import_anki_package(request).log
            new, updated = len(log.new), len(log.updated)
            assert (new, updated) == ((6, 0) if at == AT else (0, 6))
        (note,) = collection.find_notes("tag:level::beginner Item:ring/one")
        assert collection.get_note(note)["Front"] == "<p>Another text?</p>"
        assert [deck.name for deck in collection.decks.all_names_and_ids() if "::" in deck.name] == [
            "ddpquiz::Collectives"
        ]
        card = collection.get_card(collection.find_cards("Item:ring/one")[0])
        assert "ddpquiz demo allreduce" in card.answer()
        anki.write(whole, path, AT + timedelta(hours=2))
        log = collection.import_anki_package(ImportAnkiPackageRequest(package_path=str(path))).log
        assert len(log.new) == len(whole.cards())
        shown = [collection.get_card(card).answer() for card in collection.find_cards("tag:ddpquiz")]
        assert not any("{{" in each and "{{Front" in each for each in shown)
    finally:
        collection.close()
