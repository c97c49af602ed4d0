"""What README.md, CONTRIBUTING.md and docs/ say is true: commands run, names and links exist, the picture is up to date."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import typer
from places import ROOT

from ddpquiz import record
from ddpquiz.cli import completion
from ddpquiz.cli.app import _PANELS, app

PAGES = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for path in [
        *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
        *sorted(ROOT.joinpath("docs").glob("*.md")),
    ]
}
README, CONTRIBUTING, COMMANDS = PAGES["README.md"], PAGES["CONTRIBUTING.md"], PAGES["docs/commands.md"]
GROUP = typer.main.get_command(app)
PICTURE = ["demo", "--replay", "allreduce", "--save", "docs/live-view.svg"]


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


def is_pattern(words):
    """Whether a name stands for others, as in `learn CONCEPT`."""
    return bool(re.search(r"[A-Z<\[]|\.\.\.", " ".join(words)))


REAL = sorted({tuple(words) for text in PAGES.values() for words in commands(text) if words and not is_pattern(words)})


def context(words):
    """Parse a command line as Typer does, down to the command of a group, and return what it made of the words."""
    command, made = GROUP, None
    while words and words[0] in getattr(command, "commands", ()):
        command, words = command.commands[words[0]], words[1:]
        made = command.make_context(command.name, list(words))
    return made


@pytest.mark.parametrize("words", REAL, ids=" ".join)
def test_the_names_in_a_command_line_exist(words):
    if words[0].startswith("-"):
        assert words[0] in {"--help", *(option for parameter in GROUP.params for option in parameter.opts)}
        return
    made = context(words)
    plain = [word for word in words[1:] if not word.startswith("-")]
    match words[0]:
        case "study" | "test" | "learn" | "explain":
            named = made.params["concept"] or []
            assert {*([named] if isinstance(named, str) else named)} <= {*completion.concepts("")}
        case "prove" | "show":
            assert plain[0] in completion.items("")
        case "progress" | "pack":
            assert plain[0] in GROUP.commands[words[0]].commands


# What cannot succeed here: it needs a second machine, a running job, a shell, a terminal, your own package, reviews, a
# backup, or a measured machine. `bench` itself would measure for a minute; it has tests of its own.
NEEDS_MORE = {
    "--rdzv-endpoint",
    "--install-completion",
    "--editor",
    "--step",
    "trust",
    "package.train",
    "optimize",
    "restore-backup",
    "bench",
    "where",
}


@pytest.fixture
def folder(tmp_path):
    """A folder with the files that the documents name."""
    for name in ("allreduce.py", "train.py"):
        shutil.copy(ROOT / "demos" / "allreduce.py", tmp_path / name)
    shutil.copy(ROOT / "tests/data/logs/raised/log", tmp_path / "train.log")
    tmp_path.joinpath("docs").mkdir()
    tmp_path.joinpath("content").symlink_to(ROOT / "content")
    return tmp_path


def run(folder, *words, text=""):
    environment = {**os.environ, "DDPQUIZ_HOME": str(folder / "home")}
    program = [sys.executable, "-m", "ddpquiz", *words]
    return subprocess.run(program, cwd=folder, env=environment, input=text, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("words", [words for words in REAL if not NEEDS_MORE & {*words}], ids=" ".join)
def test_a_command_line_of_the_documents_runs(words, folder):
    if words[0] == "import":
        run(folder, "export", "json", "--to", words[1])
    for name in words[1:] if words[0] == "compare" else ():
        run(folder, "demo", "--replay", "allreduce", "--save", name)
    if words[:2] == ("check", "--proofs"):  # test_content.py runs them all
        words = ("check",)
    if any(word.startswith("mypack") for word in words) and words[:2] != ("pack", "new"):
        run(folder, "pack", "new", "mypack")
    if words[0] == "lab" and len(words) > 1:  # a learner has solved it
        folder.joinpath("ddpquiz-labs").mkdir()
        lab = words[1].replace("-", "_")
        shutil.copy(ROOT / "labs" / lab / "solution.py", folder / "ddpquiz-labs" / f"{lab}.py")
    if words == ("demo", "allreduce", "--copy", "."):
        folder.joinpath("allreduce.py").unlink()
    done = run(folder, *words, text="Every rank sends and receives chunks." if words[0] == "explain" else "")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_picture_is_what_its_command_makes(folder):
    assert " ".join(["ddpquiz", *PICTURE]) in PAGES["docs/runs.md"]
    assert run(folder, *PICTURE).returncode == 0
    made = folder.joinpath(PICTURE[-1]).read_text("utf-8")
    assert made == ROOT.joinpath(PICTURE[-1]).read_text("utf-8"), f"make it again: ddpquiz {' '.join(PICTURE)}"


def test_the_tables_list_the_commands_as_the_help_does():
    _, *parts = re.split(r"^## (.*)$", COMMANDS, flags=re.MULTILINE)
    tables = zip(parts[::2], parts[1::2], strict=True)
    listed = {
        title: found for title, text in tables if (found := re.findall(r"^\| `ddpquiz ([a-z]+)", text, re.MULTILINE))
    }
    assert listed == {title: [*commands] for title, commands in _PANELS.items()}


def off_too(parameter):
    """Return the names of an option, with those that turn it off."""
    return [*parameter.opts, *parameter.secondary_opts]


@pytest.mark.parametrize("name", PAGES)
def test_the_options_in_a_document_exist(name):
    every = [*GROUP.commands.values(), *GROUP.commands["progress"].commands.values(), GROUP]
    known = {option for command in every for parameter in command.params for option in off_too(parameter)}
    known |= {"--help", *re.findall(r"--[a-z]+", record.USAGE)}
    if name != "CONTRIBUTING.md":  # which also names options of torchrun, pip and dev.py
        assert set(re.findall(r"`[^`\n]*?(--[a-z][a-z-]*)", PAGES[name])) <= known


def test_the_file_tree_is_there():
    folder = ROOT
    tree = next(block for block in blocks(README, "") if "ddpquiz/\n" in block)
    for line in tree.splitlines():
        name = line.split()[0]
        folder = folder if line.startswith(" ") else ROOT
        assert (folder / name).exists(), line
        if name == "ddpquiz/":
            folder = ROOT / name
    packages = {path.name for path in ROOT.joinpath("ddpquiz").iterdir() if path.is_dir() and path.name[0] != "_"}
    assert packages == set(re.findall(r"^  ([a-z]+)/", tree, re.MULTILINE))


def anchors(path):
    """Name the headings of a page as GitHub does in links."""
    return {
        re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.MULTILINE)
    }


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    for target in re.findall(r"\]\(([^)]+)\)", PAGES[name]):
        file, _, anchor = target.partition("#")
        path = (ROOT / name).parent / file if file else ROOT / name
        assert target.startswith("https://") or path.exists(), target
        assert not anchor or anchor in anchors(path), target


def test_every_page_of_docs_is_linked_from_the_readme():
    assert {name for name in PAGES if name.startswith("docs/")} <= set(re.findall(r"\]\(([^)]+)\)", README))


def test_the_license_is_whole():
    text = ROOT.joinpath("LICENSE").read_text("utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_demo_to_paste_runs(tmp_path, ranks):
    script = tmp_path / "broadcast.py"
    script.write_text(next(block for block in blocks(CONTRIBUTING, "python") if "Broadcast" in block))
    words = ["run", "--nproc", str(ranks), "--device", "cpu", "--json", str(script)]
    done = subprocess.run([sys.executable, "-m", "ddpquiz", *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    end = json.loads(done.stdout.splitlines()[-1])
    assert (end["proven"], end["claims"]) == (1, 1)


def test_dev_prints_its_usage_and_refuses_unknown_words():
    done = subprocess.run([sys.executable, "dev.py"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "python3 dev.py check" in done.stdout


@pytest.mark.slow
def test_a_quick_check_runs_most_demos_once_and_neither_proofs_nor_the_wheel():
    files = [f"tests/{name}.py" for name in ("content/test_content", "content/test_demos", "project/test_wheel")]
    words = ["-m", "pytest", "--collect-only", "--quick", "-p", "no:cacheprovider", "-o", "addopts=-q", *files]
    listed = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    demos = [line.partition("[")[2] for line in listed if "test_a_demo_proves_its_claims" in line]
    two_ranks = {f"{path.stem}-2]" for path in ROOT.joinpath("demos").glob("*.py")}
    assert set(demos) <= two_ranks
    assert len(two_ranks) / 2 < len(demos) == len(set(demos)) < len(two_ranks)
    assert not [line for line in listed if "test_every_proof" in line or "test_wheel" in line]


def test_an_old_python_gets_a_sentence(monkeypatch, capsys):
    import importlib.util

    spec = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    dev = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(dev)
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    assert dev.main(["check"]) == 1
    assert capsys.readouterr().err.startswith("ddpquiz needs Python 3.11 or newer; this is ")
