"""The built wheel works like the checkout, without access to the source."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile

import pytest
from places import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]  # one worker builds it for all


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the sdist, and the wheel from it, with the installed build backend."""
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Install the wheel into a folder of its own; its dependencies stay where they are."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "--target", str(target), str(wheel)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def ddp(installed, tmp_path):
    """Run Python with the installed wheel. `-S` hides the editable install of the checkout."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(installed), sysconfig.get_path("purelib")]),
        "DDPQUIZ_HOME": str(tmp_path / "data"),
        "COLUMNS": "80",
    }

    def run(*words):
        python = [sys.executable, "-S", *words]
        return subprocess.run(
            python, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
        )

    return run


def test_it_holds_what_belongs_to_it_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {"ddpquiz", "content", "demos", "labs"}
    expected = {
        str(path.relative_to(ROOT))
        for folder in sources
        for path in ROOT.joinpath(folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    expected = {name if name.startswith("ddpquiz/") else f"ddpquiz/{name}" for name in expected}
    expected.add("ddpquiz/content.marshal")
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert [name for name in names if name.endswith("dist-info/licenses/LICENSE")]


def test_it_is_the_wheel_that_runs(ddp, installed):
    program = "import ddpquiz.paths as s; print(s.__file__, s.content_dir(), s.demos_dir(), sep='\\n')"
    done = ddp("-c", program)
    assert done.returncode == 0, done.stderr
    assert all(line.startswith(str(installed)) for line in done.stdout.splitlines())


def test_the_source_is_out_of_reach(ddp):
    done = ddp("-c", "import sys; print(*sys.path, sep='\\n')")
    assert str(ROOT) not in done.stdout.splitlines()


def test_its_commands_work(ddp):
    concepts = json.loads(ddp("-m", "ddpquiz", "list", "--json").stdout)["concepts"]
    assert concepts
    for words in (["check"], ["learn", concepts[0]["id"]], ["show", concepts[0]["questions"][0]], ["demo"], ["lab"]):
        done = ddp("-m", "ddpquiz", *words)
        assert (done.returncode, done.stderr) == (0, ""), words


LOADED = """
import sys
from ddpquiz.curriculum.loading import load
known = load()
print(len(known.concepts), len(known.labs), 'yaml' in sys.modules)
"""


def test_its_first_start_parses_no_content_until_a_file_is_edited(ddp, installed, tmp_path):
    concepts, labs, parsed = ddp("-c", LOADED).stdout.split()
    assert (int(concepts) > 0, int(labs) > 0, parsed) == (True, True, "False")
    assert not (tmp_path / "data").exists()
    for file in (next(installed.rglob("ddpquiz/content/*/*.yaml")), next(installed.rglob("ddpquiz/labs/*/lab.yaml"))):
        text = file.read_bytes()
        file.write_bytes(text.replace(b"title: ", b"title:  ", 1))
        assert ddp("-c", LOADED).stdout.split() == [concepts, labs, "True"]
        file.write_bytes(text)


def test_a_demo_runs_from_it(ddp):
    done = ddp("-m", "ddpquiz", "demo", "allreduce", "--nproc", "2", "--device", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 ranks on CPU over Gloo" in done.stdout


def test_its_script_starts_the_command_line(installed):
    metadata = next(installed.glob("ddpquiz-*.dist-info"))
    assert "ddpquiz = ddpquiz.__main__:main" in metadata.joinpath("entry_points.txt").read_text()
