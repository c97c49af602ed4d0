"""The files of tracks and sources: what they hold, and what does not fit in them."""

from inline_snapshot import snapshot

from ddpquiz.curriculum.survey import read_sources, read_tracks
from ddpquiz.curriculum.yaml_file import YamlFile


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
