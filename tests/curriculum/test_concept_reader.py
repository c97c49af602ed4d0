"""The reader: what fits becomes data, and what does not is named with its line and column."""

import difflib
import re
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from ring_file import RING, VALID, changed, complaints

from ddpquiz.curriculum.concept import Level
from ddpquiz.curriculum.concept_reader import concept_of, read_concept
from ddpquiz.curriculum.survey import survey
from ddpquiz.curriculum.yaml_file import YamlFile

MODEL_ANSWER = """\
      Every rank brings a tensor of the same shape. The tensors are combined element by element, usually by a sum, and
      afterwards every rank holds the same result. It is what a reduce to one rank and then a broadcast to all ranks
      would do, without the root between them.
"""

# What is wrong: the valid text, what stands there instead, and every complaint
CASES = {
    "a key that is misspelt": ("idea: In", "ideal: In", "3:1: unknown key `ideal`; did you mean `idea`?"),
    "a key like no other": ("remember:\n", "zebra: x\nremember:\n", "33:1: unknown key `zebra`"),
    "a comma in a text in braces": (
        "back: Twice the tensor.,",
        "back: Twice, never more,",
        "49:98: unknown key `never more`; a text in { } with a comma must be quoted",
    ),
    "a comma in a text in brackets": (
        "hints: [There are two phases.]",
        "hints: [There are two, one after the other.]",
        "59:28: `hints`: in [ ], a text with a comma must be quoted; this one begins with a small letter",
    ),
    "a key that is missing": (
        "idea: In a ring every rank sends each byte about twice, however many ranks there are.\n",
        "",
        "1:1: missing key `idea`",
    ),
    "empty text": ("title: All-reduce and the ring", "title:", "1:7: `title` is empty"),
    "blank text": ("title: All-reduce and the ring", 'title: "  "', "1:8: `title` is empty"),
    "text for list": ("needs: []", "needs: none", "2:8: `needs`: expected a list, got text"),
    "list for text": (
        "title: All-reduce and the ring",
        "title: [a, b]",
        "1:8: `title`: expected text, got a list; quote it if it is text",
    ),
    "mapping for text": (
        "title: All-reduce and the ring",
        "title: {a: b}",
        "1:8: `title`: expected text, got a mapping; quote it if it is text",
    ),
    "text for mapping": (
        "flags: {--nproc-per-node: ranks to start on this machine}",
        "flags: none",
        "23:12: `flags`: expected a mapping, got text",
    ),
    "card is text": (
        "  - {id: limit, level: advanced, front: What does a rank send for very many ranks?, back: Twice the tensor., source: dist}",
        "  - limit",
        "49:5: a card: expected a mapping, got text",
    ),
    "a level that is misspelt": (
        "level: beginner, front: Who holds the result of an",
        "level: beginer, front: Who holds the result of an",
        "44:36: `level`: `beginer` is not one of beginner, intermediate, advanced; did you mean `beginner`?",
    ),
    "a level of another scale": (
        "level: beginner, front: Who holds the result of an",
        "level: easy, front: Who holds the result of an",
        "44:36: `level`: `easy` is not one of beginner, intermediate, advanced",
    ),
    "a flag that is no flag": (
        'right: true, shows: "10.0"',
        'right: yes, shows: "10.0"',
        "68:32: `right`: expected true or false, got `yes`",
    ),
    "an id with capitals": (
        "id: limit",
        "id: Limit_1",
        "49:10: `id`: `Limit_1` is not a name; use a-z, 0-9 and -, and start with a letter or digit",
    ),
    "an id that is taken": ("id: limit", "id: ring-bytes", "51:9: the id `ring-bytes` is already used in line 49"),
    "a back of 41 words": (
        "back: Every rank.",
        "back: word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word",
        "44:99: `back`: 41 words; at most 40 are allowed, for one fact",
    ),
    "five cards": (
        "  - {id: limit, level: advanced, front: What does a rank send for very many ranks?, back: Twice the tensor., source: dist}\n",
        "",
        "44:3: `cards`: expected 6 to 12 entries, got 5",
    ),
    "one mistake": (
        "  - do: Call all_reduce on rank 0 only.\n    happens: Rank 0 waits for the others.\n    instead: Call a collective on every rank of its group.\n",
        "",
        "27:3: `mistakes`: expected 2 to 9 entries, got 1",
    ),
    "two lines to remember": (
        "  - two phases of N - 1 steps\n",
        "",
        "34:3: `remember`: expected 3 to 6 entries, got 2",
    ),
    "no demos": (
        'demos:\n  - run: ring\n    args: [--size, "1200"]\n    ranks: 4\n    predict: ring-bytes\n    look: every rank sends the same\n',
        "demos: []\n",
        "37:8: `demos`: the list is empty",
    ),
    "a prediction of no question": (
        "predict: ring-bytes",
        "predict: ring-byts",
        "41:14: `predict`: `ring-byts` is not a question of this file; did you mean `ring-bytes`?",
    ),
    "a card that does not exist": (
        "  - id: ring-bytes\n",
        "  - id: ring-bytes\n    card: limits\n",
        "52:11: `card`: `limits` is not a card of this file; did you mean `limit`?",
    ),
    "a prediction without ranks": (
        "    ranks: 4\n    predict",
        "    predict",
        "40:14: `predict`: it needs `ranks`, the number of ranks that the prediction is about",
    ),
    "a demo with too many ranks": (
        "    ranks: 4\n    predict",
        "    ranks: 99\n    predict",
        "40:12: `ranks`: expected a whole number from 1 to 16, got `99`",
    ),
    "two points": (
        "      - they are combined\n",
        "",
        "248:7: `points`: expected 3 to 5 points, got 2",
    ),
    "a model answer of a few words": (
        MODEL_ANSWER,
        "      Every rank gets the sum.\n",
        "243:13: `answer`: expected 40 to 120 words, got 5",
    ),
    "a prompt without a model answer": (
        f"    answer: >\n{MODEL_ANSWER}",
        "",
        "240:5: missing key `answer`",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_reported_with_its_place(place, name):
    old, new, *expected = CASES[name]
    place.write_text(changed((old, new)), "utf-8")
    assert complaints() == expected


def test_what_fits_is_accepted_without_a_complaint(place):
    assert complaints() == []


def test_every_level_is_needed(place):
    place.write_text(VALID.replace("level: easy", "level: medium"), "utf-8")
    assert complaints() == ["51:3: `questions`: no question is easy; a concept needs all three levels"]


def test_four_kinds_are_needed(place):
    text = VALID.replace("level: easy\n    kind: choices", "level: easy\n    kind: chioces")
    place.write_text(re.sub(r"    kind: (number|order)\n", "    kind: output\n", text), "utf-8")
    assert "51:3: `questions`: only 2 kinds (choice, output); a concept needs at least 4" in complaints()


def test_all_complaints_come_at_once_in_the_order_of_the_file(place):
    text = changed(
        ("idea: In", "ideal: In"),
        ("level: beginner, front: Who holds the result of an", "level: beginer, front: Who holds the result of an"),
        ('text: "2,400 bytes", shows', 'text: "1,200 bytes", shows'),
        ("vars: {n: [3, 4, 8], s: [1200, 2400]}", "vars: {n: [2, 4, 8], s: [1200, 2400]}"),
        ("      dist.all_reduce(x)\n      print(x.tolist())", "      dist.all_reduce(x\n      print(x.tolist())"),
        ("      - they are combined\n", ""),
        ("source: dist}\nquestions", "source: dst}\nquestions"),
    )
    place.write_text(text, "utf-8")
    assert [complaint.split(":")[0] for complaint in complaints()] == ["3", "44", "49", "57", "135", "199", "248"]


def test_a_quick_reading_leaves_out_what_takes_long(place):
    text = changed(
        ("vars: {n: [3, 4, 8], s: [1200, 2400]}", "vars: {n: [2, 4, 8], s: [1200, 2400]}"),
        ("      dist.all_reduce(x)\n      print(x.tolist())", "      dist.all_reduce(x\n      print(x.tolist())"),
        ('    args: [--size, "1200"]\n    ranks: 4\n', "    args: [--sise=3, -v]\n    ranks: 4\n"),
        ("label: bytes sent}\n  - id: sum", "label: bytes got}\n  - id: sum"),
    )
    place.write_text(text, "utf-8")
    assert survey(Path("content")).complaints == ()
    assert len(complaints()) == 4


def test_a_concept_is_read_whole():
    concept = read_concept(RING, thorough=True).concept
    assert (concept.id, concept.track, concept.title) == ("ring", "collectives", "All-reduce and the ring")
    assert concept.commands[0].flags == {"--nproc-per-node": "ranks to start on this machine"}
    assert concept.commands[0].prints == "bytes sent: 1800"
    assert concept.mistakes[1].instead == snapshot("Call a collective on every rank of its group.")
    assert (concept.demos[0].args, concept.demos[0].ranks) == (("--size", "1200"), 4)
    assert concept.cards[5].key == "ring/limit"
    assert concept.cards[5].level is Level.HARD
    assert concept.explain[0].points[1] == "a ring uses every link"
    assert len(concept.items()) == 6 + 10 + 2


def test_a_list_without_end_is_refused_and_not_looked_at(place):
    place.write_text(VALID.replace("needs: []", f"needs: [{'a, ' * 201}]"), "utf-8")
    assert "2:8: `needs`: 201 entries; 200 at most" in complaints()


def test_of_very_many_unknown_keys_only_the_first_are_compared_with_known_ones(monkeypatch):
    compared = []
    real = difflib.get_close_matches
    monkeypatch.setattr(difflib, "get_close_matches", lambda *words: compared.append(1) or real(*words))
    text = "".join(f"key{number}: x\n" for number in range(60_000)) + "title: A title\n"
    page = YamlFile("many.yaml", text.encode())
    assert concept_of(page, "many", "track").concept is None
    assert len(compared) < 100
    found = [complaint.text for complaint in page.complaints if "unknown" in complaint.text]
    assert found[:2] == ["unknown key `key0`", "unknown key `key1`"]
    assert (len(found), found[-1]) == (21, "59,980 more unknown keys")


def test_a_code_block_that_is_never_closed_is_found(place):
    place.write_text(VALID.replace("rank 0\n  ```", "rank 0\n"), "utf-8")
    assert "6:9: `lesson`: a code block is never closed" in complaints()


def test_a_bad_file_name_is_refused(place):
    place.rename(place.with_name("Ring.yaml"))
    assert "content/collectives/Ring.yaml:1:1: the file name `Ring` must consist of a-z, 0-9 and -" in complaints()
