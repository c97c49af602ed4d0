"""Files of every kind are foreign data: whatever they hold, the command that reads them says so, and steers no terminal."""

import re
from pathlib import Path

import mutated_files
import pytest

from ddpquiz.diagnosis.job_diagnosis import diagnose_job
from ddpquiz.errors import UserError
from ddpquiz.events.run_state import RunState
from ddpquiz.jobs.job_reader import read_job

DATA = Path(__file__).parents[1] / "data"
TEXTS = sorted(
    path
    for path in [*DATA.glob("logs/*/*"), *DATA.glob("nccl/*/*"), *DATA.glob("stacks/*/*"), *DATA.glob("ras/*")]
    if path.is_file()
)


@pytest.mark.parametrize("kind", mutated_files.KINDS)
def test_a_mutated_file_is_read_or_refused_in_a_sentence(tmp_path, monkeypatch, scale, kind):
    monkeypatch.setenv("DDPQUIZ_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    wrong, read, _ = mutated_files.attack(kind, range(scale(15, 1500)), tmp_path)
    assert wrong == []
    assert read


def test_a_count_of_a_ras_report_that_is_infinite_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("DDPQUIZ_HOME", str(tmp_path))
    assert mutated_files.attack("RAS", range(725, 726), tmp_path)[0] == []


def test_a_progress_file_whose_header_names_a_format_that_sqlite_never_wrote_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("DDPQUIZ_HOME", str(tmp_path))
    assert mutated_files.attack("progress file", range(707, 708), tmp_path)[0] == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(DATA)))
def test_a_number_may_have_any_length_wherever_one_stands(tmp_path, scale, path):
    lines = path.read_text("utf-8", errors="replace").splitlines(keepends=True)
    places = {re.sub(r"\d+", "N", line): number for number, line in enumerate(lines) if re.search(r"\d", line)}
    judged = []  # most numbers change nothing of what is read, and to judge thousands of ranks takes long
    for number in list(places.values())[: 200 : scale(5, 1)]:
        for digits in re.finditer(r"\d+", lines[number]):
            line = lines[number][: digits.end()] + "7" * 5000 + lines[number][digits.end() :]
            foreign = tmp_path / path.name
            foreign.write_text("".join([*lines[:number], line, *lines[number + 1 :]]), "utf-8")
            try:
                record = read_job([foreign])
                if record not in judged:
                    judged.append(record)
                    diagnose_job(record, RunState.after(record.events))
            except UserError:
                pass
