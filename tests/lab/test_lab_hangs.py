"""Hangs in a lab: a check that knows better than the engine says why nothing moves, and where each rank waits."""

from dataclasses import replace

import passed
import pytest

from ddpquiz.curriculum.lab import LabRun
from ddpquiz.curriculum.labs import load_lab
from ddpquiz.events.event import Hung, Raised
from ddpquiz.events.run_state import RunState
from ddpquiz.lab.checker import check_solution
from ddpquiz.lab.verdict import FinishedRun, find_failure

pytestmark = passed.ENGINE

STALE = replace(load_lab("bounded-staleness"), runs=(LabRun(3, (1,)),))  # rank 1 is slow with seed 1
SENTENCES = {
    "one step too few": (
        "Rank 2 has finished 1 of 4 steps, the slowest 0, and the bound is 1: it may begin its next step, but got no weights. "
        "The server waits in line {line}."
    ),
    "answers one worker only": (
        "Rank 2 has finished 0 of 4 steps, the slowest 0, and the bound is 1: it may begin its next step, but got no weights. "
        "The server waits in line {line}."
    ),
    "receives in turn": "Rank 1 is slow here on purpose; line {line} waits for it alone. Receive from whoever comes first.",
    "step by step": "Rank 1 is slow here on purpose; line {line} waits for it alone. Receive from whoever comes first.",
    "also answers those that have finished": "Line {line} sends weights to rank 2, which has finished all its 4 steps.",
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_server_that_hangs_is_told_what_it_fails_to_do(tmp_path, name):
    file = tmp_path / STALE.file_name
    file.write_text(next(each.source for each in STALE.mutants if each.name == name))
    verdict = check_solution(STALE, file, fresh=9)
    assert (verdict.outcome, verdict.rank, verdict.sentence) == ("hang", 0, SENTENCES[name].format(line=verdict.line))
    assert (verdict.advice, verdict.line > 0) == ("", True)
    assert {each.file for each in verdict.waits} <= {str(file), str(STALE.check)}, "no line of torch or of the recorder"


def test_what_a_rank_raises_while_the_ranks_of_a_hang_are_ended_is_not_the_fault(tmp_path):
    file = tmp_path / STALE.file_name
    file.write_text(next(each.source for each in STALE.mutants if each.name == "one step too few"))
    events = list(check_solution(STALE, file, fresh=9).events)
    (at,) = (number for number, event in enumerate(events) if isinstance(event, Hung))
    echo = Raised(events[at].time + 0.01, 2, "RuntimeError", "Connection closed by peer", "")
    events = [*events[: at + 1], echo, *events[at + 1 : -1], replace(events[-1], rank=2)]
    seen = RunState()
    for event in events:
        seen.add(event)
    verdict = find_failure(STALE, file, FinishedRun(STALE.runs[0], tuple(events), seen))
    assert (verdict.outcome, verdict.rank) == ("hang", 0)


def test_a_rank_that_waits_in_the_check_is_shown_there(tmp_path):
    file = tmp_path / STALE.file_name
    file.write_text(next(each.source for each in STALE.mutants if each.name == "one step too few"))
    verdict = check_solution(STALE, file, fresh=9)
    lines = STALE.check.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "dist.recv(torch.tensor(0), other)" in text)
    assert {each.rank: (each.file, each.line) for each in verdict.waits}[1] == (str(STALE.check), line)
