"""Folders: the shipped content, demos and labs, the learner's data, and the cache; and how a file is put aside."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path

from ddpquiz.errors import UserError

PROGRESS = "progress.db"  # the file in the data folder with what a learner did


def data_dir() -> Path:
    """The folder of the learner's data: DDPQUIZ_HOME, or the data folder of this system."""
    if home := _named():
        return home
    from platformdirs import user_data_path

    return _below_home(user_data_path)


def cache_dir() -> Path:
    """The folder for cached files: under DDPQUIZ_HOME, or the cache folder of this system."""
    if home := _named():
        return home / "cache"
    from platformdirs import user_cache_path

    return _below_home(user_cache_path)


def _named() -> Path | None:
    """The folder that DDPQUIZ_HOME names, or None if it is not set. UserError for `~name` of an unknown user."""
    if not (home := os.environ.get("DDPQUIZ_HOME")):
        return None
    try:
        return Path(home).expanduser()
    except RuntimeError:
        raise UserError(f"DDPQUIZ_HOME is {home}, but there is no user of that name here.") from None


def _below_home(find: Callable[[str], Path]) -> Path:
    try:
        found = find("ddpquiz")
    except RuntimeError:  # HOME is not set, and the system does not know this user, as in some containers
        found = Path()
    if not found.is_absolute():
        raise UserError("HOME is not set, so there is no folder for your progress; set DDPQUIZ_HOME to one.")
    return found


_HERE = Path(__file__).parent


def content_dir() -> Path:
    """The folder of the shipped content."""
    return _find("content")


def packed_content() -> Path:
    """The file with the shipped content in the form that loads fast. Only a wheel has it."""
    return _HERE / "content.marshal"


def demos_dir() -> Path:
    """The folder of the shipped demos."""
    return _find("demos")


def packs_dir() -> Path:
    """The folder with the learner's packs, each in a folder of its name; it need not exist."""
    return data_dir() / "packs"


def has_packs() -> bool:
    """Whether that folder exists; False also if the data folder cannot be looked at."""
    return os.path.isdir(packs_dir())  # noqa: PTH112  # Path.is_dir raises if a name is too long


def pack_of(file: Path) -> str:
    """The name of the pack in which a file lies, or ""."""
    home, file = (
        Path(os.path.realpath(path)) for path in (packs_dir(), file)
    )  # Path.resolve raises for loops of links
    return next(iter(file.relative_to(home).parts), "") if file.is_relative_to(home) else ""


def demo_file(name: str, demos: Path | None = None) -> Path:
    """The script of a demo: `pack/demo` in its pack, another one in `demos` or among the shipped ones."""
    pack, is_of_pack, demo = name.rpartition("/")
    folder = packs_dir() / Path(pack).name / "demos" if is_of_pack else demos or demos_dir()
    return folder / f"{demo}.py"


def demo_name(script: Path) -> str:
    """The name by which a demo is run: `pack/demo` if its script lies in a pack; the inverse of `demo_file`."""
    pack = pack_of(script)
    return f"{pack}/{script.stem}" if pack else script.stem


def labs_dir() -> Path:
    """The folder of the shipped labs."""
    return _find("labs")


def own_labs_dir() -> Path:
    """The folder of the learner's own files for the labs: the one that DDPQUIZ_LABS names, or the usual one.

    That is `ddpquiz-labs` in the current folder if it exists or there is no home folder, else in the home folder, so
    that a lab which was begun is found again wherever ddpquiz starts. Who names a DDPQUIZ_HOME has them there.
    """
    named, here = os.environ.get("DDPQUIZ_LABS"), Path("ddpquiz-labs")
    if named or here.is_dir():
        return Path(named) if named else here
    if home := _named():
        return home / "labs"
    try:
        return Path.home() / here
    except RuntimeError:  # HOME is not set, and the system does not know this user, as in some containers
        return here


def recordings_dir() -> Path:
    """The folder of the saved runs of the shipped demos."""
    return _HERE / "recordings"


def _find(name: str) -> Path:
    for folder in (_HERE / name, _HERE.parent / name):  # beside this file in a wheel, one folder up in a checkout
        if folder.is_dir():
            return folder
    raise UserError(f"The folder {name}/ of ddpquiz is missing; install ddpquiz again.")


def put_aside(file: Path) -> Path:
    """Rename a file to the first free one of `name_1.py`, `name_2.py` ..., and return that. UserError if it fails."""
    beside = (file.with_stem(f"{file.stem}_{number}") for number in itertools.count(1))
    aside = next(each for each in beside if not os.path.lexists(each))
    try:
        file.rename(aside)
    except OSError as wrong:
        raise UserError(f"{file} cannot be renamed: {wrong.strerror}.") from None
    return aside
