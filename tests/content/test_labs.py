"""Every shipped lab: its files are valid, and its check accepts what is right and refuses what is wrong.

Here each run has one seed; `ddpquiz check --labs all` runs all seeds of each lab.
"""

import io
import re
import subprocess
import sys
import tokenize
from dataclasses import replace

import pytest

from ddpquiz.curriculum import loading
from ddpquiz.curriculum.labs import TOOLS, lab_names, load_lab, survey_labs
from ddpquiz.lab.checker import attempts, prove_attempt
from ddpquiz.paths import labs_dir

LABS = {name: load_lab(name) for name in lab_names()}


def quick(name):
    lab = LABS[name]
    return replace(lab, runs=tuple(replace(run, seeds=()) for run in lab.runs))  # the check adds a fresh one


ATTEMPTS = [(name, number, attempt.name) for name, lab in LABS.items() for number, attempt in enumerate(attempts(lab))]
RIGHT = [pytest.param(*each[:2], id=f"{each[0]}: {each[2]}") for each in ATTEMPTS if each[1] < 2]
OTHERS = [pytest.param(*each[:2], id=f"{each[0]}: {each[2]}") for each in ATTEMPTS if each[1] >= 2]


def its_files(name, **_):
    return [LABS[name].folder, labs_dir() / TOOLS]


def test_all_labs_are_valid():
    labs, complaints = survey_labs([concept.id for concept in loading.load().concepts])
    assert list(map(str, complaints)) == []
    assert len(labs) == len(LABS)
    before = {
        lab.id: [each.id for each in labs[:place] if each.concept == lab.concept] for place, lab in enumerate(labs)
    }
    beside = {lab.id: {each.id for each in labs if each.concept == lab.concept} for lab in labs}
    assert [(lab.id, need) for lab in labs for need in lab.needs if need in beside[lab.id] - {*before[lab.id]}] == []


@pytest.mark.parametrize("name", LABS)
def test_the_prose_of_a_starter_fits_80_columns(name):
    tokens = tokenize.generate_tokens(io.StringIO(LABS[name].solution.starter).readline)
    prose = (token for token in tokens if token.type == tokenize.COMMENT or token.string.startswith('"""'))
    lines = [line for token in prose for line in f"{' ' * token.start[1]}{token.string}".splitlines()]
    assert [line for line in lines if len(line) > 79] == []


@pytest.mark.case("lab", its_files)
@pytest.mark.parametrize(("name", "number"), RIGHT)
def test_the_solution_passes_and_the_starter_does_not(name, number):
    lab = quick(name)
    assert prove_attempt(lab, attempts(lab)[number], fresh=5).complaint == ""


@pytest.mark.case("stars of a lab", its_files)
@pytest.mark.parametrize("name", [name for name, lab in LABS.items() if lab.stars])
def test_the_solution_or_a_variant_meets_every_star(name):
    lab = quick(name)
    missed = {star.name for star in lab.stars}
    for attempt in (attempts(lab)[0], *lab.variants):
        missed -= set(prove_attempt(lab, attempt, fresh=5).verdict.stars)
        if not missed:
            return
    pytest.fail(f"no solution meets {missed}")


@pytest.mark.slow
@pytest.mark.case("lab", its_files)
@pytest.mark.parametrize(("name", "number"), OTHERS)
def test_a_variant_passes_and_a_mutant_is_caught_by_what_it_names(name, number):
    lab = quick(name)
    proven = prove_attempt(lab, attempts(lab)[number], fresh=5)
    assert proven.complaint == ""
    if proven.attempt.caught:
        said = proven.verdict.sentence
        assert re.search(r"\branks? \d.*\d", said, re.IGNORECASE | re.DOTALL), said
        assert not proven.verdict.line or re.search(rf"(line |:){proven.verdict.line}\b", said, re.IGNORECASE), said


def test_a_check_runs_under_torchrun():
    lab = LABS["ring-all-reduce"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    words = [*torchrun, str(lab.check), str(lab.folder / "solution.py"), "--seed", "7"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("checked: 1") == 2


@pytest.mark.parametrize("name", LABS)
def test_a_lab_imports_nothing_but_torch_and_the_standard_library(name):
    import ast

    allowed = {*sys.stdlib_module_names, "torch", "lab_tools"}
    for file in (labs_dir() / "lab_tools.py", *(labs_dir() / name.replace("-", "_")).glob("*.py")):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        used = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        used |= {(node.module or "").split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
        assert used <= allowed, file
