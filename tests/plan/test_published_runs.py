"""Published runs beside what `ddpquiz plan` computes for them: the table of docs/plan.md, its misses, and the fit."""

import re
import sys

import pytest
from places import ROOT

from ddpquiz.curriculum.plan_files import load_hardware, load_runs, names

sys.path.append(str(ROOT / "benchmarks"))
import published_runs as benchmark

RUNS = load_runs()
COMPARISONS = [benchmark.compare(run) for run in RUNS]
PAGE = benchmark.DOCS.read_text("utf-8")


def test_the_table_of_the_docs_is_what_the_planner_computes_now():
    now = benchmark.with_table(PAGE, benchmark.table(COMPARISONS))
    assert now == PAGE, (
        "run `python benchmarks/published_runs.py --write`, and see whether the text beside it still holds"
    )


def test_the_mean_errors_that_the_docs_name_are_those_of_the_table():
    text = " ".join(PAGE.split())
    sentence = re.search(r"Mean error of the step times that the fit did not see: (.*?)\. Of", text)[1]
    named = re.findall(r"([\d.]+) % on (?:the |torchtitan's )(\w+)", sentence)
    means = benchmark.mean_errors(COMPARISONS)
    assert [(f"{mean:.1%}", name.split()[0]) for name, mean in means.items()] == [
        (f"{mean}%", name) for mean, name in named
    ]


def test_only_the_table_is_written_again():
    page = "Text.\n\n| run | what | published | predicted | error |\n| --- | --- | ---: | ---: | ---: |\n| old |\n\nMore.\n"
    new = benchmark.table(COMPARISONS[:1])
    assert benchmark.with_table(page, new) == f"Text.\n\n{new}\nMore.\n"
    assert benchmark.with_table(page.removesuffix("\nMore.\n"), new) == f"Text.\n\n{new}"


def test_shipped_constants_are_what_the_fit_gives():
    gpus = {hardware.name: hardware for hardware in map(load_hardware, names("hardware"))}
    for name in {run.machine.hardware.name for run in RUNS if run.fit}:
        fitted = benchmark.fit_constant(benchmark.fitted_runs(RUNS, name), "efficiency")
        assert fitted == pytest.approx(gpus[name].efficiency, abs=0.0015), name
    a100 = load_hardware("a100")
    runs = benchmark.fitted_runs(RUNS, a100.name)
    assert benchmark.fit_constant(runs, "memory_reached") == pytest.approx(a100.memory_reached)
    assert benchmark.fit_constant(runs, "launch") == pytest.approx(a100.launch)


def test_older_software_has_the_efficiency_that_was_fitted_to_one_of_its_runs():
    older = [run for run in RUNS if run.software and run.what in benchmark.TIMED]
    assert {run.software for run in older} == {"deepspeed-2021"}
    (fitted,) = [run for run in older if run.fit]
    assert benchmark.fit_constant([fitted], "efficiency") == pytest.approx(fitted.machine.efficiency, abs=0.0015)
    assert all(run.machine.efficiency == fitted.machine.efficiency < load_hardware("a100").efficiency for run in older)


def test_every_miss_of_the_published_runs_has_a_reason_and_only_those_have_one():
    assert [each.run.name for each in COMPARISONS if each.misses != bool(each.run.miss)] == []
    exact = [each for each in COMPARISONS if each.run.what in ("states", "mfu", "activations")]
    assert [each.run.name for each in exact if each.misses] == ["7.5B, 64 ranks, ZeRO-3"]
    assert all(error < 0.05 for error in benchmark.mean_errors(COMPARISONS).values())
    assert (
        sum(run.fit for run in RUNS if run.what in benchmark.TIMED)
        <= sum(run.what in benchmark.TIMED for run in RUNS) / 2
    )
