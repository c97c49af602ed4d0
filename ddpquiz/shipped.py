"""Where the shipped content and demos lie, in a checkout and in a wheel."""

from pathlib import Path

from ddpquiz.errors import UserError

_HERE = Path(__file__).parent


def content_dir() -> Path:
    """Return the folder of the shipped content."""
    return _find("content")


def demos_dir() -> Path:
    """Return the folder of the shipped demos."""
    return _find("demos")


def recordings_dir() -> Path:
    """Return the folder of the saved runs of the shipped demos."""
    return _HERE / "recordings"


def _find(name: str) -> Path:
    for folder in (_HERE / name, _HERE.parent / name):  # a wheel keeps them beside this file, a checkout one folder up
        if folder.is_dir():
            return folder
    raise UserError(f"The folder {name}/ that belongs to ddpquiz is missing; install ddpquiz again.")
