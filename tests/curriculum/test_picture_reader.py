"""Pictures of lessons: a lesson names one that exists, every file is named, and none holds more than shapes and words."""

import pytest
from ring_file import changed, complaints, read

from ddpquiz.curriculum import pack_store
from ddpquiz.curriculum.pictures import faults
from ddpquiz.errors import ContentError

SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 360 40" role="img">
  <title>A ring</title>
  <desc>Four ranks.</desc>
  <rect class="rank-0" x="0" y="0" width="90" height="20" rx="3"/>
  <text class="middle" x="45" y="14">rank 0</text>
</svg>
"""
ADDED = ("lesson: |", "picture: ring\nlesson: |")


@pytest.fixture
def picture(place):
    """A picture beside the content in the working directory."""
    folder = place.parents[1] / "pictures"
    folder.mkdir()
    file = folder / "ring.svg"
    file.write_text(SVG)
    return file


def test_a_lesson_names_a_picture_that_exists(place, picture):
    place.write_text(changed(ADDED))
    assert complaints() == []
    assert read(changed(ADDED)).concept.steps[0].picture == "ring"
    place.write_text(changed(("lesson: |", "picture: rng\nlesson: |")))
    assert complaints() == [
        "6:10: there is no picture `rng` in pictures/; did you mean `ring`?",
        "content/pictures/ring.svg:1:1: no lesson has `picture: ring`; add it to one, or remove the file",
    ]


def test_a_picture_that_no_lesson_names_is_reported(place, picture):
    assert complaints() == [
        "content/pictures/ring.svg:1:1: no lesson has `picture: ring`; add it to one, or remove the file"
    ]


def test_a_lesson_of_a_pack_that_names_a_picture_is_told_that_packs_have_none(mine):
    concept = mine / "content" / "basics" / "first-concept.yaml"
    concept.write_text(concept.read_text().replace("    ask: ", "    picture: ring\n    ask: ", 1))
    with pytest.raises(
        ContentError, match=r":\d+:14: `picture`: only lessons that come with ddpquiz have pictures; rem"
    ):
        pack_store.add_pack(mine)


FAULTY = {
    "another root": ('role="img"', 'role="list"', [(1, 1, 'a picture begins with `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 360 ..." role="img">`')]),
    "no title": ("<title>A ring</title>", "", [(1, 1, "`<title>` is missing or empty; say in words what is shown")]),
    "an empty description": ("Four ranks.", " ", [(1, 1, "`<desc>` is missing or empty; say in words what is shown")]),
    "a color": ('class="rank-0"', 'fill="black"', [(4, 3, "`fill` is not allowed here; a class of ddpquiz/web/pictures.css gives it its look")]),
    "a style": ('class="rank-0"', 'style="fill: #fff"', [(4, 3, "`style` is not allowed here; a class of ddpquiz/web/pictures.css gives it its look")]),
    "a script": ("</svg>", "<script>alert(1)</script></svg>", [(6, 1, "`<script>` is not allowed; a picture consists of svg, title, desc, rect, path, text")]),
    "a file of others": ("</svg>", '<image href="https://example.org/x.png"/></svg>', [(6, 1, "`<image>` is not allowed; a picture consists of svg, title, desc, rect, path, text")]),
    "a handler": ("<text ", '<text onclick="x()" ', [(5, 3, "`onclick` is not allowed here; a class of ddpquiz/web/pictures.css gives it its look")]),
    "an entity": ("<svg", '<!DOCTYPE svg [<!ENTITY a "b">]>\n<svg', [(1, 15, "a picture has no DOCTYPE")]),
    "an element that is never closed": ("</text>", "", [(6, 3, "not valid XML: mismatched tag")]),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTY)
def test_a_picture_holds_shapes_and_words_only(tmp_path, name):
    old, new, expected = FAULTY[name]
    assert old in SVG
    (tmp_path / "x.svg").write_text(SVG.replace(old, new, 1))
    assert faults(tmp_path / "x.svg") == expected


def test_a_faulty_picture_is_reported_with_its_place(place, picture):
    place.write_text(changed(ADDED))
    picture.write_text(SVG.replace("<desc>", "<desc>&"))
    assert complaints() == ["content/pictures/ring.svg:3:14: not valid XML: not well-formed (invalid token)"]
