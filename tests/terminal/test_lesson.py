"""Lessons, drawn as text at common widths."""

import io
import re
from dataclasses import replace

import pytest
from inline_snapshot import snapshot
from sample_catalog import BUG, CATALOG, HELD, OPS, RING, SHIPPED, drawn

from ddpquiz.curriculum.concept import CodeProof, Command, DemoLink, LessonStep, Mistake
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.pages import lists
from ddpquiz.terminal.pages.item import item_page
from ddpquiz.terminal.pages.lesson import A_TEST, demo_command, lesson
from ddpquiz.terminal.pages.lesson_steps import markdown_of
from ddpquiz.terminal.sittings.quiz_screen import QUESTIONS

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

  To get `demos/allreduce.py`: `ddpquiz demo allreduce --copy demos`

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
  ddpquiz learn ops     comes before this: Collective operations
"""


def test_a_lesson_at_80_columns():
    assert drawn(lesson(RING, before=[OPS])) == LESSON


def test_prose_is_no_wider_than_can_be_read():
    lines = drawn(lesson(replace(RING, steps=(LessonStep("word " * 100),))), width=200).splitlines()
    assert 80 < max(map(len, lines)) <= layout.MEASURE


def test_the_output_of_a_listing_has_a_bar():
    text = "```python ranks=2\nprint(1)\n```\n\n```output\n1\n1\n```\n"
    page = drawn(lesson(replace(RING, steps=(LessonStep(text),))))
    assert "      print(1)\n\n      │ 1\n      │ 1\n" in page


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_every_page_fits(width):
    pages = [lesson(RING, before=[OPS], after=[OPS]), *(item_page(item) for item in RING.items())]
    pages += [lists.curriculum(CATALOG), lists.learning_path([OPS, RING]), lists.contents(RING)]
    pages += [lists.found(CATALOG.search("rank"), "rank")]
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
        steps=(LessonStep(nasty),),
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
        lists.contents(concept),
        lists.learning_path([concept]),
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


@pytest.mark.parametrize("concept", SHIPPED.concepts, ids=lambda concept: concept.id)
def test_drawings_of_shipped_lessons_are_not_folded_at_80_columns(concept):
    page = drawn(lesson(replace(concept, commands=())))
    written = [line.strip() for line in concept.lesson.splitlines() if line.endswith(" \\")]
    assert [line.strip() for line in page.splitlines() if line.endswith(" \\")] == written


@pytest.mark.parametrize("concept", SHIPPED.concepts, ids=lambda concept: concept.id)
def test_drawings_below_more_are_not_folded_at_80_columns(concept):
    page = drawn(markdown_of(concept.more))
    written = [line.strip() for line in concept.more.splitlines() if line.endswith(" \\")]
    assert [line.strip() for line in page.splitlines() if line.endswith(" \\")] == written


@pytest.mark.parametrize("concept", SHIPPED.concepts, ids=lambda concept: concept.id)
def test_what_several_ranks_print_says_which_rank_printed_it(concept):
    for command in concept.commands:
        if command.run.startswith("torchrun") and command.prints:
            assert "--local-ranks-filter" in command.run or re.search(
                r"\[rank0\]:|local_rank: 0|\(local_rank", command.prints
            )


def test_a_demo_command_can_be_pasted():
    assert demo_command(DemoLink("ddp", "x", ("--name", "a b"), 2)) == snapshot(
        "ddpquiz demo ddp --nproc 2 -- --name 'a b'"
    )


def test_a_lesson_says_that_a_test_asks_some_of_many_questions():
    many = replace(RING, questions=RING.questions * 3)
    assert "12 questions: 6 easy, 3 medium, 3 hard; a test asks 10 of them" in " ".join(drawn(lesson(many)).split())
    assert A_TEST == QUESTIONS
