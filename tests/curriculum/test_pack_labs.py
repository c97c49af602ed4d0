"""Labs of packs: checked like those that are shipped, and run only after consent."""

import re
import shutil
from datetime import date

import pytest
from typer.testing import CliRunner

from ddpquiz.cli.app import app
from ddpquiz.curriculum import loading, pack_store
from ddpquiz.curriculum.labs import load_pack_lab
from ddpquiz.curriculum.packs import packs
from ddpquiz.errors import Complaint, UserError
from ddpquiz.lab.checker import check_solution
from ddpquiz.learning.mastery import strengths
from ddpquiz.learning.progress import Progress
from ddpquiz.paths import data_dir, labs_dir


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def trust():
    assert run("pack", "trust", "mine", "--yes").exit_code == 0


def with_lab(folder, concept="first-concept"):
    """Put a lab into a pack, and return its lab.yaml."""
    shutil.copytree(labs_dir() / "tree_broadcast", folder / "labs/tree_broadcast")
    text = (labs_dir() / "tree_broadcast/lab.yaml").read_text()
    file = folder / "labs/tree_broadcast/lab.yaml"
    file.write_text(re.sub("^concept: .*$", f"concept: {concept}", text, flags=re.MULTILINE))
    return file


def test_a_lab_of_a_pack_is_checked_only_after_consent(mine, tmp_path):
    with_lab(mine)
    folder = pack_store.add_pack(mine).pack.folder
    lab = load_pack_lab("mine/tree-broadcast")
    file = tmp_path / lab.file_name
    file.write_text(lab.solution.starter)
    with pytest.raises(UserError, match=r"did not come with ddpquiz.*ddpquiz pack trust mine"):
        check_solution(lab, file)
    trust()
    assert check_solution(lab, file).outcome == "unwritten"
    (folder / "labs" / "lab_tools.py").write_text("print('other')\n")
    with pytest.raises(UserError, match="have changed since you allowed them"):
        check_solution(lab, file)


def test_a_lab_of_a_pack_is_listed_passed_and_counted_under_its_own_name(mine, tmp_path):
    with_lab(mine)
    pack_store.add_pack(mine)
    trust()
    lab = load_pack_lab("mine/tree-broadcast")
    assert (lab.concept, lab.file_name, lab.item) == (
        "mine/first-concept", "mine_tree_broadcast.py", "mine/first-concept/tree-broadcast",
    )  # fmt: skip
    assert [each.id for each in loading.load().labs_about("mine/first-concept")] == ["mine/tree-broadcast"]
    (tmp_path / lab.file_name).write_text(lab.solution.source)
    done = run("lab", "mine/tree-broadcast", "--check", "--dir", tmp_path)
    assert done.exit_code == 0, done.output
    listed = run("lab", "--dir", tmp_path).output
    assert re.search(r"✓ passed +mine/tree-broadcast", listed)
    with Progress(data_dir()) as progress:
        assert progress.labs()["mine/tree-broadcast"].concept == "mine/first-concept"
        assert "mine/first-concept" in strengths(progress.last_answers(), date(2026, 1, 1))
    with pytest.raises(UserError, match="Did you mean 'mine/tree-broadcast'"):
        load_pack_lab("mine/tree-broadcas")


def test_a_lab_that_is_not_valid_is_refused_as_a_concept_is(mine):
    file = with_lab(mine, "mine/first-concept")
    line = file.read_text().partition("concept:")[0].count("\n") + 1
    assert run("pack", "add", mine).exception.complaints == (
        Complaint(
            "labs/tree_broadcast/lab.yaml", line, 10,
            "no concept named `mine/first-concept`; write `first-concept`, without the name of the pack",
        ),
    )  # fmt: skip
    checked = run("check", mine)
    assert "lab.yaml" in checked.stderr
    assert checked.exit_code == 1
    assert packs() == ()
    (mine / "labs/lab_tools.py").unlink()
    assert "the checks of labs import it" in str(run("pack", "add", mine).exception)


def test_the_attempts_of_a_lab_of_a_pack_are_checked_before_and_after_it_is_added(mine):
    with_lab(mine)
    check = ["check", "--labs", "tree-broadcast", mine]
    assert "Read them, then add --trust." in str(run(*check).exception)
    counted = run("check", mine).stdout
    assert counted.endswith(", 1 lab.\n")
    assert "1 demo, 1 lab added" in run("pack", "add", mine).stdout
    trust()
    for words in ([*check, "--trust"], ["check", "--labs", "mine/tree-broadcast"]):
        done = run(*words)
        assert done.exit_code == 0, done.output
        assert "tree-broadcast: the starter: caught by unwritten" in done.stdout
