"""Files of every kind are foreign data: whatever they hold, the command that reads them says so, and steers no terminal."""

import mutated_files
import pytest


@pytest.mark.parametrize("kind", mutated_files.KINDS)
def test_a_mutated_file_is_read_or_refused_in_a_sentence(tmp_path, monkeypatch, scale, kind):
    monkeypatch.setenv("DDPQUIZ_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    wrong, read, _ = mutated_files.attack(kind, range(scale(15, 1500)), tmp_path)
    assert wrong == []
    assert read


def test_a_progress_file_whose_header_names_a_format_that_sqlite_never_wrote_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("DDPQUIZ_HOME", str(tmp_path))
    assert mutated_files.attack("progress file", range(707, 708), tmp_path)[0] == []
