"""Every shipped demo: it runs at 1 to 4 ranks, proves what it claims, and each claim can fail."""

import ast
import shutil

import pytest
from test_demo_scripts_a import BREAKS as BREAKS_A
from test_demo_scripts_b import BREAKS as BREAKS_B

from ddpquiz.ranks import claims
from ddpquiz.ranks.launch import Request
from ddpquiz.ranks.run import Run
from ddpquiz.ranks.seen import Seen
from ddpquiz.shipped import demos_dir

DEMOS = sorted(path.stem for path in demos_dir().glob("*.py"))
NEEDS_TWO = {"parameter_server"}  # says so in a sentence
BREAKS = BREAKS_A + BREAKS_B


def watched(path, ranks, args=()):
    seen = Seen()
    for event in Run(Request(path, tuple(args), ranks, "cpu", timeout=10.0)).events():
        seen.add(event)
    return seen


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("name", DEMOS)
def test_a_demo_proves_its_claims_at_every_count_of_ranks(name, ranks):
    seen = watched(demos_dir() / f"{name}.py", ranks)
    if name in NEEDS_TWO and ranks == 1:
        assert not seen.end.ok
        assert "at least 2 ranks" in seen.end.why
        return
    assert seen.end.ok, seen.end.why
    assert seen.rows, "it shows something in columns"
    assert seen.end.proven >= 1
    assert seen.notes == []


@pytest.mark.parametrize(
    ("name", "old", "new", "claim", "ranks", "args"), BREAKS, ids=[f"{b[0]}: {b[3]}" for b in BREAKS]
)
def test_a_broken_demo_breaks_its_claim(tmp_path, name, old, new, claim, ranks, args):
    source = (demos_dir() / f"{name}.py").read_text()
    assert source.count(old) == 1
    broken = tmp_path / f"{name}.py"
    broken.write_text(source.replace(old, new))
    texts = [verdict[0].text for verdict in watched(broken, ranks, args).verdicts() if verdict[1] == "broken"]
    assert claim in texts


@pytest.mark.parametrize("name", DEMOS)
def test_a_demo_has_a_test_that_breaks_it(name):
    assert name in {each[0] for each in BREAKS}


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
    assert claims.find(tree)


def test_a_demo_may_be_copied_and_changed(tmp_path):
    copy = shutil.copy(demos_dir() / "collectives.py", tmp_path)
    assert watched(tmp_path / "collectives.py", 2).end.ok
    assert copy
