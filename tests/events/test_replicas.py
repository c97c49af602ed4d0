"""`--check-replicas`: replicas that differ are told at once, with rank, parameter and step; equal ones at the end."""

import passed
import pytest
from inline_snapshot import snapshot
from real_run import end, of, run

from ddpquiz.events.event import Exited, Issued, Note, Output, ReplicaSums, Started
from ddpquiz.events.replicas import Replicas

pytestmark = passed.ENGINE

TRAINING = """
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed.optim import ZeroRedundancyOptimizer
torch.manual_seed(7)
net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1).to(memory_format=torch.channels_last), torch.nn.Flatten(), torch.nn.Linear(8, 1))
model = {model}
optimizer = {optimizer}
for step in range(1, 21):
    {change}
    model(torch.randn(2, 1, 2, 2)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print("weights:", sum(p.double().sum().item() for p in model.parameters()), torch.rand(1).item())
dist.destroy_process_group()
"""
EQUAL = {"model": "DDP(net)", "optimizer": "torch.optim.SGD(model.parameters(), lr=0.1)", "change": "pass"}
CHANGED = "if step == 5 and rank == 1: net[2].bias.data += 0.001"
ZERO = "ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)"


def trained(script, ranks=2, check=True, **changed):
    events = run(script(TRAINING.format(**EQUAL | changed)), ranks=ranks, check_replicas=check)
    assert end(events).ok, end(events).why
    return events


NOTHING = "--check-replicas compared nothing: no optimizer has updated a DDP model."


def notes(events):
    return [each.text for each in of(events, Note) if "replica" in each.text]


def test_a_replica_that_differs_is_told_with_rank_parameter_and_step(script):
    (said,) = notes(trained(script, ranks=3, change=CHANGED))
    assert said == (
        snapshot(
            "After optimizer step 5 (script.py:15) the replicas differ: rank 1 has different values from ranks 0 and 2 in "
            "2.bias."
        )
    )


@pytest.mark.parametrize("optimizer", [EQUAL["optimizer"], ZERO])
def test_equal_replicas_are_told_once_at_the_end(optimizer, script):
    events = trained(script, optimizer=optimizer)
    assert notes(events) == ["--check-replicas compared replicas 20 times: they were equal each time."]
    assert [each.step for each in of(events, ReplicaSums) if each.rank == 0] == [*range(1, 21)]


def test_the_check_changes_neither_results_nor_calls(script):
    seen = []
    for check in (False, True):
        events = trained(script, check=check)
        assert bool(of(events, ReplicaSums)) == check
        printed = {each.rank: each.value for each in of(events, Output) if each.label == "weights"}
        seen.append(
            (printed, sorted((each.rank, each.operation.op, each.operation.line) for each in of(events, Issued)))
        )
    assert seen[0] == seen[1]


def test_a_model_without_ddp_is_left_out_with_one_note(script):
    events = trained(script, model="net")
    assert notes(events) == [NOTHING]  # what all ranks note is told once
    assert of(events, ReplicaSums) == []


def test_a_script_without_an_optimizer_is_told_that_nothing_was_compared(script):
    assert notes(run(script("dist.destroy_process_group()"), ranks=2, check_replicas=True)) == [NOTHING]
    assert notes(run(script("dist.destroy_process_group()"), ranks=2)) == []


def sums(rank, step, *values, members=(0, 1, 2, 3)):
    names = tuple(f"p{number}" for number in range(len(values))) if step == 1 else ()
    return ReplicaSums(float(step), rank, 0, members, step, 9, names, tuple(map(str, values)))


def said(*events):
    replicas = Replicas("train.py")
    return [note.text for event in events if (note := replicas.add(event))]


def test_a_step_is_compared_as_soon_as_all_ranks_have_made_it_and_told_once():
    replicas = Replicas("train.py")
    steps = [sums(rank, step, 1, int(rank == 2)) for step in (1, 2) for rank in range(4)]
    found = [replicas.add(each) for each in steps]
    assert [note is not None for note in found] == [False] * 3 + [True] + [False] * 4
    assert (found[3].rank, found[3].text) == (
        2,
        "After optimizer step 1 (train.py:9) the replicas differ: rank 2 has different values from ranks 0, 1 and 3 in p1.",
    )


def test_many_parameters_are_counted():
    events = [sums(rank, 1, *[rank // 3] * 6) for rank in range(4)]
    assert said(*events)[0].endswith("rank 3 has different values from ranks 0-2 in p0, p1, p2 and 3 more parameters.")


def test_groups_of_ranks_hold_different_models():
    pairs = [sums(rank, 1, rank // 2, members=members) for members in ((0, 1), (2, 3)) for rank in members]
    assert said(*pairs) == []


def test_a_rank_that_has_ended_is_not_waited_for():
    steps = [sums(0, 1, 5), sums(1, 1, 5), sums(3, 1, 6)]
    assert said(*steps) == []
    assert len(said(*steps, Exited(2.0, 2, 1))) == 1


def test_ranks_that_start_again_begin_anew():
    assert said(sums(0, 1, 5), Started(2.0, 0, 1, 1), sums(0, 1, 6), *(sums(rank, 1, 6) for rank in (1, 2, 3))) == []
