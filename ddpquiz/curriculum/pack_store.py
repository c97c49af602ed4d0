"""Adds, removes and makes packs, and finds those that are installed as Python packages."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ddpquiz.curriculum.fields import ID
from ddpquiz.curriculum.labs import TOOLS
from ddpquiz.curriculum.pack_consent import withdraw
from ddpquiz.curriculum.pack_files import check_files, read_files, write_files
from ddpquiz.curriculum.packs import Pack, find
from ddpquiz.errors import UserError
from ddpquiz.paths import labs_dir, packs_dir

GROUP = "ddpquiz.packs"  # of entry points: `name = "module.with.the.folder"`
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


def add(source: Path) -> Pack:
    """Copy the files of a pack into the data folder, in place of an earlier version. UserError if they do not fit."""
    files = read_files(source)
    name = check_files(files).name
    folder = packs_dir()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".", dir=folder))
    try:
        write_files(files, fresh)
        shutil.rmtree(folder / name, ignore_errors=True)
        fresh.rename(folder / name)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return Pack(name, folder / name)


def remove(name: str) -> None:
    """Delete the files of a pack, and the consent to run them. UserError if it was not added."""
    shutil.rmtree(find(name).folder)
    withdraw(name)


def installed_packs() -> dict[str, Path]:
    """Return the folders of the packs in installed Python packages, by name, from metadata: nothing is imported."""
    from importlib.metadata import entry_points

    found: dict[str, Path] = {}
    for entry in entry_points(group=GROUP):
        where = entry.dist.locate_file(entry.value.partition(":")[0].replace(".", "/")) if entry.dist else None
        if where is not None and ID.fullmatch(entry.name) and Path(str(where)).is_dir():
            found[entry.name] = Path(str(where))
    return found


def new(folder: Path) -> list[Path]:
    """Make a pack from the template, and return its files. UserError if the folder exists or cannot be a pack's."""
    name = folder.absolute().name
    if not ID.fullmatch(name):
        raise UserError(f"{name!a} cannot be the name of a pack; use a-z, 0-9 and -.")
    if folder.exists():
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
        raise UserError(f"{problem.filename} cannot be written: {problem.strerror}.") from None
    return made
