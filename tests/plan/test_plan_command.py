"""`ddpquiz plan` as a user runs it, and the files of models and hardware that it reads."""

import json
import re

import passed
import pytest
from inline_snapshot import snapshot
from run_program import piped

from ddpquiz.cli.plan import PlanOptions
from ddpquiz.curriculum.plan_files import load_hardware, load_model, names, read_hardware, read_model, read_runs
from ddpquiz.curriculum.yaml_file import YamlFile
from ddpquiz.events import saved_run
from ddpquiz.events.event import decode
from ddpquiz.events.run_state import RunState
from ddpquiz.paths import content_dir
from ddpquiz.plan.layout import Layout
from ddpquiz.plan.memory import Sizes

pytestmark = passed.PLANS
JOB = ("plan", "--model", "llama-3-70b", "--gpu", "h100", "--gpus", "256", "--layout", "tp=8,pp=4")


def test_the_page_fits_80_by_24(home):
    lines = piped(home, *JOB).stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[0] == "Llama 3 70B on 256 x H100 SXM 80 GB"
    assert any(
        re.match(r"Memory +[\d.]+ GiB on stage 0, the fullest; usable 75.2 of 80 GiB: fits", line) for line in lines
    )


@pytest.mark.parametrize("columns", ["60", "68"])
@pytest.mark.parametrize(
    "words",
    [
        JOB,
        ("plan", "--gpus", "256", "--seq", "8192", "--search"),
        ("plan", "--layout", "tp=8,pp=4", "--scale", "64..16384"),
        (*JOB, "--compare", "tp=4,pp=8,zero=3"),
    ],
)
def test_in_a_narrow_terminal_no_figure_and_no_name_is_cut(home, columns, words):
    lines = piped(home, *words, COLUMNS=columns).stdout.splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert not any("…" in line for line in lines)


def test_a_narrow_search_gives_up_what_takes_most_time_and_then_mfu(home):
    words = ("plan", "--gpus", "256", "--seq", "8192", "--search")
    heads = {
        columns: next(line for line in piped(home, *words, COLUMNS=columns).stdout.splitlines() if " ZeRO " in line)
        for columns in ("80", "68", "60")
    }
    assert [head.split()[-2:] for head in heads.values()] == [["MFU", "overhead"], ["s", "MFU"], ["step", "s"]]


def test_a_plan_without_options_has_the_defaults_of_a_layout_and_of_sizes(home):
    job = PlanOptions(batch=8, seq=1024).job(1)
    assert (job.layout, job.sizes) == (Layout(), Sizes(batch=8, sequence=1024))
    assert str(Layout()) == "1 GPU, ZeRO-1, micro-batch 1, recompute none"
    assert ", recompute none\n" in piped(home, *JOB).stdout


def test_the_help_names_every_model_and_gpu(home):
    said = "".join(piped(home, "plan", "--help").stdout.split())  # a name may be divided at its hyphen
    assert [name for name in (*names("models"), *names("hardware")) if f"{name}," not in said] == []


def test_a_plan_that_does_not_fit_says_how_to_find_one_that_does(home):
    page = piped(home, "plan", "--model", "llama-3-70b", "--gpu", "h100", "--gpus", "8", "--layout", "tp=8").stdout
    assert "usable 75.2 of 80 GiB: does not fit" in page
    assert "\nIf it did fit: " in page
    assert "\n--search lists the layouts that fit;" in page  # no single change would do
    assert "Of the step" not in page
    assert "If it did fit" not in piped(home, *JOB).stdout


def test_the_seconds_of_traffic_are_those_that_explain_adds_up(home):
    page, line = piped(home, *JOB).stdout, piped(home, *JOB, "--explain", "dp").stdout
    shown = [float(seconds) for seconds in re.findall(r"^dp \w+ .*GiB +([\d.]+)  ", page, re.MULTILINE)]
    assert len(shown) == 2
    parts = json.loads(piped(home, *JOB, "--json").stdout)["traffic"]
    assert shown == pytest.approx([part["seconds"] for part in parts if part["axis"] == "dp"], rel=0.01)
    assert sum(shown) == pytest.approx(float(re.match(r"dp: ([\d.]+) s on the wire", line)[1]), rel=0.01)


def test_gradients_are_summed_over_the_ranks_of_dp_and_cp(home):
    page = piped(home, "plan", "--gpus", "256", "--layout", "cp=4,pp=2", "--zero", "3", "--chunks", "8").stdout
    assert re.search(r"^dp,cp reduce_scatter +128 ", page, re.MULTILINE)
    assert max(map(len, page.splitlines())) <= 80


def test_an_option_with_a_wrong_word_is_the_one_that_is_named(home):
    message = (
        "for --compare: `foo` is not one of tp, pp, cp, ep, dp, zero, shard, micro-batch, chunks, pipeline, recompute."
    )
    assert message in piped(home, *JOB, "--compare", "foo=4").stderr


def test_an_interleaved_schedule_of_one_chunk_is_refused(home):
    ended = piped(home, *JOB, "--pipeline", "interleaved")
    assert ended.returncode == 1
    assert " ".join(ended.stderr.split()) == (
        snapshot("The interleaved schedule needs several chunks a stage; chunks=2 or the schedule 1f1b would do.")
    )
    assert "fits" in piped(home, *JOB, "--pipeline", "interleaved", "--chunks", "2").stdout


def test_a_layout_compared_with_itself_changes_nothing(home):
    rows = piped(home, *JOB, "--compare", "tp=8,pp=4").stdout.splitlines()[3:-1]
    assert {row.split()[-1] for row in rows} == {"0%"}


def test_a_comparison_keeps_the_axes_that_it_does_not_name_and_may_change_the_pipeline(home):
    page = piped(home, *JOB, "--chunks", "5", "--compare", "tp=4,pipeline=1f1b").stdout
    assert "first: tp 8 pp 4 dp 8, ZeRO-1, interleaved x 5 chunks" in page
    assert "second: tp 4 pp 4 dp 16, ZeRO-1, 1f1b" in page
    assert piped(home, *JOB, "--chunks", "5", "--compare", "tp=4 pipeline=1f1b").stdout == page


def test_two_layouts_are_said_to_fit_or_not(home):
    assert piped(home, *JOB, "--states", "megatron", "--compare", "tp=4,pp=8").stdout.endswith("Both: fits.\n")
    said = piped(home, *JOB, "--recompute", "full", "--compare", "tp=1 recompute=none").stdout
    assert said.endswith("The first: fits; the second: does not fit.\n")


def test_a_plan_that_does_not_fit_names_single_changes_that_do_with_what_they_cost(home):
    words = ("plan", "--model", "llama-3-8b", "--gpus", "8", "--zero", "3", "--states", "fp32", "--micro-batch", "2")
    said = " ".join(piped(home, *words).stdout.split())
    assert "does not fit" in said
    found = re.search(r"It fits with (--\S+ \S+) \((\d+) GiB, step [+-]\d+%\)", said)
    again = json.loads(piped(home, *words, *found[1].split(), "--json").stdout)
    assert again["fit"] == "fits"
    assert round(again["memory_bytes"]["total"] / 2**30) == int(found[2])


def test_one_fused_loss_may_be_what_makes_a_plan_fit(home):
    words = ("plan", "--model", "llama-3-8b", "--gpus", "8", "--zero", "3", "--states", "fp32", "--seq", "32768")
    eager, fused = (
        json.loads(piped(home, *words, "--recompute", "full", "--loss", loss, "--json").stdout)
        for loss in ("eager", "fused")
    )
    assert (eager["fit"], fused["fit"]) == ("too close to call", "fits")
    assert eager["memory_bytes"]["logits"] - fused["memory_bytes"]["logits"] == 10 * 32768 * 128256


def test_the_efficiency_of_a_gpu_may_be_ones_own(home):
    usual, own = (
        json.loads(piped(home, *JOB, *words, "--json").stdout)["mfu"] for words in ((), ("--efficiency", "0.265"))
    )
    assert own < 0.6 * usual


def test_json_has_all_of_the_page(home):
    found = json.loads(piped(home, *JOB, "--json").stdout)
    memory, time = found["memory_bytes"], found["step_seconds"]
    parts = ("weights", "gradients", "optimizer", "activations", "logits", "buffers")
    assert memory["total"] == pytest.approx(sum(memory[part] for part in parts))
    assert time["total"] == pytest.approx(sum(value for name, value in time.items() if name != "total"))
    assert {part["axis"] for part in found["traffic"]} == {"dp", "tp", "pp"}
    share, peak = re.search(r"Of the step: ([\d.]+)% computing, at (\d+)% of peak", piped(home, *JOB).stdout).groups()
    assert float(share) * float(peak) / 1e4 == pytest.approx(found["hfu"], rel=0.02)
    assert found["tokens_per_second_per_gpu"] == pytest.approx(512 * 8192 / time["total"] / 256)


def test_the_smallest_number_of_gpus_and_what_limits_it_are_on_one_page(home):
    words = ("plan", "--model", "llama-3-70b", "--gpu", "h100", "--seq", "8192", "--search")
    page = piped(home, *words).stdout
    assert "may need 54.8 GiB per GPU (--states: 20 bytes a parameter)" in " ".join(page.split())
    page = piped(home, *words, "--states", "megatron").stdout
    assert "need 73.9 GiB per GPU (--states: 18 bytes a parameter); the limit is 65.4." in " ".join(page.split())
    small = piped(home, "plan", "--model", "llama-3-8b", *words[3:], "--states", "zero").stdout
    assert "no layout fits the rest beside them." in " ".join(small.split())
    assert "A layout fits on 24, and on no smaller number of whole machines" in page
    assert re.search(r"Of the best layout's step: [\d.]+% computing", page)
    command = re.search(r"ddpquiz (plan --model.*?--seq 8192)", page.replace(" \\\n", " "), re.DOTALL)[1]
    assert "usable 75.2 of 80 GiB: fits" in piped(home, *command.split()).stdout


@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        (("--gpus", "256", "--layout", "tp=7"), 1, "tp=7 does not divide the 64 attention heads; tp=8 would do."),
        (("--gpus", "10", "--layout", "tp=5"), 1, "tp=5 does not divide the 64 attention heads; tp=2 would do."),
        (("--model", "llama-3-7b", "--gpus", "8"), 1, "Did you mean 'llama-3-70b'?"),
        (("--model", "llama-3-7b"), 1, "Did you mean 'llama-3-70b'?"),
        (("--gpu", "x"), 1, "No GPU named 'x'."),
        (("--gpu", "h10", "--gpus", "8"), 1, "No GPU named 'h10'."),
        (("--gpus", "8", "--explain", "x"), 1, "A plan has no line 'x'"),
        (("--gpus", "8", "--schedule"), 1, "There is no pipeline in this layout"),
        ((), 1, "How many GPUs?"),
        (("--gpus", "8", "--layout", "xp=2"), 2, "`xp` is not one of tp, pp, cp, ep, dp."),
        (("--gpus", "8", "--pipeline", "fifo"), 2, "fifo is not one of gpipe, 1f1b,"),
        (("--gpus", "8", "--precision", "fp8", "--gpu", "a100"), 2, "has fp32, bf16, not fp8."),
        (("--scale", "8-16"), 2, "expected two numbers of GPUs"),
        (("--layout", "tp=4,tp=8"), 2, "it names tp twice."),
        (("--layout", "tp=4,zero=3"), 2, "`zero` is not one of tp, pp, cp, ep, dp. Use --zero."),
        (("--gpus", "8", "--tokens", "-1"), 2, "is not in the range"),
        (("--gpus", "8", "--tokens", "nan"), 2, "for --tokens: expected a number of at most 1,000,000,000."),
        (("--gpus", "8", "--efficiency", "nan"), 2, "for --efficiency: expected a number of at most"),
        (("--gpus", "8", "--batch", "9" * 400), 2, "for --batch: expected a number of at most"),
        (("--gpus", "8", "--compare", "zero=9"), 2, "zero needs a number from 0 to 3, as in zero=1."),
        (("--gpus", "8", "--compare", "chunks=0"), 2, "chunks needs a number from 1 to"),
        (("--gpus", "8", "--compare", "micro-batch=0"), 2, "micro-batch needs a number from 1 to"),
        (("--gpus", "8", "--layout", "tp=9999999"), 1, "tp=9999999 does not divide the 64 attention heads; tp=8"),
        (("--gpus", "8", "--shard", "999999999"), 1, "does not divide the 8 ranks of dp x cp; shard=8 would do."),
        (("--gpus", "8", "--layout", "pp=2", "--batch", "999999992", "--schedule"), 1, "is too long to draw;"),
        (("--gpus", "8", "--search", "--layout", "tp=8"), 2, "--search tries all values of --layout anyway;"),
        (("--gpus", "8", "--search", "--scale", "8..16"), 2, "for --scale: it cannot be combined with --search."),
    ],
)
def test_what_cannot_be_planned_is_said_in_a_sentence(home, words, status, complaint):
    done = piped(home, "plan", *words)
    assert done.returncode == status
    assert complaint in re.sub(r"[\s│]+", " ", done.stderr)


def test_a_line_is_explained_with_its_numbers_source_and_concept(home):
    page = piped(home, *JOB, "--explain", "weights").stdout
    assert "/ 2**30" in page
    assert "Source: arXiv 1910.02054" in page
    assert "ddpquiz learn zero-stages" in page


def test_two_layouts_are_compared(home):
    page = piped(home, *JOB, "--compare", "tp=4,pp=8,zero=3").stdout
    assert "second: tp 4 pp 8 dp 8, ZeRO-3" in page


def test_a_number_of_gpus_that_the_layout_cannot_use_names_one_that_it_can(home):
    page = " ".join(piped(home, "plan", "--layout", "tp=8,pp=4", "--scale", "100..200").stdout.split())
    assert "tokens, on 100 to 200 x H100 SXM 80 GB" in page
    assert "100 is no multiple of tp x cp x pp = 32; 96 would do." in page


def test_ranks_that_are_done_with_a_schedule_wait_for_the_end_of_the_step(home):
    events = piped(home, *JOB, "--batch", "64", "--schedule", "--json").stdout.splitlines()
    state = RunState.after(map(decode, events))
    shares = [each.waiting / each.lifetime for each in state.timeline.totals(state.time).values()]
    assert shares == pytest.approx([3 / 11] * 4, abs=0.01)  # the bubble of 4 stages and 8 micro-batches


def test_scaling_reports_each_doubling(home):
    rows = json.loads(piped(home, "plan", "--layout", "tp=8,pp=4", "--scale", "64..131072", "--json").stdout)
    assert [row["gpus"] for row in rows] == [64 << power for power in range(12)]


def test_a_schedule_is_drawn_and_saved_as_a_run(home, tmp_path):
    words = ("plan", "--gpus", "32", "--layout", "tp=8,pp=4", "--batch", "8")
    lanes = piped(home, *words, "--schedule").stdout.splitlines()[1:5]
    assert [lane[:6] for lane in lanes] == [f"rank {rank}" for rank in range(4)]
    assert all(set(lane[7:]) == {"F", "B", "."} for lane in lanes)
    for name in ("plan.json", "plan.svg"):
        assert piped(home, *words, "--save", str(tmp_path / name)).returncode == 0
    events = saved_run.read(tmp_path / "plan.json")
    assert (events[0].ranks, events[-1].ok) == (4, True)
    assert "<svg" in (tmp_path / "plan.svg").read_text()


def test_of_a_schedule_that_is_too_long_to_draw_each_task_the_middle_is_left_out(home):
    page = piped(home, "plan", "--gpus", "32", "--layout", "tp=8,pp=4", "--batch", "256", "--schedule").stdout
    title, *lanes = page.splitlines()[:5]
    assert title.endswith("; its middle is left out")
    starts = [lane[7:].partition(" ... ")[0] for lane in lanes]
    assert [start.index("B") for start in starts] == sorted((start.index("B") for start in starts), reverse=True)
    assert [re.match(r"\.*(F+)", start)[1] for start in starts] == [
        "FFFF",
        "FFF",
        "FF",
        "F",
    ]  # before the first backward
    ends = [lane[7:].partition(" ... ")[2] for lane in lanes]
    assert ends[0].endswith("BB")  # the last backward, while the others have nothing left
    assert [len(end) - len(end.rstrip(".")) for end in ends] == sorted(len(end) - len(end.rstrip(".")) for end in ends)
    assert max(map(len, lanes)) <= 80


def test_every_shipped_file_can_be_read():
    assert {load_model(name).layers > 0 for name in names("models")} == {True}
    assert {load_hardware(name).memory > 0 for name in names("hardware")} == {True}


def test_a_model_may_be_written_as_its_title():
    assert load_model("Llama 3 8B").name == load_model("llama-3-8b").name


def test_a_file_of_ones_own_works_by_its_path(home, tmp_path):
    own = tmp_path / "mine.yaml"
    own.write_text((content_dir() / "models" / "llama-3-8b.yaml").read_text().replace("Llama 3 8B", "Mine"))
    assert piped(home, "plan", "--model", str(own), "--gpus", "8").stdout.startswith("Mine on 8 x")


MODEL = "name: M\nsource: s\nlayers: 2\nhidden: 64\nheads: 4\nffn: 128\nvocabulary: 100\nsequence: 32\n"
LINK = "{ranks: 8, bandwidth: 300 GB/s, reached: 0.8, latency: 5 us}"
HARDWARE = (
    "name: G\nsource: s\nmemory: 80 GiB\nmemory-bandwidth: 2 TB/s\nflops: {bf16: 312 TFLOP/s}\nefficiency: 0.5\n"
    f"near: {LINK}\nfar: {LINK}\n"
)


@pytest.mark.parametrize(
    ("read", "text", "complaint"),
    [
        (read_model, MODEL.replace("layers: 2", "layers: 0"), "f:3:9: `layers`: expected a whole number from 1 to 10000000, got `0`"),
        (read_model, MODEL.replace("ffn", "fnn"), "f:6:1: unknown key `fnn`; did you mean `ffn`?"),
        (read_model, MODEL.replace("heads: 4", "heads: 5"), "f:5:8: `heads`: 5 heads do not divide hidden = 64; add `head-size`"),
        (read_model, MODEL + "experts: {count: 2, active: 3, ffn: 8}\n", "f:9:29: `active`: at most the 2 experts can be active"),
        (read_model, MODEL + "sources: {layer: x}\n", "f:9:18: `sources`: this file has no `layer`; did you mean `layers`?"),
        (read_hardware, HARDWARE.replace("80 GiB", "80 GB"), "f:3:9: `memory`: expected a positive number with its unit, such as `80 GiB`, got `80 GB`"),
        (read_hardware, HARDWARE.replace("efficiency: 0.5", "efficiency: 50"), "f:6:13: `efficiency`: expected a share of at most 1, got 50"),
        (read_hardware, HARDWARE.replace("bf16", "int4"), "f:5:8: `flops`: name at least one of fp32, bf16, fp8"),
        (read_runs, "runs:\n  - {name: a, what: speed, published: 1, source: s, model: nano, gpu: h100}\n", "f:2:21: `what`: `speed` is not one of step, rate, tflops, memory, out-of-memory, activations, states, mfu"),
    ],
)  # fmt: skip
def test_a_wrong_number_is_reported_with_line_and_column(read, text, complaint):
    page = YamlFile("f", text.encode())
    read(page)
    assert complaint in map(str, page.complaints)
