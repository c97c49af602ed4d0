"""What the documents say is true: commands parse, names exist, trees are there, what is to be pasted runs."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from ddpquiz.cli import completion
from ddpquiz.cli.app import app

ROOT = Path(__file__).parent.parent
README = ROOT.joinpath("README.md").read_text("utf-8")
CONTRIBUTING = ROOT.joinpath("CONTRIBUTING.md").read_text("utf-8")
GROUP = typer.main.get_command(app)


def blocks(text, language):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for name, block in found if name == language]


def commands(text):
    """Yield the words after `ddpquiz` of every command line in a document."""
    lines = [line for block in blocks(text, "sh") for line in block.splitlines()]
    lines += re.findall(r"`((?:ddpquiz|python3 dev\.py) [^`]*)`", text)
    for line in lines:
        words = shlex.split(line, comments=True)
        if words[:1] == ["ddpquiz"]:
            yield words[1:]
        elif words[:3] == ["python3", "dev.py", "run"]:
            yield words[3:]


def is_real(words):
    """Whether these are the words of a real command, not of a pattern such as `learn CONCEPT`."""
    return words and words[0] in GROUP.commands and not re.search(r"[A-Z<\[]", " ".join(words))


REAL = sorted({tuple(words) for text in (README, CONTRIBUTING) for words in commands(text) if is_real(words)})


@pytest.mark.parametrize("words", REAL, ids=" ".join)
def test_a_command_line_of_the_documents_parses(words):
    GROUP.commands[words[0]].make_context(words[0], list(words[1:]))


@pytest.mark.parametrize("words", REAL, ids=" ".join)
def test_the_names_in_it_exist(words):
    plain = [word for word in words[1:] if not word.startswith("-")]
    match words[0]:
        case "study" | "test" | "learn" | "explain":
            named = GROUP.commands[words[0]].make_context(words[0], list(words[1:])).params["concept"] or []
            assert {*([named] if isinstance(named, str) else named)} <= {*completion.concepts("")}
        case "demo":
            assert not plain or plain[0] in completion.demos("")
        case "prove" | "show":
            assert plain[0] in completion.items("")


def test_there_are_commands_to_look_at():
    assert len(REAL) >= 10


def test_the_table_lists_exactly_the_commands_that_there_are():
    table = README.partition("## Commands")[2].partition("\n##")[0]
    listed = re.findall(r"^\| `ddpquiz(?: ([a-z]+))?", table, re.MULTILINE)
    assert sorted(filter(None, listed)) == sorted(GROUP.commands)


def test_options_that_the_documents_name_exist():
    known = {option for command in GROUP.commands.values() for parameter in command.params for option in parameter.opts}
    known |= {option for parameter in GROUP.params for option in parameter.opts} | {"--help"}
    text = README.partition("## Commands")[2].partition("\n##")[0]
    assert set(re.findall(r"`[^`|]*?(--[a-z][a-z-]*)", text)) <= known


@pytest.mark.parametrize("text", [README], ids=["README"])
def test_the_file_tree_is_there(text):
    folder = ROOT
    tree = next(block for block in blocks(text, "") if "ddpquiz/\n" in block)
    for line in tree.splitlines():
        name = line.split()[0]
        folder = folder if line.startswith(" ") else ROOT
        assert (folder / name).exists(), line
        if name == "ddpquiz/":
            folder = ROOT / name
    rooms = {path.name for path in ROOT.joinpath("ddpquiz").iterdir() if path.is_dir() and path.name[0] != "_"}
    assert rooms == set(re.findall(r"^  ([a-z]+)/", tree, re.MULTILINE))


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_links_lead_somewhere(text):
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert target.startswith("https://") or ROOT.joinpath(target).exists()


def test_the_license_is_whole():
    text = ROOT.joinpath("LICENSE").read_text("utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_demo_to_paste_runs(tmp_path, ranks):
    script = tmp_path / "broadcast.py"
    script.write_text(next(block for block in blocks(CONTRIBUTING, "python") if "Broadcast" in block))
    words = ["run", "--nproc", str(ranks), "--device", "cpu", str(script)]
    done = subprocess.run([sys.executable, "-m", "ddpquiz", *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 claims proven" in done.stdout


def test_dev_says_what_it_does_and_refuses_what_it_does_not_know():
    done = subprocess.run([sys.executable, "dev.py"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "python3 dev.py check" in done.stdout


def test_an_old_python_is_told_so(monkeypatch, capsys):
    import importlib.util

    spec = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    dev = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(dev)
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    assert dev.main(["check"]) == 1
    assert capsys.readouterr().err.startswith("ddpquiz needs Python 3.11 or newer; this is ")
