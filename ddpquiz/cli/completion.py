"""The names that the shell completes. Files are not parsed, because that would make each Tab slow."""

import re
from collections.abc import Callable
from pathlib import Path

from ddpquiz.curriculum.concept import Level
from ddpquiz.errors import UserError
from ddpquiz.paths import content_dir, demos_dir, labs_dir, packs_dir

_ID = re.compile(r"^\s*-\s+\{?\s*id:\s*([\w-]+)", re.MULTILINE)


def concepts(incomplete: str) -> list[str]:
    """Complete the name of a concept."""
    shipped = [file.stem for file in _files(content_dir, "*/*.yaml") if _is_concept(file)]
    added = [f"{file.parts[-4]}/{file.stem}" for file in _files(packs_dir, "*/content/*/*.yaml")]
    return _starting(incomplete, [*shipped, *added])


def tracks(incomplete: str) -> list[str]:
    """Complete the name of a track."""
    return _starting(incomplete, [file.parent.name for file in _files(content_dir, "*/*.yaml") if _is_concept(file)])


def levels(incomplete: str) -> list[str]:
    """Complete a level of cards and questions, in their order."""
    return [str(level) for level in Level if level.startswith(incomplete)]


def models(incomplete: str) -> list[str]:
    """Complete the name of a model for `plan`."""
    return _starting(incomplete, [file.stem for file in _files(content_dir, "models/*.yaml")])


def hardware(incomplete: str) -> list[str]:
    """Complete the name of hardware for `plan`."""
    return _starting(incomplete, [file.stem for file in _files(content_dir, "hardware/*.yaml")])


def demos(incomplete: str) -> list[str]:
    """Complete the name of a demo."""
    added = [f"{file.parts[-3]}/{file.stem}" for file in _files(packs_dir, "*/demos/[a-z]*.py")]
    return _starting(incomplete, [*(file.stem for file in _files(demos_dir, "[a-z]*.py")), *added])


def packs(incomplete: str) -> list[str]:
    """Complete the name of a pack that was added."""
    return _starting(incomplete, [folder.name for folder in _files(packs_dir, "[a-z0-9]*")])


def labs(incomplete: str) -> list[str]:
    """Complete the name of a lab."""
    shipped = [_lab(file) for file in _files(labs_dir, "*/lab.yaml")]
    added = [f"{file.parts[-4]}/{_lab(file)}" for file in _files(packs_dir, "*/labs/*/lab.yaml")]
    return _starting(incomplete, [*shipped, *added])


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


def _files(folder: Callable[[], Path], pattern: str) -> list[Path]:
    """The files in a folder that match a pattern; an incomplete installation has none."""
    try:
        return list(folder().glob(pattern))
    except UserError:
        return []


def _lab(file: Path) -> str:
    return file.parent.name.replace("_", "-")


def _is_concept(file: Path) -> bool:
    return file.parent.name not in {"models", "hardware"}


def _starting(incomplete: str, names: list[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})
