"""The names that the shell completes. They are found without parsing files, which would make each Tab slow."""

import re

from ddpquiz.errors import UserError
from ddpquiz.paths import content_dir, demos_dir

_ID = re.compile(r"^\s*-\s+\{?\s*id:\s*([\w-]+)", re.MULTILINE)


def concepts(incomplete: str) -> list[str]:
    """Complete the name of a concept."""
    try:
        files = content_dir().glob("*/*.yaml")
    except UserError:
        return []
    return sorted(file.stem for file in files if file.stem.startswith(incomplete))


def tracks(incomplete: str) -> list[str]:
    """Complete the name of a track."""
    try:
        files = content_dir().glob("*/*.yaml")
    except UserError:
        return []
    return sorted({file.parent.name for file in files if file.parent.name.startswith(incomplete)})


def demos(incomplete: str) -> list[str]:
    """Complete the name of a demo."""
    try:
        files = demos_dir().glob("[a-z]*.py")
    except UserError:
        return []
    return sorted(file.stem for file in files if file.stem.startswith(incomplete))


def items(incomplete: str) -> list[str]:
    """Complete the name of an item, which is concept/id."""
    concept, slash, _ = incomplete.partition("/")
    names: list[str] = []
    for name in concepts(concept):
        if slash and name != concept:
            continue
        for file in content_dir().glob(f"*/{name}.yaml"):
            names += [f"{name}/{found}" for found in _ID.findall(file.read_text(encoding="utf-8"))]
    return [name for name in names if name.startswith(incomplete)]
