"""What a learner reads of a file that passes."""

import io
from dataclasses import replace
from pathlib import Path

from inline_snapshot import snapshot

from ddpquiz.curriculum.labs import load_lab
from ddpquiz.lab import lab_pages
from ddpquiz.lab.verdict import LabFigure, LabVerdict
from ddpquiz.terminal.kit import layout, style

LAB = load_lab("ring-all-reduce")
FILE = Path("/labs/ring_all_reduce.py")
PASSED = LabVerdict(outcome="passed", seconds=2.34, runs=4, ranks=4)


def drawn(*parts):
    console = style.console(io.StringIO(), width=80)
    for part in parts:
        layout.show(console, part)
    return console.file.getvalue()


def test_a_pass_says_what_was_checked_how_long_it_took_and_what_the_reference_does_otherwise():
    before = replace(PASSED, outcome="claim", seconds=0.51, runs=1)
    figures = (LabFigure("sent", "bytes", 1800, 1200), LabFigure("received", "bytes", 1200, 1200))
    assert drawn(*lab_pages.verdict(LAB, FILE, PASSED, figures, before)) == snapshot("""\
✓ It passes: 4 runs in 2.3 s; the try before failed after 1 run in 0.5 s.
A star is for a solution that does more than the task asks:
☆ fewest bytes: no more bytes than the ring needs (not met)

What the busiest of 4 ranks did in the last run, in all of its cases together
            yours        the reference
  sent      1,800 bytes  1,200 bytes
  received  1,200 bytes  1,200 bytes
  The reference is lower in sent.

What was checked
  ✓  all_reduce works in place: it returns nothing
  ✓  every rank holds the sum of all tensors
  ✓  within the budgets: no library collective, messages, bytes, rounds, ring
""")


def test_a_reference_with_the_same_figures_is_said_to_have_them():
    figures = (LabFigure("sent", "bytes", 1200, 1200),)
    assert "The reference has the same figures." in drawn(*lab_pages.verdict(LAB, FILE, PASSED, figures))


def test_the_task_names_the_file_that_the_learner_writes():
    assert "\nyour file  /labs/ring_all_reduce.py\n" in drawn(lab_pages.task(LAB, FILE))
