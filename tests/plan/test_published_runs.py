"""Published runs beside what `ddpquiz plan` computes for them: the tables of the docs, misses, and the fit."""

import sys

import pytest
from places import ROOT

from ddpquiz.curriculum.plan_files import load_hardware, load_runs, names
from ddpquiz.plan import step_time

sys.path.append(str(ROOT / "benchmarks"))
import published_runs as benchmark

RUNS = load_runs()
COMPARISONS = [benchmark.compare(run) for run in RUNS]


def test_the_tables_of_the_docs_are_what_the_planner_computes_now():
    for path, page in benchmark.pages(COMPARISONS).items():
        assert page == path.read_text("utf-8"), (
            "run `python benchmarks/published_runs.py --write`, and see whether the text beside it still holds"
        )


def test_predictions_of_runs_that_nothing_was_fitted_to_are_near_enough():
    for kinds, limit in ((("memory",), 0.15), (benchmark.TIMED, 0.2)):
        errors = sorted(abs(each.error) for each in benchmark.unseen(COMPARISONS, *kinds))
        assert len(errors) >= 25
        assert errors[len(errors) // 2] <= 0.08, kinds
        assert sum(error <= limit for error in errors) / len(errors) >= 0.9, kinds


def test_no_run_that_ran_out_of_memory_is_said_to_fit_and_hardly_one_that_ran_is_said_not_to():
    short = [each for each in COMPARISONS if each.run.what == "out-of-memory"]
    assert (len(short), sum(each.misses for each in short)) == (90, 0)
    refused, ran = benchmark.said_not_to_fit(RUNS)
    assert (refused, ran) == (["175B on 96"], 470)


def test_only_the_table_is_written_again():
    page = "Text.\n\n| run | what | published | predicted | error |\n| --- | --- | ---: | ---: | ---: |\n| old |\n\nMore.\n"
    new = benchmark.table(COMPARISONS[:1])
    assert benchmark.with_table(page, new) == f"Text.\n\n{new}\nMore.\n"
    assert benchmark.with_table(page.removesuffix("\nMore.\n"), new) == f"Text.\n\n{new}"


def test_shipped_constants_are_what_the_fit_gives():
    gpus = {hardware.name: hardware for hardware in map(load_hardware, names("hardware"))}
    for name in {run.machine.hardware.name for run in RUNS if run.fit and run.what in benchmark.TIMED}:
        fitted = benchmark.fit_constant(benchmark.fitted_runs(RUNS, name), "efficiency")
        assert fitted == pytest.approx(gpus[name].efficiency, abs=0.0015), name
    a100 = load_hardware("a100")
    runs = benchmark.fitted_runs(RUNS, a100.name)
    assert benchmark.fit_constant(runs, "memory_reached") == pytest.approx(a100.memory_reached)
    assert benchmark.fit_constant(runs, "launch") == pytest.approx(a100.launch)


def test_older_software_has_the_efficiency_that_was_fitted_to_one_of_its_runs():
    older = [run for run in RUNS if run.software == "deepspeed-2021" and run.what in benchmark.TIMED]
    (fitted,) = [run for run in older if run.fit]
    assert benchmark.fit_constant([fitted], "efficiency") == pytest.approx(fitted.machine.efficiency, abs=0.0015)
    assert all(run.machine.efficiency == fitted.machine.efficiency < load_hardware("a100").efficiency for run in older)


def test_the_share_of_attention_and_the_cost_of_overlap_are_what_four_runs_give():
    runs = benchmark.fitted_runs(RUNS, "H100 SXM 80 GB", "llm-foundry-2023")
    runs += benchmark.fitted_runs(RUNS, "A100 SXM 80 GB", "llm-foundry-2023")
    assert len(runs) == 4
    shares = {run.machine.attention for run in RUNS if run.software == "llm-foundry-2023"}
    assert benchmark.fit_overlap(runs) == (*shares, step_time.OVERLAP_COST)


def test_every_miss_of_the_published_runs_has_a_reason():
    assert [each.run.name for each in COMPARISONS if each.misses and not each.run.miss] == []
    exact = [each for each in COMPARISONS if each.run.what in ("states", "mfu", "activations")]
    assert [each.run.name for each in exact if each.misses] == ["7.5B, 64 ranks, ZeRO-3"]
    timed = [run for run in RUNS if run.what in benchmark.TIMED]
    assert sum(run.fit for run in timed) < len(timed) / 10
