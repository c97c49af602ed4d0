"""What a concept names must exist: other concepts, sources, demos, their flags and their labels."""

from pathlib import Path

import pytest
from ring_file import changed, complaints

# What is wrong: the valid text, what stands there instead, and every complaint
CASES = {
    "a need that is not there": (
        "needs: []",
        "needs: [rong]",
        "2:9: `needs`: there is no concept `rong`; did you mean `ring`?",
    ),
    "a need of itself": ("needs: []", "needs: [ring]", "2:9: `needs`: `ring` needs itself"),
    "a source that is not there": (
        "source: dist}\nquestions",
        "source: dst}\nquestions",
        "49:118: there is no source `dst` in sources.yaml; did you mean `dist`?",
    ),
    "an earlier key that is none": (
        "{id: phases, ",
        "{id: phases, was: [ring/Old, ring/old], ",
        "46:24: `was`: `ring/Old` is not the name of an item, concept/id",
    ),
    "an earlier key of an item that still exists": (
        "{id: phases, ",
        "{id: phases, was: [ring/chunk], ",
        "46:24: `was`: the item `ring/chunk` still exists",
    ),
    "an earlier key that is named twice": (
        "  - id: ring-bytes\n",
        "  - id: ring-bytes\n    was: [a/b, a/b]\n",
        "52:16: `was`: `a/b` already became `ring/ring-bytes`",
    ),
    "a demo that is not there": (
        "  - run: ring\n",
        "  - run: rings\n",
        "38:10: there is no demo `rings` in demos/; did you mean `ring`?",
    ),
    "a flag that the demo does not take": (
        '    args: [--size, "1200"]\n    ranks: 4\n',
        "    args: [--sise=3, -v]\n    ranks: 4\n",
        "39:11: `args`: the demo `ring` has no `--sise`; did you mean `--size`?",
    ),
    "a label that the demo does not print": (
        "label: bytes sent}\n  - id: sum",
        "label: bytes got}\n  - id: sum",
        "62:66: `label`: the demo `ring` does not print `bytes got`",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_reported_with_its_place(place, name):
    old, new, *expected = CASES[name]
    place.write_text(changed((old, new)), "utf-8")
    assert complaints() == expected


def test_a_label_may_be_filled_in_by_the_demo(place):
    demo = Path("demos/ring.py")
    demo.write_text(demo.read_text() + 'for way in ("ring", "root"):\n    print(f"bytes ({way}): {size}")\n')
    text = place.read_text().replace("label: bytes sent}\n  - id: sum", "label: bytes (ring)}\n  - id: sum")
    place.write_text(text)
    assert complaints() == []
    place.write_text(text.replace("label: bytes (ring)", "label: steps (ring)"))
    assert complaints() == ["62:66: `label`: the demo `ring` does not print `steps (ring)`"]
