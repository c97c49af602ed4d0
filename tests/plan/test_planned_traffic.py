"""The planner counts what PyTorch's own parallelisms do: calls, bytes, states and order, on four real ranks."""

import re
from ast import literal_eval
from collections import Counter
from pathlib import Path

import passed
import planned_model as small
import pytest
from real_run import end, of, run

from ddpquiz.events.event import Issued, Output
from ddpquiz.plan.activations import Split, layer_bytes
from ddpquiz.plan.layout import Layout, PipelineSchedule, split_layer
from ddpquiz.plan.memory import STATE_BYTES, States, zero_bytes
from ddpquiz.plan.model import Transformer, layer_parameters, parameters
from ddpquiz.plan.schedule import Durations, schedule_events, simulate
from ddpquiz.plan.traffic import (
    context_parallel,
    ddp_buckets,
    expert_parallel,
    fully_sharded,
    gathered_once,
    pipeline,
    replicas_of_shards,
    replicated,
    sharded_optimizer,
    tensor_parallel,
)

pytestmark = passed.ENGINE

SCRIPT = Path(small.__file__)
RANKS, NUMBER = 4, 4  # bytes of a float32
MODEL = Transformer(
    name="small",
    layers=small.LAYERS,
    hidden=small.HIDDEN,
    heads=small.HEADS,
    kv_heads=small.KV,
    head_size=small.SIZE,
    ffn=small.FFN,
    vocabulary=small.VOCABULARY,
    sequence=small.SEQUENCE,
)
TOKENS = small.BATCH * small.SEQUENCE
ACTIVATION = TOKENS * small.HIDDEN * NUMBER
LINES = {
    found[1]: number
    for number, line in enumerate(SCRIPT.read_text().splitlines(), 1)
    if (found := re.search(r"# line: (\w+)$", line))
}


@pytest.fixture(scope="module")
def events():
    """One step with each parallelism."""
    seen = run(SCRIPT, ranks=RANKS, timeout=60.0)
    assert end(seen).ok, end(seen).why
    return seen


def recorded(events, rank, lines, ops):
    """Return {operator: (calls, bytes input_bytes)} of some lines."""
    calls, input_bytes = Counter(), Counter()
    for event in of(events, Issued):
        operation = event.operation
        op = next((op for op in ops if operation.op.startswith(op)), None)
        if event.rank == rank and op and operation.line in lines:
            calls[op] += 1
            input_bytes[op] += operation.bytes
    return {op: (calls[op], input_bytes[op]) for op in calls}


def of_phase(events, rank, phase, ops):
    """Return {operator: (calls, bytes input_bytes)} of one parallelism."""
    calls, input_bytes, now = Counter(), Counter(), ""
    for event in events:
        if isinstance(event, Output) and event.rank == rank and event.label == "phase":
            now = event.value
        elif isinstance(event, Issued) and event.rank == rank and now == phase:
            op = next((op for op in ops if event.operation.op.startswith(op)), None)
            if op:
                calls[op] += 1
                input_bytes[op] += event.operation.bytes
    return {op: (calls[op], input_bytes[op]) for op in calls}


def planned(parts):
    return {part.op: (part.calls, part.input_bytes) for part in parts}


def printed(events, label):
    return [literal_eval(event.value) for event in of(events, Output) if event.label == label]


def gradients_in_order():
    """Return the bytes of each gradient in the order in which backward makes them."""
    h, kv, f, v = small.HIDDEN, small.KV * small.SIZE, small.FFN, small.VOCABULARY
    block = [f * h, f * h, f * h, h, h * h, kv * h, kv * h, h * h, h]  # down, then gate and up; o, then q, k and v
    return [NUMBER * size for size in (v * h, h, *block * small.LAYERS, v * h)]


def test_ddp_all_reduces_its_buckets(events):
    cap = int(small.CAP_MB * 2**20)
    seen = [event.operation.bytes for event in of(events, Issued) if event.operation.line == LINES["ddp"]]
    of_one_rank = Counter(size for size in seen if size > 1000)  # smaller ones tell the order of the new buckets
    buckets = ddp_buckets(gradients_in_order(), bucket=cap, first=cap)
    assert of_one_rank == {size: RANKS * count for size, count in Counter(buckets).items()}
    (part,) = replicated(gradients_in_order(), RANKS)
    assert part.input_bytes == sum(buckets) == NUMBER * parameters(MODEL)


def test_fsdp_gathers_each_block_twice_and_the_root_once(events):
    seen = of_phase(events, 1, "fsdp", ("all_gather", "reduce_scatter"))
    assert seen == planned(fully_sharded(fsdp_units(), RANKS, weight=NUMBER, gradient=NUMBER))


def fsdp_units():
    root = parameters(MODEL) - small.LAYERS * layer_parameters(MODEL)
    return [root, *[layer_parameters(MODEL)] * small.LAYERS]


def test_hsdp_shards_within_groups_and_all_reduces_the_shards_between_them(events):
    units, gradients = fsdp_units(), NUMBER * parameters(MODEL)
    expected = fully_sharded(units, 2, weight=NUMBER, gradient=NUMBER)
    expected.append(replicas_of_shards(gradients, 2, 2, calls=len(units)))
    seen = of_phase(events, 1, "hsdp", ("all_gather", "reduce_scatter", "all_reduce"))
    assert seen == planned(expected)


@pytest.mark.parametrize(("phase", "times"), [("zero_1", 1), ("zero_2", small.MICRO_BATCHES)])
def test_zero_1_reduces_gradients_once_a_step_and_zero_2_for_each_micro_batch(events, phase, times):
    whole = NUMBER * parameters(MODEL)
    expected = sharded_optimizer(whole, whole, RANKS, calls=len(fsdp_units()), times=times)
    assert of_phase(events, 2, phase, ("all_gather", "reduce_scatter")) == planned(expected)


def test_fsdp_without_resharding_gathers_and_reduces_each_unit_once_a_step(events):
    units = [parameters(MODEL) - small.LAYERS * layer_parameters(MODEL), *[layer_parameters(MODEL)] * small.LAYERS]
    expected = planned(gathered_once(units, RANKS, weight=NUMBER, gradient=NUMBER))
    for rank in range(RANKS):
        found = of_phase(events, rank, "zero_1", ("all_gather", "reduce_scatter"))
        assert found == expected


def test_expert_parallelism_sends_tokens_to_experts_and_back_forward_and_backward(events):
    expected = expert_parallel(1, small.ACTIVE * ACTIVATION, Layout(ep=RANKS, dp=RANKS))
    assert of_phase(events, 3, "expert_parallel", ("all_to_all",)) == planned(expected)


def test_context_parallelism_passes_keys_and_values_around_a_ring_and_their_gradients_home(events):
    double = 8  # bytes of a number
    own = 2 * small.SEQUENCE // RANKS * small.KV * small.SIZE * double
    expected = context_parallel(1, own, RANKS)
    for rank in range(RANKS):
        assert of_phase(events, rank, "context_parallel", ("send",)) == planned(expected)


def test_tensor_parallelism_all_reduces_twice_forward_and_twice_backward(events):
    layout = Layout(tp=2, dp=2, sequence_parallel=False)
    lines = {
        n for n, line in enumerate(SCRIPT.read_text().splitlines(), 1) if "self.o(" in line or "self.down(" in line
    }
    seen = recorded(events, 2, lines | {LINES["tp"]}, ("all_reduce",))
    assert seen == planned(tensor_parallel(1, ACTIVATION, layout))


def test_sequence_parallelism_scatters_and_gathers_without_the_second_gather_of_megatron(events):
    layout = Layout(tp=2, dp=2, sequence_parallel=True)
    places = ("self.o(", "self.down(", "self.attention(self", "self.mlp(self")
    lines = {n for n, line in enumerate(SCRIPT.read_text().splitlines(), 1) if any(place in line for place in places)}
    seen = recorded(events, 3, lines | {LINES["sp"]}, ("all_gather", "reduce_scatter"))
    expected = planned(tensor_parallel(1, ACTIVATION, layout))
    calls, input_bytes = expected["all_gather"]
    again = 2  # DTensor stores the gathered inputs, which Megatron gathers again in backward
    expected["all_gather"] = (calls - again, input_bytes - again * ACTIVATION / 2)
    assert seen == expected


def test_a_pipeline_sends_each_activation_and_each_gradient_once(events):
    size = ACTIVATION // small.BATCH
    for rank in range(RANKS):
        seen = [
            event.operation.bytes
            for event in of(events, Issued)
            if event.rank == rank and event.operation.op == "send" and event.operation.line == LINES["pp"]
        ]
        (part,) = pipeline(Layout(pp=RANKS), rank, small.BATCH, size)
        tensors = [each for each in seen if each == size]  # the others tell shapes, once
        assert (len(tensors), sum(tensors)) == (part.calls, part.input_bytes)


def test_1f1b_sends_and_receives_in_the_order_of_torch(events):
    simulated = schedule_events(
        simulate(PipelineSchedule.ONE_F_ONE_B, RANKS, small.BATCH, Durations(1, 2, 1)), "plan", 8
    )

    def order(source, rank):
        issued = (event.operation for event in of(source, Issued) if event.rank == rank)
        sizes = (8, ACTIVATION // small.BATCH)
        return [
            (each.op, each.peer)
            for each in issued
            if each.op in ("send", "recv") and each.bytes == sizes[source is events]
        ]

    for rank in range(RANKS):
        assert order(events, rank) == order(simulated, rank)


def test_states_are_equal_to_the_byte(events):
    for zero, label in ((0, "states of ddp"), (3, "states of fsdp")):
        expected = zero_bytes(parameters(MODEL), RANKS, zero, STATE_BYTES[States.FP32])
        assert printed(events, label) == [list(expected)] * RANKS
    assert printed(events, "weights of tp") == [NUMBER * split_layer(MODEL, 2, moe=False)] * RANKS


def test_activations_are_within_5_percent_of_what_autograd_stores(events):
    counted = layer_bytes(MODEL, TOKENS, Split(), moe=False, scores=0)
    unfused = 2 * TOKENS * small.FFN  # eager PyTorch also stores SiLU's output, which a fused SwiGLU does not
    for stored in printed(events, "stored bytes"):
        assert counted + unfused == pytest.approx(stored, rel=0.05)
