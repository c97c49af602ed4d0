"""The command `check`: what it prints, and how it ends."""

import json
import shutil
from pathlib import Path

import pytest
import typer
from inline_snapshot import snapshot
from places import DATA
from typer.testing import CliRunner

from ddpquiz.cli.check import check
from ddpquiz.errors import UserError
from ddpquiz.paths import content_dir

APP = typer.Typer()
APP.command()(check)


@pytest.fixture
def content(tmp_path, monkeypatch):
    """A copy of the content that fits, in the working directory."""
    shutil.copytree(DATA, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Path("content")


def run(*arguments):
    return CliRunner().invoke(APP, [str(argument) for argument in arguments])


def spoil(content):
    path = content / "collectives" / "ring.yaml"
    path.write_text(path.read_text("utf-8").replace("idea:", "ideal:"), "utf-8")


@pytest.mark.parametrize("path", ["content", "content/collectives", "content/collectives/ring.yaml"])
def test_content_that_fits_is_one_friendly_line(content, path):
    result = run(path)
    assert result.exit_code == 0
    assert result.stdout == "No problems: 1 concept, 6 cards, 10 questions, 10 proofs.\n"
    assert result.stderr.startswith("1 lesson is one long text (ring).")


@pytest.mark.parametrize("folder", ["", "collectives"])
def test_complaints_go_to_the_standard_error(content, folder):
    spoil(content)
    result = run(content / folder)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == (
        "content/collectives/ring.yaml:3:1: unknown key `ideal`; did you mean `idea`?\n1 problem\n"
    )


def test_json_counts_what_there_is(content):
    result = run(content, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "concepts": 1,
        "cards": 6,
        "questions": {"easy": 3, "medium": 4, "hard": 3},
        "kinds": {"choice": 4, "choices": 1, "number": 2, "order": 2, "output": 1, "spot": 0},
        "proofs": 10,
        "listings": 0,
        "demos": 1,
        "labs": 0,
        "problems": [],
    }


def test_json_holds_the_problems_and_nothing_else_is_printed(content):
    spoil(content)
    result = run(content, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["problems"] == [
        "content/collectives/ring.yaml:3:1: unknown key `ideal`; did you mean `idea`?"
    ]
    assert result.stderr == ""


def test_a_path_that_is_not_there_is_one_line(content):
    result = run("nowhere")
    assert result.exit_code == 1
    assert result.stderr == snapshot("nowhere:1:1: there is no such file or folder\n1 problem\n")


def test_proofs_from_elsewhere_run_only_when_they_are_trusted(content):
    result = run(content, "--proofs")
    assert isinstance(result.exception, UserError)
    assert str(result.exception) == (
        snapshot(
            "content is not part of ddpquiz, and its proofs and labs are programs that would run on this machine."
            " Read them, then add --trust."
        )
    )


def test_proofs_do_not_run_while_the_content_has_problems(content):
    spoil(content)
    result = run(content, "--proofs", "--trust")
    assert result.exit_code == 1
    assert result.stderr.endswith("\n1 problem\n")


@pytest.mark.parametrize("name", ["content/tracks.yaml", "demos/sum.py"])
def test_a_file_that_is_not_a_concept_is_refused_in_one_sentence(content, name):
    file = content.parent / name
    file.parent.mkdir(exist_ok=True)
    file.touch()
    refused = run(file)
    assert str(refused.exception).endswith(
        " is not the file of a concept; check the whole folder of its pack or content."
    )


def test_labs_are_named_one_by_one():
    done = run("--labs", "tree-broadcast", "ring-all-reduce")
    assert done.exit_code == 2
    assert "give each lab its own option" in " ".join(done.output.split())


def test_lessons_in_one_text_are_named_once_with_what_to_do(content):
    result = run(content)
    assert result.exit_code == 0
    assert result.stderr == snapshot(
        "1 lesson is one long text (ring). That works. Steps that end in something to do teach better: `ddpquiz pack new` writes an example.\n"
    )


def test_the_listings_of_a_pack_are_run_with_its_proofs_and_what_they_show_is_compared(mine):
    file = mine / "content" / "basics" / "first-concept.yaml"
    text = file.read_text("utf-8")
    file.write_text(text.replace('prints: {0: "1.0", 1: "2.0"}', 'prints: "1.0"', 1), "utf-8")
    result = run("--proofs", "--trust", mine)
    assert result.exit_code == 1
    assert (
        "the listing with its line changed does not show what `prints` says: rank 0 prints '1.0', rank 1"
        in result.output
    )
    assert f"first-concept.yaml:{text[: text.index('    run: ')].count(chr(10)) + 2}:7: " in result.output


MODEL = """\
name: A model of mine
source: where its numbers are from
layers: 2
hidden: 64
heads: 4
ffn: 128
vocabulary: 100
sequence: 32
"""


@pytest.mark.parametrize("file", ["mine.yaml", "mine.yml", "models/mine.yaml"])
def test_a_model_of_ones_own_is_checked_as_one_wherever_it_lies(tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    own = Path(file)
    own.parent.mkdir(exist_ok=True)
    own.write_text(MODEL)
    result = run(file)
    assert result.exit_code == 0
    assert result.output == (
        f"No problems: A model of mine has 78,656 parameters. `ddpquiz plan --model {file} --gpus 8` plans with it.\n"
    )
    own.write_text(MODEL.replace("layers: 2", "layers: 0").replace("ffn", "fnn"))
    result = run(file)
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        f"{file}:3:9: `layers`: expected a whole number from 1 to 10000000, got `0`",
        f"{file}:6:1: unknown key `fnn`; did you mean `ffn`?",
        "2 problems",
    ]


def test_shipped_models_and_hardware_are_checked_with_their_sources():
    for file in (content_dir() / "models" / "nano.yaml", content_dir() / "hardware" / "h100.yaml"):
        assert run(file).output.startswith("No problems: ")


def test_hardware_of_ones_own_is_checked_as_such(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (content_dir() / "hardware" / "h100.yaml").read_text("utf-8")
    Path("gpu.yaml").write_text(text.replace("efficiency: 0.", "efficiency: 7."), "utf-8")
    result = run("gpu.yaml")
    assert result.exit_code == 1
    assert "`efficiency`: expected a share of at most 1, got 7." in result.output
    assert result.output.endswith("\n1 problem\n")
