"""The labs, shipped and of packs: found by name, or all in the order of the concepts that they belong to.

Those of a pack belong to its concepts, and their names begin with the name of the pack.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ddpquiz.curriculum.catalog import LabTitle
from ddpquiz.curriculum.lab import Lab
from ddpquiz.curriculum.lab_reader import MINUTES, read_lab
from ddpquiz.curriculum.pack_consent import pack_fingerprint
from ddpquiz.curriculum.pack_files import concepts_in, read_added, unpacked
from ddpquiz.curriculum.packs import find, packs
from ddpquiz.curriculum.yaml_file import Fields, YamlFile, did_you_mean, nearest, shown
from ddpquiz.errors import Complaint, ContentError, UserError
from ddpquiz.paths import labs_dir

TOOLS = "lab_tools.py"  # beside the folders of the labs; each check imports it
_HOW_TO_GET_TOOLS = "`ddpquiz pack new DIR` makes a pack that has it"


def lab_names(root: Path | None = None) -> list[str]:
    """The names of the labs in a folder, by default of those that are shipped."""
    return sorted(path.parent.name.replace("_", "-") for path in (root or labs_dir()).glob("*/lab.yaml"))


def lab_titles(root: Path) -> tuple[LabTitle, ...]:
    """The labs of a folder as a list names them; one is left out if its lab.yaml does not say so much."""
    titles = []
    for name in lab_names(root):
        page = YamlFile.open(root / name.replace("-", "_") / "lab.yaml")
        if page.root is not None:
            record = Fields(page, page.root, "a lab")
            title = LabTitle(name, record.text("concept"), record.text("title"), record.whole("minutes", *MINUTES) or 0)
            if title.concept and title.title and title.minutes:
                titles.append(title)
    return tuple(titles)


def load_lab(name: str, root: Path | None = None, *, pack: str = "", others: Iterable[str] = ()) -> Lab:
    """Load one lab. UserError with the nearest name if it does not exist; ContentError if it is not valid.

    `pack` is the name of the pack of the labs in `root`; `others` are names of other labs that may be meant.
    """
    name = name.removesuffix(".py").replace("_", "-")
    known = lab_names(root)
    if name not in known:
        before = f"{pack}/" if pack else ""
        meant = nearest(before + name, [*(before + lab_name for lab_name in known), *others])
        advice = f"Did you mean '{meant}'?" if meant else "See `ddpquiz lab`."
        raise UserError(f"No lab named '{before}{name}'. {advice}")
    reading = read_lab((root or labs_dir()) / name.replace("-", "_"))
    if reading.lab is None:
        raise ContentError(tuple(reading.page.complaints))
    return reading.lab


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
        folder=pack.labs / lab.folder.name, origin=pack_fingerprint(files),
    )  # fmt: skip


def pack_lab_names() -> list[str]:
    """The names of the labs of all packs."""
    return [f"{pack.name}/{name}" for pack in packs() for name in lab_names(pack.labs)]


def pack_labs() -> list[Lab]:
    """Load the labs of all packs; those that cannot be loaded are left out."""
    labs = []
    for name in pack_lab_names():
        try:
            labs.append(load_pack_lab(name))
        except UserError:
            continue  # `ddpquiz lab NAME` says why
    return labs


def labs_of(concepts: Sequence[str]) -> list[Lab]:
    """Load the shipped labs that belong to these concepts, in their order. ContentError if one is not valid."""
    labs = _in_order([load_lab(name) for name in lab_names()], concepts)
    return [lab for lab in labs if lab.concept in concepts]


def survey_labs(
    concepts: Iterable[str], names: Sequence[str] = (), root: Path | None = None
) -> tuple[list[Lab], list[Complaint]]:
    """Read labs, by default all, and collect every complaint; `concepts` are those that a lab may belong to.

    The labs are in the order of the concepts. Labs that others need are looked for only if all labs are read.
    """
    order = [*concepts]
    root = root or labs_dir()
    known = lab_names(root)
    labs: list[Lab] = []
    complaints: list[Complaint] = []
    if known and not (root / TOOLS).is_file():
        complaints.append(Complaint(shown(root / TOOLS), 1, 1, f"the checks of labs import it; {_HOW_TO_GET_TOOLS}"))
    for name in names or known:
        reading = read_lab(root / name.replace("-", "_"))
        for mention in reading.page.mentions:
            if mention.kind == "concept" and mention.value and mention.value not in order:
                reading.page.complain(mention.node, _no_concept(mention.value, order))
            if mention.kind == "lab" and not names and mention.value not in known:
                reading.page.complain(mention.node, f"no lab named `{mention.value}`")
        complaints += reading.page.complaints
        if reading.lab:
            labs.append(reading.lab)
    return _in_order(labs, order), complaints


def survey_labs_of_pack(folder: Path, names: Sequence[str] = ()) -> tuple[list[Lab], list[Complaint]]:
    """Read labs in the folder of a pack, by default all, and collect every complaint."""
    return survey_labs(sorted(file.stem for file in folder.glob("content/*/*.yaml")), names, folder / "labs")


def _no_concept(name: str, known: Sequence[str]) -> str:
    own = name.rpartition("/")[2]
    advice = f"; write `{own}`, without the name of the pack" if own in known else did_you_mean(name, known)
    return f"no concept named `{name}`{advice}"


def _in_order(labs: Iterable[Lab], concepts: Sequence[str]) -> list[Lab]:
    """Return labs in the order of their concepts; within a concept, a lab comes after those that it needs."""
    by_name = {lab.id: lab for lab in labs}
    places = {concept: place for place, concept in enumerate(concepts)}

    def depth(lab: Lab, above: tuple[str, ...] = ()) -> int:
        needed = [by_name[name] for name in lab.needs if name in by_name and name not in above]
        return max((1 + depth(need, (*above, lab.id)) for need in needed), default=0)

    return sorted(
        by_name.values(), key=lambda lab: (places.get(lab.concept, len(places)), depth(lab), lab.minutes, lab.id)
    )
