"""The names and titles of the labs, read without parsing their files, so that lists stay fast."""

import re
from dataclasses import dataclass
from pathlib import Path

from ddpquiz.errors import UserError
from ddpquiz.paths import labs_dir

_KEY = re.compile(r"^(title|concept|minutes): *[\"']?(.*?)[\"']? *(?: #.*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LabTitle:
    """A lab as a list names it."""

    id: str
    concept: str
    title: str
    minutes: int


def lab_titles(root: Path | None = None) -> list[LabTitle]:
    """Return every lab of a folder, by default of the shipped one; an incomplete installation has none."""
    try:
        files = sorted((root or labs_dir()).glob("*/lab.yaml"))
    except UserError:
        return []
    found = []
    for file in files:
        keys = dict(_KEY.findall(file.read_text("utf-8", errors="replace")))
        minutes = keys.get("minutes", "")
        name = file.parent.name.replace("_", "-")
        found.append(
            LabTitle(name, keys.get("concept", ""), keys.get("title", name), int(minutes) if minutes.isdecimal() else 0)
        )
    return found


def labs_about(concept: str) -> list[LabTitle]:
    """Return the shipped labs that belong to a concept."""
    return [lab for lab in lab_titles() if lab.concept == concept]
