"""A file that is replaced is the old one or the new one, whatever happens in between."""

import os
import stat
from pathlib import Path

import pytest

from ddpquiz.atomic_file import is_pipe_or_device, replacing


def full(fresh):
    fresh.write_text("half")
    raise OSError(28, "No space left on device")


def interrupted(fresh):
    fresh.write_text("half")
    raise KeyboardInterrupt


@pytest.mark.parametrize("write", [full, interrupted])
def test_what_could_not_be_written_leaves_the_old_one_and_nothing_else(tmp_path, write):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises((OSError, KeyboardInterrupt)), replacing(path) as fresh:
        write(fresh)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("file", "old")]


def test_the_old_one_is_there_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with replacing(path) as fresh:
        fresh.write_text("new")
        assert path.read_text() == "old"
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("file", "new")]


FAULTS = {"none/file": FileNotFoundError, "no-folder/file": NotADirectoryError, "folder": IsADirectoryError}


@pytest.mark.parametrize("place", FAULTS)
def test_a_place_that_cannot_be_written_is_a_fault_of_the_system(tmp_path, place):
    (tmp_path / "no-folder").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(FAULTS[place]), replacing(tmp_path / place) as fresh:
        fresh.write_text("new")
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["folder", "no-folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only_is_a_fault_of_the_system(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(PermissionError), replacing(tmp_path / "file") as fresh:
            fresh.write_text("new")
    finally:
        tmp_path.chmod(stat.S_IRWXU)


def test_a_link_is_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("old")
    path = tmp_path / "file"
    path.symlink_to("elsewhere")
    with replacing(path) as fresh:
        fresh.write_text("new")
    assert (path.is_symlink(), (tmp_path / "elsewhere").read_text()) == (True, "new")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["elsewhere", "file"]


def test_what_is_no_file_is_written_to_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with replacing(pipe) as fresh:
        fresh.write_text("new")
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_circle_of_links_is_a_fault_of_the_file(tmp_path):
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OSError, match="symbolic links"), replacing(tmp_path / "one") as fresh:
        fresh.write_text("new")


def test_a_link_that_was_planted_where_the_new_file_is_written_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda count: b"\x01" * count)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".file.{'01' * 8}").symlink_to(victim)
    with pytest.raises(FileExistsError), replacing(tmp_path / "file") as fresh:
        fresh.write_text("new")
    assert victim.read_text() == "precious"


def test_names_of_new_files_cannot_be_guessed(tmp_path):
    names = set()
    for _ in range(10):
        with replacing(tmp_path / "file") as fresh:
            names.add(fresh.name)
    assert len(names) == 10


def test_a_private_file_can_be_read_by_its_owner_only_and_replaces_a_link(tmp_path):
    (tmp_path / "elsewhere").write_text("old")
    path = tmp_path / "file"
    path.symlink_to("elsewhere")
    with replacing(path, private=True) as fresh:
        fresh.write_text("new")
    assert (path.is_symlink(), path.read_text(), path.stat().st_mode & 0o777) == (False, "new", 0o600)
    assert (tmp_path / "elsewhere").read_text() == "old"


def test_a_file_that_is_removed_while_it_is_looked_at_is_no_pipe(tmp_path, monkeypatch):
    """SQLite removes its journal at any time."""
    path, look = tmp_path / "progress.db-journal", os.stat
    path.touch()

    def look_and_remove(*args, **options):
        found = look(*args, **options)
        path.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(os, "stat", look_and_remove)
    assert not is_pipe_or_device(path)


def test_pipes_and_devices_are_neither_files_nor_folders(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    paths = [tmp_path / "pipe", Path(os.devnull), tmp_path / "file", tmp_path, tmp_path / "none", Path("a\0b")]
    assert [*map(is_pipe_or_device, paths)] == [True, True, False, False, False, False]
