"""The files beside the progress: drafts, and how long demos took."""

import errno

import pytest

from ddpquiz.errors import UserError
from ddpquiz.learning import side_files
from ddpquiz.learning.side_files import TIMINGS_FILE, Timing, load_drafts, load_timings, save_drafts, save_timing


def test_the_last_run_of_each_demo_is_saved(tmp_path):
    home = tmp_path / "not there yet"
    assert load_timings(home) == {}
    save_timing(home, "ddp", Timing(9.0, 2))
    save_timing(home, "allreduce", Timing(1.25, 4, ("--size", "8")))
    save_timing(home, "ddp", Timing(2.5, 8))
    assert load_timings(home) == {"allreduce": Timing(1.25, 4, ("--size", "8")), "ddp": Timing(2.5, 8)}
    assert [path.name for path in home.iterdir()] == [TIMINGS_FILE]


@pytest.mark.parametrize(
    "text",
    [
        *("", "[", "[]", "null", '{"ddp": 3}', "\x00", "[" * 10_000),
        '{"ddp": {"seconds": "soon", "ranks": 4, "args": []}}',
        '{"ddp": {"seconds": 1, "ranks": Infinity, "args": []}}',
    ],
)
def test_a_file_that_is_not_ours_says_nothing_and_is_replaced(tmp_path, text):
    (tmp_path / TIMINGS_FILE).write_text(text)
    assert load_timings(tmp_path) == {}
    save_timing(tmp_path, "ddp", Timing(2.5, 4))
    assert load_timings(tmp_path) == {"ddp": Timing(2.5, 4)}


def test_a_folder_that_cannot_be_written_is_not_an_error(tmp_path):
    (tmp_path / "file").touch()
    save_timing(tmp_path / "file" / "home", "ddp", Timing(2.5, 4))
    assert load_timings(tmp_path / "file" / "home") == {}


def test_a_draft_that_cannot_be_deleted_is_not_an_error(tmp_path, monkeypatch):
    def disk_is_full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    save_drafts(tmp_path, {"ring/why-ring": "A bottleneck"})
    monkeypatch.setattr(side_files, "save_json", disk_is_full)
    save_drafts(tmp_path, {"ring/why-ring": ""})
    with pytest.raises(UserError, match="was not saved"):
        save_drafts(tmp_path, {"ring/why-ring": "Others"})
    assert load_drafts(tmp_path) == {"ring/why-ring": "A bottleneck"}
