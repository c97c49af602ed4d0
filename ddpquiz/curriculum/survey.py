"""Read all content, and collect every complaint about it.

Each file is checked for itself, and then across files: the concepts, tracks, sources and demos that a file refers to
must exist and match.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from yaml import MappingNode, Node

from ddpquiz.curriculum.catalog import Catalog, Source, Track
from ddpquiz.curriculum.concept import Concept
from ddpquiz.curriculum.concept_reader import Reading, read_concept
from ddpquiz.curriculum.demo_scripts import Demo, demo_names, read_demo
from ddpquiz.curriculum.labs import lab_titles
from ddpquiz.curriculum.pack_files import MANIFEST
from ddpquiz.curriculum.pictures import faults, pictures
from ddpquiz.curriculum.plan_files import FILE, FOLDERS, check_file, check_files, check_runs, read_any
from ddpquiz.curriculum.yaml_file import ID, Fields, Mention, YamlFile, did_you_mean, shown
from ddpquiz.errors import Complaint, UserError
from ddpquiz.paths import content_dir, demos_dir

_SOURCE_KEY = re.compile(r"[A-Za-z0-9#][A-Za-z0-9._-]*")
_BESIDE = ("tracks.yaml", "sources.yaml")
_NO_CONCEPTS = (*_BESIDE, MANIFEST, FILE, "lab.yaml")


@dataclass(frozen=True, slots=True)
class Survey:
    """A catalog, as far as it could be read, and every complaint."""

    catalog: Catalog
    complaints: tuple[Complaint, ...]


def survey(path: Path | None = None, *, thorough: bool = False) -> Survey:
    """Read a content folder, a pack, a track's folder, or one file, and collect every complaint.

    A track's folder and a file are read with the content around them.

    The demos are those in the folder `demos` beside the content; without that folder, the shipped ones. A thorough
    survey also compiles the Python in the content, checks every draw, and reads the demos.
    """
    path = path or content_dir()
    path = path / "content" if is_pack(path) else path
    folder, only = _files_meant(path)
    gc.disable()  # it would visit hundreds of thousands of nodes that all stay alive
    try:
        return _survey(folder, only, thorough=thorough)
    finally:
        gc.enable()


def is_pack(folder: Path) -> bool:
    """Whether a folder is that of a pack."""
    return os.path.isfile(folder / MANIFEST)  # noqa: PTH113  # False for a path too long


def _files_meant(path: Path) -> tuple[Path, list[Path] | None]:
    """A content folder, and the files in it that `path` means; None for all of them."""
    if os.path.isdir(path):  # noqa: PTH112  # False where Path raises PermissionError
        if _is_content(path) or not _is_content(path.absolute().parent):
            return path, None
        return path.absolute().parent, sorted(path.glob("*.yaml"))
    if os.path.isfile(path) and (path.suffix != ".yaml" or path.name in _NO_CONCEPTS):  # noqa: PTH113
        raise UserError(f"{path} is not the file of a concept; check the whole folder of its pack or content.")
    around = path.absolute().parent.parent
    return around if _is_content(around) else content_dir(), [path]


def _is_content(folder: Path) -> bool:
    return os.path.isfile(folder / _BESIDE[0])  # noqa: PTH113  # the same


def _survey(folder: Path, only: Sequence[Path] | None, *, thorough: bool) -> Survey:
    if only and only[0].absolute().parent.name in FOLDERS:
        sources = read_sources(YamlFile.open(folder / _BESIDE[1]))
        complaints = [complaint for file in only for complaint in check_file(file, read_any(file), sources).complaints]
        return Survey(Catalog((), (), sources, demos_dir()), tuple(sorted(set(complaints))))
    files, strays = _files(folder) if only is None else (only, [])
    beside = folder.absolute().parent / "demos"
    demos = beside if beside.is_dir() else demos_dir()
    tracks_page, sources_page = YamlFile.open(folder / _BESIDE[0]), YamlFile.open(folder / _BESIDE[1])
    tracks, sources = read_tracks(tracks_page), read_sources(sources_page)
    readings = [read_concept(file, thorough=thorough) for file in files]
    core = read_core(tracks_page)
    of_pack = is_pack(folder.absolute().parent)
    shipped = YamlFile.open(content_dir() / _BESIDE[0]) if of_pack else None  # its concepts may be needed
    before, core_before = (read_tracks(shipped), read_core(shipped)) if shipped else ((), ())
    around = _Surroundings(
        (*before, *tracks) if tracks_page.root else None,
        (*learning_order(core_before, before), *learning_order(core, tracks)),
        sources if sources_page.root else None,
        demos,
        None if of_pack else pictures(folder),
        thorough,
    )
    _check_mentions(readings, around)
    if tracks_page.root:
        _check_tracks(readings, tracks_page, around, whole=only is None)
    moved = _earlier_keys(readings)
    complaints = [complaint for reading in readings for complaint in reading.page.complaints]
    if only is None:
        pages = [tracks_page, sources_page, *check_files(folder, sources), check_runs(folder, sources)]
        complaints += [complaint for page in pages for complaint in page.complaints]
        complaints += _of_pictures(readings, around.pictures or {}, thorough=thorough)
    wrong = "a concept belongs in <track>/<concept>.yaml; move or rename the file"
    complaints += [Complaint(shown(file), 1, 1, wrong) for file in strays]
    if not readings:
        complaints.append(Complaint(shown(folder), 1, 1, "there is no concept in this folder"))
    labs = lab_titles(beside.with_name("labs"))
    catalog = Catalog(tracks, _in_order(readings, learning_order(core, tracks)), sources, demos, labs, core, moved)
    return Survey(catalog, tuple(sorted(set(complaints))))


def read_tracks(page: YamlFile) -> tuple[Track, ...]:
    """Read tracks.yaml. Each concept that it names becomes a mention."""
    tracks: list[Track] = []
    if page.root is None:
        return ()
    record = Fields(page, page.root, "the tracks")
    for name in list(record.keys()):
        node = record.at(name)
        if _is_core(name, node):
            continue
        if not ID.fullmatch(name):
            page.complain(node, f"the track `{name}` must consist of a-z, 0-9 and -")
        track = Fields(page, node, f"the track `{name}`")
        tracks.append(Track(name, track.text("title"), track.texts("concepts", empty=True)))
        for concept, entry in zip(tracks[-1].concepts, track.children("concepts"), strict=False):
            page.mention("concept", concept, entry, name)
        track.close()
    return tuple(tracks)


def read_core(page: YamlFile) -> tuple[str, ...]:
    """Read the core route in tracks.yaml: a list of concepts, each of which has its track in the same file."""
    if page.root is None:
        return ()
    record = Fields(page, page.root, "the tracks")
    if "core" not in record or not _is_core("core", record.at("core")):
        return ()
    core = record.texts("core")
    for concept, node in zip(core, record.children("core"), strict=False):
        page.mention("core", concept, node)
    return core


def _is_core(name: str, node: Node) -> bool:
    """Whether an entry of tracks.yaml is the core route; a track may have the same name."""
    return name == "core" and not isinstance(node, MappingNode)


def learning_order(core: Sequence[str], tracks: Sequence[Track]) -> tuple[str, ...]:
    """The concepts in the order in which they are learned: the core route, then the others by track."""
    return tuple(dict.fromkeys((*core, *(concept for track in tracks for concept in track.concepts))))


def read_sources(page: YamlFile) -> Mapping[str, Source]:
    """Read sources.yaml."""
    sources: dict[str, Source] = {}
    if page.root is None:
        return sources
    record = Fields(page, page.root, "the sources")
    for key in list(record.keys()):
        node = record.at(key)
        if not _SOURCE_KEY.fullmatch(key):
            page.complain(node, f"the key `{key}` must consist of letters, digits and . _ -")
        entry = Fields(page, node, f"the source `{key}`")
        texts = {name: entry.text(name, optional=True) for name in ("authors", "year", "address")}
        sources[key] = Source(key, entry.text("title"), **texts)
        entry.close()
    return sources


def _files(folder: Path) -> tuple[list[Path], list[Path]]:
    """The concept files of a folder, and YAML files with a wrong name or in a wrong folder."""
    files = {path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml")}
    files -= {path for path in files if path.parent.parent == folder and path.parent.name in FOLDERS}
    good = {path for path in files if path.suffix == ".yaml" and path.parent.parent == folder}
    return sorted(good), sorted(files - good - {folder / name for name in (*_BESIDE, FILE)})


def _in_order(readings: Sequence[Reading], order: Sequence[str]) -> tuple[Concept, ...]:
    places = {concept: place for place, concept in enumerate(order)}
    concepts = [reading.concept for reading in readings if reading.concept]
    return tuple(sorted(concepts, key=lambda concept: places.get(concept.id, len(places))))


@dataclass(frozen=True)
class _Surroundings:
    """Everything that content files may refer to. `tracks` and `sources` are None if they could not be read.

    `order` is that in which all concepts are learned; `pictures` are None in a pack, which has none.
    """

    tracks: Sequence[Track] | None
    order: Sequence[str]
    sources: Mapping[str, Source] | None
    demos: Path
    pictures: Mapping[str, Path] | None = None
    thorough: bool = False
    _read: dict[str, Demo | str] = field(default_factory=dict)  # a demo, or why it cannot be read

    def track_of(self) -> dict[str, str]:
        """The track of each concept."""
        return {concept: track.id for track in self.tracks or () for concept in track.concepts}

    def demo(self, name: str) -> Demo | str:
        """Read a demo, once. The result is a text if it cannot be read, and says why."""
        if name not in self._read:
            try:
                demo = self._read[name] = read_demo(self.demos / f"{name}.py")
                _ = demo.flags  # UserError if the script is not valid Python
            except UserError as problem:
                self._read[name] = str(problem)
        return self._read[name]


def _check_mentions(readings: Sequence[Reading], around: _Surroundings) -> None:
    """Complain about every name in a concept file that does not exist."""
    demos = demo_names(around.demos)
    places = {concept: place for place, concept in enumerate(around.order)}
    needs = {reading.id: [m.value for m in reading.page.mentions if m.kind == "need"] for reading in readings}
    for reading in readings:
        page = reading.page
        for mention in page.mentions:
            match mention.kind:
                case "need" if around.tracks is not None:
                    _check_need(reading, mention, places, needs)
                case "source" if around.sources is not None and mention.value not in around.sources:
                    _complain_unknown(page, mention, "source", "sources.yaml", around.sources)
                case "demo" if mention.value not in demos:
                    _complain_unknown(page, mention, "demo", f"{around.demos.name}/", demos)
                case "demo" if around.thorough and isinstance(problem := around.demo(mention.value), str):
                    page.complain(mention.node, problem)
                case "picture":
                    _check_picture(page, mention, around.pictures)
                case "argument" | "label" if around.thorough and mention.of in demos:
                    _check_against_demo(page, mention, around.demo(mention.of))


def _of_pictures(readings: Sequence[Reading], files: Mapping[str, Path], *, thorough: bool) -> Iterator[Complaint]:
    """Yield complaints about pictures that no lesson names and, if thorough, about what is in them."""
    named = {mention.value for reading in readings for mention in reading.page.mentions if mention.kind == "picture"}
    for name, file in files.items():
        if name not in named:
            yield Complaint(shown(file), 1, 1, f"no lesson has `picture: {name}`; add it to one, or remove the file")
        for line, column, wrong in faults(file) if thorough else ():
            yield Complaint(shown(file), line, column, wrong)


def _check_tracks(readings: Sequence[Reading], tracks: YamlFile, around: _Surroundings, *, whole: bool) -> None:
    """Complain about files that tracks.yaml does not name and, for a whole folder, about names without a file."""
    track_of = around.track_of()
    files: dict[str, Reading] = {}
    for reading in readings:
        if (first := files.setdefault(reading.id, reading)) is not reading:
            reading.page.complain_at(1, 1, f"the concept `{reading.id}` already has the file {first.page.name}")
        elif reading.page.root is None:
            continue  # the file already has a complaint
        elif reading.id not in track_of:
            reading.page.complain_at(1, 1, f"`{reading.id}` is not in tracks.yaml; add it there under its track")
        elif track_of[reading.id] != reading.track:
            wrong = f"tracks.yaml has `{reading.id}` in the track `{track_of[reading.id]}`, not `{reading.track}`"
            reading.page.complain_at(1, 1, wrong)
    seen: set[tuple[str, str]] = set()
    for mention in tracks.mentions if whole else ():
        if (mention.kind, mention.value) in seen:
            tracks.complain(mention.node, f"the concept `{mention.value}` is listed twice")
        elif mention.kind == "core" and mention.value not in track_of:
            meant = did_you_mean(mention.value, track_of)
            tracks.complain(mention.node, f"`core`: no track has the concept `{mention.value}`{meant}")
        elif mention.kind == "concept" and mention.value not in files:
            tracks.complain(mention.node, f"there is no file {mention.of}/{mention.value}.yaml")
        seen.add((mention.kind, mention.value))


def _earlier_keys(readings: Sequence[Reading]) -> dict[str, str]:
    """The earlier keys of items, each with the key now; complain about those that would not be clear."""
    now = {item.key for reading in readings if reading.concept for item in reading.concept.items()}
    found: dict[str, str] = {}
    for reading in readings:
        for mention in reading.page.mentions:
            if mention.kind != "was":
                continue
            if mention.value in now:
                reading.page.complain(mention.node, f"`was`: the item `{mention.value}` still exists")
            elif mention.value in found:
                wrong = f"`was`: `{mention.value}` already became `{found[mention.value]}`"
                reading.page.complain(mention.node, wrong)
            else:
                found[mention.value] = mention.of
    return found


def _check_need(
    reading: Reading, mention: Mention, places: Mapping[str, int], needs: Mapping[str, Sequence[str]]
) -> None:
    need, page = mention.value, reading.page
    if need == reading.id:
        page.complain(mention.node, f"`needs`: `{need}` needs itself")
    elif need not in places:
        page.complain(mention.node, f"`needs`: there is no concept `{need}`{did_you_mean(need, places)}")
    elif circle := _way(need, reading.id, needs):
        page.complain(mention.node, f"`needs` is circular: {' -> '.join([reading.id, *circle])}")
    elif places[need] > places.get(reading.id, len(places)):
        page.complain(mention.node, f"`needs`: `{need}` is learned later; move it before `{reading.id}` in tracks.yaml")


def _way(start: str, goal: str, needs: Mapping[str, Sequence[str]]) -> list[str]:
    """The shortest path from one concept to another along their needs, or []."""
    ways = [[start]]
    seen = {start}
    for way in ways:
        for need in needs.get(way[-1], ()):
            if need == goal:
                return [*way, goal]
            if need not in seen:
                seen.add(need)
                ways.append([*way, need])
    return []


def _check_against_demo(page: YamlFile, mention: Mention, demo: Demo | str) -> None:
    if isinstance(demo, str):
        return  # the place that names the demo has the complaint
    if mention.kind == "label":
        filled_in = mention.value.partition("(")[0] + "({"  # a label such as f"loss ({way})"
        if mention.value not in demo.source and filled_in not in demo.source:
            page.complain(mention.node, f"`label`: the demo `{demo.name}` does not print `{mention.value}`")
    elif mention.value.startswith("--"):
        flag = mention.value.partition("=")[0]
        if flag not in demo.flags:
            known = did_you_mean(flag, demo.flags) or f"; it takes {', '.join(demo.flags) or 'no flags'}"
            page.complain(mention.node, f"`args`: the demo `{demo.name}` has no `{flag}`{known}")


def _check_picture(page: YamlFile, mention: Mention, known: Mapping[str, Path] | None) -> None:
    if known is None:
        page.complain(mention.node, "`picture`: only lessons that come with ddpquiz have pictures; remove it")
    elif mention.value not in known:
        _complain_unknown(page, mention, "picture", "pictures/", known)


def _complain_unknown(
    page: YamlFile, mention: Mention, what: str, where: str, known: Sequence[str] | Mapping[str, object]
) -> None:
    page.complain(mention.node, f"there is no {what} `{mention.value}` in {where}{did_you_mean(mention.value, known)}")
