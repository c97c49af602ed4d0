"""The catalog: all concepts together, cross-checked, in order and searchable."""

import gc
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from places import DATA

from ddpquiz.curriculum.demo_scripts import demos
from ddpquiz.curriculum.loading import load
from ddpquiz.curriculum.survey import survey
from ddpquiz.errors import ContentError, UserError

RING = (DATA / "content" / "collectives" / "ring.yaml").read_text("utf-8")

THREE = " or ".join(f"'{concept}/why-not-a-root'" for concept in ("sum", "ring", "ddp"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two tracks with three concepts: sum, then ring, then ddp."""
    shutil.copytree(DATA, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    content = Path("content")
    write(content, "collectives/sum", title="A sum", needs="[]")
    write(content, "collectives/ring", needs="[sum]")
    write(content, "data-parallel/ddp", title="DDP", needs="[ring]")
    tracks(content, collectives=["sum", "ring"], **{"data-parallel": ["ddp"]})
    return content


def write(content, name, title="All-reduce and the ring", needs="[]"):
    path = content / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(RING.replace("All-reduce and the ring", title, 1).replace("needs: []", f"needs: {needs}"), "utf-8")


def tracks(content, **concepts):
    lines = [f"{track}: {{title: {track}, concepts: [{', '.join(ids)}]}}\n" for track, ids in concepts.items()]
    (content / "tracks.yaml").write_text("".join(lines), "utf-8")


def complaints(path):
    return [str(complaint) for complaint in survey(path, thorough=True).complaints]


def test_concepts_come_in_the_order_in_which_they_are_learned(folder):
    catalog = load(folder)
    assert [concept.id for concept in catalog.concepts] == ["sum", "ring", "ddp"]
    assert [track.title for track in catalog.tracks] == ["collectives", "data-parallel"]
    assert catalog.sources["dist"].address.startswith("https://")
    assert len(catalog.cards()) == 18
    assert len(catalog.questions()) == 30
    assert catalog.demos == Path.cwd() / "demos"


def test_concepts_and_items_are_found_by_name(folder):
    catalog = load(folder)
    assert catalog.concept("ring").title == "All-reduce and the ring"
    assert catalog.item("sum/limit").front == snapshot("What does a rank send for very many ranks?")
    assert catalog.item("ddp/ring-bytes").concept == "ddp"
    assert catalog.item("ddp/why-not-a-root").points


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("rings/limit", "No concept named 'rings'. Did you mean 'ring'?"),
        ("zebra/limit", "No concept named 'zebra'. See `ddpquiz list`."),
        ("ring/limits", "No item named 'ring/limits'. Did you mean 'ring/limit'?"),
        ("ring/q", "No item named 'ring/q'. See `ddpquiz list ring`."),
        ("ring", "'ring' is no card or question; their names are concept/id. See `ddpquiz list ring`."),
        ("rings", "'rings' is no card or question; their names are concept/id. See `ddpquiz list ring`."),
        ("zebra", "'zebra' is no card or question; their names are concept/id. See `ddpquiz list`."),
        (
            "why-not-a-roo",
            "'why-not-a-roo' is no card or question; their names are concept/id. Did you mean " + THREE + "?",
        ),
        ("chunks/limit", "No concept named 'chunks'. Did you mean 'sum'?"),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_the_nearest(folder, name, sentence):
    with pytest.raises(UserError) as refusal:
        load(folder).item(name)
    assert str(refusal.value) == sentence


MEANT = {
    "ddp": "ddp-mechanics", "nccl": "nccl-operations", "allreduce": "all-reduce-ring", "buckets": "overlap-bucketing",
    "dp": "data-parallelism", "tp": "tensor-parallel", "pp": "pipeline-bubble", "xyzzy": "",
}  # fmt: skip


@pytest.mark.parametrize("word", MEANT)
def test_a_part_of_a_name_or_a_word_of_its_text_leads_to_a_concept(word):
    with pytest.raises(UserError) as refusal:
        load().concept(word)
    advice = f"Did you mean '{MEANT[word]}'?" if MEANT[word] else "See `ddpquiz list`."
    assert str(refusal.value) == f"No concept named '{word}'. {advice}"


def test_an_item_is_found_by_its_id_alone():
    with pytest.raises(UserError, match="Did you mean 'all-reduce-ring/two-phases'"):
        load().item("two-phases")


def test_the_path_to_a_concept_leads_through_its_needs(folder):
    catalog = load(folder)
    assert [concept.id for concept in catalog.path("ddp")] == ["sum", "ring", "ddp"]
    assert [concept.id for concept in catalog.path("sum")] == ["sum"]


def test_a_search_ranks_what_holds_all_words_in_its_heading_first(folder):
    catalog = load(folder)
    assert catalog.search("DDP")[0].key == "ddp"
    found = catalog.search("large chunk")
    assert found[0].heading == "How large is a chunk in the ring?"
    assert catalog.search("no-such-word ring") == catalog.search("ring")
    assert catalog.search('"large chunk"') == found
    assert catalog.search("  ") == catalog.search("no-such-word") == ()


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("deadlock", {"deadlock", "hangs-desync"}),
        ("deadlock hang", {"deadlock", "hangs-desync"}),
        ("deadlocks hanging", {"deadlock", "hangs-desync"}),
        ("hangs-desync", {"hangs-desync"}),
        ("lr scaling", {"lr-scaling", "lr_scaling"}),
        ("averaging gradients", {"gradient-averaging"}),
        ("rank", {"process-model"}),
        ("world_size", {"process-model"}),
        ("bubble", {"pipeline-bubble"}),
    ],
)
def test_concepts_and_demos_come_first_whatever_the_form_of_the_words(words, first):
    assert {hit.key for hit in load().search(words)[: len(first)]} == first


def test_a_search_finds_every_kind_and_knows_a_part_of_a_word():
    assert {hit.kind for hit in load().search("ring")} == {"concept", "demo", "lab", "card", "question"}
    assert "deadlock" in {hit.key for hit in load().search("deadl")}


def change_nothing(content):
    """Leave it as it is."""


def drop(name):
    return lambda content: (content / name).unlink()


def rename(old, new):
    def change(content):
        (content / new).parent.mkdir(exist_ok=True)
        (content / old).rename(content / new)

    return change


def rewrite(name, needs):
    return lambda content: write(content, name, needs=needs)


def list_as(**concepts):
    return lambda content: tracks(content, **{track.replace("_", "-"): ids for track, ids in concepts.items()})


def break_demo(content):
    (content.parent / "demos" / "ring.py").write_text("print(\n", "utf-8")


AT = "content/collectives/ring.yaml:1:1:"
CHANGES = {
    "nothing": (change_nothing, []),
    "a concept that tracks.yaml does not name": (
        list_as(collectives=["sum", "ring"]),
        ["content/data-parallel/ddp.yaml:1:1: `ddp` is not in tracks.yaml; add it there under its track"],
    ),
    "a name without a file": (
        drop("data-parallel/ddp.yaml"),
        ["content/tracks.yaml:2:50: there is no file data-parallel/ddp.yaml"],
    ),
    "a concept in another folder": (
        rename("data-parallel/ddp.yaml", "collectives/ddp.yaml"),
        [
            "content/collectives/ddp.yaml:1:1: tracks.yaml has `ddp` in the track `data-parallel`, not `collectives`",
        ],
    ),
    "a concept that is named twice": (
        list_as(collectives=["sum", "ring", "sum"], data_parallel=["ddp"]),
        ["content/tracks.yaml:1:57: the concept `sum` is listed twice"],
    ),
    "two files with one name": (
        rewrite("data-parallel/ring", "[]"),
        ["content/data-parallel/ring.yaml:1:1: the concept `ring` already has the file content/collectives/ring.yaml"],
    ),
    "a need that is learned later": (
        list_as(collectives=["ring", "sum"], data_parallel=["ddp"]),
        [
            "content/collectives/ring.yaml:2:9: `needs`: `sum` is learned later; move it before `ring` in tracks.yaml",
        ],
    ),
    "needs in a circle": (
        rewrite("collectives/sum", "[ddp]"),
        [
            "content/collectives/ring.yaml:2:9: `needs` is circular: ring -> sum -> ddp -> ring",
            "content/collectives/sum.yaml:2:9: `needs` is circular: sum -> ddp -> ring -> sum",
            "content/data-parallel/ddp.yaml:2:9: `needs` is circular: ddp -> ring -> sum -> ddp",
        ],
    ),
    "no tracks.yaml": (drop("tracks.yaml"), ["content/tracks.yaml:1:1: there is no such file or folder"]),
    "no sources.yaml": (drop("sources.yaml"), ["content/sources.yaml:1:1: there is no such file or folder"]),
    "another ending": (
        rename("data-parallel/ddp.yaml", "data-parallel/ddp.yml"),
        [
            "content/data-parallel/ddp.yml:1:1: a concept belongs in <track>/<concept>.yaml; move or rename the file",
            "content/tracks.yaml:2:50: there is no file data-parallel/ddp.yaml",
        ],
    ),
    "a file outside of a track": (
        rename("sources.yaml", "source.yaml"),
        [
            "content/source.yaml:1:1: a concept belongs in <track>/<concept>.yaml; move or rename the file",
            "content/sources.yaml:1:1: there is no such file or folder",
        ],
    ),
    "a file below a track": (
        rename("data-parallel/ddp.yaml", "data-parallel/collectives/ddp.yaml"),
        [
            "content/data-parallel/collectives/ddp.yaml:1:1: a concept belongs in <track>/<concept>.yaml; move or rename the file",
            "content/tracks.yaml:2:50: there is no file data-parallel/ddp.yaml",
        ],
    ),
    "a demo that is no Python": (
        break_demo,
        [
            f"content/{name}.yaml:{place}: The demo ring cannot be read: '(' was never closed (ring.py, line 1)."
            for name in ("collectives/ring", "collectives/sum", "data-parallel/ddp")
            for place in ("38:10", "62:19", "158:19")
        ],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_does_not_go_together_is_named(folder, name):
    change, expected = CHANGES[name]
    change(folder)
    assert complaints(folder) == expected


def test_an_empty_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "content").mkdir()
    with pytest.raises(ContentError) as refusal:
        load(Path("content"))
    assert str(refusal.value).splitlines() == snapshot(
        [
            "content:1:1: there is no concept in this folder",
            "content/sources.yaml:1:1: there is no such file or folder",
            "content/tracks.yaml:1:1: there is no such file or folder",
        ]
    )


def test_a_missing_folder_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ContentError) as refusal:
        load(Path("contents"))
    assert str(refusal.value) == snapshot("contents:1:1: there is no such file or folder")


def test_one_file_is_checked_against_the_content_around_it(folder):
    rewrite("collectives/ring", "[sum, ddp, zebra]")(folder)
    drop("collectives/sum.yaml")(folder)
    ring = folder / "collectives" / "ring.yaml"
    assert complaints(ring) == snapshot(
        [
            "content/collectives/ring.yaml:2:14: `needs`: `ddp` is learned later; move it before `ring` in tracks.yaml",
            "content/collectives/ring.yaml:2:19: `needs`: there is no concept `zebra`",
        ]
    )
    assert complaints(folder / "data-parallel" / "ddp.yaml") == []


def test_what_could_be_read_is_surveyed_beside_the_complaints(folder):
    drop("data-parallel/ddp.yaml")(folder)
    assert [concept.id for concept in survey(folder).catalog.concepts] == ["sum", "ring"]


def test_the_garbage_collector_is_on_again_after_loading(folder):
    assert gc.isenabled()
    survey(folder)
    assert gc.isenabled()


def test_demos_are_listed_without_running_them(tmp_path):
    shutil.copytree(DATA / "demos", tmp_path, dirs_exist_ok=True)
    (tmp_path / "_draft.py").write_text("raise SystemExit", "utf-8")
    (tmp_path / "mute.py").write_text("raise SystemExit", "utf-8")
    mute, ring = demos(tmp_path)
    assert (ring.name, ring.summary) == ("ring", "A ring of ranks, and what each rank sends.")
    assert ring.flags == ("--size", "--verbose", "-v")
    assert (mute.name, mute.summary) == ("mute", "")


def test_loading_content_imports_nothing_heavy():
    code = "import sys; from ddpquiz.curriculum import loading, posed_question; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "pydantic", "markdown_it", "rich", "typer", "numpy"} & set(loaded)


def test_a_search_ranks_a_phrase_and_the_first_word_of_a_heading_higher():
    catalog = load()
    assert catalog.search("zero")[0].key == "zero-stages"
    first, *_ = catalog.search("out of memory")
    assert "out of memory" in f"{first.heading} {first.more}".lower()
