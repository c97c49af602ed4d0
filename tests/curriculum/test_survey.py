"""The files of tracks and sources: what they hold, and what does not fit in them."""

import shutil
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from ring_file import changed, complaints

from ddpquiz.curriculum.loading import load
from ddpquiz.curriculum.survey import read_sources, read_tracks, survey
from ddpquiz.curriculum.yaml_file import YamlFile
from ddpquiz.paths import content_dir


def test_tracks_and_sources_are_read_with_their_complaints():
    page = YamlFile("tracks.yaml", b"Data: {title: a, concepts: [x]}\nb: {concept: [y]}\nb: {}\n")
    assert [track.id for track in read_tracks(page)] == ["Data", "b"]
    assert [str(complaint) for complaint in page.complaints] == snapshot(
        [
            "tracks.yaml:3:1: repeated key `b`; it was first used in line 2",
            "tracks.yaml:1:7: the track `Data` must consist of a-z, 0-9 and -",
            "tracks.yaml:2:5: unknown key `concept`; did you mean `concepts`?",
            "tracks.yaml:2:4: missing key `title`",
        ]
    )
    page = YamlFile("sources.yaml", b"dist: {title: a, year: 2024}\nli 2: {title: b}\nx: {authors: b, yaer: c}\n")
    assert read_sources(page)["dist"].year == "2024"
    assert [str(complaint) for complaint in page.complaints] == snapshot(
        [
            "sources.yaml:2:7: the key `li 2` must consist of letters, digits and . _ -",
            "sources.yaml:3:17: unknown key `yaer`; did you mean `year`?",
            "sources.yaml:3:4: missing key `title`",
        ]
    )


@pytest.fixture
def two(place):
    """The concept `ring`, and `root`, which comes later in the same track."""
    place.with_name("root.yaml").write_text(place.read_text("utf-8"), "utf-8")
    return place


def tracks(core, concepts="[ring, root]"):
    Path("content/tracks.yaml").write_text(f"core: {core}\ncollectives: {{title: Collectives, concepts: {concepts}}}\n")
    return complaints()


def test_the_core_route_is_learned_first_and_the_others_follow_by_track(two):
    assert tracks("[root]") == []
    catalog = survey(Path("content")).catalog
    assert [concept.id for concept in catalog.concepts] == ["root", "ring"]
    assert catalog.core == ("root",)


@pytest.mark.parametrize(
    ("core", "said"),
    [
        ("[rot]", "content/tracks.yaml:1:8: `core`: no track has the concept `rot`; did you mean `root`?"),
        ("[ring, ring]", "content/tracks.yaml:1:14: the concept `ring` is listed twice"),
        ("[]", "content/tracks.yaml:1:7: `core`: the list is empty"),
        ("ring", "content/tracks.yaml:1:7: `core`: expected a list, got text"),
    ],
)
def test_a_core_route_that_does_not_fit_is_reported_with_its_place(two, core, said):
    assert tracks(core) == [said]


def test_what_a_concept_of_the_core_route_needs_comes_before_it_in_the_route(two):
    two.with_name("root.yaml").write_text(changed(("needs: []", "needs: [ring]")), "utf-8")
    assert tracks("[ring, root]") == []
    for core in ("[root]", "[root, ring]"):
        assert tracks(core) == [
            "content/collectives/root.yaml:2:9: `needs`: `ring` is learned later; move it before `root` in tracks.yaml"
        ]


def test_a_track_may_be_called_core(two):
    Path("content/tracks.yaml").write_text("core: {title: Core, concepts: [ring]}\n", "utf-8")
    assert survey(Path("content")).catalog.core == ()
    assert [track.title for track in survey(Path("content")).catalog.tracks] == ["Core"]


def test_the_shipped_core_route_is_learned_in_the_first_weeks():
    known = load()
    core = [known.concept(name) for name in known.core]
    assert list(known.concepts[: len(core)]) == core
    assert core[0].id == "why-distribute"
    assert sum(len(concept.cards) for concept in core) <= 220
    order = [concept.id for concept in known.concepts]
    for before, after in [
        ("backends", "process-group-init"),
        ("backends", "torchrun-launch"),
        ("ddp-mechanics", "lr-scaling"),
        ("ddp-mechanics", "hangs-desync"),
        ("hangs-desync", "all-reduce-ring"),
        ("pipeline-schedules", "nccl-operations"),
        ("nccl-operations", "rack-scale-hardware"),
    ]:
        assert order.index(before) < order.index(after)


def test_check_reports_a_number_without_a_known_source(tmp_path):
    folder = tmp_path / "content"
    shutil.copytree(content_dir(), folder)
    wrong = folder / "models" / "nano.yaml"
    wrong.write_text(wrong.read_text().replace("source: nanogpt", "source: nanogbt"))
    for checked in (folder, wrong):
        found = [str(complaint) for complaint in survey(checked).complaints]
        assert found == [f"{wrong}:3:9: there is no source `nanogbt` in sources.yaml; did you mean `nanogpt`?"]
