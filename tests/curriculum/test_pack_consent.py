"""What runs of a pack is what the learner allowed, byte for byte, whatever else is or was in its folder."""

import py_compile
import shutil
import subprocess
import sys
from dataclasses import replace

import crc_collision
import pytest
from inline_snapshot import snapshot
from typer.testing import CliRunner

from ddpquiz.cli.app import app
from ddpquiz.curriculum import loading, pack_files, pack_store
from ddpquiz.curriculum.labs import load_pack_lab
from ddpquiz.curriculum.pack_consent import allowed_pack, pack_fingerprint
from ddpquiz.curriculum.posed_question import Posed
from ddpquiz.errors import UserError
from ddpquiz.events.event import Output
from ddpquiz.lab.checker import check_solution, compare
from ddpquiz.lab.folder import LabFolder
from ddpquiz.paths import cache_dir, labs_dir, packs_dir
from ddpquiz.ranks import run as runs
from ddpquiz.ranks.content_runner import ProofRunner
from ddpquiz.ranks.elastic_run import begin
from ddpquiz.ranks.request import Request

PROVEN = "mine/first-concept/sum-of-ranks"


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def trust():
    assert run("pack", "trust", "mine", "--yes").exit_code == 0


def may_run():
    try:
        return allowed_pack("mine") is not None
    except UserError:
        return False


def posed():
    return Posed(loading.load().item(PROVEN), {}, ())


def other_version(mine, old, new, file="content/basics/first-concept.yaml"):
    """Copy a pack with another text in one of its files."""
    other = mine.with_name("other")
    shutil.copytree(mine, other)
    text = (other / file).read_text()
    assert old in text
    (other / file).write_text(text.replace(old, new, 1))
    return other


def hostile_proof(mine):
    return other_version(mine, "print(x.item())", "print('hostile')")


def printed(request):
    """Return what all ranks of a run print."""
    return {event.text for event in begin(request).events() if isinstance(event, Output)}


def demo(mine, text, **modules):
    """Give a pack a demo that prints something, with modules beside it; return where it lies once it is added."""
    (mine / "demos/say.py").write_text(text)
    for name, source in modules.items():
        (mine / f"demos/{name}.py").write_text(source)
    pack_store.add_pack(mine)
    return packs_dir() / "mine/demos/say.py"


def test_a_proof_of_an_earlier_version_with_the_same_checksum_does_not_run(mine):
    hostile = hostile_proof(mine)
    crc_collision.forge(hostile / "content", crc_collision.checksum(mine / "content"))
    pack_store.add_pack(hostile)
    loading.load()  # writes the copy
    copy = cache_dir() / loading.pack_copy("mine")
    of_hostile = copy.read_bytes()
    pack_store.add_pack(mine)
    copy.write_bytes(of_hostile)  # as a second process may that still works with the earlier version
    trust()
    assert str(ProofRunner().observe(posed())) == "every rank prints '10.0'"


def test_a_proof_that_was_read_before_an_update_does_not_run_by_the_consent_to_the_update(mine):
    pack_store.add_pack(hostile_proof(mine))
    before = posed()
    pack_store.add_pack(mine)
    trust()
    with pytest.raises(UserError, match="The pack mine has changed since this was read from it; start ddpquiz again"):
        ProofRunner().observe(before)
    assert str(ProofRunner().observe(posed())) == "every rank prints '10.0'"


def with_lab(mine):
    shutil.copytree(labs_dir() / "tree_broadcast", mine / "labs/tree_broadcast")
    file = mine / "labs/tree_broadcast/lab.yaml"
    file.write_text(file.read_text().replace("concept: collective-ops", "concept: first-concept"))
    assert "concept: first-concept" in file.read_text()


def test_a_lab_that_was_read_before_an_update_does_not_run_by_the_consent_to_the_update(mine, tmp_path):
    with_lab(mine)
    pack_store.add_pack(other_version(mine, '"""', '"""Hostile: ', "labs/tree_broadcast/solution.py"))
    before = load_pack_lab("mine/tree-broadcast")
    pack_store.add_pack(mine)
    trust()
    lab = load_pack_lab("mine/tree-broadcast")
    assert before == replace(lab, solution=before.solution, variants=before.variants, mutants=before.mutants,
                             origin=before.origin)  # fmt: skip
    file = tmp_path / lab.file_name
    file.write_text(lab.solution.source)
    verdict = check_solution(lab, file)
    assert verdict.passed
    for work in (lambda: check_solution(before, file), lambda: compare(before, verdict)):
        with pytest.raises(UserError, match="has changed since this was read from it"):
            work()


def test_the_starter_of_a_lab_is_not_written_before_consent_since_it_would_run_as_the_learner_s_own(mine, tmp_path):
    with_lab(mine)
    pack_store.add_pack(mine)
    lab, folder = load_pack_lab("mine/tree-broadcast"), LabFolder(tmp_path / "labs")
    for work in (folder.begin, folder.reset):
        with pytest.raises(UserError, match="ddpquiz pack trust mine"):
            work(lab)
    assert "ddpquiz pack trust mine" in str(run("lab", "mine/tree-broadcast", "--check").exception)
    assert not folder.path.exists()
    trust()
    assert folder.begin(lab)


def test_a_script_that_changes_between_the_consent_and_the_start_of_its_ranks_runs_as_allowed(mine, monkeypatch):
    script = demo(mine, "print('allowed')\n")
    trust()
    start = runs.server

    def change():
        script.write_text("print('hostile')\n")
        return start()

    monkeypatch.setattr(runs, "server", change)
    for restarts in (0, 1):
        assert printed(Request(script, ranks=2, restarts=restarts)) == {"allowed"}
        script.write_text("print('allowed')\n")


WAITS = """
import os, sys, time
print("ready")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
import more.deep
import helper
"""


def test_a_module_that_changes_while_the_ranks_run_is_imported_as_allowed(mine, tmp_path):
    (mine / "demos/more").mkdir()
    (mine / "demos/more/deep.py").write_text("print('deep')\n")
    script = demo(mine, WAITS, helper="print('allowed')\n")
    trust()
    running, said = begin(Request(script, args=(str(tmp_path / "go"),), ranks=1)), []
    for event in running.events():
        said += [event.text] if isinstance(event, Output) else []
        if said == ["ready"]:
            script.with_name("helper.py").write_text("print('hostile')\n")
            script.with_name("more").joinpath("deep.py").write_text("print('hostile')\n")
            (tmp_path / "go").touch()
    assert said == ["ready", "deep", "allowed"]


def test_a_module_that_was_not_there_when_the_pack_was_allowed_is_not_imported(mine, tmp_path):
    script = demo(mine, WAITS.replace("import more.deep\n", ""))
    trust()
    running = begin(Request(script, args=(str(tmp_path / "go"),), ranks=1))
    for event in running.events():
        if isinstance(event, Output):
            assert event.text == "ready"
            script.with_name("helper.py").write_text("print('hostile')\n")
            (tmp_path / "go").touch()
    assert running.seen.raised[0].message.endswith("helper.py is not among the files of the pack that were allowed")


def plant(module, tmp_path, source="print('hostile')\n"):
    """Put compiled code of another program where Python looks for that of a module, to be used without a comparison."""
    (tmp_path / "hostile.py").write_text(source)
    compiled = module.parent / "__pycache__" / f"{module.stem}.{sys.implementation.cache_tag}.pyc"
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(tmp_path / "hostile.py"), str(compiled), invalidation_mode=unchecked)
    return compiled


def test_compiled_code_in_the_folder_of_a_pack_is_neither_run_nor_written(mine, tmp_path):
    script = demo(mine, "import helper, other\n", helper="print('allowed')\n", other="print('other')\n")
    planted = plant(script.with_name("helper.py"), tmp_path)
    asked = [sys.executable, str(script)]
    assert subprocess.run(asked, capture_output=True, text=True).stdout == snapshot(
        "hostile\nother\n"
    )  # as Python does it
    for file in planted.parent.glob("other.*"):
        file.unlink()
    trust()
    assert printed(Request(script, ranks=2)) == {"allowed", "other"}
    assert [file.name for file in planted.parent.iterdir()] == [planted.name]


def test_the_options_of_a_demo_are_asked_from_what_was_allowed(mine, tmp_path):
    text = "import argparse, helper\nparser = argparse.ArgumentParser()\nparser.add_argument('--many')\nparser.parse_args()\n"
    script = demo(mine, text, helper="")
    plant(script.with_name("helper.py"), tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert "ddpquiz pack trust mine" in str(run("demo", "mine/say", "--help").exception)
    trust()
    assert "--many" in run("demo", "mine/say", "--help").stdout
    assert not (tmp_path / "ran").exists()


def link_to_folder(added, elsewhere):
    added.rename(elsewhere)
    added.symlink_to(elsewhere)


def link_to_part(added, elsewhere):
    (added / "demos").rename(elsewhere)
    (added / "demos").symlink_to(elsewhere)


def link_to_file(added, elsewhere):
    (added / "demos/ring.py").rename(elsewhere)
    (added / "demos/ring.py").symlink_to(elsewhere)


@pytest.mark.parametrize("link", [link_to_folder, link_to_part, link_to_file], ids=lambda link: link.__name__)
def test_links_in_the_place_of_what_was_allowed_run_nothing(mine, tmp_path, link):
    added = pack_store.add_pack(mine).pack.folder
    trust()
    link(added, tmp_path / "elsewhere")
    assert not may_run()
    assert "is a link" in str(run("demo", "mine/ring", "--nproc", "2").exception)
    assert "mine/first-concept" not in {concept.id for concept in loading.load().concepts}
    pack_store.add_pack(mine)
    assert may_run()
    assert not added.is_symlink()


def test_a_script_of_a_pack_needs_consent_however_it_is_named(mine, tmp_path):
    script = demo(mine, "print('runs')\n")
    (tmp_path / "link.py").symlink_to(script)
    (tmp_path / "folder").symlink_to(script.parent)
    for name in (script, tmp_path / "link.py", tmp_path / "folder/say.py", script.parent / "../demos/say.py"):
        assert "ddpquiz pack trust mine" in str(run("run", "--nproc", "1", name).exception)
    trust()
    assert printed(Request(tmp_path / "folder/say.py", ranks=1)) == {"runs"}


def test_a_folder_and_a_loop_of_links_are_no_scripts(mine, tmp_path):
    demo(mine, "")
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    for name, said in ((packs_dir(), "is a folder"), (tmp_path / "loop.py", "cannot be read")):
        assert said in str(run("run", name).exception)


def test_the_consent_to_a_pack_is_none_to_another_one_of_the_same_name(mine):
    pack_store.add_pack(mine)
    trust()
    pack_store.add_pack(hostile_proof(mine))
    with pytest.raises(UserError, match="have changed since you allowed them"):
        ProofRunner().observe(posed())
    assert run("pack", "trust", "mine").exit_code == 1


def test_the_copy_of_what_a_pack_teaches_goes_with_its_files(mine):
    copy = cache_dir() / loading.pack_copy("mine")
    pack_store.add_pack(hostile_proof(mine))
    assert b"hostile" in copy.read_bytes()
    pack_store.add_pack(mine)
    assert b"hostile" not in copy.read_bytes()
    pack_store.remove_pack("mine")
    assert not copy.exists()


def test_the_consent_to_a_pack_outlives_an_update_of_ddpquiz():
    files = {"demos/a-b.py": b"1", "demos/a/b.py": b"2", "ddpquiz-pack.yaml": b"name: mine\n"}
    assert pack_fingerprint(files) == "76df2d46f69b304b2ef3834e5c3c4de327d1cac282d82bd6591b12f23c5e4b33"
    assert pack_fingerprint(dict(reversed(files.items()))) == pack_fingerprint(files)
    assert pack_fingerprint({**files, "demos/a-b.py": b"3"}) != pack_fingerprint(files)


def test_a_pack_that_is_replaced_while_it_is_read_is_read_in_one_version(mine, monkeypatch):
    versions = [
        pack_fingerprint(pack_files.read_added(pack_store.add_pack(each).pack.folder))
        for each in (hostile_proof(mine), mine)
    ]
    walk, updates = pack_files._beside_manifest, [mine.with_name("other"), mine]

    def interrupted(top):
        for number, entry in enumerate(walk(top)):
            yield entry
            if number == 1 and updates:
                pack_store.add_pack(updates.pop())

    monkeypatch.setattr(
        pack_files, "_beside_manifest", lambda top: interrupted(top) if "packs" in top.parts else walk(top)
    )
    assert pack_fingerprint(pack_files.read_added(packs_dir() / "mine")) == versions[0]
    assert not updates


def test_packs_that_are_added_at_the_same_time_all_arrive_whole(mine):
    other = hostile_proof(mine)
    words = [sys.executable, "-m", "ddpquiz", "pack", "add"]
    adding = [
        subprocess.Popen([*words, str(pack)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for pack in (mine, other) * 3
    ]
    said = [process.communicate() for process in adding]
    assert [process.returncode for process in adding] == [0] * 6, said
    assert {out.partition(" added.")[0] for out, _ in said} == {
        "mine: 1 concept, 6 cards, 10 questions, 10 proofs, 1 demo, 0 labs"
    }
    assert [path.name for path in packs_dir().iterdir()] == ["mine"]
    whole = [pack_fingerprint(pack_files.read_files(pack)) for pack in (mine, other)]
    assert pack_fingerprint(pack_files.read_added(packs_dir() / "mine")) in whole
