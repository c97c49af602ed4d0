"""The pages to read: a lesson, an item, the lists, drawn as text at the widths that people have."""

import io
import json
from dataclasses import asdict, replace

import pytest

from ddpquiz.curriculum.catalog import Catalog, Source, Track
from ddpquiz.curriculum.concept import (
    Card,
    CardLevel,
    CodeProof,
    Command,
    Concept,
    DemoLink,
    DemoProof,
    Kind,
    Level,
    Line,
    Mistake,
    Option,
    Point,
    Prompt,
    Question,
    Trap,
    Variable,
)
from ddpquiz.curriculum.demo_scripts import Demo
from ddpquiz.curriculum.demo_scripts import demos as all_demos
from ddpquiz.curriculum.loading import load
from ddpquiz.learning.side_files import Timing
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.pages import listing
from ddpquiz.terminal.pages.item import item_page
from ddpquiz.terminal.pages.lesson import demo_command, lesson
from ddpquiz.terminal.pages.listing import demos

HELD = Card(
    "ring",
    "held",
    CardLevel.BEGINNER,
    "What does each rank hold after `all_reduce`?",
    "The sum of all tensors.",
    "dist",
)
SENT = Question(
    "ring",
    "sent",
    Level.MEDIUM,
    Kind.NUMBER,
    "{n} ranks all-reduce {s} bytes. How many does each send?",
    variables=(Variable("n", ("4",)), Variable("s", ("1200",))),
    answer="2 * (n - 1) / n * s",
    unit="bytes",
    traps=(Trap("2 * s", "That is the limit for very many ranks."),),
    steps=("A chunk has {s} / {n} = {=s/n} bytes.", "There are 2(N-1) steps."),
    check="Between S and 2 S.",
    proof=DemoProof("n", "allreduce", "bytes sent by the ring", ("--size", "{=s/4}")),
)
BUG = Question(
    "ring",
    "bug",
    Level.HARD,
    Kind.CHOICE,
    "Which line mends it?",
    code="if rank == 0:\n    dist.all_reduce(x)",
    options=(
        Option("dist.all_reduce(x)", right=True, code=True),
        Option("dist.barrier()", why="A barrier moves no data.", code=True),
    ),
    proof=CodeProof("2", "print(1)\n<option>"),
    source="dist",
)
ORDER = Question(
    "ring", "order", Level.EASY, Kind.ORDER, "In order?", lines=(Line("reduce-scatter"), Line("all-gather"))
)
PRINTS = Question(
    "ring",
    "prints",
    Level.EASY,
    Kind.OUTPUT,
    "What does it print?",
    code="print(rank)",
    answer="[4.0]",
    traps=(Trap("[1.0]", "That is the mean."),),
    proof=CodeProof("4"),
)
EXPLAIN = Prompt(
    "ring", "why", "Explain the ring.", "Count.", "Every link is busy.", (Point("all links work", ("links",)),)
)
RING = Concept(
    id="ring",
    track="collectives",
    title="The ring",
    idea="Everybody sends to the right, so that every link works all the time and none of them carries more than two tensors.",
    why="After a backward pass each rank holds *its own* gradients.\nOne root would be a bottleneck.",
    lesson="""## In two phases

Call `dist.all_reduce(x)`, see [the docs](https://pytorch.org), and mind <rank> &amp; [bold]markup[/bold].

    rank 0 -> rank 1
       ^         |
    rank 3 <- rank 2

```python
dist.all_reduce(x)  # in place
```

- a list
- of two

| phase | moves |
| --- | --- |
| first | chunks |
""",
    needs=("ops",),
    commands=(
        Command(
            "torchrun --nproc-per-node 4 demos/allreduce.py",
            "Starts four ranks.",
            {"--nproc-per-node": "ranks to start"},
            "[rank 0] sum: 10\n[rank 1] sum: 10",
        ),
    ),
    mistakes=(Mistake("Log the sum as the mean.", "It is N times too large.", "Divide by `world_size`."),),
    remember=("2(N-1) steps.", "Bytes hardly grow with N."),
    demos=(DemoLink("allreduce", "the `bytes` of each rank", ("--size", "300"), 4, "sent"),),
    cards=(HELD,),
    questions=(SENT, BUG, ORDER, PRINTS),
    explain=(EXPLAIN,),
)
OPS = replace(RING, id="ops", title="Collective operations", needs=(), cards=(), questions=(), explain=())
CATALOG = Catalog((Track("collectives", "Collectives", ("ops", "ring")),), (OPS, RING), {})


def drawn(page, width=80):
    file = io.StringIO()
    layout.show(style.console(file, width=width), page)
    return file.getvalue()


LESSON = """\
The ring
collectives · ring

│ Everybody sends to the right, so that every link works all the time and none
│ of them carries more than two tensors.

Why
  After a backward pass each rank holds its own gradients. One root would be a
  bottleneck.

Lesson
  In two phases

  Call `dist.all_reduce(x)`, see the docs (https://pytorch.org), and mind <rank>
  &amp; [bold]markup[/bold].

      rank 0 -> rank 1
         ^         |
      rank 3 <- rank 2

      dist.all_reduce(x)  # in place

   • a list
   • of two

  phase  moves
  ─────────────
  first  chunks

Commands
  $ torchrun --nproc-per-node 4 demos/allreduce.py
    Starts four ranks.
      --nproc-per-node  ranks to start
    │ [rank 0] sum: 10
    │ [rank 1] sum: 10

  `ddpquiz demo allreduce --copy .` writes the script `allreduce.py` into this
  folder.

Mistakes
  wrong    Log the sum as the mean.
  then     It is N times too large.
  instead  Divide by `world_size`.

Remember
  • 2(N-1) steps.
  • Bytes hardly grow with N.

See it run
  ddpquiz demo allreduce --nproc 4 -- --size 300
    Look at the `bytes` of each rank
    It first asks for a prediction.

Next
  ddpquiz study ring    1 card to recall
  ddpquiz test ring     4 questions: 2 easy, 1 medium, 1 hard
  ddpquiz explain ring  describe it in your own words
  ddpquiz learn ops     read this first: Collective operations
"""


def test_a_lesson_at_80_columns():
    assert drawn(lesson(RING, before=[OPS])) == LESSON


def test_prose_is_no_wider_than_can_be_read():
    lines = drawn(lesson(replace(RING, lesson="word " * 100)), width=200).splitlines()
    assert 80 < max(map(len, lines)) <= layout.MEASURE


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_every_page_fits(width):
    pages = [lesson(RING, before=[OPS], after=[OPS]), *(item_page(item) for item in RING.items())]
    pages += [listing.curriculum(CATALOG), listing.learning_path([OPS, RING]), listing.contents(RING)]
    pages += [listing.found(CATALOG.search("rank"), "rank")]
    for page in pages:
        assert max(map(len, drawn(page, width).splitlines())) <= width


def test_what_is_printed_into_a_pipe_is_plain_and_has_no_blanks_at_the_ends_of_lines():
    text = drawn(lesson(RING))
    assert "\x1b" not in text
    assert not [line for line in text.splitlines() if line != line.rstrip()]


def test_content_cannot_steer_the_terminal():
    nasty = "a\x1b]8;;http://evil\x1b\\b\x9bc [link=http://evil]d[/link]"
    concept = replace(
        RING,
        title=nasty,
        idea=nasty,
        lesson=nasty,
        why=f"[click]({'http://evil'})\n\n```python\n{nasty}\n```",
        remember=(nasty,),
        commands=(Command(nasty, nasty, {nasty: nasty}, nasty),),
        mistakes=(Mistake(nasty, nasty, nasty),),
        demos=(DemoLink(nasty, nasty, (nasty,)),),
        cards=(replace(HELD, front=nasty, back=nasty),),
        questions=(replace(BUG, ask=nasty, code=nasty, check=nasty, proof=CodeProof("1", nasty)),),
    )
    pages = [
        lesson(concept),
        *map(item_page, concept.items()),
        listing.contents(concept),
        listing.learning_path([concept]),
    ]
    file = io.StringIO()
    console = style.console(file, width=80)
    console._force_terminal = True
    for page in pages:
        layout.show(console, page)
    text = file.getvalue()
    assert "\x1b]" not in text
    assert "\x9b" not in text
    assert "\x1b\\" not in text
    assert "click (http://evil)" in text  # a link always shows where it leads


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        (
            HELD,
            "ring/held  card · beginner\n\nWhat does each rank hold after `all_reduce`?\n\nThe sum of all tensors.\n",
        ),
        (
            SENT,
            """\
ring/sent  question · number · medium

4 ranks all-reduce 1200 bytes. How many does each send?

right  1800 bytes
       2 * (n - 1) / n * s with n = 4, s = 1200
wrong  2400
         That is the limit for very many ranks.

Steps
  1. A chunk has 1200 / 4 = 300 bytes.
  2. There are 2(N-1) steps.

Check
  Between S and 2 S.

Proof
  what the demo allreduce --size 300 prints as `bytes sent by the ring` on 4
  ranks
  ddpquiz prove ring/sent
""",
        ),
        (
            BUG,
            """\
ring/bug  question · choice · hard

Which line mends it?

│ if rank == 0:
│     dist.all_reduce(x)

right  dist.all_reduce(x)
wrong  dist.barrier()
         A barrier moves no data.

Proof
  this code on 2 ranks
  │ print(1)
  │ <option>
  ddpquiz prove ring/bug

Source
  A page · 2026
""",
        ),
        (ORDER, "ring/order  question · order · easy\n\nIn order?\n\n1. reduce-scatter\n2. all-gather\n"),
        (
            EXPLAIN,
            "ring/why  explain\n\nExplain the ring.\n\nA model answer\n  Every link is busy.\n\nA good answer makes these points\n  • all links work\n",
        ),
    ],
)
def test_an_item_is_shown_with_its_answer(item, shown):
    source = Source("dist", "A page", year="2026") if item is BUG else None
    assert drawn(item_page(item, source)) == shown


def test_the_curriculum_is_listed_with_what_each_concept_holds():
    assert (
        drawn(listing.curriculum(CATALOG))
        == """\
  concept                         cards  questions  demos

Collectives
  ops      Collective operations      0          0      1
  ring     The ring                   1          4      1

2 concepts · 1 card · 4 questions · 1 demo
ddpquiz learn CONCEPT
"""
    )


def test_the_items_of_a_concept_are_listed():
    assert (
        drawn(listing.contents(RING))
        == """\
The ring  ring

Cards
  held  beginner
    What does each rank hold after `all_reduce`?

Questions
  sent  medium number
    4 ranks all-reduce 1200 bytes. How many does each send?
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
"""
    )


def test_a_search_names_the_kind_of_each_hit_and_tells_no_answer():
    assert (
        drawn(listing.found(CATALOG.search("mends barrier"), "mends barrier"))
        == """\
ring/bug  question
  Which line mends it?
"""
    )
    assert "  if rank == 0:\n" in drawn(listing.found(CATALOG.search("mends if"), "mends if"))


def test_what_can_be_read_stands_before_questions():
    hits = sorted(CATALOG.search("all-reduce"), key=lambda hit: hit.kind != "question")
    assert hits[0].key == "ring/sent"
    assert listing.to_read(hits) == [*hits[1:], hits[0]]


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
    assert drawn(listing.found(catalog.search("batch"), "batch")).splitlines() == [
        "ring/sent  question",
        "  A batch has 8 of 1200 samples.",
        "ring  concept",
        "  The ring",
        "  … x x x x the global batch matters.",
    ]
    assert "    # of rows\n" not in drawn(listing.found(catalog.search("rows"), "rows"))
    assert "  # of rows\n" in drawn(listing.found(catalog.search("rows"), "rows"))


def test_titles_are_never_cut():
    title = "A title that is longer than what is left beside the numbers"
    lines = drawn(listing.curriculum(replace(CATALOG, concepts=(replace(RING, title=title),)))).splitlines()
    assert (
        " ".join(" ".join(lines[3:5]).split())
        == "ring A title that is longer than what is left 1 4 1 beside the numbers"
    )


def test_a_demo_stands_where_a_concept_is_about_it_with_the_time_that_it_took():
    early = replace(RING, id="why", track="early", demos=(DemoLink("ring", "x"), DemoLink("ddp", "x")))
    late = replace(RING, id="ddp", track="late", demos=(DemoLink("ddp", "x"),))
    tracks = (Track("early", "Early", ("why",)), Track("late", "Late", ("ddp",)))
    known = [Demo(name, f"What {name} shows, " + " ".join(["at length"] * 6), "") for name in ("ddp", "other", "ring")]
    took = {"ddp": Timing(1.96, 4), "other": Timing(0.32, 1, ("--size", "6")), "gone": Timing(1.0, 2)}
    assert (
        drawn(demos(Catalog(tracks, (early, late), {}), known, took))
        == """\
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
"""
    )


SHIPPED = load()


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


@pytest.mark.parametrize("concept", SHIPPED.concepts, ids=lambda concept: concept.id)
def test_drawings_of_shipped_lessons_are_not_folded_at_80_columns(concept):
    page = drawn(lesson(replace(concept, commands=())))
    assert [line for line in page.splitlines() if line.endswith(" \\")] == [
        f"      {line}" for line in concept.lesson.splitlines() if line.endswith(" \\")
    ]


@pytest.mark.parametrize("concept", SHIPPED.concepts, ids=lambda concept: concept.id)
def test_what_several_ranks_print_says_which_rank_printed_it(concept):
    for command in concept.commands:
        if command.run.startswith("torchrun") and command.prints:
            assert "--local-ranks-filter" in command.run or "[rank0]:" in command.prints


def test_a_demo_command_can_be_pasted():
    assert demo_command(DemoLink("ddp", "x", ("--name", "a b"), 2)) == "ddpquiz demo ddp --nproc 2 -- --name 'a b'"


def test_every_item_can_be_written_as_json():
    for item in RING.items():
        assert json.loads(json.dumps(asdict(item)))["id"] == item.id
