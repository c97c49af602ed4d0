"""The content file that fits, changed in one place, and what the survey says of it."""

from pathlib import Path

from places import DATA

from ddpquiz.curriculum.concept_reader import concept_of
from ddpquiz.curriculum.survey import survey
from ddpquiz.curriculum.yaml_file import YamlFile

RING = DATA / "content" / "collectives" / "ring.yaml"
VALID = RING.read_text("utf-8")


def changed(*edits):
    """The text of the file that fits after edits, each a pair of old and new text."""
    text = VALID
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def complaints(folder=Path("content")):
    found = survey(folder, thorough=True).complaints
    return [str(complaint).removeprefix("content/collectives/ring.yaml:") for complaint in found]


def read(text):
    return concept_of(YamlFile("ring.yaml", text.encode(), thorough=True), "ring", "collectives")
