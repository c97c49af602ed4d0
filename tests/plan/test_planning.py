"""The formulas of the planner, each against something other than itself: published counts, papers, a simulation."""

import io
import itertools
import re
from dataclasses import replace

import pytest

from ddpquiz.curriculum.plan_files import load_hardware, load_model
from ddpquiz.errors import UserError
from ddpquiz.plan import explanation
from ddpquiz.plan.activations import Loss, Split, layer_bytes
from ddpquiz.plan.layer_work import score_moves, split_moves, whole_moves
from ddpquiz.plan.layout import (
    Layout,
    PipelineSchedule,
    Recompute,
    Refusal,
    RefusalKind,
    idle_seconds,
    in_flight,
    layers_of,
    rank_stages,
    refusal,
)
from ddpquiz.plan.memory import Sizes, States, fullest, stage_activations, stage_memory
from ddpquiz.plan.model import active_parameters, parameters, training_flops
from ddpquiz.plan.plan import DEEPSPEED_MARGIN, HEADROOM, MARGIN, Fit, make_plan, memory_fit, predict
from ddpquiz.plan.plan_page import found_page
from ddpquiz.plan.schedule import Durations, simulate
from ddpquiz.plan.search import BEST, fewest_gpus, plans_by_gpus, search, ways_to_fit
from ddpquiz.plan.step_time import Accelerator, stage_work, stage_works
from ddpquiz.plan.traffic import Job, exchange_path, path, transfer_seconds
from ddpquiz.terminal.kit import style

PUBLISHED = {  # as counted from the published weights; DeepSeek's index also has 58 x 256 biases of the router
    "gpt-2-xl": 1_557_611_200,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "deepseek-v3": 671_026_419_200 - 58 * 256,
    "kimi-k2": 1_026_408_232_448 - 60 * 384,
    "qwen3-30b-a3b": 30_532_122_624 - 48 * 2 * 128,  # without the norms of heads
    "nano": 10_646_784 + 256 * 384,  # nanoGPT's count leaves out the positions
}
H100, A100 = load_hardware("h100"), load_hardware("a100")


def job(model="llama-3-70b", batch=512, sequence=8192, flash=True, **layout):
    return Job(load_model(model), Layout(**layout), Sizes(batch=batch, sequence=sequence, flash=flash))


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_parameters_are_those_of_the_published_weights(name, count):
    assert parameters(load_model(name)) == count


def test_active_parameters_are_those_that_the_papers_name():
    assert active_parameters(load_model("mixtral-8x7b")) / 1e9 == pytest.approx(13, rel=0.02)
    assert active_parameters(load_model("deepseek-v3")) / 1e9 == pytest.approx(37, rel=0.02)


def test_flops_of_gpt_are_equation_7_of_korthikanti():
    for name in ("gpt-22b", "gpt-3-175b", "mt-nlg-530b", "gpt-1t"):
        model = load_model(name)
        h, layers, s, v = model.hidden, model.layers, 2048, model.vocabulary
        expected = 72 * layers * h**2 * (1 + s / (6 * h) + v / (12 * h * layers))
        assert training_flops(model, s) == pytest.approx(expected, rel=1e-9)


def test_activations_of_a_gpt_layer_are_table_2_of_korthikanti():
    model, s, b, t = load_model("gpt-22b"), 2048, 4, 8
    h, a = model.hidden, model.heads
    for split, expected in (
        (Split(), 34 + 5 * a * s / h),
        (Split(t), 10 + 24 / t + 5 * a * s / (h * t)),
        (Split(t, sequence_parallel=True), 34 / t + 5 * a * s / (h * t)),
    ):
        assert layer_bytes(model, s * b, split, moe=False, scores=s) == pytest.approx(s * b * h * expected)


@pytest.mark.parametrize("times", [Durations(1.0, 2.0, 1.0), Durations(1.0, 2.2, 0.9)])
@pytest.mark.parametrize(
    ("schedule", "p", "m", "chunks"),
    [
        *((schedule, 4, 8, 1) for schedule in PipelineSchedule if schedule is not PipelineSchedule.INTERLEAVED),
        *((schedule, 8, 32, 1) for schedule in PipelineSchedule if schedule is not PipelineSchedule.INTERLEAVED),
        (PipelineSchedule.INTERLEAVED, 4, 8, 2),
        (PipelineSchedule.INTERLEAVED, 4, 12, 3),
    ],
)
def test_bubble_and_in_flight_of_a_simulation_are_the_closed_forms(schedule, p, m, chunks, times):
    layout = Layout(pp=p, schedule=schedule, chunks=chunks)
    simulated = simulate(schedule, p, m, times, chunks)
    if schedule is not PipelineSchedule.DUALPIPE or times.backward == 2 * times.weights:  # what its closed form assumes
        expected = idle_seconds(layout, times.forward, times.backward, times.weights)
        assert [simulated.idle(rank) for rank in range(p)] == pytest.approx([expected] * p)
    assert simulated.stored == pytest.approx([in_flight(layout, m, rank) for rank in range(p)])


def test_dualpipe_hides_traffic_to_experts_where_a_forward_runs_beside_a_backward():
    """DeepSeek-V3 took 180,000 hours of 2,048 H800 for a trillion tokens: 3.7 days (arXiv 2412.19437, section 1)."""
    dualpipe = job("deepseek-v3", 15360, 4096, pp=16, dp=128, ep=64, schedule=PipelineSchedule.DUALPIPE)
    machine = Accelerator(H100, precision="fp8")
    assert predict(dualpipe, machine).days(1e12) == pytest.approx(3.7, rel=0.15)

    simulated = simulate(PipelineSchedule.DUALPIPE, 16, dualpipe.micro_batches, Durations(1, 2, 1))
    pairs = min(sum(len(slot.task) == 3 for slot in slots) for slots in simulated.ranks)
    hidden, shown = (
        stage_work(replace(dualpipe, layout=replace(dualpipe.layout, overlap=overlap)), machine, 8)
        for overlap in (True, False)
    )
    assert hidden.compute == shown.compute
    beside = min(shown.traffic["ep"], shown.compute.forward + shown.compute.backward)
    expected = shown.traffic["ep"] - pairs / dualpipe.micro_batches * beside
    assert hidden.traffic["ep"] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["deepseek-v3", "kimi-k2", "mixtral-8x7b", "llama-3-70b"])
def test_no_stage_is_fuller_or_slower_than_those_that_a_plan_looks_at(name):
    """Of DeepSeek-V3 on 32 stages, the first two and the last have no experts: they are 1 % of the model."""
    model, machine, checked = load_model(name), Accelerator(H100), 0
    for pp, schedule, zero in itertools.product((2, 4, 16, 32), PipelineSchedule, (1, 3)):
        chunks = 2 if schedule is PipelineSchedule.INTERLEAVED else 1
        experts = 8 if model.experts else 1
        layout = Layout(dp=8, pp=pp, ep=experts, schedule=schedule, chunks=chunks, zero=zero)
        planned = Job(model, layout, Sizes(batch=8 * 64, sequence=2048))
        if refusal(model, layout, gpus=layout.gpus, batch=512, sequence=2048):
            continue
        checked += 1
        every = [stage_memory(model, layout, planned.sizes, number).total for number in range(pp)]
        assert fullest(model, layout, planned.sizes).total == pytest.approx(max(every)), layout
        works = {number: stage_work(planned, machine, number).total for number in range(pp)}
        assert max(work.total for work in stage_works(planned, machine).values()) == pytest.approx(max(works.values()))
    assert checked >= 8


def test_all_reduce_times_of_8_a100_are_within_10_percent_of_measured_ones():
    measured = {8 << 20: 134.3e-6, 32 << 20: 358.1e-6, 128 << 20: 1162e-6, 512 << 20: 4191.5e-6, 1 << 30: 8193e-6}
    for size, seconds in measured.items():  # vTrain, trace/a100/AR_GPU8_1M_1024M_LUT
        assert transfer_seconds("all_reduce", path(A100, 8, 1), 1, size) == pytest.approx(seconds, rel=0.1)


def test_an_all_to_all_across_machines_sends_what_leaves_through_each_rank_s_own_card():
    for ranks, leave in ((16, 8 / 16), (64, 56 / 64)):  # of 8 to a machine
        brought, alone = 1e9, A100.far.bytes_per_second
        spent = transfer_seconds("all_to_all", exchange_path(A100, ranks, 1), 1, brought)
        hops = exchange_path(A100, ranks, 1).round_latency
        assert spent - hops == pytest.approx(leave * brought / alone)
    assert exchange_path(A100, 8, 1) == path(A100, 8, 1)


def test_stages_hold_every_layer_and_parameter_once():
    for name, pp in (("llama-3-405b", 16), ("deepseek-v3", 16), ("llama-3-70b", 8), ("mixtral-8x7b", 4)):
        model = load_model(name)
        held = [rank_stages(model, Layout(pp=pp), number)[0] for number in range(pp)]
        assert [
            layers_of(model.layers, pp, number)[1] - layers_of(model.layers, pp, number)[0] for number in range(pp)
        ] == [each.layers for each in held]
        assert sum(each.layers for each in held) == model.layers
        assert sum(each.parameters + each.routed for each in held) == parameters(model)


@pytest.mark.parametrize(
    ("layout", "kind", "sentence"),
    [
        ({"tp": 8, "dp": 30}, RefusalKind.OTHER, "tp 8 x cp 1 x pp 1 x dp 30 = 240 GPUs, but there are 256; dp=32 would do."),
        ({"tp": 64, "dp": 4, "model": "mixtral-8x7b"}, RefusalKind.HEADS, "tp=64 does not divide the 32 attention heads; tp=32 would do."),
        ({"pp": 32, "dp": 8}, RefusalKind.LAYERS, "pp=32 does not divide the 80 layers, even with 3 fewer on the first and last stage together; pp=16 would do."),
        ({"tp": 5, "dp": 2}, RefusalKind.HEADS, "tp=5 does not divide the 64 attention heads; tp=4 would do."),
        ({"tp": 8, "pp": 6, "dp": 5}, RefusalKind.LAYERS, "pp=6 does not divide the 80 layers, even with 3 fewer on the first and last stage together; pp=4 would do."),
        ({"dp": 256, "batch": 300}, RefusalKind.BATCH, "A batch of 300 sequences is not divisible by dp x micro-batch = 256 x 1; a batch of 256 would do."),
        ({"dp": 256, "ep": 2}, RefusalKind.EXPERTS, "Llama 3 70B has no experts; ep=1 would do."),
        ({"dp": 256, "shard": 3}, RefusalKind.OTHER, "shard=3 does not divide the 256 ranks of dp x cp; shard=2 would do."),
        ({"pp": 4, "dp": 64, "chunks": 2}, RefusalKind.OTHER, "chunks=2 needs the interleaved schedule; 1f1b has one chunk a stage."),
    ],
)  # fmt: skip
def test_a_layout_that_cannot_run_is_refused_with_one_that_can(layout, kind, sentence):
    planned = job(**layout)
    with pytest.raises(UserError) as refused:
        make_plan(planned, Accelerator(H100), 256)
    assert str(refused.value) == sentence
    sizes = {"gpus": 256, "batch": planned.sizes.batch, "sequence": planned.sizes.sequence}
    assert refusal(planned.model, planned.layout, **sizes) == Refusal(kind, sentence)


def test_zero_shards_more_with_each_stage_and_hsdp_less():
    totals = [fullest(one.model, one.layout, one.sizes).states for one in (job(dp=64, zero=zero) for zero in range(4))]
    assert totals == sorted(totals, reverse=True)
    hybrid = job(dp=64, zero=3, shard=8)
    assert fullest(hybrid.model, hybrid.layout, hybrid.sizes).states == pytest.approx(8 * totals[3])


def test_recomputation_stores_less_and_computes_more():
    plans = [
        predict(job(tp=8, pp=4, dp=8, recompute=kind), Accelerator(H100)) for kind in (Recompute.NONE, Recompute.FULL)
    ]
    assert plans[0].memory.activations > 4 * plans[1].memory.activations
    assert plans[1].time.compute == pytest.approx(4 / 3 * plans[0].time.compute, rel=0.05)
    assert plans[0].hfu == plans[0].mfu
    assert plans[1].hfu == pytest.approx(4 / 3 * plans[1].mfu, rel=0.02)


EXPLAINED = [
    job(tp=8, pp=4, dp=8),
    job(tp=2, cp=2, pp=4, dp=16, zero=3, schedule=PipelineSchedule.INTERLEAVED, chunks=5, recompute=Recompute.FULL),
    job("deepseek-v3", 15360, 4096, pp=16, dp=128, ep=64, schedule=PipelineSchedule.DUALPIPE),
    job("gpt-3-175b", 512, 2048, flash=False, tp=8, pp=8, dp=4, schedule=PipelineSchedule.ZERO_BUBBLE, zero=0),
    job("nano", 64, 256),
    job("mixtral-8x7b", cp=2, dp=32, ep=8, zero=3),
]


@pytest.mark.parametrize("explained", EXPLAINED, ids=lambda each: each.model.name)
def test_the_numbers_put_into_each_formula_give_the_line(explained):
    plan = predict(explained, Accelerator(H100))
    for line in explanation.lines():
        found = explanation.explain(plan, line, 1e12)
        assert eval(found.filled) == pytest.approx(found.value, rel=1e-4, abs=1e-12), line
        assert not found.value or not re.fullmatch(r"[\d.e+-]+( / 2\*\*30)?", found.filled), "only the result"


def test_an_explained_concept_is_one_that_can_be_learned():
    from ddpquiz.curriculum.loading import load

    known = {concept.id for concept in load().concepts}
    plan = predict(EXPLAINED[0], Accelerator(H100))
    assert {explanation.explain(plan, line, 1e12).concept for line in explanation.lines()} <= known


def test_an_answer_is_the_same_where_a_prediction_misses_by_its_margin():
    usable = HEADROOM * 80
    for needed, expected in ((0.86, Fit.YES), (0.88, Fit.CLOSE), (1.16, Fit.CLOSE), (1.19, Fit.NO)):
        assert memory_fit(needed * usable, needed * usable, 80) is expected, needed


def test_with_zero_1_of_deepspeed_a_plan_fits_only_if_it_does_with_a_quarter_more():
    """Its copies of gradients are not counted; the other side of the margin, and its stage 0, stay as they are."""
    usable = HEADROOM * 80
    for needed, expected in ((0.79, Fit.YES), (0.81, Fit.CLOSE), (1.16, Fit.CLOSE), (1.19, Fit.NO)):
        assert memory_fit(needed * usable, needed * usable, 80, DEEPSPEED_MARGIN) is expected, needed
    plain = job("llama-3-8b", batch=64, dp=1, tp=8, micro_batch=4, recompute=Recompute.FULL)
    deepspeed = replace(plain, sizes=replace(plain.sizes, states=States.DEEPSPEED))
    margins = [
        predict(replace(each, layout=replace(each.layout, zero=zero)), Accelerator(H100)).margin
        for each, zero in ((plain, 1), (deepspeed, 0), (deepspeed, 1), (deepspeed, 3))
    ]
    assert margins == [MARGIN, MARGIN, DEEPSPEED_MARGIN, MARGIN]


def test_without_a_stated_loss_a_plan_fits_only_if_it_does_with_the_one_that_needs_most():
    usual = job("llama-3-8b", batch=64, dp=1, tp=8, micro_batch=4, recompute=Recompute.FULL)
    usual = replace(usual, sizes=replace(usual.sizes, states=States.MEGATRON))
    found = {}
    for loss in (None, Loss.IN_PLACE, Loss.GATHERED):
        plan = predict(replace(usual, sizes=replace(usual.sizes, loss=loss)), Accelerator(H100))
        found[loss] = plan.fit, plan.memory.logits / 2**30, plan.most / 2**30
    logits, hidden = 4 * 8192 * 128256 / 2**30, 4 * 4 * 8192 * 4096 / 2**30
    assert found[Loss.IN_PLACE][:2] == (Fit.YES, pytest.approx(6 * logits / 8 + hidden))
    assert found[None][:2] == (Fit.CLOSE, found[Loss.IN_PLACE][1])
    assert found[Loss.GATHERED][1] == pytest.approx(16 * logits + hidden)
    assert found[None][2] == found[Loss.GATHERED][2] > found[Loss.IN_PLACE][2]
    ways = [option for option, _ in ways_to_fit(predict(usual, Accelerator(H100)))]
    assert ways == ["--loss in-place", "--loss fused", "--micro-batch 2", "--micro-batch 1"]


def test_without_stated_states_a_plan_fits_only_if_it_does_with_those_that_need_most():
    """DeepSpeed's bytes of a parameter, and the inputs that DTensor keeps of each of the 80 layers of two stages."""
    known = job(batch=64, dp=4, tp=8, pp=4)
    known = replace(known, sizes=replace(known.sizes, loss=Loss.IN_PLACE))
    stated, deepspeed, fp32 = (
        fullest(known.model, known.layout, replace(known.sizes, states=states))
        for states in (States.MEGATRON, States.DEEPSPEED, States.FP32)
    )
    plan = predict(known, Accelerator(H100))
    assert plan.memory == stated
    kept = fp32.activations - stated.activations
    assert kept == 4 * 20 * 2 * 2 * 8192 * 8192  # micro-batches, layers of a stage, two inputs in bf16
    gradients = deepspeed.gradients - stated.gradients
    assert gradients == stated.weights  # DeepSpeed keeps them in bf16, too
    assert plan.most == pytest.approx(stated.total + gradients + kept)


def test_deepspeed_holds_buckets_and_what_a_stage_sent():
    """9 GB of buckets at its defaults, and of each of 4 micro-batches in flight the output, which tp splits."""
    known = job(batch=64, dp=4, tp=8, pp=4)
    small = job(batch=64, dp=4, tp=8, pp=4, zero=3)
    for states in (States.ZERO, States.DEEPSPEED):
        with_it, without = (
            fullest(known.model, known.layout, replace(known.sizes, states=kind)) for kind in (states, States.MEGATRON)
        )
        assert (with_it.stage, without.stage) == (0, 0)
        assert with_it.buffers - without.buffers == pytest.approx(9e9)
        assert with_it.activations - without.activations == pytest.approx(4 * 2 * 8192 * 8192 / 8)
    sharded = [
        fullest(small.model, small.layout, replace(small.sizes, states=kind)).activations
        for kind in (States.ZERO, States.MEGATRON)
    ]
    assert sharded[0] == sharded[1]  # ZeRO-3 has no such buckets, and no pipeline in DeepSpeed


def test_without_flash_attention_backward_holds_the_scores_that_it_computes_again():
    known = job(batch=64, dp=4, tp=8, pp=4, recompute=Recompute.FULL)
    held = rank_stages(known.model, known.layout, 0)[0]
    stored, scored = (
        stage_activations(known.model, known.layout, held, replace(known.sizes, flash=flash)) for flash in (True, False)
    )
    assert stored[0] == scored[0]
    heads, logarithms = 64 / 8, 4 * 8192 * 64 / 8
    assert scored[1] - stored[1] == pytest.approx(2 * heads * 8192 * 8192 - logarithms)


def test_unstated_states_leave_a_tight_plan_too_close_to_say():
    known = job(batch=64, dp=4, tp=8, pp=4)
    known = replace(known, sizes=replace(known.sizes, loss=Loss.IN_PLACE))
    plan = predict(known, Accelerator(H100))
    assert predict(replace(known, sizes=replace(known.sizes, states=States.ZERO)), Accelerator(H100)).fit is Fit.YES
    assert plan.fit is Fit.YES
    tight = replace(known, layout=replace(known.layout, micro_batch=2))
    assert predict(tight, Accelerator(H100)).fit is Fit.CLOSE
    stated = replace(tight, sizes=replace(tight.sizes, states=States.MEGATRON))
    assert predict(stated, Accelerator(H100)).fit is Fit.YES
    assert "--states megatron" in [option for option, _ in ways_to_fit(predict(tight, Accelerator(H100)))]


def test_a_pipeline_keeps_what_zero_3_has_gathered_unless_it_is_told_otherwise():
    kept, freed = (
        fullest(job().model, job(pp=4, tp=8, dp=8, zero=3, reshard=reshard).layout, job().sizes)
        for reshard in (None, True)
    )
    stage = rank_stages(job().model, job(pp=4, tp=8, dp=8).layout, kept.stage)[0]
    assert kept.buffers - freed.buffers > 0.8 * stage.parameters * (2 + 4)
    assert not job(dp=8, zero=3).layout.keeps_gathered
    assert job(dp=8, zero=3, reshard=False).layout.keeps_gathered


def test_a_search_finds_layouts_that_fit_sorted_by_time_and_counts_the_others():
    found = search(job(), Accelerator(H100), 64)
    assert found.plans
    assert all(plan.fit is Fit.YES and plan.job.layout.gpus == 64 for plan in found.plans)
    assert [plan.time.total for plan in found.plans] == sorted(plan.time.total for plan in found.plans)
    assert found.tried == found.fitting + sum(found.refused.values())


def test_a_search_always_shows_data_parallelism_alone_if_it_fits_and_says_which_ways_it_shows():
    def splits(found):
        layouts = [plan.job.layout for plan in found.plans]
        return [(each.tp, each.cp, each.pp, each.ep) for each in layouts]

    def said(found, gpus):
        console = style.console(io.StringIO(), width=200)
        console.print(found_page(found, gpus, "plan"))
        return console.file.getvalue()

    slow = search(job(dp=8), Accelerator(H100), 256)
    assert splits(slow).index((1, 1, 1, 1)) == BEST
    assert len(splits(slow)) == len(set(splits(slow))) == BEST + 1 < slow.ways
    listed = f"{slow.fitting:,} fit. They split the GPUs in {slow.ways} ways. The best layout of each of the 6 fastest"
    assert f"{listed}, and of data parallelism alone:" in said(slow, 256)
    small = search(job(), Accelerator(H100), 32)
    assert (1, 1, 1, 1) not in splits(small)  # it does not fit
    assert f"They split the GPUs in {small.ways} ways. The best layout of each of the 6 fastest:" in said(small, 32)
    few = replace(small, ways=BEST)
    assert "They split the GPUs in 6 ways. The fastest of each:" in said(few, 32)
    one = replace(small, ways=1, plans=small.plans[:1])
    assert "fit. All of them split the GPUs in the same way. The fastest:" in said(one, 32)


def test_the_fewest_gpus_are_those_below_which_nothing_fits():
    stated = replace(job(), sizes=replace(job().sizes, states=States.MEGATRON))
    for each, expected in ((stated, (24, 16)), (job(), (32, 24))):
        gpus, before, found = fewest_gpus(each, Accelerator(H100))
        assert (gpus, before) == expected
        assert found.plans[0].fit is Fit.YES
        assert not search(each, Accelerator(H100), before).plans


def test_more_gpus_train_faster_and_less_efficiently():
    plans = plans_by_gpus(job(batch=4096, tp=8, pp=4), Accelerator(H100), 64, 131072)
    assert [plan.job.layout.gpus for plan in plans] == [64 << power for power in range(12)]
    mfu = [plan.mfu for plan in plans]
    assert mfu == sorted(mfu, reverse=True)


def test_a_gpt_layer_moves_22_and_24_h_and_13_a_s_bytes_a_token_in_forward():
    model = load_model("gpt-22b")
    assert whole_moves(model, moe=False) == 22 * model.hidden
    assert split_moves(model, moe=False) == 24 * model.hidden
    assert score_moves(model, 2048) == 13 * model.heads * 2048


def test_a_layer_of_22b_takes_as_long_as_korthikanti_measured():
    """Table 4: milliseconds of forward and backward on 8 GPUs, traffic included; the model is slower by at most 12 %."""
    model, sizes = load_model("gpt-22b"), Sizes(batch=4, sequence=2048, flash=False)
    for recompute, sequence_parallel, measured in (
        (Recompute.NONE, False, 19.6),
        (Recompute.NONE, True, 19.0),
        (Recompute.FULL, False, 27.2),
        (Recompute.SELECTIVE, False, 20.9),
        (Recompute.SELECTIVE, True, 20.3),
    ):
        layout = Layout(tp=8, micro_batch=4, recompute=recompute, sequence_parallel=sequence_parallel)
        works = [
            stage_work(Job(replace(model, layers=layers), layout, sizes), Accelerator(A100), 0) for layers in (1, 2)
        ]
        assert measured < 1e3 * (works[1].total - works[0].total) < 1.12 * measured


def test_a_small_layer_takes_as_long_as_its_kernels_take_to_launch():
    small, launched = job("nano", batch=8, sequence=64), replace(H100, launch=1e-3)
    free = predict(small, Accelerator(replace(H100, launch=0.0))).time.compute
    time = predict(small, Accelerator(launched)).time
    assert free < time.compute / 10
    assert time.compute == pytest.approx(8 * small.model.layers * 3e-3, rel=0.05)
    parallel = predict(job("nano", batch=8, sequence=64, tp=2), Accelerator(launched)).time
    assert parallel.tp == 0  # sent while the GPU waits for launches
