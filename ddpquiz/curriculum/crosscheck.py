"""Check across files: the concepts, tracks, sources and demos that a file refers to must exist and match."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ddpquiz.curriculum.catalog import Source, Track
from ddpquiz.curriculum.demo_scripts import Demo, demo_names, read_demo
from ddpquiz.curriculum.fields import did_you_mean
from ddpquiz.curriculum.reader import Reading
from ddpquiz.curriculum.yaml_file import Mention, YamlFile
from ddpquiz.errors import UserError


@dataclass(frozen=True)
class Surroundings:
    """Everything that content files may refer to. `tracks` and `sources` are None if they could not be read."""

    tracks: Sequence[Track] | None
    sources: Mapping[str, Source] | None
    demos: Path
    thorough: bool = False
    _read: dict[str, Demo | str] = field(default_factory=dict)  # a demo, or why it cannot be read

    def track_of(self) -> dict[str, str]:
        """Return the track of each concept, in learning order."""
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


def check_mentions(readings: Sequence[Reading], around: Surroundings) -> None:
    """Complain about every name in a concept file that does not exist."""
    track_of, demos = around.track_of(), demo_names(around.demos)
    places = {concept: place for place, concept in enumerate(track_of)}
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
                case "argument" | "label" if around.thorough and mention.of in demos:
                    _check_against_demo(page, mention, around.demo(mention.of))


def check_tracks(readings: Sequence[Reading], tracks: YamlFile, around: Surroundings, *, whole: bool) -> None:
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
    seen: set[str] = set()
    for mention in tracks.mentions if whole else ():
        if mention.value in seen:
            tracks.complain(mention.node, f"the concept `{mention.value}` is listed twice")
        elif mention.value not in files:
            tracks.complain(mention.node, f"there is no file {mention.of}/{mention.value}.yaml")
        seen.add(mention.value)


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
    """Return the shortest path from one concept to another along their needs, or []."""
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


def _complain_unknown(
    page: YamlFile, mention: Mention, what: str, where: str, known: Sequence[str] | Mapping[str, Source]
) -> None:
    page.complain(mention.node, f"there is no {what} `{mention.value}` in {where}{did_you_mean(mention.value, known)}")
