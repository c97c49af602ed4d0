"""The packs that were added: concepts, demos and labs of others, whose ids begin with the name of their pack.

Their programs run only with the consent of the learner (`pack_consent.py`).
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ddpquiz.curriculum.catalog import Catalog, Track
from ddpquiz.curriculum.concept import Concept, DemoLink, DemoProof, LessonStep, Question
from ddpquiz.curriculum.demo_scripts import Demo, demo_names, read_demo
from ddpquiz.curriculum.pack_files import MANIFEST
from ddpquiz.errors import ContentError, UserError
from ddpquiz.paths import has_packs, packs_dir


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
