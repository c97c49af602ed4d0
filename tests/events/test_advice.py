"""Advice on what a training script forgot: each rule has a script that it speaks about, and a close one."""

import passed
import pytest
from inline_snapshot import snapshot
from played_program import only, repeat
from real_run import end, run

from ddpquiz.diagnosis.diagnosis import UNEVEN
from ddpquiz.events.advice import advice
from ddpquiz.events.event import Started, TensorRead
from ddpquiz.events.timeline import Timeline

pytestmark = passed.ENGINE

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
    path = script(TRAINING.format(**RIGHT | changed))
    assert [each for each in advised(path, "") if "drift" in each or "same order" in each] == said


def test_a_small_tensor_that_takes_most_of_the_time_is_named():
    program = repeat(50, lambda program, _: program.call("all_reduce", 5, 0.1, (0.1, 0.1), bytes=400))
    assert only(program) == (
        snapshot(
            "train.py:5: each rank all-reduced 400 bytes 50 times, which cost 10 s in all, 45% of the ranks' time. Calls "
            "this small cost their latency, whatever they send: communicate more at once, and less often."
        )
    )


def test_a_small_tensor_is_not_named_where_ranks_wait_for_a_slow_one_or_compute():
    waits = repeat(50, lambda program, _: program.call("all_reduce", 5, 0.01, (0.1, 0.3), bytes=400))
    computes = repeat(50, lambda program, _: program.call("all_reduce", 5, 0.01, (0.3, 0.3), bytes=400))
    assert waits.advice() == computes.advice() == ()


SHARDED = """
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
model = torch.nn.Sequential({layers})
{shard}
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model(torch.ones(2, 4)).sum().backward()
optimizer.step()
dist.destroy_process_group()
"""
LAYERS = "torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)"
WHOLE = (
    "script.py:8: the model is sharded only as a whole, so each step gathers all parameters at once: memory has to hold "
    "the full model, and nothing overlaps. Call fully_shard on each block first, then on the model, or give FSDP an "
    "auto_wrap_policy."
)
ON_CPU = "device_id=torch.device('cpu')"
POLICY = "torch.distributed.fsdp.wrap.ModuleWrapPolicy({torch.nn.Linear})"
REPLICATED = "torch.distributed.fsdp.ShardingStrategy.NO_SHARD"
SHARDINGS = {
    "the whole": (LAYERS, "fully_shard(model)", [WHOLE]),
    "each layer": (LAYERS, "[fully_shard(each) for each in (*model, model)]", []),
    "one layer": ("torch.nn.Linear(4, 4)", "fully_shard(model)", []),
    "the whole, with FSDP": (LAYERS, f"model = FSDP(model, {ON_CPU})", [WHOLE]),
    "each layer, with FSDP": (LAYERS, f"model = FSDP(model, auto_wrap_policy={POLICY}, {ON_CPU})", []),
    "not at all, with FSDP": (LAYERS, f"model = FSDP(model, sharding_strategy={REPLICATED}, {ON_CPU})", []),
}


@pytest.mark.parametrize("name", SHARDINGS)
def test_a_model_that_is_sharded_only_as_a_whole_is_named(name, script):
    layers, shard, said = SHARDINGS[name]
    assert advised(script(SHARDED.format(layers=layers, shard=shard)), "sharded") == said


DROPOUT = """
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
torch.manual_seed({seed})
data = TensorDataset(torch.arange(16.0).reshape(16, 1))
ddp = DDP(torch.nn.Sequential(torch.nn.Linear(1, 8), {second}))
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
sampler = DistributedSampler(data)
for epoch in range({epochs}):
    sampler.set_epoch(epoch)
    for (batch,) in DataLoader(data, batch_size=16 // {epochs}, sampler=sampler):
        ddp(batch).sum().backward()
        optimizer.step()
dist.destroy_process_group()
"""
EQUAL = (
    "All 2 ranks drew the same random numbers in each step, so what they draw is equal: dropout masks, noise, random "
    "batches. Once the model is built, call torch.manual_seed(seed + rank)."
)
SEEDS = {
    "one seed": ("1", "torch.nn.Dropout()", 4, [EQUAL]),
    "a seed for each rank": ("rank", "torch.nn.Dropout()", 4, []),
    "one seed, and nothing random": ("1", "torch.nn.ReLU()", 1, []),
    "one seed, which only the DataLoader uses": ("1", "torch.nn.ReLU()", 4, []),
}


@pytest.mark.parametrize("name", SEEDS)
def test_ranks_that_draw_the_same_random_numbers_are_named(name, script):
    seed, second, epochs, said = SEEDS[name]
    assert advised(script(DROPOUT.format(seed=seed, second=second, epochs=epochs)), "random numbers") == said


EVALUATED = """
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
data = TensorDataset(torch.randn(16, 1))
samplers = [DistributedSampler(data), DistributedSampler(data)]
train, evaluate = [DataLoader(data, batch_size=2, sampler=each) for each in samplers]
ddp = DDP(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
for epoch in range(3):
    samplers[{changed}].set_epoch(epoch)
    for (batch,) in train:
        ddp(batch).sum().backward()
        optimizer.step()
    for (batch,) in evaluate:
        with torch.no_grad():
            ddp(batch)
dist.destroy_process_group()
"""


@pytest.mark.parametrize(("changed", "epochs"), [(0, 0), (1, 2)])
def test_an_order_that_is_only_evaluated_may_be_the_same(changed, epochs, script):
    said = advised(script(EVALUATED.format(changed=changed)), "same order")
    assert [text.partition(": ")[2].partition(" epochs")[0] for text in said] == [str(epochs)] * bool(epochs)


BATCHES = """
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
torch.manual_seed({seed})
data = torch.arange(32.0).reshape(32, 1)
ddp = DDP(torch.nn.Linear(1, 4))
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.0001)
for step in range(6):
    batch = {batch}
    ddp(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""
SAME = (
    "script.py:14: all 2 ranks computed the same gradients in each of the first 6 backward passes, so they do the work "
    "of one: they read the same batches. Use a DistributedSampler with each rank's own number, or let the seed that "
    "chooses the data depend on the rank."
)
CHOICES = {
    "one seed chooses the data": ("1", "data[torch.randint(32, (4,))]", [SAME]),
    "a seed for each rank": ("1 + rank", "data[torch.randint(32, (4,))]", []),
    "one seed, and a part for each rank": ("1", "data[torch.randperm(32)[4 * rank : 4 * rank + 4]]", []),
    "no sampler": ("1", "data[4 * step : 4 * step + 4]", [SAME]),
}


@pytest.mark.parametrize("name", CHOICES)
def test_ranks_that_train_on_the_same_batches_are_named(name, script):
    seed, batch, said = CHOICES[name]
    assert advised(script(BATCHES.format(seed=seed, batch=batch)), "gradients") == said


READING = """
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
total = 0.0
for step in range(30):
    loss = model(torch.ones(1, 1)).sum()
    loss.backward()
    optimizer.step()
    {read}
dist.destroy_process_group()
"""
READ = (
    "script.py:13: {how} reads a result of the model in each step. That is cheap on the CPU; on a GPU, the CPU would wait "
    "there in each step until the GPU is done. There, read such values once every few steps."
)
READINGS = {
    "item": ("total += loss.item()", [READ.format(how="item()")]),
    "a number in a text": ('print(f"{loss:.3f}")', [READ.format(how="print()")]),
    "print": ("print(loss)", [READ.format(how="print()")]),
    "every tenth step": ("if step % 10 == 0: print(loss.item())", []),
    "kept as a tensor": ("total = total + loss.detach()", []),
    "not a result of the model": ("total += torch.ones(1).item()", []),
}


@pytest.mark.parametrize("name", READINGS)
def test_a_line_that_reads_a_result_in_each_step_is_named(name, script):
    read, said = READINGS[name]
    assert advised(script(READING.format(read=read)), "reads") == said


def test_a_line_that_reads_a_tensor_of_a_gpu_in_each_step_makes_the_cpu_wait():
    timeline = Timeline()
    for rank in range(2):
        timeline.add(Started(0.0, rank, 100))
        timeline.add(TensorRead(1.0, rank, 9, "/home/trainer.py", "item()", True))
    (said,) = advice(timeline, 2.0)
    assert said == (
        snapshot(
            "trainer.py:9: item() reads a tensor of the GPU in each step. The CPU waits there until the GPU is done, and "
            "queues nothing for the next step meanwhile. Read such values once every few steps."
        )
    )


UNEVEN_STEPS = """
from contextlib import nullcontext
ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
with {around}:
    for step in range(4 - rank):
        ddp(x).sum().backward()
dist.destroy_process_group()
"""


@pytest.mark.parametrize(("around", "advice"), [("nullcontext()", UNEVEN), ("ddp.join()", "")])
def test_ranks_that_make_different_numbers_of_steps_are_told_of_join(around, advice, script):
    found = end(run(script(UNEVEN_STEPS.format(around=around)), timeout=2.0, diagnose=True))
    assert (found.ok, found.advice) == (not advice, advice), found.why


def advised(path, about):
    """Run a script, and return the advice on one subject."""
    events = run(path)
    assert end(events).ok, end(events).why
    timeline = Timeline()
    for event in events:
        timeline.add(event)
    return [each for each in advice(timeline, end(events).time, "script.py") if about in each]
