"""`ddpquiz pack`: add concepts, demos and labs that others wrote."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.cli import completion
from ddpquiz.curriculum.labs import lab_names
from ddpquiz.curriculum.loading import load_pack
from ddpquiz.curriculum.pack_consent import allow, fingerprint, is_allowed
from ddpquiz.curriculum.pack_store import add as save
from ddpquiz.curriculum.pack_store import fetched, installed_packs
from ddpquiz.curriculum.pack_store import new as make
from ddpquiz.curriculum.pack_store import remove as delete
from ddpquiz.curriculum.packs import Pack, find, packs
from ddpquiz.errors import ContentError, UserError
from ddpquiz.terminal.kit.style import plain

pack = typer.Typer(
    help="Add concepts, demos and labs that others wrote, or make a pack of your own. Texts of a pack are shown at"
    " once; its proofs, demos and labs are programs and run only after `ddpquiz pack trust`.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@pack.command()
def add(
    source: Annotated[
        str, typer.Argument(help="A folder, a wheel, a git address, or the name of an installed pack.", metavar="PACK")
    ],
) -> None:
    """Add a pack, or bring one up to date. Nothing in it is run."""
    path = Path(source)
    if source in (found := installed_packs()):
        path = found[source]
    with fetched(source if not path.exists() else path) as folder:
        added = save(folder)
    print(f"{added.name}: {_counts(added)} added. See them with: ddpquiz list")
    if not is_allowed(added.name):
        print(f"Its proofs, demos and labs are programs that run only after: ddpquiz pack trust {added.name}")


@pack.command(name="list")
def list_() -> None:
    """List the packs that were added or installed."""
    known = packs()
    for one in known:
        try:
            about = f"{plain(one.title)}: {_counts(one)}"
        except ContentError as problem:
            about = f"cannot be read, and is left out: {problem.complaints[0]}"
        print(f"{one.name}  {about}, programs {'allowed' if is_allowed(one.name) else 'not allowed'}")
    new = [name for name in installed_packs() if name not in {one.name for one in known}]
    for name in new:
        print(f"{name}  installed, not added: ddpquiz pack add {name}")
    if not known and not new:
        print("No packs yet: ddpquiz pack add PACK")


@pack.command()
def remove(name: Annotated[str, typer.Argument(help="The name of the pack.", autocompletion=completion.packs)]) -> None:
    """Remove a pack. Your progress in it stays, and counts again when the pack is added again."""
    delete(name)
    print(f"{name} is removed. Your progress in it is kept.")


@pack.command()
def trust(
    name: Annotated[str, typer.Argument(help="The name of the pack.", autocompletion=completion.packs)],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; for scripts.")] = False,
) -> None:
    """Allow the programs of a pack to run, exactly as they are."""
    found = find(name)
    if is_allowed(name):
        print(f"The programs of {name} are allowed already.")
        return
    seen = fingerprint(found.folder)
    print(
        f"The pack {name} has {_counts(found)}. Its proofs, demos and labs are programs: they will run on this machine"
        f" with your rights, and can read, change and send all that you can.\nTheir files are in {found.folder}"
        f" (SHA-256 {seen[:16]}). After any change to them you will be asked again."
    )
    if not yes and not sys.stdin.isatty():
        raise UserError("Nobody is here to answer; read the files, then add --yes.")
    if not yes and not typer.confirm(f"Run the programs of {name} when you ask for them?"):
        raise typer.Exit(1)
    allow(name, seen)
    print(f"The programs of {name} may run.")


@pack.command()
def new(
    folder: Annotated[Path, typer.Argument(help="The folder to make; its name is the pack's.", metavar="DIR")],
) -> None:
    """Make a pack of your own, to fill with content."""
    for path in make(folder):
        print(path)
    print(f"Edit these files, then: ddpquiz check {folder}\nTry them with: ddpquiz pack add {folder}")


def _counts(found: Pack) -> str:
    """Return how much a pack teaches. ContentError if it cannot be read."""
    catalog = load_pack(found)
    counts: Mapping[str, int] = {
        "concept": len(catalog.concepts),
        "card": len(catalog.cards()),
        "question": len(catalog.questions()),
        "proof": sum(question.proof is not None for question in catalog.questions()),
        "demo": len(list(found.demos.glob("*.py"))),
        "lab": len(lab_names(found.labs)),
    }
    return ", ".join(f"{count:,} {noun}{'s' * (count != 1)}" for noun, count in counts.items())
