"""The labs of packs: each belongs to a concept of its pack, and its name begins with the name of the pack."""

from dataclasses import replace

from ddpquiz.curriculum.lab import Lab
from ddpquiz.curriculum.labs import lab_names, load_lab
from ddpquiz.curriculum.pack_files import concepts_in, read_added, unpacked
from ddpquiz.curriculum.packs import find, fingerprint, packs
from ddpquiz.errors import UserError


def load_pack_lab(name: str) -> Lab:
    """Load the lab `pack/lab`. UserError if its concept is not in the pack; ContentError if its file is invalid."""
    pack = find(name.partition("/")[0])
    files = read_added(pack.folder)
    with unpacked(files, pack.folder) as folder:
        lab = load_lab(name.partition("/")[2], folder / "labs", pack=pack.name)
    if lab.concept not in concepts_in(files):
        raise UserError(
            f"The lab {name} belongs to {lab.concept}, which is not a concept of its pack; tell its author."
        )
    needs = tuple(f"{pack.name}/{need}" for need in lab.needs)
    return replace(
        lab, id=f"{pack.name}/{lab.id}", concept=f"{pack.name}/{lab.concept}", needs=needs,
        folder=pack.labs / lab.folder.name, origin=fingerprint(files),
    )  # fmt: skip


def pack_lab_names() -> list[str]:
    """Return the names of the labs of all packs."""
    return [f"{pack.name}/{name}" for pack in packs() for name in lab_names(pack.labs)]


def pack_labs() -> list[Lab]:
    """Load the labs of all packs; those that cannot be loaded are left out."""
    found = []
    for name in pack_lab_names():
        try:
            found.append(load_pack_lab(name))
        except UserError:
            continue  # `ddpquiz lab NAME` says why
    return found
