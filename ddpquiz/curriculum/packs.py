"""The packs that were added: concepts, demos and labs of others, whose ids begin with the name of their pack.

Their programs run only after the learner has allowed exactly these bytes.
"""

import json
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ddpquiz.atomic_file import replacing
from ddpquiz.curriculum.catalog import Catalog, Track
from ddpquiz.curriculum.concept import Concept, DemoLink, DemoProof, LessonStep, Question
from ddpquiz.curriculum.demo_scripts import Demo, demo_names, read_demo
from ddpquiz.curriculum.pack_files import MANIFEST, Files, read_added
from ddpquiz.errors import ContentError, UserError
from ddpquiz.paths import data_dir, has_packs, packs_dir


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack that was added: its name, and the folder that holds its files."""

    name: str
    folder: Path

    @property
    def demos(self) -> Path:
        return self.folder / "demos"

    @property
    def labs(self) -> Path:
        return self.folder / "labs"

    @property
    def title(self) -> str:
        """What it teaches, in its own words. ContentError if its manifest has complaints."""
        return read_manifest(self.folder).title


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a pack says of itself."""

    name: str
    title: str


def read_manifest(folder: Path) -> Manifest:
    """Read ddpquiz-pack.yaml. ContentError with every complaint."""
    from ddpquiz.curriculum.yaml_file import Fields, YamlFile  # most starts read no manifest

    page = YamlFile.open(folder / MANIFEST)
    manifest = Manifest("", "")
    if page.root is not None:
        record = Fields(page, page.root, "the pack")
        manifest = Manifest(record.id("name"), record.text("title"))
        record.close()
    if page.complaints:
        raise ContentError(tuple(page.complaints))
    return manifest


@dataclass(frozen=True, slots=True)
class LoadedPack:
    """What one reading of a pack's files brought: what it teaches, the names of its demos, and their fingerprint."""

    pack: Pack
    catalog: Catalog
    demos: frozenset[str]
    origin: str


def packs() -> tuple[Pack, ...]:
    """The packs that were added, by name. UserError if their folder cannot be read."""
    try:
        folders = [*packs_dir().iterdir()] if has_packs() else []
    except OSError as problem:
        raise UserError(f"{packs_dir()} cannot be read: {problem.strerror}.") from None
    return tuple(
        Pack(folder.name, folder)
        for folder in sorted(folders)
        if folder.is_dir() and not folder.is_symlink() and not folder.name.startswith(".")
    )


def find(name: str) -> Pack:
    """A pack by its name. UserError if it was not added."""
    for pack in packs():
        if pack.name == name:
            return pack
    raise UserError(f"No pack named {name!a} was added. `ddpquiz pack list` lists the packs.")


def with_packs(shipped: Catalog, load_pack: Callable[[Pack], LoadedPack]) -> Catalog:
    """A catalog with the content of all packs behind it; a pack that cannot be loaded is left out."""
    catalog = shipped
    for pack in packs():
        try:
            added = _prefixed(load_pack(pack))
        except UserError:
            continue  # `ddpquiz pack list` says so
        catalog = replace(
            catalog,
            tracks=catalog.tracks + added.tracks,
            concepts=catalog.concepts + added.concepts,
            sources={**catalog.sources, **added.sources},
            labs=catalog.labs + added.labs,
            moved={**catalog.moved, **added.moved},
        )
    return catalog


def pack_demos() -> tuple[Demo, ...]:
    """The demos of all packs, with the names by which they are run."""
    return tuple(
        replace(read_demo(pack.demos / f"{name}.py"), name=f"{pack.name}/{name}")
        for pack in packs()
        for name in demo_names(pack.demos)
    )


def _prefixed(loaded: LoadedPack) -> Catalog:
    """A catalog in which the names of a pack begin with the pack's name."""
    pack, catalog = loaded.pack, loaded.catalog
    own = {concept.id for concept in catalog.concepts}
    names = _Names(pack.name, own, loaded.demos, loaded.origin)
    tracks = tuple(
        Track(f"{pack.name}/{track.id}", track.title, tuple(f"{pack.name}/{concept}" for concept in track.concepts))
        for track in catalog.tracks
    )
    sources = {
        f"{pack.name}/{key}": replace(source, key=f"{pack.name}/{key}") for key, source in catalog.sources.items()
    }
    labs = tuple(
        replace(lab, id=f"{pack.name}/{lab.id}", concept=f"{pack.name}/{lab.concept}")
        for lab in catalog.labs
        if lab.concept in own
    )
    moved = {f"{pack.name}/{before}": f"{pack.name}/{now}" for before, now in catalog.moved.items()}
    return Catalog(tracks, tuple(map(names.concept, catalog.concepts)), sources, labs=labs, moved=moved)


@dataclass(frozen=True, slots=True)
class _Names:
    """The names that a pack defines, all others being shipped ones, and the fingerprint of its files."""

    pack: str
    concepts: set[str]
    demos: frozenset[str]
    origin: str

    def concept(self, concept: Concept) -> Concept:
        name = f"{self.pack}/{concept.id}"
        return replace(
            concept,
            id=name,
            track=f"{self.pack}/{concept.track}",
            needs=tuple(self._own(need, self.concepts) for need in concept.needs),
            demos=tuple(map(self._demo, concept.demos)),
            steps=tuple(map(self._step, concept.steps)),
            cards=tuple(replace(card, concept=name, source=f"{self.pack}/{card.source}") for card in concept.cards),
            questions=self._questions(name, concept.questions),
            explain=tuple(replace(prompt, concept=name) for prompt in concept.explain),
        )

    def _demo(self, link: DemoLink) -> DemoLink:
        return replace(link, run=self._own(link.run, self.demos))

    def _step(self, step: LessonStep) -> LessonStep:
        listing = replace(step.listing, origin=self.origin) if step.listing else None
        return replace(step, listing=listing, demo=self._demo(step.demo) if step.demo else None)

    def _questions(self, concept: str, questions: Sequence[Question]) -> tuple[Question, ...]:
        renamed = []
        for question in questions:
            proof = replace(question.proof, origin=self.origin) if question.proof else None
            if isinstance(proof, DemoProof):
                proof = replace(proof, demo=self._own(proof.demo, self.demos))
            source = f"{self.pack}/{question.source}" if question.source else ""
            renamed.append(replace(question, concept=concept, proof=proof, source=source))
        return tuple(renamed)

    def _own(self, name: str, defined: Collection[str]) -> str:
        return f"{self.pack}/{name}" if name in defined else name


_FILE = "packs.json"  # the fingerprint of each pack that was allowed
_LARGEST = 1_000_000


@dataclass(frozen=True, slots=True)
class AllowedPack:
    """The files of a pack as the learner allowed them, and the folder where they lay."""

    folder: str  # without links
    files: Files

    def holds(self, path: str | Path) -> bool:
        """Whether a path is the folder of the pack or lies in it."""
        return f"{os.path.realpath(path)}{os.sep}".startswith(f"{self.folder}{os.sep}")

    def read(self, path: str | Path) -> bytes:
        """What is allowed of a file in the folder. FileNotFoundError if there was no such file."""
        try:
            return self.files[os.path.relpath(os.path.realpath(path), self.folder)]
        except KeyError:
            raise FileNotFoundError(f"{path} is not among the files of the pack that were allowed") from None


def fingerprint(files: Files) -> str:
    """The SHA-256 of the names and the contents of all files of a pack, in hexadecimal digits.

    It must stay the same in later versions of ddpquiz, or everybody is asked again.
    """
    import hashlib

    digest = hashlib.sha256()
    for name in sorted(files, key=lambda name: name.split("/")):
        for part in (name.encode(), files[name]):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def is_allowed(name: str, origin: str) -> bool:
    """Whether the programs of a pack may run if its files have this fingerprint."""
    return _allowed().get(name) == origin


def allow(name: str, origin: str) -> None:
    """Allow the programs of a pack with the fingerprint that was shown."""
    _save({**_allowed(), name: origin})


def withdraw(name: str) -> None:
    """Forget the consent to a pack."""
    _save({allowed: origin for allowed, origin in _allowed().items() if allowed != name})


def require_consent(name: str, origin: str) -> None:
    """Raise UserError unless the learner allowed the pack with this fingerprint; nothing is asked for the name "".

    That name stands for what came with ddpquiz. `origin` is the fingerprint of the files from which the program that is
    about to run was read.
    """
    if not name or is_allowed(name, origin):
        return
    if name in _allowed() and is_allowed(name, fingerprint(read_added(packs_dir() / name))):
        raise UserError(f"The pack {name} has changed since this was read from it; start ddpquiz again.")
    why = "have changed since you allowed them" if name in _allowed() else "did not come with ddpquiz"
    raise UserError(
        f"The proofs, demos and labs of the pack {name} are programs that {why}. Look at them in"
        f" {packs_dir() / name}, then allow them with `ddpquiz pack trust {name}`."
    )


def allowed_pack(name: str) -> AllowedPack | None:
    """The files of a pack, from which its programs may run; None for "". UserError if they are not allowed."""
    if not name:
        return None
    folder = packs_dir() / name
    files = read_added(folder)
    require_consent(name, fingerprint(files))
    return AllowedPack(os.path.realpath(folder), files)


def _allowed() -> dict[str, str]:
    try:
        saved = json.loads((data_dir() / _FILE).read_bytes()[:_LARGEST])
    except (OSError, ValueError, RecursionError):
        return {}
    pairs = saved.items() if isinstance(saved, dict) else ()
    return {name: seen for name, seen in pairs if isinstance(seen, str)}


def _save(allowed: dict[str, str]) -> None:
    with replacing(data_dir() / _FILE, private=True) as fresh:
        fresh.write_text(json.dumps(allowed, indent=2, sort_keys=True) + "\n", encoding="utf-8")
