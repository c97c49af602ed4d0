"""The lists: the curriculum, the items of a concept, search hits and demos."""

from dataclasses import replace

from inline_snapshot import snapshot
from sample_catalog import CATALOG, RING, SENT, SHIPPED, drawn

from ddpquiz.curriculum.catalog import Catalog, Track
from ddpquiz.curriculum.concept import DemoLink
from ddpquiz.curriculum.demo_scripts import Demo
from ddpquiz.curriculum.demo_scripts import demos as all_demos
from ddpquiz.learning.side_files import Timing
from ddpquiz.terminal.pages import lists
from ddpquiz.terminal.pages.lists import LearnedSoFar, demos


def test_the_curriculum_is_listed_with_what_each_concept_holds():
    assert drawn(lists.curriculum(CATALOG)) == snapshot("""\
  concept                         cards  questions  demos

Collectives
  ops      Collective operations      0          0      1
  ring     The ring                   1          4      1

2 concepts · 1 card · 4 questions · 1 demo
ddpquiz learn CONCEPT
""")


def test_the_items_of_a_concept_are_listed():
    assert drawn(lists.contents(RING)) == snapshot("""\
The ring  ring

Cards
  held  easy
    What does each rank hold after `all_reduce`?

Questions
  sent  medium number
    4 ranks all-reduce 1,200 bytes. How many does each send?
  bug  hard choice
    Which line mends it?
  order  easy order
    In order?
  prints  easy output
    What does it print?

Explain
  why
    Explain the ring.

ddpquiz show ring/ITEM
""")


def test_a_search_names_the_kind_of_each_hit_and_shows_no_answer():
    assert drawn(lists.found(CATALOG.search("mends barrier"), "mends barrier")) == snapshot("""\
ring/bug  question
  Which line mends it?
""")
    assert "  if rank == 0:\n" in drawn(lists.found(CATALOG.search("mends if"), "mends if"))


def test_what_can_be_read_stands_before_questions():
    hits = sorted(CATALOG.search("all-reduce"), key=lambda hit: hit.kind != "question")
    assert hits[0].key == "ring/sent"
    assert lists.to_read(hits) == [*hits[1:], hits[0]]


def test_a_search_shows_text_and_no_notation():
    long = "x " * 50
    ring = replace(
        RING,
        idea=f"{long}the *global\nbatch* matters.",
        why="",
        cards=(),
        questions=(replace(SENT, ask="A batch has {=2 * n} of {s} samples.", code="# of rows"),),
    )
    catalog = replace(CATALOG, concepts=(ring,))
    assert drawn(lists.found(catalog.search("batch"), "batch")).splitlines() == snapshot(
        [
            "ring/sent  question",
            "  A batch has 8 of 1,200 samples.",
            "ring  concept",
            "  The ring",
            "  … x x x x the global batch matters.",
        ]
    )
    bold = replace(CATALOG, concepts=(replace(ring, idea="**One hook.** Its bucket is full."),))
    assert "  Its bucket is full.\n" in drawn(lists.found(bold.search("bucket"), "bucket"))
    bold = replace(CATALOG, concepts=(replace(ring, idea="**A full bucket? Now it goes.**"),))
    assert "  A full bucket?\n" in drawn(lists.found(bold.search("bucket"), "bucket"))
    assert "    # of rows\n" not in drawn(lists.found(catalog.search("rows"), "rows"))
    assert "  # of rows\n" in drawn(lists.found(catalog.search("rows"), "rows"))


def test_titles_are_never_cut():
    title = "A title that is longer than what is left beside the numbers"
    lines = drawn(lists.curriculum(replace(CATALOG, concepts=(replace(RING, title=title),)))).splitlines()
    assert " ".join(" ".join(lines[3:5]).split()) == snapshot(
        "ring A title that is longer than what is left 1 4 1 beside the numbers"
    )


def test_a_demo_is_listed_under_its_concepts_track_with_its_time():
    early = replace(RING, id="why", track="early", demos=(DemoLink("ring", "x"), DemoLink("ddp", "x")))
    late = replace(RING, id="ddp", track="late", demos=(DemoLink("ddp", "x"),))
    tracks = (Track("early", "Early", ("why",)), Track("late", "Late", ("ddp",)))
    known = [Demo(name, f"What {name} shows, " + " ".join(["at length"] * 6), "") for name in ("ddp", "other", "ring")]
    took = {"ddp": Timing(1.96, 4), "other": Timing(0.32, 1, ("--size", "6")), "gone": Timing(1.0, 2)}
    assert drawn(demos(Catalog(tracks, (early, late), {}), known, took)) == snapshot("""\
Early
  ring   What ring shows, at length at length at length at length at length at
         length

Late
  ddp    What ddp shows, at length at length at length at length at length at
         length  2.0 s on 4 ranks

Others
  other  What other shows, at length at length at length at length at length at
         length  0.3 s on 1 rank with --size 6

ddpquiz demo NAME           run it
ddpquiz demo NAME --help    explain it and its options
ddpquiz demo NAME --copy .  copy the script, to read and change it
ddpquiz demo --replay NAME  play a saved run, one operation at a time
""")


def test_shipped_demos_stand_where_they_are_explained():
    page = drawn(demos(SHIPPED, all_demos(SHIPPED.demos), {}))
    under = {}
    for line in page.splitlines():
        if line and not line.startswith(" "):
            track = line
        elif line.startswith("  ") and line[2] != " ":
            under[line.split()[0]] = track
    assert (under["ddp"], under["collectives"], under["allreduce"]) == ("Data parallel", "Collectives", "Collectives")
    assert under["launch"] == "Launch and configuration"
    assert under["dp_vs_ddp"] == "Data parallel"


def test_the_core_route_comes_first_with_how_far_one_is():
    known = replace(CATALOG, core=("ring",))
    page = drawn(
        lists.curriculum(known, learned={"ring": LearnedSoFar(1, is_read=True), "ops": LearnedSoFar(0, is_read=False)})
    )
    assert page == snapshot("""\
     concept                         cards  questions  demos

Core route, to learn first
  ✓  ring     The ring                 1/1          4      1

Collectives
  ▸  ops      Collective operations    0/0          0      1

2 concepts · 1 card · 4 questions · 1 demo
✓ lesson read · ▸ begun · cards: seen/all
ddpquiz learn CONCEPT
""")
    assert "✓" not in drawn(lists.curriculum(known))
