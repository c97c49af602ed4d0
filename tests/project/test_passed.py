"""What `check` leaves out: only what passed in the base commit, and only if nothing that it depends on has changed."""

import ast
import json
import re
import shutil
import subprocess
import sys

import passed
import pytest
from places import TESTS

HELPERS = {path.stem: path for path in TESTS.joinpath("helpers").glob("*.py")}
# A small checkout with a demo, an engine and two tests; `unit` has no mark.
FILES = {
    "constraints.txt": "",
    "pytest.ini": "[pytest]\ntestpaths = tests\n",
    "ddpquiz/ranks/server.py": "ANSWER = 42\n",
    "ddpquiz/terminal/screen.py": "COLOUR = 'red'\n",
    "demos/ring.py": "print('ring')\n",
    "demos/tree.py": "print('tree')\n",
    "tests/conftest.py": "",
    "tests/helpers/sizes.py": "SIZE = 3\n",
    "tests/test_small.py": """
import pytest
from pathlib import Path

DEMOS = [f"d{number}" for number in range(60)]

def its_files(name):
    return [Path(__file__).parents[1] / "demos" / "ring.py", {"d0": 1}]

@pytest.mark.case("demo", its_files)
@pytest.mark.parametrize("name", DEMOS)
def test_demo(name):
    assert not Path(__file__).with_name(f"{name}.fails").exists()
    if Path(__file__).with_name(f"{name}.skips").exists():
        pytest.skip("not here")

@pytest.mark.case("tree", lambda: [Path(__file__).parents[1] / "demos" / "tree.py"])
def test_tree():
    pass

def test_unit():
    pass
""",
}
PLUGIN = """
import sys
sys.path.insert(0, {helpers!r})
import passed
from pathlib import Path
passed.ROOT, passed.TESTS = Path(".").resolve(), Path("tests").resolve()
passed.FILE = passed.TESTS / "passed.json"
passed.save.__defaults__ = (passed.FILE,)
def pytest_addoption(parser):
    parser.addoption("--all", action="store_true")
    parser.addoption("--base")
def pytest_configure(config):
    config.pluginmanager.register(passed.Passed(config), "passed")
"""


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    made = Checkout(tmp_path_factory.mktemp("checkout"))
    for name, text in FILES.items():
        made.write(name, text)
    made.write("plugin.py", PLUGIN.format(helpers=str(TESTS / "helpers")))
    made.git("init", "-q")
    assert made.check("--all").returncode == 0
    made.commit()
    return made.folder


@pytest.fixture
def checkout(original, tmp_path):
    """A small checkout in which everything has passed and is committed."""
    return Checkout(shutil.copytree(original, tmp_path / "checkout"))


class Checkout:
    def __init__(self, folder):
        self.folder = folder

    @property
    def entries(self):
        return json.loads(self.folder.joinpath("tests/passed.json").read_text("utf-8"))["passed"]

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def git(self, *words):
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *who, *words], cwd=self.folder, check=True, capture_output=True)

    def commit(self):
        self.git("add", ".")
        self.git("commit", "-q", "-m", "change")

    def check(self, *words):
        options = ["-p", "plugin", "-p", "no:cacheprovider", "-q", "-rA", "-n0"]
        command = [sys.executable, "-B", "-m", "pytest", *options, *(words or ("--base", "HEAD"))]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    def ran(self, *words):
        """Return the tests that ran in a check, which passes."""
        done = self.check(*words)
        assert done.returncode == 0, done.stdout
        return set(re.findall(r"^PASSED tests/test_small.py::(\S+)", done.stdout, re.MULTILINE))


def test_what_passed_is_left_out_but_for_a_sample_and_what_has_no_mark(checkout):
    ran = checkout.ran()
    assert len(ran) == 5  # 5 % of 60 demos, the only tree, and the unit
    assert {"test_unit", "test_tree"} < ran
    assert checkout.ran() == ran, "the same checkout draws the same sample"
    checkout.write("README.md", "Something else.\n")
    assert len(checkout.ran()) == 5


@pytest.mark.parametrize(
    ("name", "demos"),
    [
        ("demos/ring.py", 60),
        ("ddpquiz/ranks/server.py", 60),
        ("ddpquiz/planning/costs.py", 60),  # a folder that nobody has named
        ("tests/helpers/sizes.py", 60),
        ("tests/test_small.py", 60),
        ("tests/conftest.py", 60),
        ("constraints.txt", 60),
        ("demos/tree.py", 3),
        ("ddpquiz/terminal/screen.py", 3),
        ("content/ring.yaml", 3),
    ],
)
def test_a_case_runs_again_when_a_file_that_it_depends_on_has_changed(checkout, name, demos):
    path = checkout.folder / name
    checkout.write(name, (path.read_text() if path.exists() else "") + "# changed\n")
    assert len([each for each in checkout.ran() if each.startswith("test_demo")]) == demos


def test_a_case_runs_again_when_its_parsed_data_has_changed(checkout):
    entry = checkout.entries["demo"]["test_small.py::test_demo[d1]"]
    source = FILES["tests/test_small.py"]
    checkout.write("tests/test_small.py", source.replace('{"d0": 1}', '{"d0": 2} if name == "d1" else {"d0": 1}'))
    checkout.ran("--all")
    assert checkout.entries["demo"]["test_small.py::test_demo[d1]"] != entry


def test_an_entry_that_the_change_itself_adds_is_not_trusted(checkout):
    checkout.write("demos/ring.py", "print('changed')\n")
    assert len(checkout.ran("--base", "HEAD")) == 62
    assert len(checkout.ran("--base", "HEAD")) == 62, "the file has the entries now, and the base does not"
    checkout.commit()
    assert len(checkout.ran("--base", "HEAD~1")) == 62
    assert len(checkout.ran("--base", "HEAD")) == 5


def test_a_base_that_is_not_known_has_no_entries(checkout):
    assert len(checkout.ran("--base", "no-such-commit")) == 62


def test_a_failure_in_the_sample_drops_all_entries_of_its_kind(checkout):
    drawn = next(each for each in sorted(checkout.ran()) if each.startswith("test_demo"))
    # Something that the fingerprint does not see: it is not in git, so the sample stays the same
    checkout.write(".git/info/exclude", "*.fails\n")
    checkout.write(f"tests/{drawn[10:-1]}.fails", "")
    done = checkout.check()
    assert done.returncode == 1
    assert "A case of kind `demo` failed although nothing in its fingerprint has changed" in done.stdout
    assert checkout.entries.keys() == {"tree"}


@pytest.mark.parametrize("end", ["fails", "skips"])
def test_only_a_pass_is_an_entry(checkout, end):
    checkout.write(f"tests/d7.{end}", "")
    checkout.check("--all")
    assert checkout.entries["demo"].keys() == {f"test_small.py::test_demo[d{number}]" for number in range(60)} - {
        "test_small.py::test_demo[d7]"
    }


def test_what_is_selected_by_hand_runs_and_changes_no_entry(checkout):
    before = checkout.folder.joinpath("tests/passed.json").read_bytes()
    assert len(checkout.ran("-k", "demo", "--all")) == 60
    assert len(checkout.ran("tests/test_small.py", "--base", "HEAD")) == 62
    assert checkout.folder.joinpath("tests/passed.json").read_bytes() == before


def test_to_list_the_cases_changes_no_entry(checkout):
    before = checkout.folder.joinpath("tests/passed.json").read_bytes()
    assert checkout.check("--base", "HEAD", "--collect-only").returncode == 0
    assert checkout.folder.joinpath("tests/passed.json").read_bytes() == before


def test_other_versions_than_those_of_the_constraints_use_and_write_no_entry(checkout):
    checkout.write("constraints.txt", "pytest==1.0\n")
    before = checkout.folder.joinpath("tests/passed.json").read_bytes()
    done = checkout.check("--all")
    assert "neither used nor written: constraints.txt names pytest 1.0, and " in done.stdout
    assert checkout.folder.joinpath("tests/passed.json").read_bytes() == before


def test_an_entry_that_was_edited_is_found_and_not_trusted(tmp_path):
    path = tmp_path / "passed.json"
    passed.save({("demo", "a"): "12", ("demo", "b"): "34"}, path)
    assert passed.load(path.read_text("utf-8")) == ({("demo", "a"): "12", ("demo", "b"): "34"}, [])
    path.write_text(path.read_text("utf-8").replace('"34 ', '"35 '))
    assert passed.load(path.read_text("utf-8")) == ({("demo", "a"): "12"}, ["demo: b"])


def test_no_entry_of_the_file_was_written_by_hand():
    assert passed.load(passed.FILE.read_text("utf-8"))[1] == [], "run `git checkout tests/passed.json`, then `check`"


def test_the_folders_that_fingerprints_leave_out_exist_and_nothing_else_is_left_out():
    folders = {path.name for path in passed.ROOT.joinpath("ddpquiz").iterdir() if path.is_dir()}
    assert folders >= passed.NOT_BELOW
    source = (TESTS / "project" / "test_imports.py").read_text("utf-8")
    allowed = ast.literal_eval(re.search(r'^    "ranks": (\{.*\}),$', source, re.MULTILINE)[1])
    assert not allowed & passed.NOT_BELOW


def imports(path):
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    for name in {each.split(".")[0] for each in found} & {*HELPERS} - {"passed"}:
        found |= imports(HELPERS[name])
    return found


def marked(kind):
    mark = re.compile(rf"^pytestmark = .*\bpassed\.{kind}\b", re.MULTILINE)
    return [path for path in sorted(TESTS.rglob("test_*.py")) if mark.search(path.read_text("utf-8"))]


# They read content or start the whole program, so their tests would depend on more than the fingerprint says.
BEYOND = ("curriculum.loading", "curriculum.survey", "curriculum.pack")


@pytest.mark.parametrize("path", marked("ENGINE"), ids=lambda path: path.stem)
def test_a_module_of_the_engine_depends_on_nothing_that_its_fingerprint_leaves_out(path):
    beyond = tuple(f"ddpquiz.{name}" for name in (*passed.NOT_BELOW, *BEYOND))
    assert [each for each in imports(path) if each.startswith(beyond)] == []
    source = path.read_text("utf-8")
    assert not re.search(r'"-m", "ddpquiz"|^import run_program$|^from run_program import', source, re.MULTILINE)
    assert not fixtures(source) & {"progress", "home", "mine", "place"}, "these fixtures use the learner's side"


def fixtures(source):
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return {argument.arg for node in functions for argument in node.args.args}


def is_loaded(module):
    """Whether the fingerprint of a case that starts a command of RUN_COMMANDS covers a module."""
    path = f"{module.removeprefix('ddpquiz.').replace('.', '/')}/"
    return any(path.startswith(f"{each.removesuffix('.py')}/") for each in passed.LOADED)


@pytest.mark.parametrize("path", [*marked("COMMANDS"), *marked("PLANS")], ids=lambda path: path.stem)
def test_a_module_that_starts_commands_depends_on_nothing_that_its_fingerprint_leaves_out(path):
    source = path.read_text("utf-8")
    beyond = (*(f"ddpquiz.{name}" for name in passed.NOT_BELOW), *(f"ddpquiz.{name}" for name in BEYOND))
    assert [each for each in imports(path) if each.startswith(beyond) and not is_loaded(each)] == []
    started = re.findall(r'"-m", "ddpquiz", "(\w+)"|\bpiped\(home, "(\w+)"', source)
    assert {name for pair in started for name in pair if name} <= passed.RUN_COMMANDS
    assert not fixtures(source) & {"progress", "mine", "place"}, "these fixtures use the learner's side"


PROBE = """
import atexit, sys
atexit.register(lambda: print("LOADED", *sorted(sys.modules), file=sys.stderr))
from ddpquiz.__main__ import main
main()
"""


@pytest.mark.parametrize(
    "command", ["run --plain -n 1", "run -n 1 --summary --save saved.json", "diagnose", "where", "plan"]
)
def test_a_command_without_a_learner_loads_nothing_else_of_the_folders_that_fingerprints_leave_out(
    command, tmp_path, script
):
    file = {"run": [str(script("pass"))], "diagnose": ["."]}.get(command.split()[0], [])
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *command.split(), *file],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    loaded = done.stderr.rpartition("LOADED")[2].split()
    assert "ddpquiz.cli.app" in loaded
    below = [each for each in loaded if each.split(".")[:1] == ["ddpquiz"] and each.split(".")[1:2]]
    learners = [each for each in below if each.split(".")[1] in passed.NOT_BELOW and each.count(".") > 1]
    assert [each for each in learners if not is_loaded(each) and not is_package(each)] == []


def is_package(module):
    return passed.ROOT.joinpath(*module.split("."), "__init__.py").is_file()
