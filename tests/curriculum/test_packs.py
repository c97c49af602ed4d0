"""Packs: content of others beside the shipped one, whose programs run only after consent to exactly these bytes."""

import errno
import os
import random
import shutil
import subprocess
import sys
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from typer.testing import CliRunner

from ddpquiz.cli.app import app
from ddpquiz.cli.pack import pack
from ddpquiz.cli.site import site
from ddpquiz.curriculum import loading, pack_files, pack_store
from ddpquiz.curriculum.concept import DemoProof, Kind, Level, Question
from ddpquiz.curriculum.pack_consent import allowed_pack
from ddpquiz.curriculum.packs import find, packs
from ddpquiz.curriculum.posed_question import Posed, pose
from ddpquiz.curriculum.survey import survey
from ddpquiz.errors import ContentError, UserError
from ddpquiz.learning.answers import save_answer
from ddpquiz.learning.judge import judge
from ddpquiz.learning.mastery import strengths
from ddpquiz.learning.quiz import Answer
from ddpquiz.paths import data_dir, demo_file, demo_name, packs_dir
from ddpquiz.ranks.content_runner import ProofRunner
from ddpquiz.terminal.runs.script import of_script


def run(*words):
    return CliRunner().invoke(pack, list(map(str, words)))


def trust():
    assert run("trust", "mine", "--yes").exit_code == 0


def may_run():
    try:
        return allowed_pack("mine") is not None
    except UserError:
        return False


def test_a_new_pack_passes_the_check_and_can_be_added(mine):
    assert survey(mine, thorough=True).complaints == ()
    assert run("add", mine).stdout == (
        snapshot(
            "mine: 1 concept, 6 cards, 10 questions, 10 proofs, 1 demo, 0 labs added. See them with: ddpquiz list\n"
            "Its proofs, demos and labs are programs that run only after: ddpquiz pack trust mine\n"
        )
    )
    assert run("list").stdout == (
        snapshot(
            "mine  What this pack teaches, in one line: 1 concept, 6 cards, 10 questions, 10 proofs, 1 demo, 0 labs, programs"
            " not allowed\n"
        )
    )


def test_all_names_of_a_pack_begin_with_its_name_and_shipped_ones_stay(mine):
    concept = mine / "content" / "basics" / "first-concept.yaml"
    text = concept.read_text().replace("needs: []", "needs: [all-reduce-ring]")
    concept.write_text(text.replace("  - id: ring-bytes\n", "  - id: ring-bytes\n    was: [before/old-bytes]\n"))
    pack_store.add_pack(mine)
    known = loading.load()
    assert known.item("mine/before/old-bytes").key == "mine/first-concept/ring-bytes"
    found = known.concept("mine/first-concept")
    assert found.needs == ("all-reduce-ring",)
    assert (found.track, found.demos[0].run, found.cards[0].source) == ("mine/basics", "mine/ring", "mine/dist")
    question = known.item("mine/first-concept/ring-bytes")
    assert isinstance(question.proof, DemoProof)
    assert question.proof.demo == "mine/ring"
    assert demo_file("mine/ring") == packs_dir() / "mine" / "demos" / "ring.py"
    assert known.sources["mine/dist"].title == "Distributed communication package"
    assert known.concept("all-reduce-ring").track == "collectives"


WRONG = {
    ("show", "mine/first-concept/ring-byte"): "No item named 'mine/first-concept/ring-byte'. Did you mean"
    " 'mine/first-concept/ring-bytes'?",
    ("demo", "ring"): "No demo named 'ring'. Did you mean 'mine/ring'?",
    ("study", "first-concept"): "No concept named 'first-concept'. Did you mean 'mine/first-concept'?",
}


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_a_wrong_name_in_a_pack_is_answered_with_the_right_one(mine, words):
    pack_store.add_pack(mine)
    assert str(CliRunner().invoke(app, words).exception) == WRONG[words]


def test_the_demo_of_a_pack_is_known_by_its_own_name_also_if_a_shipped_one_has_the_same(mine):
    demo = next(mine.glob("demos/*.py"))
    text = demo.read_text("utf-8")
    demo.with_name("allreduce.py").write_text(text)
    run("add", str(mine))
    for name in (demo.stem, "allreduce"):
        script = demo_file(f"{mine.name}/{name}")
        assert demo_name(script) == f"{mine.name}/{name}"
        commands = [each.command for each in of_script(str(script))]
        assert all(command.startswith(f"ddpquiz demo {mine.name}/{name}") for command in commands), commands
    assert demo_name(demo_file("allreduce")) == "allreduce"
    assert demo_name(Path("/demos/train.py")) == "train"
    assert demo_name(demo) == demo.stem


def test_what_a_pack_needs_must_exist(mine):
    concept = mine / "content" / "basics" / "first-concept.yaml"
    concept.write_text(concept.read_text().replace("needs: []", "needs: [all-reduce-rin]"))
    with pytest.raises(ContentError) as found:
        pack_store.add_pack(mine)
    assert str(found.value) == (
        snapshot(
            "content/basics/first-concept.yaml:2:9: `needs`: there is no concept `all-reduce-rin`;"
            " did you mean `all-reduce-ring`?"
        )
    )
    assert packs() == ()


def test_programs_run_only_after_consent_to_exactly_these_bytes(mine):
    added = pack_store.add_pack(mine).pack
    question = loading.load().item("mine/first-concept/sum-of-ranks")
    with pytest.raises(UserError, match=r"did not come with ddpquiz.*ddpquiz pack trust mine"):
        ProofRunner().observe(Posed(question, {}, ()))
    assert "programs: they will run on this machine with your permissions" in run("trust", "mine").stdout
    assert not may_run()
    assert run("trust", "mine", "--yes").stdout.endswith("The programs of mine may run.\n")
    allowed_pack("mine")
    (added.demos / "ring.py").write_text("print('other')\n")
    with pytest.raises(UserError, match="have changed since you allowed them"):
        allowed_pack("mine")


def test_what_python_compiles_while_a_program_runs_needs_no_new_consent(mine):
    added = pack_store.add_pack(mine).pack.folder
    trust()
    (added / "demos/__pycache__").mkdir()
    (added / "demos/__pycache__/tools.cpython-311.pyc").write_bytes(b"compiled")
    allowed_pack("mine")
    (added / "demos/more.py").write_text("")
    with pytest.raises(UserError, match="have changed since you allowed them"):
        allowed_pack("mine")


def test_an_update_is_asked_about_again_and_the_same_bytes_are_not(mine):
    pack_store.add_pack(mine)
    trust()
    pack_store.add_pack(mine)
    allowed_pack("mine")
    (mine / "demos" / "ring.py").write_text((mine / "demos" / "ring.py").read_text() + "# new\n")
    pack_store.add_pack(mine)
    assert not may_run()
    (data_dir() / "packs.json").write_text("[" * 10_000)
    assert not may_run()


def test_a_removed_pack_is_gone_with_its_consent(mine):
    pack_store.add_pack(mine)
    trust()
    assert run("remove", "mine").stdout == snapshot("mine is removed. Your progress in it is kept.\n")
    assert packs() == ()
    assert "mine" not in (data_dir() / "packs.json").read_text()
    with pytest.raises(UserError, match=r"No pack named .\.\./x."):
        find("../x")


def link_out(folder):
    (folder / "demos" / "secrets.py").symlink_to("/etc/passwd")


def link_folder(folder):
    shutil.rmtree(folder / "labs")
    (folder / "labs").symlink_to("/etc")


def link_top(folder):
    folder.rename(folder.with_name("real"))
    folder.symlink_to(folder.with_name("real"))


def link_inside(folder):
    folder.rename(folder.with_name("real"))
    folder.mkdir()
    (folder / "mine").symlink_to(folder.with_name("real"))


def link_manifest(folder):
    (folder / "ddpquiz-pack.yaml").unlink()
    (folder / "ddpquiz-pack.yaml").symlink_to("/etc/passwd")


def huge_file(folder):
    with (folder / "demos" / "big.py").open("wb") as file:
        file.truncate(10**12)


def pipe(folder):
    os.mkfifo(folder / "demos" / "pipe.py")


def control_name(folder):
    (folder / "demos" / "a\x1b[2J.py").write_text("")


def many_files(folder):
    for number in range(pack_files.MOST_FILES + 1):
        (folder / "demos" / f"d{number}.py").touch()


def deep(folder):
    (folder / "labs" / "/".join("abcdefg")).mkdir(parents=True)
    (folder / "labs" / "/".join("abcdefg") / "x.py").touch()


def bomb(folder):
    lines = ["a: &a [x, x]", *(f"{'abcdefgh'[n]}: &{'abcdefgh'[n]} [*{'abcdefgh'[n - 1]}, *a]" for n in range(1, 8))]
    (folder / "content" / "tracks.yaml").write_text("\n".join(lines) + "\n")


def manifest_bomb(folder):
    (folder / "ddpquiz-pack.yaml").write_text("name: &a mine\ntitle: *a\n")


def wrong_name(folder):
    (folder / "ddpquiz-pack.yaml").write_text('name: "../../mine"\ntitle: T\n')


def no_manifest(folder):
    (folder / "ddpquiz-pack.yaml").unlink()


HOSTILE = {
    link_out: "demos/secrets.py is a link; a pack holds files only.",
    link_folder: "labs is a link; a pack holds files only.",
    link_top: "/mine is a link; name the folder that it leads to.",
    link_inside: "mine is a link; a pack holds files only.",
    link_manifest: "ddpquiz-pack.yaml is a link; a pack holds files only.",
    huge_file: "demos/big.py is larger than 2,000,000 bytes.",
    pipe: "demos/pipe.py is not a regular file.",
    control_name: "'demos/a\\x1b[2J.py' is not a name for a file of a pack; use letters, digits and . _ - in names.",
    many_files: "The pack has more than 2,000 files or 20,000,000 bytes.",
    deep: "labs/a/b/c/d/e/f lies more than 5 folders deep.",
    bomb: "content/tracks.yaml:1:4: `&a` and `*a` are not allowed; write the value out",
    manifest_bomb: "ddpquiz-pack.yaml:1:7: `&a` and `*a` are not allowed; write the value out",
    wrong_name: "ddpquiz-pack.yaml:1:7: `name`: `../../mine` is not a name; use a-z, 0-9 and -, and start with a letter",
    no_manifest: "There is no ddpquiz-pack.yaml in it, so it is not a pack. `ddpquiz pack new DIR` makes one.",
}


@pytest.mark.parametrize("harm", HOSTILE, ids=lambda harm: harm.__name__)
def test_a_hostile_pack_is_refused_in_a_sentence_and_nothing_of_it_is_kept(mine, harm):
    harm(mine)
    with pytest.raises(UserError) as found:
        pack_store.add_pack(mine)
    assert HOSTILE[harm] in str(found.value)
    assert not packs_dir().exists() or list(packs_dir().iterdir()) == []


def wheel(mine, path, *more):
    with zipfile.ZipFile(path, "w") as file:
        for each in sorted(mine.rglob("*")):
            if each.is_file():
                file.write(each, f"my_pack/{each.relative_to(mine)}")
        for name, data, mode in more:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            file.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return path


def test_a_wheel_is_added_like_a_folder_and_none_of_its_modules_is_imported(mine, tmp_path):
    file = wheel(mine, tmp_path / "mine.whl", ("my_pack/__init__.py", "raise SystemExit('imported')", 0o100644))
    assert pack_store.add_pack(file).pack.name == "mine"
    assert sorted(path.name for path in find("mine").folder.iterdir()) == [
        "README.md",
        "content",
        "ddpquiz-pack.yaml",
        "demos",
        "labs",
    ]


@pytest.mark.parametrize(
    ("name", "data", "mode", "said"),
    [
        ("my_pack/demos/../../../evil.py", "x", 0o100644, "is not a name for a file of a pack"),
        ("my_pack/demos/link.py", "/etc/passwd", 0o120777, "demos/link.py is a link"),
        ("my_pack/demos/ring.py/more.py", "x", 0o100644, "demos/ring.py is both a file and a folder"),
        ("my_pack/demos/bomb.py", b"0" * 50_000_000, 0o100644, "demos/bomb.py is larger than 2,000,000 bytes"),
    ],
)
def test_a_hostile_wheel_is_refused_in_a_sentence(mine, tmp_path, name, data, mode, said):
    with pytest.raises(UserError, match=said):
        pack_store.add_pack(wheel(mine, tmp_path / "mine.whl", (name, data, mode)))
    assert packs() == ()
    (tmp_path / "broken.whl").write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(UserError, match="cannot be read as a pack: File is not a zip file"):
        pack_store.add_pack(tmp_path / "broken.whl")


def test_a_git_repository_is_cloned_and_nothing_else_is_an_address(mine):
    git = ["git", "-C", str(mine), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    with pack_store.fetched(f"file://{mine}") as folder:
        assert pack_store.add_pack(folder).pack.name == "mine"
    for address in ("ext::sh -c touch% /tmp/x", "--upload-pack=x", "nothing"):
        with pytest.raises(UserError, match="is neither a folder"), pack_store.fetched(address):
            pass
    with pytest.raises(UserError, match="cannot be cloned"), pack_store.fetched("git+ext::sh -c true"):
        pass


def test_an_installed_pack_is_found_in_metadata_and_not_imported(mine, tmp_path, monkeypatch):
    site = tmp_path / "site"
    info = site / "my_pack-1.0.dist-info"
    info.mkdir(parents=True)
    mine.rename(site / "my_pack")
    (site / "my_pack" / "__init__.py").write_text("raise SystemExit('imported')\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-pack\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ddpquiz.packs]\nmine = my_pack\n")
    monkeypatch.syspath_prepend(str(site))
    assert run("list").stdout == snapshot("mine  installed, not added: ddpquiz pack add mine\n")
    assert run("add", "mine").exit_code == 0
    assert "my_pack" not in sys.modules
    assert run("list").stdout.startswith("mine  What this pack teaches")


def test_a_pack_that_can_no_longer_be_read_is_left_out_and_named(mine):
    added = pack_store.add_pack(mine).pack
    (added.folder / "content/tracks.yaml").write_text("basics: {title: T}\n")
    assert {concept.id for concept in loading.load().concepts}.isdisjoint({"mine/first-concept"})
    assert "cannot be read, and is left out: " in run("list").stdout


def test_without_packs_a_start_loads_nothing_of_them(tmp_path):
    script = (
        "import sys; from ddpquiz.curriculum.loading import load; load();"
        "print([name for name in sys.modules if 'ddpquiz.curriculum.pack' in name])"
    )
    home = {**os.environ, "DDPQUIZ_HOME": str(tmp_path)}
    for _ in range(2):  # the first start writes the cache
        done = subprocess.run([sys.executable, "-c", script], env=home, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_folder_that_exists_or_has_no_name_for_a_pack_is_not_made_one(mine, tmp_path):
    for folder, said in ((mine, "already exists"), (tmp_path / "My Pack", "cannot be the name of a pack")):
        with pytest.raises(UserError, match=said):
            pack_store.make_pack(folder)


@pytest.mark.parametrize("command", ["add", "new", "trust", "remove"])
def test_a_name_of_five_thousand_letters_is_refused_in_a_sentence(mine, command):
    pack_store.add_pack(mine)
    assert isinstance(run(command, "a" * 5_000).exception, UserError)


def test_a_folder_of_packs_that_cannot_be_read_or_written_is_named_in_a_sentence(mine, monkeypatch):
    def refuse(path, *words, **named):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    pack_store.add_pack(mine)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", refuse)
        assert "packs cannot be read: Permission denied." in str(CliRunner().invoke(app, ["list"]).exception)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        assert "packs/mine cannot be deleted: Permission denied." in str(run("remove", "mine").exception)
        assert "packs/mine cannot be written: Permission denied." in str(run("add", mine).exception)
    assert [path.name for path in packs_dir().iterdir()] == ["mine"]


def test_progress_in_a_pack_counts_for_its_concept_and_again_when_the_pack_is_back(mine, progress):
    question = Question("mine/first-concept", "q", Level.EASY, Kind.NUMBER, "?", answer="2")
    posed = pose(question, random.Random(0))
    at = datetime(2026, 3, 2, 12, tzinfo=UTC)
    save_answer(progress, Answer(posed, "2", judge(posed, "2"), at, timedelta(seconds=1)), ())
    pack_store.add_pack(mine)
    pack_store.remove_pack("mine")
    pack_store.add_pack(mine)
    assert set(strengths(progress.entries("answer"), at.date())) == {"mine/first-concept"}
    assert "mine/first-concept" in {concept.id for concept in loading.load().concepts}


def test_the_site_has_the_concepts_of_packs(mine, tmp_path, capsys):
    assert run("add", mine).exit_code == 0
    site(tmp_path / "site")  # which checks that every link leads somewhere
    assert "open " in capsys.readouterr().out
    assert [path.parent.name for path in (tmp_path / "site" / "concepts").glob("*/*.html")] == ["mine"]
