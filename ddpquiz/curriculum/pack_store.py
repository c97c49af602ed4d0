"""Add, remove and make packs, and find those that are installed as Python packages."""

import contextlib
import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ddpquiz.curriculum.labs import TOOLS, survey_labs_of_pack
from ddpquiz.curriculum.loading import load_pack, pack_copy
from ddpquiz.curriculum.pack_consent import withdraw
from ddpquiz.curriculum.pack_files import read_files, unpacked, write_files
from ddpquiz.curriculum.packs import LoadedPack, Pack, find, read_manifest
from ddpquiz.curriculum.survey import survey
from ddpquiz.curriculum.yaml_file import ID
from ddpquiz.errors import ContentError, UserError
from ddpquiz.paths import cache_dir, labs_dir, packs_dir

_GROUP = "ddpquiz.packs"  # of entry points: `name = "module.with.the.folder"`
_TEMPLATE = Path(__file__).parent / "pack_template"
_PATIENCE = 300  # seconds for git
_GIT = ("https://", "ssh://", "git://", "git@", "file://", "git+")


@contextlib.contextmanager
def fetched(source: str | Path) -> Iterator[Path]:
    """Yield the folder or wheel of a pack; a git repository is cloned, without running anything in it."""
    if isinstance(source, Path):
        yield source
        return
    if not source.startswith(_GIT):
        raise UserError(f"{source!a} is neither a folder, a wheel, a git address nor an installed pack.")
    with tempfile.TemporaryDirectory(prefix="ddpquiz-") as folder:
        address, target = source.removeprefix("git+"), Path(folder, "pack")
        command = [
            "git",
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "filter.lfs.smudge=",
            "-c",
            "filter.lfs.required=false",
        ]
        command += ["clone", "--quiet", "--depth", "1", "--no-recurse-submodules", "--", address, str(target)]
        quiet = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "https:ssh:git:file"}
        try:
            done = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False, timeout=_PATIENCE)
        except FileNotFoundError:
            raise UserError("git is not installed; give a folder or a wheel.") from None
        except subprocess.TimeoutExpired:
            raise UserError(
                f"git did not finish within {_PATIENCE} seconds; clone it yourself, and add the folder."
            ) from None
        if done.returncode:
            why = done.stderr.strip().splitlines()[-1:] or ["git failed"]
            raise UserError(f"{address!a} cannot be cloned: {ascii(why[0])[1:-1]}")
        yield target


def add_pack(source: Path) -> LoadedPack:
    """Copy the files of a pack into the data folder, in place of an earlier version. UserError if they do not fit."""
    files = read_files(source)
    with unpacked(files) as checked:
        name = _check(checked)
    pack = Pack(name, packs_dir() / name)
    try:
        packs_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=".", dir=packs_dir()))
        try:
            write_files(files, fresh)
            _put(fresh, pack)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as problem:
        raise UserError(f"{pack.folder} cannot be written: {problem.strerror}.") from None
    return load_pack(pack, files)


def remove_pack(name: str) -> None:
    """Delete the files of a pack, and the consent to run them. UserError if it was not added."""
    pack = find(name)
    try:
        withdraw(name)
        _delete(pack)
    except OSError as problem:
        raise UserError(f"{pack.folder} cannot be deleted: {problem.strerror}.") from None


def _check(folder: Path) -> str:
    """Check a pack as `ddpquiz check` does, and return its name. ContentError with every complaint."""
    name = read_manifest(folder).name
    complaints = (*survey(folder, thorough=True).complaints, *survey_labs_of_pack(folder)[1])
    if complaints:
        raise ContentError(complaints)
    return name


def _put(fresh: Path, pack: Pack) -> None:
    """Move a folder to where a pack belongs, also if others do the same at this moment: the last one wins."""
    while True:
        _delete(pack)
        try:
            fresh.rename(pack.folder)
        except OSError as problem:
            if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return


def _delete(pack: Pack) -> None:
    """Delete the folder of a pack, if there is one, at once and not file by file, and the copy of its catalog."""
    with tempfile.TemporaryDirectory(prefix=".", dir=packs_dir()) as aside, contextlib.suppress(FileNotFoundError):
        pack.folder.rename(Path(aside, pack.name))
    (cache_dir() / pack_copy(pack.name)).unlink(missing_ok=True)


def installed_packs() -> dict[str, Path]:
    """The folders of the packs in installed Python packages, by name, from metadata: nothing is imported."""
    from importlib.metadata import entry_points

    folders: dict[str, Path] = {}
    for entry in entry_points(group=_GROUP):
        where = entry.dist.locate_file(entry.value.partition(":")[0].replace(".", "/")) if entry.dist else None
        if where is not None and ID.fullmatch(entry.name) and Path(str(where)).is_dir():
            folders[entry.name] = Path(str(where))
    return folders


def make_pack(folder: Path) -> list[Path]:
    """Make a pack from the template, and return its files. UserError if the folder exists or cannot be a pack's."""
    name = folder.absolute().name
    if not ID.fullmatch(name):
        raise UserError(f"{name!a} cannot be the name of a pack; use a-z, 0-9 and -.")
    if os.path.lexists(folder):
        raise UserError(f"{folder} already exists; name a new folder.")
    made = []
    try:
        for path in sorted(_TEMPLATE.rglob("*.txt")):  # so that Python tools do not take them for modules
            target = folder / path.relative_to(_TEMPLATE).with_suffix("")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(path.read_text("utf-8").replace("PACK", name), encoding="utf-8")
            made.append(target)
        tools = folder / "labs" / TOOLS
        tools.parent.mkdir(exist_ok=True)
        shutil.copyfile(labs_dir() / TOOLS, tools)
        made.append(tools)
    except OSError as problem:
        shutil.rmtree(folder, ignore_errors=True)  # a part of a pack would stand in the way of the next try
        raise UserError(f"{problem.filename or target} cannot be written: {problem.strerror}.") from None
    return made
