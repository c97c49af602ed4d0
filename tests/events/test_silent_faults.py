"""What makes a result wrong without an error is told with its line; beside each fault stands a job that looks like it."""

import os

import passed
import pytest
from inline_snapshot import snapshot
from real_run import HEAD, end, of, run

from ddpquiz.events.advice import advice
from ddpquiz.events.event import Note
from ddpquiz.events.silent_faults import parts_apart, silent_faults
from ddpquiz.events.timeline import Timeline
from ddpquiz.plural import plural

pytestmark = passed.ENGINE


@pytest.fixture
def told(tmp_path):
    """Runs a script, and returns what is told of it: silent faults, and other advice about a subject."""

    def told(body, about=None, ranks=2, judge=silent_faults):
        path = tmp_path / "train.py"
        path.write_text(HEAD + body)
        events = run(path, ranks)
        assert end(events).ok, end(events).why
        timeline = Timeline()
        for event in events:
            timeline.add(event)
        if about is None:
            return judge(timeline, "train.py")
        return [each for each in advice(timeline, end(events).time, "train.py") if about in each]

    return told


# An operation in the background

BACKGROUND = """\
flat = torch.ones(1000) * rank
for step in range(4):
    {call}
    {then}
dist.destroy_process_group()
"""
BEGIN = "work = dist.all_reduce(flat, async_op=True)"
USES = {
    "nobody waits": (BEGIN, "flat.div_(world)", True),
    "the work is dropped": ("dist.all_reduce(flat, async_op=True)", "flat.div_(world)", True),
    "a barrier in between": ("dist.all_reduce(flat, async_op=True)", "dist.barrier()", True),
    "wait": (BEGIN, "work.wait()", False),
    "the future": ("future = dist.all_reduce(flat, async_op=True).get_future()", "future.wait()", False),
    "polling": (BEGIN, "\n    while not work.is_completed(): time.sleep(0.001)", False),
    "in the next step": (f"step and work.wait(); {BEGIN}", "pass", False),
    "no background": ("dist.all_reduce(flat)", "flat.div_(world)", False),
    "a barrier that nobody awaits": ("dist.barrier(async_op=True)", "pass", False),
}


@pytest.mark.parametrize("name", USES)
def test_an_operation_that_nobody_waits_for_is_named(name, told):
    call, then, is_fault = USES[name]
    expected = snapshot(
        "train.py:7: the script began all_reduce 4 times with async_op=True and never waited for it, so what comes "
        "next may read or change the tensor while it is still being sent. Keep what the call returns, and call its "
        "wait() before the tensor is used."
    )
    assert told(BACKGROUND.format(call=call, then=then)) == [expected] * is_fault


PENDING = """\
full, grid = torch.ones(1000) * rank, torch.ones(4, 250) * rank
got, peer = torch.ones(1000), 1 - rank
for step in range(3):
    {call}
    {then}
    work.wait()
dist.barrier()
dist.destroy_process_group()
"""
SENDS = "if rank: dist.recv(got, 0); continue\n    work = dist.isend(full, 1)"
RECEIVES = "if rank: dist.send(full, 0); continue\n    work = dist.irecv(full, 1)"
RESULT = "outputs = [torch.ones(1000) for _ in range(world)]; work = dist.all_gather(outputs, full, async_op=True)"
MEAN_OF = "work = dist.all_reduce(full, op=dist.ReduceOp.AVG, async_op=True)"
CHANGES = {
    "all_reduce": ("work = dist.all_reduce(full, async_op=True)", "full.mul_(0.5)", "all_reduce with async_op=True"),
    "a part of it": ("work = dist.all_reduce(full, async_op=True)", "full[3:5] = 0", "all_reduce with async_op=True"),
    "after a barrier": ("work = dist.all_reduce(full, async_op=True)", "dist.barrier(); full.mul_(2)",
                        "all_reduce with async_op=True"),
    "broadcast": ("work = dist.broadcast(full, src=0, async_op=True)", "full.zero_()", "broadcast with async_op=True"),
    "isend": (SENDS, "full.zero_()", "isend"),
    "irecv": (RECEIVES, "full.add_(1)", "irecv"),
    "all_gather": (RESULT, "full.zero_()", "all_gather with async_op=True"),
    "all_to_all_single": ("work = dist.all_to_all_single(got, full, async_op=True)", "full.zero_()",
                          "all_to_all_single with async_op=True"),
    "nothing is changed": ("work = dist.all_reduce(full, async_op=True)", "got = full * 2", ""),
    "what torch itself writes": (MEAN_OF, "time.sleep(0.05)", ""),  # Gloo divides in its own thread meanwhile
    "it is changed after wait": ("work = dist.all_reduce(full, async_op=True)", "work.wait(); full.mul_(0.5)", ""),
    "a clone is sent": ("work = dist.all_reduce(full.clone(), async_op=True)", "full.mul_(0.5)", ""),
    "another row of a grid": ("work = dist.all_reduce(grid[0], async_op=True)", "grid[1:].mul_(0.5)", ""),
    "the script asked whether it was done": (
        "work = dist.all_reduce(full, async_op=True)",
        "\n    while not work.is_completed(): time.sleep(0.001)\n    full.mul_(0.5)",
        "",
    ),
    "a callback of its future": (
        "work = dist.all_reduce(full, async_op=True)",
        "work.get_future().then(lambda done: done.value()[0].div_(world)).wait()",
        "",
    ),
    "the receiver has answered": (
        "if rank: dist.recv(got, 0); dist.send(x, 0); continue\n    work = dist.isend(full, 1)",
        "dist.recv(x, 1); full.zero_()",
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_tensor_that_is_changed_before_its_wait_is_told(name, told):
    call, then, began = CHANGES[name]
    body = PENDING.format(call=call, then=then)
    waited_at = next(at for at, line in enumerate((HEAD + body).splitlines(), 1) if line == "    work.wait()")
    begun_at = next(at for at, line in enumerate((HEAD + body).splitlines(), 1) if "work = " in line)
    expected = (
        f"train.py:{begun_at}: the script began {began}, and changed its tensor in place before it called wait() at "
        f"train.py:{waited_at}: until then the call may still read the tensor or write to it, so the result depends on "
        "chance. Change the tensor only after wait(), or give the call a clone of it."
    )
    assert told(body) == [expected] * bool(began)


LEFT = """\
if rank == 1: time.sleep(1)
work = dist.all_reduce(x, async_op=True)
if {waits}: work.wait()
dist.destroy_process_group()
"""


@pytest.mark.parametrize(("waits", "count"), [("rank", 1), ("True", 0)])
def test_an_operation_that_still_runs_when_its_group_goes_is_told(waits, count, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(HEAD + LEFT.format(waits=waits))
    notes = [note.text for note in of(run(path), Note)]
    assert (
        notes
        == [
            snapshot(
                "The script calls destroy_process_group while 1 operation still ran in the background, and nobody had waited for it: "
                'under torchrun, torch may abort the rank there ("terminate called without an active exception"). Call wait() on '
                "the works."
            )
        ]
        * count
    )


# Replicas that drift apart

TRAIN = """\
from contextlib import nullcontext
from torch.nn.parallel import DistributedDataParallel as DDP
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
{before}
model = DDP(net)
optimizer = torch.optim.{optimizer}
{between}
batches = torch.Generator().manual_seed(rank)
for step in range(8):
    with {around}:
        loss = model(torch.randn(4, 8, generator=batches)).square().mean()
        loss.backward()
    {then}
    if (step + 1) % {every} == 0:
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
"""
ADAM, SGD = "Adam(net.parameters(), lr=0.01)", "SGD(net.parameters(), lr=0.01)"
RIGHT = {"before": "", "optimizer": SGD, "between": "", "around": "nullcontext()", "then": "", "every": 1}
LOAD = "if {}:\n    net(torch.ones(1, 8)).sum().backward(); early.step(); early.zero_grad()"
AVERAGE = "for each in net.parameters(): dist.all_reduce(each.data); each.data.div_(world)"
DRIFTS = {
    "right": ({}, None),
    "accumulated, the last pass synchronized": (
        {"around": "nullcontext() if step % 4 == 3 else model.no_sync()", "every": 4},
        None,
    ),
    "accumulated, the first pass synchronized": (
        {"around": "nullcontext() if step % 4 == 0 else model.no_sync()", "every": 4},
        snapshot(
            "train.py:20: 2 steps of the optimizer used gradients that each rank had accumulated for itself inside "
            "no_sync(), after the last pass that DDP synchronized: the replicas drift apart. The last forward and "
            "backward pass before each step must be outside no_sync()."
        ),
    ),
    "the flag, right": (
        {
            "between": "model.require_backward_grad_sync = False",
            "then": "model.require_backward_grad_sync = step % 4 == 2",
            "every": 4,
        },
        None,
    ),
    "the flag, set between forward and backward": (
        {
            "between": "model.require_backward_grad_sync = False",
            "then": "model.require_backward_grad_sync = step % 4 == 3",
            "every": 4,
        },
        snapshot(
            "train.py:16: 2 steps of the optimizer used gradients that each rank had accumulated for itself, because require_backward_grad_sync was off in the forward pass, after the last pass that DDP synchronized: the replicas drift apart. DDP reads it in the forward pass: set it before the last forward pass of each step, not between forward and backward."
        ),
    ),
    "a step too many at the end": (
        {"around": "nullcontext() if step % 4 == 3 else model.no_sync()", "every": 2},
        snapshot(
            "train.py:20: 2 of 4 steps of the optimizer used gradients that each rank had accumulated for itself "
            "inside no_sync(): the replicas drift apart. The last forward and backward pass before each step must be "
            "outside no_sync()."
        ),
    ),
    "local steps, averaged by hand": ({"around": "model.no_sync()", "then": AVERAGE}, None),
    "unfrozen after DDP": (
        {"before": "net[0].requires_grad_(False)", "then": "if step == 2: net[0].requires_grad_(True)"},
        snapshot(
            "train.py:20: DDP does not reduce the gradient of 2 parameters (0.weight is the first): they needed no "
            "gradient when DDP wrapped the model at train.py:10, so each rank trains its own values. Unfreeze and add "
            "parameters before DDP wraps the model, or wrap it again afterward."
        ),
    ),
    "unfrozen, and wrapped anew": (
        {"before": "net[0].requires_grad_(False)", "then": "if step == 2: model = DDP(net.requires_grad_(True))"},
        None,
    ),
    "frozen for good": ({"before": "net[0].requires_grad_(False)"}, None),
    "a layer added after DDP": (
        {"between": "net.append(torch.nn.Linear(1, 1)); optimizer = torch.optim.SGD(net.parameters(), lr=0.01)"},
        snapshot(
            "train.py:20: DDP does not reduce the gradient of 2 parameters (3.weight is the first): they came into the "
            "model after DDP had wrapped it at train.py:10, so each rank trains its own values. Unfreeze and add "
            "parameters before DDP wraps the model, or wrap it again afterward."
        ),
    ),
    "an optimizer with a state on rank 0": (
        {
            "before": f"early = torch.optim.{ADAM}\n{LOAD.format('rank == 0')}",
            "optimizer": ADAM,
            "between": "optimizer = early",
        },
        snapshot(
            "train.py:22: the optimizers began the training of the DDP model with different states, so the replicas "
            "drift apart: rank 0 a state of 4 parameters after 1 step; rank 1 no state. DDP copies weights only: load "
            "the optimizer's state, too, on every rank."
        ),
    ),
    "an optimizer with a state on all ranks": (
        {
            "before": f"early = torch.optim.{ADAM}\n{LOAD.format('True')}",
            "optimizer": ADAM,
            "between": "optimizer = early",
        },
        None,
    ),
    "a scheduler on rank 0 only": (
        {
            "between": "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)",
            "then": "if rank == 0: scheduler.step()",
        },
        snapshot(
            "train.py:20: in step 1 the optimizers of the ranks have different settings, so the replicas drift apart: "
            "rank 0 lr 0.001; rank 1 lr 0.01. Set them, and step schedulers, in the same way on every rank."
        ),
    ),
    "a scheduler": (
        {"between": "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)", "then": "scheduler.step()"},
        None,
    ),
    "weights changed on rank 1": (
        {"then": "if rank == 1 and step == 3: net[0].weight.data.clamp_(-0.1, 0.1)"},
        snapshot(
            "train.py:20: after step 4 of the optimizer the replicas of the DDP model differ: rank 1 holds different weights from rank 0; after step 2 they were equal. Look for what ranks do differently to weights or gradients between DDP() and that step: loading, clipping, skipping. Run with --check-replicas to see the first step and the parameters."
        ),
    ),
    "weights changed on all ranks": ({"then": "if step == 3: net[0].weight.data.clamp_(-0.1, 0.1)"}, None),
    "a parameter that DDP is to leave to each rank": (
        {"before": "DDP._set_params_and_buffers_to_ignore_for_model(net, ['0.bias'])"},
        None,
    ),
}


@pytest.mark.parametrize("name", DRIFTS)
def test_replicas_that_drift_apart_are_told_with_the_cause(name, told):
    changed, said = DRIFTS[name]
    assert told(TRAIN.format(**RIGHT | changed)) == ([said] if said else [])


# Replicas without DDP

BY_HAND = """\
torch.manual_seed({seed})
net = torch.nn.Linear(4, 2)
{before}
optimizer = torch.optim.SGD({parameters}, lr=0.1)
batches = torch.Generator().manual_seed(rank)
for step in range(5):
    optimizer.zero_grad()
    net(torch.randn(4, 4, generator=batches)).square().mean().backward()
    for each in net.parameters():
        {reduce}
    optimizer.step()
    {then}
dist.destroy_process_group()
"""
MEAN, ONE = "dist.all_reduce(each.grad); each.grad.div_(world)", "dist.reduce(each.grad, dst=0)"
SEND = "for each in net.parameters(): dist.broadcast(each.data, src=0)"
OWN = {
    "parameters": "[*net.parameters()][rank::world]",
    "then": "for owner, each in enumerate(net.parameters()): dist.broadcast(each.data, src=owner)",
}
EXPERTS = """\
net = torch.nn.ModuleList([torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)])
net.forward = lambda x: net[rank](x)"""
LONELY = "lonely = [dist.new_group([each]) for each in range(world)]; DDP = torch.nn.parallel.DistributedDataParallel"
HANDS = {
    "right": ({}, None),
    "other weights at the beginning": (
        {"seed": "rank"},
        snapshot(
            "train.py:14: the script averages gradients itself, and before step 1 of the optimizer the replicas differ: rank 1 holds different weights from rank 0. Weights stay equal only if they start equal: send all weights of rank 0 to the others before the first step, and let all ranks change them alike."
        ),
    ),
    "other weights, sent before the first step": ({"seed": "rank", "before": SEND}, None),
    "reduced to one rank": (
        {"reduce": ONE},
        snapshot(
            "train.py:14: reduce collects the gradients on one rank, and every rank takes a step: before step 2 of the optimizer the replicas differ: rank 1 holds different weights from rank 0; before step 1 they were equal. Use all_reduce, or let only that rank make the step, and send its weights to the others."
        ),
    ),
    "reduced to one rank, which sends its weights": ({"reduce": ONE, "then": SEND}, None),
    "divided by a number of its own": (
        {"reduce": "dist.all_reduce(each.grad); each.grad.div_(world + rank)"},
        snapshot(
            "train.py:14: the script averages gradients itself, and before step 2 of the optimizer the replicas differ: rank 1 holds different weights from rank 0; before step 1 they were equal. Look for what a rank does by itself to its gradients or weights: it divides by a number of its own, clips by its own norm, skips a step, or makes the step before the wait() of an asynchronous call."
        ),
    ),
    "each rank updates parameters of its own": (OWN, None),
    "parameters without a gradient skipped": (
        {"before": EXPERTS, "reduce": f"if each.grad is not None:\n            {MEAN}"},
        snapshot(
            "train.py:16: in step 1 the calls that reduce gradients combined those of different parameters, because some parameters had a gradient on a part of the ranks only and were skipped elsewhere. Reduce the gradients of the same parameters on every rank, with zeros where a rank has none."
        ),
    ),
    "each rank for itself": ({"reduce": "pass"}, None),  # as in a search for hyperparameters
    "only some gradients": ({"seed": "rank", "reduce": "if each.dim() == 1: dist.all_reduce(each.grad)"}, None),
    "DDP with each rank in a group of its own": (
        {"before": f"{LONELY}; net = DDP(net, process_group=lonely[rank])", "reduce": "pass"},
        snapshot(
            "train.py:7: DDP got a process group in which each rank is alone, so it averages no gradients, and before step 2 of the optimizer the replicas differ: rank 1 holds different weights from rank 0; before step 1 they were equal. Pass the group of the ranks that hold replicas, or none for all ranks."
        ),
    ),
    "stages of other weights, each in a group of its own": (
        {"seed": "rank", "before": f"{LONELY}; net = DDP(net, process_group=lonely[rank])", "reduce": "pass"},
        None,
    ),
}


@pytest.mark.parametrize("name", HANDS)
def test_replicas_whose_gradients_a_script_brings_together_itself_are_compared(name, told):
    changed, said = HANDS[name]
    usual = {"seed": "0", "before": "", "parameters": "net.parameters()", "reduce": MEAN, "then": ""}
    assert told(BY_HAND.format(**usual | changed)) == ([said] if said else [])


# Parameters beside a model of all ranks, and groups of ranks

PARTS = """\
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP
torch.manual_seed(0)
body, head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)
half = [dist.new_group([at for at in range(world) if at % 2 == which]) for which in (0, 1)][rank % 2]
{before}
batches = torch.Generator().manual_seed(rank)
for step in range(5):
    loss = head(body(torch.randn(4, 8, generator=batches))).square().mean()
    loss.backward()
    {reduce}
    {step}
    {then}
dist.barrier()
dist.destroy_process_group()
"""
BODY = "body = DDP(body)\n"
SHARD = 'mesh = init_device_mesh("cpu", (world,)); fully_shard(body, mesh=mesh)\n'
ALL = "optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)"
TWO = "optimizer = torch.optim.SGD(body.parameters(), lr=0.1); other = torch.optim.SGD(head.parameters(), lr=0.1)"
HALF = "for each in [*body.parameters(), *head.parameters()]: dist.all_reduce(each.grad, group=half)"
OUTSIDE = (
    "train.py:{line}: the optimizer updates 2 parameters outside the model that the ranks train together, and nothing "
    "reduces their gradients: the parameters were equal on all ranks before step 1 of the optimizer, and before step 4 "
    "they differ. If all ranks are to hold the same values, wrap the whole model in DDP, or call fully_shard on its root, "
    "too; if each rank is to train its own, this is right."
)
HALVES = (
    "train.py:{line} the gradients of 4 parameters within groups of ranks, (ranks 0 and 2) and (ranks 1 and 3): the "
    "parameters were equal on all ranks before step 1 of the optimizer, and before step 4 they differ between the groups. If all "
    "ranks train one model, use the group of all its replicas; if each group is to train its own, this is right."
)
FORGOTTEN = (
    "train.py:{line}: the optimizer updates 4 parameters, and nothing reduces their gradients: the parameters were equal on "
    "all ranks before step 1 of the optimizer, and before step 4 they differ. If all ranks are to hold the same values, "
    "wrap the model in DDP, as in DDP(model), and call that in the forward pass; if each rank is to train its own, this "
    "is right."
)
APART = {
    "a head outside DDP": ({"before": BODY + ALL}, OUTSIDE.format(line=18)),
    "a head outside DDP with an optimizer of its own": (
        {"before": BODY + TWO, "then": "other.step(); other.zero_grad()"},
        OUTSIDE.format(line=19),
    ),
    "fully_shard without the root": ({"before": SHARD + ALL.replace("0.1", "0.1, foreach=False")}, OUTSIDE.format(line=18)),
    "a head in DDP too": ({"before": BODY + "head = DDP(head)\n" + ALL}, ""),
    "a head that the script reduces": (
        {"before": BODY + ALL, "reduce": "for each in head.parameters(): dist.all_reduce(each.grad)"}, ""),
    "a head of each rank": ({"before": f"torch.manual_seed(rank); head = torch.nn.Linear(8, 1)\n{BODY}{ALL}"}, ""),
    "a frozen head": ({"before": BODY + "head.requires_grad_(False)\n" + ALL}, ""),
    "weights averaged now and then": (
        {"before": BODY + ALL,
         "then": "if step % 3 == 2:\n        for each in head.parameters(): dist.all_reduce(each.data); each.data /= world"},
        "",
    ),
    "weights sent after some steps": (
        {"before": BODY + ALL,
         "then": "if step == 0:\n        for each in head.parameters(): dist.broadcast(each.data, src=0)"},
        "",
    ),
    "weights averaged at the end": (
        {"before": BODY + ALL, "then": "if step == 4: dist.all_reduce(head.weight.data)"}, ""),
    "experts that other ranks reach": (
        {"before": BODY + ALL, "then": "dist.all_to_all_single(torch.ones(8), torch.ones(8))"}, ""),
    "a head that DDP is to ignore": (
        {"before": "both = torch.nn.Sequential(body, head)\n"
                   "DDP._set_params_and_buffers_to_ignore_for_model(both, ['1.weight', '1.bias'])\n"
                   f"body, head = DDP(both), torch.nn.Identity()\n{ALL}"},
        "",
    ),
    "fully_shard with the root": (
        {"before": f"body = torch.nn.Sequential(body, head); head = torch.nn.Identity()\n{SHARD}{ALL}"}, ""),
    "DDP forgotten": ({"before": ALL}, FORGOTTEN.format(line=17)),
    "each rank for itself": ({"before": f"for each in body.parameters(): each.data += rank\n{ALL}"}, ""),
    "DDP forgotten, and tensors exchanged": (
        {"before": ALL, "then": "dist.all_gather(2 * [torch.ones(8)], torch.ones(8))"}, ""),
}  # fmt: skip
GROUPS = {
    "reduced within groups": ({"before": ALL, "reduce": HALF}, HALVES.format(line="16: all_reduce brings together")),
    "DDP within groups": (
        {"before": f"body = DDP(torch.nn.Sequential(body, head), process_group=half); head = torch.nn.Identity()\n{ALL}"},
        HALVES.format(line="11: DDP brings together"),
    ),
    "groups with other weights": ({"before": f"for each in body.parameters(): each.data += rank % 2\n{ALL}",
                                   "reduce": HALF}, ""),
    "groups that exchange activations": (
        {"before": ALL, "reduce": f"{HALF}\n    dist.all_reduce(torch.ones(8))"}, ""),
    "reduced in two levels": (
        {"before": f"cross = [dist.new_group(each) for each in ([0, 1], [2, 3])][rank // 2]\n{ALL}",
         "reduce": f"{HALF}\n    {HALF.replace('half', 'cross')}"},
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("ranks", "changed", "said"),
    [pytest.param(ranks, *case, id=name) for ranks, cases in ((2, APART), (4, GROUPS)) for name, case in cases.items()],
)
def test_what_drifts_apart_beside_a_model_is_told_and_not_judged(ranks, changed, said, told):
    usual = {"before": "", "reduce": "pass", "step": "optimizer.step(); optimizer.zero_grad()", "then": "pass"}
    body = PARTS.format(**usual | changed)
    both = lambda timeline, script: [*silent_faults(timeline, script), *parts_apart(timeline, script)]  # noqa: E731
    assert told(body, ranks=ranks, judge=both) == ([said] if said else [])


# Shards of one model

SHARDS = """\
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
torch.manual_seed(0)
net = torch.nn.Linear(4, 4)
fully_shard(net, mesh=init_device_mesh("cpu", (world,)))
optimizer, other = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD([torch.ones(1)], lr=0.1)
for step in range(6):
    net(torch.randn(4, 4)).square().mean().backward()
    if {steps}:
        optimizer.step()
    if rank == 0:
        other.step()
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.parametrize(("steps", "count"), [("True", 0), ("step < 3 + rank", 1)])
def test_shards_of_one_model_are_updated_equally_often(steps, count, told):
    assert (
        told(SHARDS.format(steps=steps))
        == [
            snapshot(
                "each rank holds a shard of the same model, but their optimizers did not step alike: rank 0 made 3 steps; rank 1 made 4 steps. The shards no longer belong together. Let all ranks decide together whether to step: all-reduce the norm or the flag that decides."
            )
        ]
        * count
    )


# Advice on what costs time, or may be meant

SEARCH = """\
from torch.nn.parallel import DistributedDataParallel as DDP
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(30))
    def forward(self, x, step):
        for layer in self.layers[{skipped}:]:
            x = layer(x)
        return x
model = DDP(Net(), {options})
for step in range(5):
    model(torch.ones(2, 8), step).sum().backward()
dist.destroy_process_group()
"""
ON = "find_unused_parameters=True"
SEARCHES = {
    "on, and all are used": (ON, "0", 1),
    "on, and some are unused now and then": (ON, "step == 3", 0),
    "off": ("", "0", 0),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_for_unused_parameters_that_finds_none_is_named(name, told):
    options, skipped, count = SEARCHES[name]
    expected = snapshot(
        "train.py:14: find_unused_parameters is on, and all parameters got a gradient in each of 5 backward passes. The search walks the graph and all-reduces a map of the parameters in each pass, and DDP keeps its first order of buckets: leave the option out."
    )
    assert told(SEARCH.format(options=options, skipped=skipped), "find_unused") == [expected] * count


@pytest.mark.parametrize(("options", "count"), [("bucket_cap_mb=0.0001", 1), ("bucket_cap_mb=25", 0)])
def test_many_small_buckets_are_counted(options, count, told):
    said = told(SEARCH.format(options=options, skipped="0"), "bucket_cap_mb")
    assert [
        "buckets of" in each and "With the default bucket_cap_mb of 25, there would be about 1." in each
        for each in said
    ] == ([True] * count)


THREADS = "torch.set_num_threads({})\nfor step in range(3): dist.all_reduce(x)\ndist.destroy_process_group()\n"


def test_more_threads_than_cores_are_counted(told):
    cores = len(os.sched_getaffinity(0))
    (said,) = told(THREADS.format(cores), "threads")
    assert said == (
        f"train.py:5: each of 2 ranks computes with {cores} threads, which is {2 * cores} threads on {cores} cores: "
        f"they take turns. Use {plural(max(1, cores // 2), 'thread')} per rank (torch.set_num_threads)."
    )
    assert told(THREADS.format(1), "thread") == []


GATHER = """\
from torch.distributed.nn.functional import all_gather
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(2):
    features = model(torch.ones(2, 8) * (rank + 1))
    every = [torch.empty(2, 4) for _ in range(world)]
    {gather}
    torch.cat([features, *every]).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""
GATHERS = {
    "plain": ("dist.all_gather(every, features)", 1),
    "its own put back": ("dist.all_gather(every, features); every[rank] = features", 0),
    "with a gradient": ("every = all_gather(features)", 0),
    "detached": ("dist.all_gather(every, features.detach())", 0),
    "a loss": ("dist.all_gather([torch.empty(()) for _ in range(world)], features.mean())", 0),
}


@pytest.mark.parametrize("name", GATHERS)
def test_features_that_are_gathered_without_their_gradient_are_named(name, told):
    gather, count = GATHERS[name]
    expected = snapshot(
        "train.py:11: all_gather gathers a tensor that needs a gradient, and passes none back: to autograd, its "
        "results are constants. If the loss uses them, put this rank's own tensor back among them, or use "
        "torch.distributed.nn.functional.all_gather. If not, pass x.detach()."
    )
    assert told(GATHER.format(gather=gather), "gathers") == [expected] * count
