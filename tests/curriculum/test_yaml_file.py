"""YAML as content files may have it: what else a file holds is refused with its line and column."""

import os
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from ring_file import RING, VALID, changed, complaints, read

from ddpquiz.curriculum.concept_reader import read_concept
from ddpquiz.curriculum.yaml_file import LARGEST

# What is wrong: the valid text, what stands there instead, and every complaint
CASES = {
    "a repeated key": (
        "needs: []\n",
        "needs: []\ntitle: again\n",
        "3:1: repeated key `title`; it was first used in line 1",
    ),
    "a tag": (
        "title: All-reduce",
        "title: !!python/name:os.system All-reduce",
        "1:8: the tag `!!python/name:os.system` is not allowed; quote text that begins with !",
    ),
    "an anchor and its alias": (
        "title: All-reduce and the ring\nneeds: []\nidea: In a ring every rank sends each byte about twice, however many ranks there are.",
        "title: &t All-reduce\nneeds: []\nidea: *t",
        "1:8: `&t` and `*t` are not allowed; write the value out",
        "3:7: `&t` and `*t` are not allowed; write the value out",
    ),
    "a text that begins with *": (
        "title: All-reduce and the ring",
        "title: *bold* claim",
        "1:13: not valid YAML: did not find expected alphabetic or numeric character; text that begins with * or & must be quoted",
    ),
    "a text with a colon": (
        "title: All-reduce and the ring",
        "title: All-reduce: the ring",
        "1:18: not valid YAML: mapping values are not allowed in this context; text that contains `: ` must be quoted, or written under `|`; or this line is not indented as those around it",
    ),
    "a text that begins with a backtick": (
        "title: All-reduce and the ring",
        "title: `ring`",
        "1:8: not valid YAML: found character that cannot start any token; text that begins with one of ` @ % must be quoted",
    ),
    "a quote that is never closed": (
        "title: All-reduce and the ring",
        "title: 'ring",
        "93:67: not valid YAML: did not find expected key; the indentation is wrong here, or text follows a closing quotation mark",
    ),
    "a text that goes on after its quote": (
        "title: All-reduce and the ring",
        'title: "ring" and more',
        "1:15: not valid YAML: did not find expected key; the indentation is wrong here, or text follows a closing quotation mark",
    ),
    "a bracket that is never closed": (
        "needs: []",
        "needs: [a",
        "2:8: not valid YAML: did not find expected ',' or ']'; this `[` is not closed, or a text in it contains , or ] and must be quoted",
    ),
    "a line that is indented too little": (
        "  A ring has no root.",
        " A ring has no root.",
        "11:2: not valid YAML: did not find expected key; the indentation is wrong here, or text follows a closing quotation mark",
    ),
    "a tab": ("      bytes sent: 1800", "\tbytes sent: 1800", '25:1: a tab; write spaces, or "\\t" in a quoted text'),
    "an escape character": (
        "title: All-reduce",
        "title: \x1b[31mAll-reduce",
        "1:8: a control character (U+001B); remove it",
    ),
    "an escape sequence in quotes": (
        "title: All-reduce and the ring",
        'title: "\\e[31mred"',
        "1:8: `title`: a control character (U+001B); remove it",
    ),
    "a character that turns the line around": (
        "title: All-reduce",
        "title: All\u202e-reduce",
        "1:11: a control character (U+202E); remove it",
    ),
    "two documents": (
        "explain:\n",
        "---\nexplain:\n",
        "228:1: not valid YAML: but found another document; a file holds one document; remove the line `---`",
    ),
    "a key that is a list": ("needs: []", "? [a]\n: b\nneeds: []", "2:3: a concept: a key must be text"),
    "a NUL byte": ("title: All-reduce", "title: \x00All", "1:8: a NUL byte; this is not a text file"),
    "folded code": (
        "    code: |\n      x = torch.tensor([1.0",
        "    code: >\n      x = torch.tensor([1.0",
        "197:11: `code`: `>` would join its lines; write `|`",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_reported_with_its_place(place, name):
    old, new, *expected = CASES[name]
    place.write_text(changed((old, new)), "utf-8")
    assert complaints() == expected


def test_scalars_stay_the_texts_that_they_are():
    lines = "every rank brings a tensor", "they are combined", "every rank gets the result"
    text = VALID
    for line, scalar in zip(lines, ("no", "1.0", "2024-01-01"), strict=True):
        text = text.replace(f"      - {line}\n", f"      - {scalar}\n")
    assert read(text).concept.explain[1].points == ("no", "1.0", "2024-01-01")


def test_points_in_the_form_of_version_0_1_are_read_without_their_words():
    text = VALID.replace("- they are combined\n", "- {say: they are combined, words: [sum, reduce]}\n")
    assert read(text).concept.explain == read(VALID).concept.explain
    assert read(text.replace("{say: they", "{sy: they")).page.complaints != []


FILES = {
    "empty": (b"", "1:1: the file is empty"),
    "only a comment": (b"# nothing\n", "1:1: the file is empty"),
    "a text": (b"hello\n", "1:1: a concept: expected a mapping, got text"),
    "a list": (b"- a\n", "1:1: a concept: expected a mapping, got a list"),
    "not UTF-8": (b"title: ring\nidea: na\xefve\n", "2:9: byte 20 is 0xef, which is not UTF-8; save the file as UTF-8"),
    "UTF-16": ("title: a".encode("utf-16"), "1:1: byte 0 is 0xff, which is not UTF-8; save the file as UTF-8"),
    "UTF-16 without a mark": ("title: a".encode("utf-16-le"), "1:2: a NUL byte; this is not a text file"),
    "a program": (b"\x7fELF\x02\x01", "1:1: a control character (U+007F); remove it"),
    "deep lists": (b"a: " + b"[" * 200_000, "1:33: nested more than 30 deep"),
    "deep dashes": (b"- " * 200_000, "1:61: nested more than 30 deep"),
    "laughs": (b"a: &a [x]\nb: [*a, *a]\n", "1:4: `&a` and `*a` are not allowed; write the value out"),
    "too large": (b"#" * (LARGEST + 1), "1:1: larger than 1,000,000 bytes; split it"),
    "a bad alias": (b"a: *b\n", "1:4: not valid YAML: found undefined alias; text that begins with * must be quoted"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_content_is_refused_with_one_line(place, name):
    data, expected = FILES[name]
    place.write_bytes(data)
    assert complaints()[0] == expected


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(place):
    place.write_bytes(b"\xef\xbb\xbf" + VALID.replace("\n", "\r\n").encode())
    assert complaints() == []
    assert read_concept(place).concept == read_concept(RING).concept


def test_a_missing_file_is_one_line():
    assert complaints(Path("nowhere.yaml")) == ["nowhere.yaml:1:1: there is no such file or folder"]


def test_a_path_that_is_too_long_is_one_line():
    assert complaints(Path("a" * 300)) == [f"{'a' * 300}:1:1: cannot be read: file name too long"]


def test_a_folder_in_the_place_of_a_file_is_one_line(place):
    place.unlink()
    place.mkdir()
    assert complaints() == ["1:1: this is a folder, not a file"]


def test_a_loop_of_symbolic_links_is_one_line(place):
    place.unlink()
    place.symlink_to(place)
    assert complaints() == ["1:1: cannot be read: too many levels of symbolic links"]


def test_a_pipe_is_not_waited_for(place):
    place.unlink()
    os.mkfifo(place)
    assert complaints() == ["1:1: cannot be read: not a regular file"]


def test_a_name_with_a_nul_is_one_line():
    assert complaints(Path("a\0b.yaml")) == ["a\ufffdb.yaml:1:1: cannot be read: embedded null byte"]


def test_a_file_that_may_not_be_read_is_one_line(place, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert complaints()[0] == snapshot("1:1: you have no permission to read this file")


def test_escapes_in_a_key_do_not_reach_the_terminal(place):
    place.write_text('"\\e[31m": x\n' + VALID, "utf-8")
    assert complaints() == ["1:1: unknown key `\ufffd[31m`"]
