"""The names and titles of the labs, read without parsing their files, so that lists stay fast."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from ddpquiz.errors import UserError
from ddpquiz.paths import has_packs, labs_dir

_KEY = re.compile(r"^(title|concept|minutes): *[\"']?(.*?)[\"']? *(?: #.*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LabTitle:
    """A lab as a list names it."""

    id: str
    concept: str
    title: str
    minutes: int


def lab_titles(root: Path | None = None) -> list[LabTitle]:
    """Return every lab of a folder, by default the shipped ones and those of packs.

    An incomplete installation has none that are shipped.
    """
    if root is None:
        try:
            return [*lab_titles(labs_dir()), *_of_packs()]
        except UserError:
            return _of_packs()
    files = sorted(root.glob("*/lab.yaml"))
    found = []
    for file in files:
        keys = dict(_KEY.findall(file.read_text("utf-8", errors="replace")))
        minutes = keys.get("minutes", "")
        name = file.parent.name.replace("_", "-")
        found.append(
            LabTitle(name, keys.get("concept", ""), keys.get("title", name), int(minutes) if minutes.isdecimal() else 0)
        )
    return found


def _of_packs() -> list[LabTitle]:
    if not has_packs():
        return []
    from ddpquiz.curriculum.packs import packs

    return [
        replace(lab, id=f"{pack.name}/{lab.id}", concept=f"{pack.name}/{lab.concept}")
        for pack in packs()
        for concepts in [pack.concepts()]
        for lab in lab_titles(pack.labs)
        if lab.concept in concepts
    ]


def labs_about(concept: str) -> list[LabTitle]:
    """Return the labs that belong to a concept."""
    return [lab for lab in lab_titles() if lab.concept == concept]
