"""The copy of the catalog, from which every start loads it: it is that of the files, or it is made again."""

import os
import pickle
import shutil
from dataclasses import replace

import crc_collision
import pytest
from places import DATA

from ddpquiz.curriculum import loading
from ddpquiz.curriculum.catalog import LabTitle
from ddpquiz.curriculum.loading import load
from ddpquiz.paths import cache_dir, demos_dir


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A content folder of which there is a copy, and how often it is parsed."""
    monkeypatch.setenv("DDPQUIZ_HOME", str(tmp_path / "home"))
    shutil.copytree(DATA, tmp_path / "data")
    content = tmp_path / "data" / "content"
    reads = []

    def read():
        reads.append(1)
        return replace(load(content), demos=demos_dir())  # a copy is of shipped content

    def cached():
        return loading.cached(loading.shipped_fingerprint(content), read)

    parsed = read()
    reads.clear()
    assert cached() == cached() == parsed
    assert len(reads) == 1
    return cached, content, cache_dir() / loading.FILE, parsed, reads


def test_content_is_parsed_again_when_a_file_changes_even_in_the_same_instant(copied):
    cached, content, _, parsed, reads = copied
    tracks = content / "tracks.yaml"
    before, state = tracks.read_text("utf-8"), tracks.stat()
    tracks.write_text(before.replace("Collectives", "COLLECTIVES"), "utf-8")
    os.utime(tracks, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert cached() != parsed
    assert len(reads) == 2


def test_a_copy_is_not_used_for_other_content_with_the_same_checksum(copied):
    cached, content, _, parsed, _ = copied
    wanted = crc_collision.checksum(content)
    ring = content / "collectives" / "ring.yaml"
    ring.write_text(ring.read_text("utf-8").replace("title: ", "title: Another "), "utf-8")
    crc_collision.forge(content, wanted)
    assert cached() != parsed


def test_the_labs_of_a_copy_are_those_of_the_files(copied):
    cached, content, _, _, reads = copied
    lab = content.parent / "labs" / "some_lab" / "lab.yaml"
    lab.parent.mkdir(parents=True)
    lab.write_text("title: 'Some: lab'\nconcept: ring  # of this track\nminutes: 15\n", "utf-8")
    for _ in range(2):
        assert cached().labs == cached().labs_about("ring") == (LabTitle("some-lab", "ring", "Some: lab", 15),)
    assert len(reads) == 2
    lab.write_text("title: Some lab\nconcept: ring\nminutes: many\n", "utf-8")
    assert cached().labs == ()


def replace_with_link(copy):
    copy.rename(copy.with_name("elsewhere"))
    copy.symlink_to("elsewhere")


def replace_with_pipe(copy):
    copy.unlink()
    os.mkfifo(copy)


HARMS = {
    "shortened": lambda copy: copy.write_bytes(copy.read_bytes()[:-9]),
    "empty": lambda copy: copy.write_bytes(b""),
    "changed": lambda copy: copy.write_bytes(copy.read_bytes().replace(b"ring", b"rung", 1)),
    "writable by the group": lambda copy: copy.chmod(0o620),
    "writable by all": lambda copy: copy.chmod(0o602),
    "a link": replace_with_link,
    "a pipe": replace_with_pipe,
    "a pickle": lambda copy: copy.write_bytes(pickle.dumps({"not": "ours"})),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_copy_that_cannot_be_trusted_is_made_again(copied, harm):
    cached, _, copy, parsed, reads = copied
    HARMS[harm](copy)
    assert cached() == parsed
    assert len(reads) == 2
    assert cached() == parsed
    assert (len(reads), copy.is_symlink()) == (2, False)


def test_a_copy_that_belongs_to_somebody_else_is_not_read(copied, monkeypatch):
    cached, _, _, parsed, reads = copied
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert cached() == parsed
    assert len(reads) == 2


def test_a_copy_can_be_read_by_its_owner_only(copied):
    copy = copied[2]
    assert (copy.stat().st_mode & 0o777, copy.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_folder_that_cannot_hold_a_copy_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DDPQUIZ_HOME", str(tmp_path / "file"))
    assert loading.cached("", lambda: load(DATA / "content")).concepts
