"""A lesson in steps: what fits is read, and what does not is named with its line and column."""

import pytest
from ring_file import VALID, complaints, read

from ddpquiz.curriculum.concept import DemoLink, Shows
from ddpquiz.curriculum.listing import changed_code, whole_script

LESSON = """\
lesson:
  - text: All ranks add up their tensors.
    run:
      ranks: 2
      code: |
        x = torch.tensor(rank + 1.0)
        if rank >= 0:
            dist.all_reduce(x)
        print(x.item())
      prints: {0: "3.0", 1: "3.0"}
    then: Both have the sum.
    change:
      line: dist.all_reduce(x)
      to: pass
      prints: {0: "1.0", 1: "2.0"}
      then: Each keeps its own.
  - text: A ring has no root.
    ask: ring-bytes
    demo: {run: ring, args: [--size, "2400"], ranks: 4, labels: [bytes sent]}
    then: Less than twice the tensor.
  - text: A card can be recalled, too.
    ask: limit
more: |
  A second example.
"""
_START, _END = VALID.index("why: |"), VALID.index("demos:\n")
IN_STEPS = VALID[:_START] + LESSON + VALID[_END:]
FIRST = IN_STEPS[:_START].count("\n")  # lines above the lesson


CASES = {
    "a key that is unknown": ("    ask: limit\n", "    asks: limit\n", ["21:5: a step ends in something to do: give it `ask`, `run` or `demo`", "22:5: unknown key `asks`; did you mean `ask`?"]),
    "a step without anything to do": ("    ask: limit\n", "", ["21:5: a step ends in something to do: give it `ask`, `run` or `demo`"]),
    "a question that does not exist": ("ask: ring-bytes", "ask: ring-byts", ["18:10: `ask`: `ring-byts` is not a question or card of this file; did you mean `ring-bytes`?"]),
    "a line that is not in the code": ("line: dist.all_reduce(x)", "line: dist.all_reduce(y)", ["13:13: `line`: no line of `code` is `dist.all_reduce(y)`; name exactly one whole line, without its indentation"]),
    "a line that is there twice": ("        print(x.item())\n", "        dist.all_reduce(x)\n        print(x.item())\n", ["14:13: `line`: 2 lines of `code` are `dist.all_reduce(x)`; name exactly one whole line, without its indentation"]),
    "a line that does not change": ("to: pass", "to: dist.all_reduce(x)", ["14:11: `to`: it is the line as it is"]),
    "a rank that is not started": ('prints: {0: "3.0", 1: "3.0"}', 'prints: {0: "3.0", 2: "3.0"}', ["10:15: `prints`: there is no rank 2; `ranks` is 2, and ranks count from 0"]),
    "a rank that is not started after the change": ('prints: {0: "1.0", 1: "2.0"}', 'prints: {3: "2.0"}', ["15:15: `prints`: there is no rank 3; `ranks` is 2, and ranks count from 0"]),
    "a listing that prints nothing": ('      prints: {0: "3.0", 1: "3.0"}\n', "", ["4:7: missing key `prints`"]),
    "code that is not Python": ("        print(x.item())\n", "        print(x.item(\n", ["9:21: `code` is not valid Python: '(' was never closed", "14:11: `to` is not valid Python: '(' was never closed"]),
    "a change that is not Python": ("to: pass", "to: if", ["14:11: `to` is not valid Python: invalid syntax"]),
    "a change without a listing": ("    ask: limit\n", "    ask: limit\n    change: {line: x, to: y, prints: z}\n", ["23:13: `change`: it changes a line of `run`, which this step does not have"]),
    "a demo that does not exist": ("run: ring, args: [--size", "run: rings, args: [--size", ["19:17: there is no demo `rings` in demos/; did you mean `ring`?"]),
    "an option that the demo does not have": ('args: [--size, "2400"]', 'args: [--sizes, "2400"]', ["19:29: `args`: the demo `ring` has no `--sizes`; did you mean `--size`?"]),
    "a label that the demo does not print": ("labels: [bytes sent]", "labels: [bytes seen]", ["19:66: `label`: the demo `ring` does not print `bytes seen`"]),
    "a picture that does not exist": ("    ask: limit\n", "    ask: limit\n    picture: rng\n", ["23:14: there is no picture `rng` in pictures/"]),
    "a picture of no text": ("more: |\n  A second example.\n", "picture: ring\n", ["23:10: `picture`: it is shown with `more`, which is missing; name it in a step", "23:10: there is no picture `ring` in pictures/"]),
    "a code block that is never closed": ("text: A ring has no root.", 'text: "A ring:\\n\\n```\\nno root"', ["17:11: `lesson`: a code block is never closed"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_in_a_step_is_reported_with_its_place(place, name):
    """The lines are counted from that of `lesson:`."""
    old, new, expected = CASES[name]
    assert old in IN_STEPS
    place.write_text(IN_STEPS.replace(old, new, 1), "utf-8")
    found = [complaint.split(":", 1) for complaint in complaints()]
    assert [f"{int(line) - FIRST}:{rest}" for line, rest in found] == expected


def test_the_steps_are_read_and_their_demos_count_as_those_of_the_concept():
    concept = read(IN_STEPS).concept
    listing = concept.steps[0].listing
    assert concept.in_steps
    assert (listing.ranks, listing.shows) == (2, Shows(by_rank={0: "3.0", 1: "3.0"}))
    assert listing.change.then == "Each keeps its own."
    assert concept.asked_in(concept.steps[2]) is concept.cards[-1]
    assert concept.asked_in(concept.steps[0]) is None
    assert concept.demos[0] == DemoLink("ring", "bytes sent", ("--size", "2400"), 4, "ring-bytes", ("bytes sent",))
    assert [link.args for link in concept.demos] == [("--size", "2400"), ("--size", "1200")]
    assert (concept.why, concept.mistakes, concept.remember) == ("", (), ())
    assert concept.lesson.startswith("All ranks add up")
    assert concept.lesson.endswith("A second example.")


def test_a_lesson_in_one_text_is_one_step_with_nothing_to_do():
    concept = read(VALID).concept
    assert [step.is_done_by_learner for step in concept.steps] == [False]
    assert not concept.in_steps
    assert concept.lesson == concept.steps[0].text


HEAD = (
    "import os, torch, torch.distributed as dist\n"
    'dist.init_process_group("gloo")\nrank = dist.get_rank()\nworld_size = dist.get_world_size()\n\n'
)


@pytest.mark.parametrize(
    ("code", "script"),
    [
        ("print(rank)", HEAD + "print(rank)\n\ndist.destroy_process_group()\n"),
        ('import os\n\nprint(os.environ["RANK"])', 'import os\n\nprint(os.environ["RANK"])\n'),
        ("print(1)", "print(1)\n"),
        (
            'dist.init_process_group("gloo")\nprint(dist.get_rank())',
            'import os, torch, torch.distributed as dist\n\ndist.init_process_group("gloo")\nprint(dist.get_rank())\n',
        ),
        ("print(rank)\ndist.destroy_process_group()", HEAD + "print(rank)\ndist.destroy_process_group()\n"),
    ],
    ids=["uses the head", "defines all it uses", "uses nothing", "joins by itself", "ends the group by itself"],
)
def test_a_listing_gets_the_head_and_the_tail_that_it_uses_and_does_not_have(code, script):
    assert whole_script(code) == script


def test_a_wrapped_model_is_deleted_before_the_group_ends():
    script = whole_script("net = torch.nn.Linear(1, 1)\nddp = torch.nn.parallel.DistributedDataParallel(net)")
    assert script.index("import torch.distributed.nn") < script.index("init_process_group")
    assert script.endswith("\ndel ddp\ndist.destroy_process_group()\n")


def test_a_changed_line_keeps_its_indentation():
    code = "if rank:\n    dist.barrier()\nprint()"
    assert changed_code(code, "dist.barrier()", "pass\npass") == "if rank:\n    pass\n    pass\nprint()"
