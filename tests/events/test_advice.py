"""The rules of advice: each speaks when it should, and only then."""

import passed
import pytest
from inline_snapshot import snapshot
from played_program import Program, only, repeat, shape
from rank_events import began, folded
from real_run import end, run

from ddpquiz.diagnosis.diagnosis import UNEVEN
from ddpquiz.events.advice import advice
from ddpquiz.events.event import End, Exited, OptimizerStep, Started, SyncPaused, SyncResumed, TensorRead
from ddpquiz.events.run_summary import summarize
from ddpquiz.events.timeline import Timeline

pytestmark = passed.ENGINE


# Rules on cost, with calls that are played.


def test_many_small_all_reduces_of_different_tensors_are_to_be_joined():
    program = Program()
    for _ in range(3):
        for length in range(10, 30):
            program.call("all_reduce", 5, 0.1, **shape(length))
    assert only(program) == (
        snapshot(
            "train.py:5: each rank made 60 all_reduces one after the other, of 78 bytes on average. Joined into flat "
            "tensors, as DDP joins gradients into buckets, there would be 3, which would save up to 11.4 s in all, 81% of the ranks' "
            "time."
        )
    )


SILENT = {
    "few of them": lambda: [Program().call("all_reduce", 5, 0.1, **shape(length)) for length in range(10, 25)][-1],
    "large tensors": lambda: repeat(60, lambda program, at: program.call("all_reduce", 5, 0.1, **shape(100_000 + at))),
    "the same tensor, again and again": lambda: repeat(
        60, lambda program, _: program.call("all_reduce", 5, 0.1, (0.4, 0.4), **shape(64))
    ),
    "other operations between them": lambda: repeat(
        60,
        lambda program, at: program.call("all_reduce", 5, 0.1, (0.4, 0.4), **shape(10 + at)).call(
            "all_gather", 6, 0.001
        ),
    ),
    "they cost next to nothing": lambda: repeat(
        60, lambda program, at: program.call("all_reduce", 5, 1e-6, (1.0, 1.0), **shape(10 + at))
    ),
    "a step has one synchronized pass": lambda: repeat(
        6, lambda program, _: program.bucket(8).bucket(8, 1).mark(OptimizerStep)
    ),
    "passes inside no_sync are not synchronized": lambda: repeat(
        6, lambda program, _: program.mark(SyncPaused).compute(0.1).mark(SyncResumed).bucket(8).mark(OptimizerStep)
    ),
    "both come last in turn": lambda: repeat(
        20, lambda program, at: program.call("all_reduce", 5, 0.01, (0.5 * (at % 2), 0.5 * (1 - at % 2)), bytes=100_000)
    ),
    "a rank comes last by next to nothing": lambda: repeat(
        20, lambda program, _: program.call("all_reduce", 5, 0.01, (1.0, 1.0001), bytes=100_000)
    ),
    "a few barriers": lambda: repeat(3, lambda program, _: program.call("barrier", 5, 1.0)),
}


@pytest.mark.parametrize("case", SILENT)
def test_no_rule_speaks_when(case):
    assert SILENT[case]().advice() == ()


def test_a_pass_that_is_synchronised_before_the_last_one_of_its_step_is_named():
    program = repeat(3, lambda program, _: program.bucket(8).bucket(8).bucket(8).bucket(9).mark(OptimizerStep))
    assert only(program) == (
        snapshot(
            "train.py:8: gradients were all-reduced in 4 backward passes per optimizer step. All but the last pass of a "
            "step reduced 9 MiB of gradients on each rank for nothing. Put all but the last forward and backward pass of a "
            "step inside no_sync(); the result is the same."
        )
    )


def test_a_pass_inside_no_sync_whose_forward_was_outside_is_named():
    program = Program().mark(SyncPaused).bucket(8).bucket(8, 1).mark(SyncResumed).mark(OptimizerStep)
    assert only(program) == (
        snapshot(
            "train.py:8: 1 backward pass inside no_sync() all-reduced gradients nevertheless. DDP decides in the "
            "forward pass whether to synchronize: put that inside no_sync(), too."
        )
    )


def test_a_rank_that_always_comes_last_is_named():
    program = repeat(20, lambda program, _: program.call("all_reduce", 5, 0.1, (0.1, 0.5), bytes=100_000))
    assert program.advice() == ()  # the first line of the summary says it
    assert program.summed().costliest.rank == 1
    program.device = "cuda"
    assert only(program) == (
        snapshot(
            "Rank 1 arrived last at 20 of 20 collectives, and the other ranks waited for it for 8 s in all, 31% of the "
            "ranks' time. Find out what else it does, or give it less work: the slowest rank sets the pace."
        )
    )


def test_a_single_number_in_every_step_is_named():
    program = repeat(50, lambda program, _: program.call("all_reduce", 5, 0.1, (0.5, 0.5), bytes=4, shapes=((),)))
    assert only(program) == (
        snapshot(
            "train.py:5: each rank all-reduced a single number 50 times, which cost 10 s in all, 16% of the ranks' "
            "time. If it is a loss to print, add it up on each rank and all-reduce the sum once every few steps."
        )
    )


@pytest.mark.parametrize("op", ["all_gather", "all_gather_into_tensor"])  # of torch up to 2.14, and from 2.15 on
def test_objects_in_a_loop_are_named(op):
    def gather_object(program, _):
        program.call(op, 5, 0.1, dtype="int64", shapes=((1,),), bytes=8)
        program.call(op, 5, 0.1, dtype="uint8", shapes=((70,),), bytes=70)

    assert only(repeat(20, gather_object)) == (
        f"train.py:5: each rank sent 20 objects through {op} as pickles, which cost 8 s in all, 80% of the ranks' "
        "time. Send tensors instead, or all objects at once."
    )


def gathered(sizes):
    def gather(program, at):
        program.call("all_gather", 5, 0.1, dtype="int64", shapes=((1,),), bytes=8)
        program.call("all_gather", 5, 0.1, dtype="uint8", shapes=((sizes[at],),), bytes=sizes[at])

    return [each for each in repeat(len(sizes), gather).advice() if "as pickles" not in each]


def test_calls_that_send_again_what_was_sent_before_are_named():
    growing = [10_000 * at for at in range(1, 16)]
    assert gathered(growing) == [
        (
            "train.py:5: nearly every all_gather was larger than the one before, from 9.77 KiB at first to 146 KiB on each "
            "rank: what was sent before is sent again. Send only what is new, and let the receivers keep the rest."
        )
    ]
    assert gathered([10_000, *growing]) != []


@pytest.mark.parametrize(
    "sizes",
    [[100_000] * 15, [100_000 + at for at in range(15)], [100_000 * (1 + at % 5) for at in range(15)], [9, 900_000]],
)
def test_calls_that_bring_as_much_as_before_or_now_more_now_less_are_not(sizes):
    assert gathered(sizes) == []


def test_barriers_in_a_loop_are_named():
    assert only(barriers()) == (
        snapshot(
            "train.py:5: 20 barriers on each rank cost 4 s in all, 67% of the ranks' time. Collectives synchronize ranks "
            "already: a barrier is needed only for what happens outside torch, such as files."
        )
    )


def test_a_run_without_communication_has_no_advice():
    assert Program().advice() == ()
    assert advice(folded(), 0.0) == []


def barriers():
    return repeat(20, lambda program, _: program.call("barrier", 5, 0.1, shapes=(), dtype="", bytes=0))


def test_a_run_that_failed_has_no_advice_on_how_to_be_faster():
    for status, stopped, has_advice in ((1, False, False), (-9, True, True), (0, False, True)):
        program, end = barriers(), 3.0
        events = [event for rank in program.ranks for event in rank.events]
        events += [
            Exited(end, 0, 0),
            Exited(end, 1, status, stopped=stopped),
            End(end, status == 0, 0, 0, why="It ended."),
        ]
        timeline = Timeline()
        for event in [began(2), *sorted(events, key=lambda event: event.time)]:
            timeline.add(event)
        assert bool(summarize(timeline, end).advice) == has_advice


def test_a_small_tensor_that_takes_most_of_the_time_is_named():
    program = repeat(50, lambda program, _: program.call("all_reduce", 5, 0.1, (0.1, 0.1), bytes=400))
    assert only(program) == (
        snapshot(
            "train.py:5: each rank all-reduced 400 bytes 50 times, which cost 10 s in all, 45% of the ranks' time. A call this small costs its latency, however little it sends: communicate more at once, and less often."
        )
    )


def test_a_small_tensor_is_not_named_where_ranks_wait_for_a_slow_one_or_compute():
    waits = repeat(50, lambda program, _: program.call("all_reduce", 5, 0.01, (0.1, 0.3), bytes=400))
    computes = repeat(50, lambda program, _: program.call("all_reduce", 5, 0.01, (0.3, 0.3), bytes=400))
    assert waits.advice() == computes.advice() == ()


# Rules on what a training script forgot: each has a script that it speaks about, and a close one.

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


GRID = "DDP(torch.nn.Linear(1, 4), process_group=[dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2])"


@pytest.mark.parametrize(("seed", "ddp"), [("1 + rank % 2", "DDP(torch.nn.Linear(1, 4))"), ("1 + rank // 2", GRID)])
def test_some_ranks_that_train_on_the_same_batches_are_named_if_ddp_spans_all_ranks(seed, ddp, script):
    """In a grid of ranks, those that split a layer among them read the same batches."""
    code = BATCHES.replace("DDP(torch.nn.Linear(1, 4))", ddp).format(seed=seed, batch="data[torch.randint(32, (4,))]")
    said = snapshot(
        "script.py:14: ranks 0 and 2 computed the same gradients in each of the first 6 backward passes, and so did ranks 1 and 3, so the 4 ranks do the work of 2: they read the same batches. Use a DistributedSampler with each rank's own number, or let the seed that chooses the data depend on the rank."
    )
    assert advised(script(code), "same batches", ranks=4) == ([] if ddp == GRID else [said])


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
            "trainer.py:9: item() copies a value from the GPU in each step. The CPU waits there until the GPU is done, and meanwhile queues nothing for the next step. Read such values once every few steps."
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


def advised(path, about, **request):
    """Run a script, and return the advice on one subject."""
    events = run(path, **request)
    assert end(events).ok, end(events).why
    timeline = Timeline()
    for event in events:
        timeline.add(event)
    return [each for each in advice(timeline, end(events).time, "script.py") if about in each]
