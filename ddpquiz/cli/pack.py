"""`ddpquiz pack`: add concepts, demos and labs that others wrote."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ddpquiz.cli import completion
from ddpquiz.cli.output import say
from ddpquiz.curriculum.loading import load_pack
from ddpquiz.curriculum.pack_consent import allow, is_allowed
from ddpquiz.curriculum.pack_store import add_pack, fetched, installed_packs, make_pack, remove_pack
from ddpquiz.curriculum.packs import LoadedPack, find, packs
from ddpquiz.errors import UserError
from ddpquiz.plural import plural
from ddpquiz.safe_text import one_line

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
    path = installed_packs().get(source, Path(source))
    with fetched(path if os.path.lexists(path) else source) as folder:
        added = add_pack(folder)
    name = added.pack.name
    say(f"{name}: {_counts(added)} added. See them with: ddpquiz list")
    if not is_allowed(name, added.origin):
        say(f"Its proofs, demos and labs are programs that run only after: ddpquiz pack trust {name}")


@pack.command(name="list")
def list_() -> None:
    """List the packs that were added or installed."""
    known = packs()
    for one in known:
        try:
            loaded = load_pack(one)
            allowed = "allowed" if is_allowed(one.name, loaded.origin) else "not allowed"
            about = f"{one.title}: {_counts(loaded)}, programs {allowed}"
        except UserError as problem:
            about = f"cannot be read, and is left out: {str(problem).splitlines()[0]}"
        say(one_line(f"{one.name}  {about}"))
    new = [name for name in installed_packs() if name not in {one.name for one in known}]
    for name in new:
        say(f"{name}  installed, not added: ddpquiz pack add {name}")
    if not known and not new:
        say("No packs yet. To add one: ddpquiz pack add PACK")


@pack.command()
def remove(name: Annotated[str, typer.Argument(help="The name of the pack.", autocompletion=completion.packs)]) -> None:
    """Remove a pack. Your progress in it stays, and counts again when the pack is added again."""
    remove_pack(name)
    say(f"{name} is removed. Your progress in it is kept.")


@pack.command()
def trust(
    name: Annotated[str, typer.Argument(help="The name of the pack.", autocompletion=completion.packs)],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; for scripts.")] = False,
) -> None:
    """Allow the programs of a pack to run, exactly as they are."""
    loaded = load_pack(find(name))
    if is_allowed(name, loaded.origin):
        say(f"The programs of {name} are allowed already.")
        return
    say(
        f"The pack {name} has {_counts(loaded)}. Its proofs, demos and labs are programs: they will run on this"
        f" machine with your permissions, and can read, change and send anything that you can.\nTheir files are in"
        f" {loaded.pack.folder} (SHA-256 {loaded.origin[:16]}). After any change to them you will be asked again."
    )
    if not yes and not sys.stdin.isatty():
        raise UserError("There is no terminal to ask you in; read the files, then add --yes.")
    if not yes and not typer.confirm(f"Run the programs of {name} when you ask for them?"):
        raise typer.Exit(1)
    allow(name, loaded.origin)
    say(f"The programs of {name} may run.")


@pack.command()
def new(
    folder: Annotated[Path, typer.Argument(help="The folder to make; its name is the pack's.", metavar="DIR")],
) -> None:
    """Make a pack of your own, to fill with content."""
    for path in make_pack(folder):
        say(str(path))
    say(f"Edit these files, then: ddpquiz check {folder}\nTry them with: ddpquiz pack add {folder}")


def _counts(loaded: LoadedPack) -> str:
    """How much a pack teaches."""
    catalog = loaded.catalog
    counts: Mapping[str, int] = {
        "concept": len(catalog.concepts),
        "card": len(catalog.cards()),
        "question": len(catalog.questions()),
        "proof": sum(question.proof is not None for question in catalog.questions()),
        "demo": len(loaded.demos),
        "lab": len(catalog.labs),
    }
    return ", ".join(plural(count, noun) for noun, count in counts.items())
