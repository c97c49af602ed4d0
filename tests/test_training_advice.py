"""Advice on what a training script forgot: each rule has a script that it speaks about, and a close one."""

import pytest
from real_run import end, run
from test_run_summary import only, repeat

from ddpquiz.analysis.run_summary import advice
from ddpquiz.analysis.timeline import Timeline

TRAINING = """
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
data = TensorDataset(torch.arange(8.0).reshape(8, 1))
sampler = DistributedSampler(data, shuffle={shuffle})
model = torch.nn.Linear(1, 1)
ddp = DDP(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
for epoch in range(3):
    {set_epoch}
    for (batch,) in DataLoader(data, batch_size=2, sampler=sampler):
        {forward}(batch).sum().backward()
        {by_hand}
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
"""
RIGHT = {"shuffle": True, "set_epoch": "sampler.set_epoch(epoch)", "forward": "ddp", "by_hand": "pass"}
DRIFT = (
    "script.py:11: the optimizer made 6 steps, but DDP never all-reduced a gradient: the replicas drift apart. Call "
    "the DDP model in the forward pass, as in ddp(x), not the model inside it."
)
ORDER = (
    "script.py:15: 2 epochs began with the same order of samples as the one before. Call sampler.set_epoch(epoch) "
    "before each epoch; without it, the sampler shuffles only once."
)
SCRIPTS = {
    "right": ({}, []),
    "the model inside": ({"forward": "model"}, [DRIFT]),
    "gradients reduced by hand": (
        {
            "forward": "model",
            "by_hand": "dist.all_reduce(torch.cat([p.grad.flatten() for p in model.parameters()] * 2))",
        },
        [],
    ),
    "no set_epoch": ({"set_epoch": "pass"}, [ORDER]),
    "no set_epoch, no shuffling": ({"set_epoch": "pass", "shuffle": False}, []),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_training_loop_is_advised_only_where_something_is_forgotten(name, script):
    changed, said = SCRIPTS[name]
    events = run(script(TRAINING.format(**RIGHT | changed)))
    assert end(events).ok, end(events).why
    timeline = Timeline()
    for event in events:
        timeline.add(event)
    found = advice(timeline, end(events).time, "script.py")
    assert [each for each in found if "drift" in each or "same order" in each] == said


def test_a_small_tensor_that_takes_most_of_the_time_is_named():
    program = repeat(50, lambda program, _: program.call("all_reduce", 5, 0.1, (0.1, 0.1), bytes=400))
    assert only(program) == (
        "train.py:5: each rank all-reduced 400 bytes 50 times, which cost 10 s in all, 45% of the ranks' time. Calls "
        "this small cost their latency, whatever they send: communicate more at once, and less often."
    )


def test_a_small_tensor_is_not_named_where_ranks_wait_for_a_slow_one_or_compute():
    waits = repeat(50, lambda program, _: program.call("all_reduce", 5, 0.01, (0.1, 0.3), bytes=400))
    computes = repeat(50, lambda program, _: program.call("all_reduce", 5, 0.01, (0.3, 0.3), bytes=400))
    assert waits.advice() == computes.advice() == ()
