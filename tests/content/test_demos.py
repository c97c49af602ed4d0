"""Every shipped demo: it runs at 1 to 4 ranks, proves what it claims, and each claim can fail.

`breaks/NAME.yaml` lists faults to plant in a demo: the `claim` that must break when its text `old`, which stands in the
source once, becomes `new`, on so many `ranks` and with these `args`.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

import pytest
import yaml
from places import TESTS
from real_run import ALONE

from ddpquiz.curriculum import loading
from ddpquiz.curriculum.concept import Kind
from ddpquiz.curriculum.demo_scripts import read_demo
from ddpquiz.events.run_state import RunState
from ddpquiz.paths import demos_dir
from ddpquiz.ranks.claims import find_claims
from ddpquiz.ranks.elastic_run import begin
from ddpquiz.ranks.request import Request

DEMOS = sorted(path.stem for path in demos_dir().glob("*.py"))
LONG = {
    "async_tp",
    "batchnorm",
    "bitflip",
    "collectives",
    "compile_graphs",
    "ddp",
    "deadlock",
    "dp_vs_ddp",
    "elastic",
    "fsdp",
    "fsdp2_recipe",
    "model_parallel",
    "overlap",
    "parameter_server",
    "pipeline",
    "straggler",
    "uneven_inputs",
}
NEEDS_TWO = {"deadlock", "parameter_server", "straggler"}  # says so in a sentence
DIAGNOSED = {  # what demos do wrong on purpose
    "deadlock": "all_reduce at deadlock.py:",
    "shrink": "ended with status 0",
    "uneven_inputs": "never called it",
}


@dataclass(frozen=True)
class Break:
    """A fault to plant in a demo, and the claim that it must break."""

    demo: str
    claim: str
    old: str
    new: str
    ranks: int
    args: list[str] = field(default_factory=list)


BREAKS = [
    Break(path.stem, **each)
    for path in sorted(TESTS.joinpath("breaks").glob("*.yaml"))
    for each in yaml.safe_load(path.read_text())
]


def its_script(name, **_):
    return [demos_dir() / f"{name}.py"]


def watched(path, ranks, args=()):
    seen = RunState()
    for event in begin(
        Request(path, args=tuple(args), ranks=ranks, device="cpu", timeout=40.0, restarts=read_demo(path).restarts)
    ).events():
        seen.add(event)
    return seen


@pytest.mark.parametrize("name", DEMOS)
def test_no_option_of_a_demo_is_an_ambiguous_abbreviation_of_options_of_torchrun(name):
    """torchrun would refuse it, although it stands behind the script."""
    from torch.distributed.run import get_args_parser

    torchruns = {option for action in get_args_parser()._actions for option in action.option_strings}
    options = re.findall(r"add_argument\(\"(--[\w-]+)\"", demos_dir().joinpath(f"{name}.py").read_text())
    for option in {*options} - torchruns:
        assert len([each for each in torchruns if each.startswith(option)]) < 2, option


@pytest.mark.case("demo", its_script)
@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        pytest.param(name, ranks, marks=[pytest.mark.quick] if ranks == 2 and name not in LONG else [])
        for name in DEMOS
        for ranks in (1, 2, 3, 4)
    ],
)
def test_a_demo_proves_its_claims_at_every_count_of_ranks(name, ranks):
    seen = watched(demos_dir() / f"{name}.py", ranks)
    if name in NEEDS_TWO and ranks == 1:
        assert not seen.end.ok
        assert "at least 2 ranks" in seen.end.why
        return
    assert seen.end.ok, seen.end.why
    assert seen.rows, "it shows something in columns"
    assert [line.text for line in seen.lines if re.match("[a-z][^:]{0,60}: ", line.text)] == [], "each label is a row"
    assert seen.end.proven >= 1
    # A busy machine makes lines slow
    faults = [note for note in seen.notes if not re.search(r"which spent longer .+ than they did\.$", note)]
    assert len(faults) == (name in DIAGNOSED and ranks > 1), faults
    assert all(note.startswith("Diagnosis: ") and DIAGNOSED[name] in note for note in faults)


@pytest.mark.parametrize("name", DEMOS)
def test_a_demo_with_default_arguments_asks_for_a_prediction(name):
    asked = [
        question.kind
        for concept in loading.load().concepts
        for link in concept.demos
        for question in concept.questions
        if (link.run, link.args, link.ranks, link.predict) == (name, (), 4, question.id)
    ]
    assert asked
    assert any(kind is not Kind.NUMBER for kind in asked), "values of a number question are drawn, the run's are not"


@pytest.mark.case("broken demo", lambda fault: [fault, *its_script(fault.demo)])
@pytest.mark.parametrize("fault", BREAKS, ids=[f"{each.demo}: {each.claim}" for each in BREAKS])
def test_a_broken_demo_breaks_its_claim(tmp_path, fault):
    source = (demos_dir() / f"{fault.demo}.py").read_text()
    assert source.count(fault.old) == 1
    broken = tmp_path / f"{fault.demo}.py"
    broken.write_text(source.replace(fault.old, fault.new))
    seen = watched(broken, fault.ranks, fault.args)
    assert fault.claim in [claim.text for claim, verdict, _ in seen.verdicts() if verdict == "broken"], seen.notes


@pytest.mark.parametrize("name", DEMOS)
def test_each_claim_of_a_demo_has_a_fault_that_breaks_it(name):
    texts = {claim.text for claim in find_claims(ast.parse((demos_dir() / f"{name}.py").read_text()))}
    assert {each.claim for each in BREAKS if each.demo == name} == texts


@pytest.mark.parametrize("name", DEMOS)
def test_a_demo_needs_nothing_but_torch_and_says_what_to_try(name):
    tree = ast.parse((demos_dir() / f"{name}.py").read_text())
    modules = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    modules |= {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert "ddpquiz" not in modules
    assert "torch" in modules
    assert "Try" in ast.get_docstring(tree)
    assert find_claims(tree)


def test_a_demo_may_be_copied_and_changed(tmp_path):
    copy = shutil.copy(demos_dir() / "collectives.py", tmp_path)
    assert watched(tmp_path / "collectives.py", 2).end.ok
    assert copy


def test_gradients_that_are_never_averaged_are_not_claimed_to_be_one_process_s():
    verdicts = watched(demos_dir() / "grad_accum.py", 2, ["--never-sync"]).verdicts()
    said = {claim.text: verdict for claim, verdict, _ in verdicts}
    assert said["never averaged, the ranks' gradients differ, and so would their next weights"] == "proven"
    assert (
        said["with divided losses, the micro-batches add up to one process's gradient on the whole batch"] != "proven"
    )


@pytest.mark.parametrize("args", [[], ["--kill-at", "99"]], ids=["killed", "not killed"])
def test_the_checkpoint_of_elastic_is_private_and_gone_at_the_end(tmp_path, monkeypatch, args):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    source = (demos_dir() / "elastic.py").read_text()
    report = '    print(f"mode: {folder.stat().st_mode:o} {sorted(each.name for each in folder.iterdir())}")\n'
    end = "    dist.barrier()\n    if rank == 0:\n        shutil.rmtree(folder)\n"
    assert source.count(end) == 1
    script = tmp_path / "elastic.py"
    script.write_text(source.replace(end, report + end))
    seen = RunState()
    restarts = read_demo(demos_dir() / "elastic.py").restarts
    for event in begin(
        Request(script, args=tuple(args), ranks=2, device="cpu", timeout=40.0, restarts=restarts)
    ).events():
        seen.add(event)
    assert seen.end.ok, seen.end.why
    assert seen.rows["mode"][0] == ["40700 ['checkpoint.pt']"]
    assert list(tmp_path.glob("elastic-*")) == []


@pytest.mark.parametrize("args", [[], ["--without", "module"]], ids=["resumed", "not resumed"])
def test_the_log_and_the_checkpoint_of_train_script_are_gone_at_the_end(tmp_path, monkeypatch, args):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    source = (demos_dir() / "train_script.py").read_text()
    end = "            shutil.rmtree(folder)\n"
    report = '            print(f"files: {sorted(each.name for each in folder.iterdir())}")\n'
    assert source.count(end) == 1
    script = tmp_path / "train_script.py"
    script.write_text(source.replace(end, report + end))
    seen = watched(script, 2, args)
    assert seen.end.ok, seen.end.why
    assert seen.rows["files"][0] == ["['checkpoint.pt', 'metrics.csv']"]
    assert list(tmp_path.glob("train-script-*")) == []


def test_the_drawing_of_a_slow_network_fits_beside_the_name_of_a_rank():
    seen = watched(demos_dir() / "overlap.py", 2, ["--latency", "60"])
    assert seen.end.ok, seen.end.why
    assert max(len(line.text) for line in seen.lines) <= 80 - len("rank 0  ")


COUNTS_THREADS = """
import glob, os, runpy, sys
del sys.argv[0]  # the script finds its own name there
runpy.run_path(sys.argv[0], run_name="__main__")
names = []
for path in glob.glob("/proc/self/task/*/comm"):
    try:
        names.append(open(path).read())
    except OSError:  # the thread has ended since
        pass
print("threads of Gloo:", sum("gloo" in name for name in names), flush=True)
os._exit(0)
"""
# While Python ends, a thread of Gloo that frees a tensor aborts the process (pytorch issue 190489). What DDP and
# optimizers import keeps the group and its threads alive, if it is imported when there is a group already.
IMPORTS_LATE = re.compile(r"DistributedDataParallel|\boptim\.|torch\.utils\.checkpoint|torch\.distributed\.nn\b")
# Caches of DTensor and of torch.compile keep the group, whatever the script does.
KEEPS_GROUP = {"compile_graphs", "fsdp", "fsdp2_recipe", "grad_clip", "reshard_checkpoint", "tensor_parallel", "traces"}
MAY_KEEP_GROUP = {name for name in DEMOS if IMPORTS_LATE.search((demos_dir() / f"{name}.py").read_text())}


@pytest.mark.case("threads of a demo", its_script)
@pytest.mark.skipif(sys.platform != "linux", reason="reads the names of threads in /proc")
@pytest.mark.parametrize("name", sorted(MAY_KEEP_GROUP - KEEPS_GROUP))
def test_a_demo_under_torchrun_leaves_no_thread_that_could_abort_it(name):
    environment = os.environ | ALONE | {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", COUNTS_THREADS, demos_dir() / f"{name}.py"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "threads of Gloo: 0"


@pytest.mark.parametrize("name", sorted(KEEPS_GROUP))
def test_a_demo_whose_group_stays_lets_its_threads_finish_before_it_ends(name):
    before, _, _ = (demos_dir() / f"{name}.py").read_text().rpartition("    dist.destroy_process_group()")
    assert "dist.monitored_barrier()" in "".join(before.splitlines()[-2:])
