"""What helps others to work here calls what exists: workflows, hooks, forms, CITATION.cff and docs/agents.md."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib

import pytest
import typer
import yaml
from places import ROOT

import ddpquiz
from ddpquiz.cli.app import app

WORKFLOWS = {
    path.name: yaml.safe_load(path.read_text("utf-8")) for path in ROOT.joinpath(".github/workflows").glob("*.yml")
}
STEPS = [step for each in WORKFLOWS.values() for job in each["jobs"].values() for step in job["steps"]]
COMMANDS = [line.strip() for step in STEPS for line in step.get("run", "").splitlines()]
FORMS = {
    path.stem: yaml.safe_load(path.read_text("utf-8")) for path in ROOT.joinpath(".github/ISSUE_TEMPLATE").iterdir()
}
PROJECT = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))["project"]
AGENTS = ROOT.joinpath("docs/agents.md").read_text("utf-8")
LOG = ROOT / "tests/data/logs/raised/log"


def dev():
    spec = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_workflows_call_what_exists():
    called = [shlex.split(re.split(r" \|\| ", line)[0]) for line in COMMANDS if "dev.py" in line]
    documented = re.findall(r"python3 dev\.py (check(?: --[a-z]+)?)", dev().__doc__)
    group = typer.main.get_command(app)
    for words in called:
        assert words[:2] == ["python3", "dev.py"]
        if words[2] == "check":
            assert " ".join(words[2:]) in documented
        else:
            assert words[2] == "run"
            group.commands[words[3]].make_context(words[3], words[4:])
    assert {words[2] for words in called} == {"check", "run"}
    assert os.access(ROOT / ".ci/run", os.X_OK)
    assert ".ci/run" in COMMANDS


def test_every_night_everything_runs():
    assert "schedule" in WORKFLOWS["nightly.yml"][True]  # YAML reads `on` as true
    steps = [step for job in WORKFLOWS["nightly.yml"]["jobs"].values() for step in job["steps"] if "run" in step]
    assert {step["run"] for step in steps} == {".ci/run", "python3 dev.py check --all"}
    assert not any("env" in step for step in steps)  # with CHECK_BASE, .ci/run would leave out what passed there


def test_the_check_begins_with_the_oldest_python():
    jobs = WORKFLOWS["check.yml"]["jobs"]
    oldest = next(s["with"]["python-version"] for s in jobs["all"]["steps"] if "setup-python" in s.get("uses", ""))
    assert PROJECT["requires-python"] == f">={oldest}"


@pytest.mark.parametrize("torch", WORKFLOWS["check.yml"]["jobs"]["torch"]["strategy"]["matrix"]["torch"])
def test_a_workflow_asks_for_its_torch(tmp_path, torch):
    shutil.copy(ROOT / "constraints.txt", tmp_path)
    command = next(line for line in COMMANDS if "constraints.txt" in line)
    subprocess.run(["bash", "-c", command], cwd=tmp_path, env={**os.environ, "TORCH": torch}, check=True)
    before, after = (
        {*folder.joinpath("constraints.txt").read_text("utf-8").splitlines()} for folder in (ROOT, tmp_path)
    )
    assert after - before == {f"torch{torch}"}
    assert {line.partition("==")[0] for line in before - after} == {"torch", "setuptools"}


def test_another_torch_is_installed_with_our_versions_of_the_rest():
    ours, its = ({*dev()._constraints(version).splitlines()} for version in ("", "2.9.1"))
    assert ours == {*ROOT.joinpath("constraints.txt").read_text("utf-8").splitlines()}
    assert its - ours == {"torch==2.9.1"}
    assert {line.partition("==")[0] for line in ours - its} == {"torch", "setuptools", "sympy"}


@pytest.mark.parametrize(
    ("version", "places"),
    [
        ("2.13.0", ["tests"]),
        ("2.9.1", ["tests"]),
        (
            "2.8.0",
            [
                *("tests/ranks", "tests/events", "tests/jobs", "tests/diagnosis"),
                "--ignore=tests/ranks/test_content_check.py",
            ],
        ),
    ],
)
def test_below_the_torch_of_the_demos_the_check_runs_the_tests_that_need_none(monkeypatch, version, places):
    program, commands = dev(), []
    monkeypatch.setattr(program, "_set_up", lambda *_: None)
    monkeypatch.setattr(program, "_run", lambda command: commands.append(command) or 0)
    assert program.main(["check", "--torch", version, "-k", "ring"]) == 0
    [[python, *words]] = commands
    assert python == ROOT / f".venv-torch-{version}/bin/python"
    assert words[-len(places) - 2 :] == [*places, "-k", "ring"]
    assert not {"--base", "--all"} & {*words}  # with one of them, what passed would be left out and saved
    assert all(ROOT.joinpath(place.removeprefix("--ignore=")).exists() for place in places)


@pytest.mark.parametrize("words", [[], ["2.9"], ["-k", "ring"]])
def test_a_check_with_another_torch_asks_for_its_version(capsys, words):
    assert dev().main(["check", "--torch", *words]) == 1
    assert capsys.readouterr().err == "Name a version of torch, such as: python3 dev.py check --torch 2.9.1\n"


def test_the_hooks_are_the_linters_of_the_check():
    [repository] = yaml.safe_load(ROOT.joinpath(".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    linters = {
        name: " ".join(str(word).removeprefix(f"{ROOT}/") for word in words)
        for name, words in dev().CHECKS.items()
        if name != "pytest"
    }
    assert repository["repo"] == "local"  # others would be fetched
    assert {hook["name"]: hook["entry"] for hook in repository["hooks"]} == linters
    assert {(hook["language"], hook["pass_filenames"]) for hook in repository["hooks"]} == {("system", False)}


def test_the_citation_names_this_version():
    citation = yaml.safe_load(ROOT.joinpath("CITATION.cff").read_text("utf-8"))
    assert citation["version"] == ddpquiz.__version__
    named = (citation["title"], citation["abstract"], citation["license"], citation["keywords"])
    assert named == tuple(PROJECT[key] for key in ("name", "description", "license", "keywords"))


@pytest.mark.parametrize("name", [name for name in FORMS if name != "config"])
def test_a_form_asks_for_what_is_needed(name):
    form = FORMS[name]
    assert {"name", "description", "body"} == {*form}
    fields = [each for each in form["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in fields}) == len(fields)
    assert {each["type"] for each in fields} <= {"input", "textarea", "dropdown"}
    assert all(each["attributes"]["label"] for each in fields)
    assert any(each["validations"]["required"] for each in fields)


def agents_block(language):
    return re.search(rf"^```{language}\n(.*?)^```$", AGENTS, re.DOTALL | re.MULTILINE)[1]


@pytest.fixture
def beside_the_log(tmp_path, monkeypatch):
    """A folder with the log that docs/agents.md names, and `ddpquiz` on the path."""
    shutil.copy(LOG, tmp_path / "train.log")
    program = tmp_path / "bin/ddpquiz"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ddpquiz "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)


def test_the_verdict_in_the_documents_is_a_real_one(beside_the_log):
    done = subprocess.run(shlex.split(agents_block("sh")), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == json.loads(agents_block("json"))


def test_the_keys_of_a_verdict_are_documented():
    table = AGENTS.partition("| key |")[2].partition("| exit status |")[0]
    documented = [key for row in table.splitlines() for key in re.findall(r"`(\w+)`", row.partition(" | ")[0])]
    assert sorted(["event", *documented]) == sorted(json.loads(agents_block("json")))


def test_the_script_in_the_documents_runs(beside_the_log):
    done = subprocess.run([sys.executable, "-c", agents_block("python")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["dead 1", "[1] raised ValueError /home/user/job/job.py 12"]
