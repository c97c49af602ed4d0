"""`ddpquiz plan --here`: what a recorded run computes is played against what collectives cost on this machine."""

import json
import re

import pytest
from measured_machine import machine
from rank_events import Rank, began

from ddpquiz.analysis.events import End, Joining, Marked
from ddpquiz.cli.bench_file import save_bench
from ddpquiz.cli.plan_here import predict_here, request_of
from ddpquiz.errors import UserError
from ddpquiz.paths import demos_dir
from ddpquiz.planning.recorded_program import measured_step, recorded_program
from ddpquiz.planning.run_prediction import PredictedOperation, RunPrediction, meeting_cost, predict_run
from ddpquiz.terminal.kit import layout, style
from ddpquiz.terminal.pages.here_page import here_page, outcome_line


class Played:
    """Ranks that have joined at 0, each with a clock."""

    def __init__(self, ranks=2):
        self.ranks = [Rank(rank, ranks) for rank in range(ranks)]
        for rank in self.ranks:
            rank.events.append(Joining(0.0, rank.rank, done=True, line=1))

    def step(self, at):
        for rank, time in zip(self.ranks, at, strict=True):
            rank.events.append(Marked(time, rank.rank, "step", 9))

    def events(self, end=100.0):
        found = sorted((event for rank in self.ranks for event in rank.events), key=lambda event: event.time)
        return [began(len(self.ranks)), *found, End(end, True, 0, 0)]


def predict(played, seconds=1.0):
    return predict_run(recorded_program(played.events()), lambda _: seconds)


def test_a_call_costs_what_was_measured_here_and_not_what_it_lasted_in_the_warm_up():
    played = Played()
    for rank in played.ranks:
        rank.sync("all_reduce", 2.0, 9.0)  # computes 2, and 7 in the network of the warm-up
    found = predict(played, seconds=0.5)
    assert found.seconds == pytest.approx(2.5)
    assert found.computing == pytest.approx(2.0)
    assert not found.by_steps
    (operation,) = found.operations
    assert (operation.op, operation.calls, operation.bytes, operation.seconds) == ("all_reduce", 1, 16, 0.5)


def test_all_wait_for_the_rank_that_computes_longest():
    played = Played()
    for rank, computes in zip(played.ranks, (1.0, 4.0), strict=True):
        rank.sync("all_reduce", computes, 9.0).sync("all_reduce", 9.0 + computes, 20.0)
    found = predict(played)
    assert found.seconds == pytest.approx(4 + 1 + 4 + 1)
    assert found.waiting == pytest.approx(found.seconds - (1 + 4) - 2)  # of parts that are means over the ranks


def test_what_runs_in_the_background_costs_only_what_computing_does_not_hide():
    def in_background(computes):
        played = Played()
        for rank in played.ranks:
            number = rank.issue("all_reduce", 1.0, asynchronous=True)
            rank.end(1.1, number).wait(1.0 + computes, 1.0 + computes + 0.1, number)
        return predict(played, seconds=2.0).seconds

    assert in_background(computes=0.5) == pytest.approx(1 + 2)
    assert in_background(computes=5.0) == pytest.approx(1 + 5)


def test_collectives_in_the_background_follow_each_other():
    played = Played()
    for rank in played.ranks:
        first, second = (rank.issue("all_reduce", at, asynchronous=True) for at in (1.0, 1.0))
        rank.end(2.0, first).end(2.0, second).wait(1.0, 2.0, first).wait(2.0, 2.0, second)
    assert predict(played, seconds=3.0).seconds == pytest.approx(1 + 3 + 3)


def test_a_sender_does_not_wait_and_a_receiver_does():
    played = Played()
    played.ranks[0].sync("send", 5.0, 5.1, peer=1).sync("send", 5.2, 5.3, peer=1)
    played.ranks[1].sync("recv", 1.0, 5.1, peer=0).sync("recv", 6.0, 6.1, peer=0)
    found = predict(played, seconds=0.5)
    assert found.seconds == pytest.approx(5.0 + 0.5 + 0.9 + 0.5)  # the receiver computes 0.9 between the two


def test_a_step_is_the_mean_of_those_after_the_first():
    played = Played()
    for number in range(4):
        for rank in played.ranks:
            rank.sync("all_reduce", 10 * number + (8 if number == 0 else 3), 10 * number + 9)
        played.step([10 * number + 9.5 + number / 100] * 2)
    found = predict(played)
    assert found.by_steps
    assert found.steps == 3
    assert found.seconds == pytest.approx(3.5 + 1 + 0.5 + 0.01)
    assert found.operations[0].calls == 1
    seconds, steps = measured_step(played.events(), by_steps=True)
    assert (seconds, steps) == (pytest.approx(10.01), 3)
    assert measured_step(played.events(), by_steps=False)[0] == pytest.approx(39.0)


def test_costs_are_those_of_the_operation_and_of_the_ranks_that_take_part():
    bench = machine("all_reduce", "send", "broadcast")
    cost = meeting_cost(bench, "cpu")
    played = Played()
    played.ranks[0].sync("all_reduce", 1, 2, bytes=1000).sync("reduce", 3, 4, peer=0).sync("send", 5, 6, peer=1)
    played.ranks[1].sync("all_reduce", 1, 2, bytes=1000).sync("reduce", 3, 4, peer=0).sync("recv", 5, 6, peer=0)
    program = recorded_program(played.events())
    assert [cost(each) for each in program.meetings] == pytest.approx([301e-6, 300.016e-6, 300.016e-6])
    with pytest.raises(UserError, match="first run `ddpquiz bench --nproc 3`"):
        predict_run(recorded_program(_three_ranks().events()), cost)


def _three_ranks():
    played = Played(3)
    for rank in played.ranks:
        rank.sync("all_reduce", 1, 2)
    return played


def test_a_script_that_communicates_nothing_is_refused():
    with pytest.raises(UserError, match="communicates nothing"):
        predict(Played())


def test_a_demo_is_predicted_then_run_and_measured(home, monkeypatch, capsys):
    monkeypatch.setenv("DDPQUIZ_HOME", str(home))
    with pytest.raises(UserError, match="first run `ddpquiz bench`"):
        predict_here("ddp", 2, as_json=False)
    for group in machine("all_reduce", "all_gather", "broadcast").groups:
        save_bench(group)
    predict_here("ddp --steps 4", 2, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["what"], found["measured_steps"]) == ("step", 3)
    assert {each["op"] for each in found["operations"]} == {"all_reduce, DDP", "all_gather"}
    assert found["error"] == pytest.approx(found["predicted_seconds"] / found["measured_seconds"] - 1)
    with pytest.raises(UserError, match="cannot be predicted, because it fails"):
        predict_here("ddp --steps 0", 2, as_json=False)


def test_the_page_has_the_parts_of_a_step_and_what_was_measured():
    played = Played()
    for rank in played.ranks:
        rank.sync("all_reduce", 2.0, 9.0)
    found, out = predict(played, seconds=0.5), style.console(width=80)
    with out.capture() as shown:
        layout.show(out, here_page("train.py", found))
        layout.show(out, outcome_line(found, 2.0, 0.25))
    text = shown.get()
    assert re.search(r"computing \(measured in the warm-up\) +2 s", text)
    assert re.search(r"all_reduce +1  16 bytes +500 ms", text)
    assert re.search(r"Run on the slowest rank +2.5 s", text)
    assert "Run: predicted 2.5 s, measured 2 s: the prediction is 25% too high." in text


@pytest.mark.parametrize(
    ("seconds", "row"), [(9.0, "waiting for other ranks +3 s"), (5.0, "hidden by overlap +-1 s"), (6.0, "")]
)
def test_the_parts_of_a_prediction_add_up(seconds, row):
    barrier = PredictedOperation("barrier", 1.0, 0, 1.0)
    found = RunPrediction(seconds=seconds, steps=1, by_steps=False, computing=5.0, operations=(barrier,))
    with (out := style.console(width=80)).capture() as shown:
        layout.show(out, here_page("train.py", found))
        layout.show(out, outcome_line(found, 10.0, -0.1))
    text = shown.get()
    assert bool(re.search("waiting for|hidden by", text)) == bool(row)
    assert re.search(row, text)
    assert re.search(r"barrier +1 +- +1 s", text)
    assert "10% too low" in text


def test_a_name_means_a_demo_unless_there_is_such_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert request_of("ddp --steps 3", 2).script == demos_dir() / "ddp.py"
    assert request_of("ddp --steps 3", 2).args == ("--steps", "3")
    (tmp_path / "ddp").write_text("")
    assert request_of("ddp", None).script.absolute() == tmp_path / "ddp"
