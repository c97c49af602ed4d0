"""How long demos took is kept beside the progress, and never in the way of a run."""

import pytest

from ddpquiz.learning.timings import FILE, Timing, keep, timings


def test_the_last_run_of_each_demo_is_kept(tmp_path):
    home = tmp_path / "not there yet"
    assert timings(home) == {}
    keep(home, "ddp", Timing(9.0, 2))
    keep(home, "allreduce", Timing(1.25, 4, ("--size", "8")))
    keep(home, "ddp", Timing(2.5, 8))
    assert timings(home) == {"allreduce": Timing(1.25, 4, ("--size", "8")), "ddp": Timing(2.5, 8)}
    assert [path.name for path in home.iterdir()] == [FILE]


@pytest.mark.parametrize(
    "text", ["", "[", "[]", "null", '{"ddp": 3}', '{"ddp": {"seconds": "soon", "ranks": 4, "args": []}}', "\x00"]
)
def test_a_file_that_is_not_ours_says_nothing_and_is_replaced(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    assert timings(tmp_path) == {}
    keep(tmp_path, "ddp", Timing(2.5, 4))
    assert timings(tmp_path) == {"ddp": Timing(2.5, 4)}


def test_a_folder_that_cannot_be_written_is_no_fault(tmp_path):
    (tmp_path / "file").touch()
    keep(tmp_path / "file" / "home", "ddp", Timing(2.5, 4))
    assert timings(tmp_path / "file" / "home") == {}
