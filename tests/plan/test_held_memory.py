"""What is held of logits and of a checkpointed layer is what PyTorch allocates, counted by its profiler on real ranks."""

from pathlib import Path

import planned_model as small
import pytest
from real_run import end, of, run
from test_planned_traffic import MODEL

from ddpquiz.events.event import Output
from ddpquiz.plan.activations import Loss, Split, input_bytes, kept_bytes, loss_bytes

TOKENS, VOCABULARY, RANKS = 512, 4096, 2
HEAD = f"""\
import gc, os, sys
sys.path.insert(0, {str(Path(small.__file__).parent)!r})
import torch, torch.distributed as dist, torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

def allocated(run):
    \"\"\"Return the most bytes that were allocated at once, and those at the end.\"\"\"
    gc.collect()
    gc.disable()  # the collector frees what an earlier run held at a moment that nobody chose
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        kept = run()
    gc.enable()
    now = most = 0
    events = [each for each in found.profiler.kineto_results.events() if each.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most, now

dist.init_process_group("gloo")
ranks = dist.get_world_size()
"""
LOSS = f"""\
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import loss_parallel

hidden = torch.randn({TOKENS}, 8, dtype=torch.bfloat16)
target = torch.zeros({TOKENS}, dtype=torch.long)

def logits(vocabulary):
    head = torch.randn(vocabulary, 8, dtype=torch.bfloat16, requires_grad=True)
    return hidden @ head.T

def eager():
    predicted = logits({VOCABULARY})
    F.cross_entropy(predicted.float(), target).backward()

def kept():
    predicted = logits({VOCABULARY}).float()  # the caller holds them until backward is over
    shifted = predicted[:-1].contiguous()
    loss = F.cross_entropy(shifted, target[1:])
    del shifted  # was local to the forward of the model
    loss.backward()

mesh = init_device_mesh("cpu", (ranks,))

def split():
    predicted = DTensor.from_local(logits({VOCABULARY} // ranks), mesh, [Shard(1)])
    with loss_parallel():
        F.cross_entropy(predicted.float(), target).backward()

print("eager:", allocated(eager)[0] / {TOKENS} / {VOCABULARY})
print("kept:", allocated(kept)[0] / {TOKENS} / {VOCABULARY})
print("split:", allocated(split)[0] / {TOKENS} / {VOCABULARY} * ranks)
dist.destroy_process_group()
"""
# The policy of torchtitan's "selective" activation checkpoint with the option "op"
CHECKPOINT = """\
from collections import defaultdict
from functools import partial
from planned_model import BATCH, HIDDEN, SEQUENCE, Block
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

PRODUCTS = (torch.ops.aten.mm.default,)
KEPT = (*PRODUCTS, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default)

def contexts():
    seen = defaultdict(int)
    def policy(context, op, *args, **options):
        seen[context.is_recompute, op] += op in PRODUCTS
        keep = op in KEPT and not (op in PRODUCTS and seen[context.is_recompute, op] % 2 == 0)
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE
    return create_selective_checkpoint_contexts(policy)

def held(layers):
    blocks = [Block().bfloat16() for _ in range(layers)]
    x = torch.randn(BATCH, SEQUENCE, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    def forward():
        y = x
        for block in blocks:
            y = checkpoint(block, y, use_reentrant=False, context_fn=contexts)
        return y
    return allocated(forward)[1]

print("a layer:", (held(4) - held(2)) / 2)
dist.destroy_process_group()
"""


@pytest.fixture
def printed(tmp_path):
    """Runs a script on two ranks, and returns what each label shows."""

    def printed(body):
        path = tmp_path / "held.py"
        path.write_text(HEAD + body)
        events = run(path, ranks=RANKS, timeout=60.0)
        assert end(events).ok, end(events).why
        return {(event.rank, event.label): float(event.value) for event in of(events, Output) if event.label}

    return printed


def test_the_copies_of_a_logit_are_those_that_cross_entropy_makes(printed):
    found = printed(LOSS)
    for rank in range(RANKS):
        assert found[rank, "eager"] == pytest.approx(loss_bytes(Loss.EAGER, 1), rel=0.01)
        assert found[rank, "kept"] == pytest.approx(loss_bytes(Loss.GATHERED, RANKS), rel=0.01)
        assert found[rank, "split"] == pytest.approx(loss_bytes(Loss.EAGER, RANKS), rel=0.01)


def test_what_selective_op_keeps_of_a_layer_is_what_pytorch_keeps(printed):
    tokens = small.BATCH * small.SEQUENCE
    expected = input_bytes(MODEL, tokens, Split()) + kept_bytes(MODEL, tokens, Split(), moe=False)
    for layer in printed(CHECKPOINT).values():
        assert layer == pytest.approx(expected, rel=0.05)
