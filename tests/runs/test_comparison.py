"""Two saved runs side by side: which call sites belong together, what changed, and the page and JSON of it."""

import io
import json
import os
import subprocess
import sys

import pytest
from rank_events import Rank, began

from ddpquiz.events import saved_run
from ddpquiz.events.comparison import Amounts, CallSite, compare, pair_call_sites
from ddpquiz.events.event import End
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.runs.comparison_page import SAME, comparison_page


def recorded(*steps, computes=(1.0, 1.0), repeat=4, why=""):
    """Return the events of two ranks that make the calls of each step: an operator, a line, seconds and bytes."""
    ranks, clocks = [Rank(0), Rank(1)], [0.0, 0.0]
    for _ in range(repeat):
        clocks = [clock + each for clock, each in zip(clocks, computes, strict=True)]
        for op, line, takes, size in steps:
            done = max(clocks) + takes
            for rank, clock in zip(ranks, clocks, strict=True):
                rank.sync(op, clock, done, line, bytes=size)
            clocks = [done, done]
    for rank in ranks:
        rank.exit(max(clocks))
    events = sorted((event for rank in ranks for event in rank.events), key=lambda event: event.time)
    return [began(2), *events, End(max(clocks), not why, 0, 0, why=why)]


BEFORE = recorded(("all_reduce", 5, 0.5, 100), ("broadcast", 9, 0.5, 40))


def sites(*lines):
    return [CallSite("", line, op) for op, line in lines]


def paired(first, second):
    return [(a and a.line, b and b.line) for a, b in pair_call_sites(sites(*first), sites(*second))]


def test_call_sites_that_moved_together_stay_pairs():
    two = [("all_reduce", 5), ("all_reduce", 9)]
    assert paired(two, [("all_reduce", 9), ("all_reduce", 13)]) == [(5, 9), (9, 13)]
    assert paired(two, [("all_reduce", 3), *two]) == [(None, 3), (5, 5), (9, 9)]
    assert paired([("barrier", 3), *two], two) == [(3, None), (5, 5), (9, 9)]


def test_a_call_site_with_another_operator_is_no_pair():
    assert paired([("all_reduce", 5)], [("broadcast", 5)]) == [(5, None), (None, 5)]


def test_very_many_call_sites_are_paired_by_line():
    first, second = [("send", line) for line in range(1200)], [("send", line) for line in range(600, 1800)]
    found = paired(first, second)
    assert sum(a is not None and a == b for a, b in found) == 600
    assert len(found) == 1800


def test_a_run_does_not_differ_from_itself():
    found = compare(BEFORE, BEFORE)
    assert not found.differs
    assert not [*found.new, *found.gone, *found.slower, *found.faster]


@pytest.mark.parametrize("change", [1.03, 0.97])
def test_times_that_differ_as_two_runs_do_are_no_difference(change):
    again = recorded(("all_reduce", 5, 0.5 * change, 100), ("broadcast", 9, 0.5, 40), computes=(change, change))
    assert not compare(BEFORE, again).differs


def test_what_got_slower_and_faster_is_told_with_its_share():
    found = compare(BEFORE, recorded(("all_reduce", 6, 1.5, 100), ("broadcast", 10, 0.1, 40)))
    (slower,), (faster,) = found.slower, found.faster
    assert (slower.op, slower.line_a, slower.line_b) == ("all_reduce", 5, 6)
    assert slower.difference == pytest.approx(4.0)
    assert found.share(slower.difference) == pytest.approx(0.5)
    assert (faster.op, faster.difference) == ("broadcast", pytest.approx(-1.6))
    assert [each.op for each in found.kinds] == ["all_reduce", "broadcast"]  # the largest difference first


def test_a_rank_that_computes_longer_makes_the_other_wait():
    found = compare(BEFORE, recorded(("all_reduce", 5, 0.5, 100), ("broadcast", 9, 0.5, 40), computes=(1.0, 2.0)))
    assert [each.compute for each in found.b.times] == pytest.approx([4.0, 8.0])
    (slower,) = found.slower
    assert slower.b.waiting == pytest.approx(2.0)  # four seconds on one of two ranks


def test_operations_that_are_new_or_gone_and_other_bytes():
    found = compare(BEFORE, recorded(("barrier", 3, 0.1, 0), ("all_reduce", 6, 0.5, 200), repeat=4))
    assert [each.op for each in found.new] == ["barrier"]
    assert [each.op for each in found.gone] == ["broadcast"]
    (both,) = found.both
    assert (both.a, both.b) == (Amounts(4, 400, 2.0, 0.0), Amounts(4, 800, 2.0, 0.0))
    assert found.differs


def page(found, width=80):
    out = io.StringIO()
    layout.show(style.console(out, width=width), comparison_page(found, ("before.json", "after.json")))
    return out.getvalue()


def test_the_page_fits_80_columns_and_names_what_changed():
    after = recorded(("barrier", 3, 0.1, 0), ("all_reduce", 6, 1.5, 1 << 30), repeat=5, why="rank 1 failed")
    text = page(compare(BEFORE, after))
    assert max(map(len, text.splitlines())) <= 80
    assert "B  after.json: 2 ranks, 13 s; it failed: rank 1 failed" in text
    assert "  train.py:5 → 6  all_reduce  2 s  7.5 s  +5.5 s         +69%\n" in text
    assert "  train.py:3  barrier        5  0 bytes  500 ms              -\n" in text
    assert "  train.py:5 → 6  all_reduce        4        5  400 bytes    5 GiB\n" in text
    assert "  rank 1  4 s  5 s   +1 s " in text


def test_runs_that_do_not_differ_give_one_sentence():
    text = page(compare(BEFORE, BEFORE))
    assert " ".join(text.split()).endswith(SAME)
    assert "Slower" not in text


def test_the_command_reads_saved_runs_and_refuses_other_files(tmp_path):
    def ddpquiz(*words):
        return subprocess.run(
            [sys.executable, "-m", "ddpquiz", "compare", *words],
            capture_output=True, text=True, timeout=60, cwd=tmp_path, env=os.environ | {"COLUMNS": "80"},
        )  # fmt: skip

    saved_run.save(BEFORE, tmp_path / "a.json")
    saved_run.save(recorded(("all_reduce", 5, 1.5, 100)), tmp_path / "b.json")
    ran = ddpquiz("a.json", "b.json", "--json")
    found = json.loads(ran.stdout)
    assert (ran.returncode, found["event"], found["differs"]) == (0, "comparison", True)
    assert {each["op"]: each["difference"] for each in found["sites"]} == {
        "all_reduce": pytest.approx(4.0), "broadcast": pytest.approx(-2.0),
    }  # fmt: skip
    (tmp_path / "c.json").write_text('{"event": "run"}\n')
    ran = ddpquiz("a.json", "c.json")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("c.json:1: invalid event")
    assert ran.stderr.count("\n") == 1
