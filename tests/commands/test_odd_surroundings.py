"""Names with newlines, pipes in the place of files, zones and folders that cannot be: commands say so, and none waits."""

import os
from pathlib import Path

import pytest
from run_program import piped

from ddpquiz.cli.site import site
from ddpquiz.curriculum import loading
from ddpquiz.errors import UserError
from ddpquiz.learning.database import list_backups

ODD = "x\x1b[31m\ny"


@pytest.mark.parametrize("zone", ["AAA-24", "AAA24:59", "<+99>-24:59:59"])
def test_a_zone_a_day_away_from_utc_is_taken_for_utc(home, zone):
    for words in (["stats"], []):
        shown = piped(home, *words, TZ=zone)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert shown.stdout == piped(home, *words, TZ="UTC").stdout


NAMED = {
    "demo": [ODD], "import": [ODD], "run": [f"{ODD}.py"], "lab": [ODD], "diagnose": [ODD], "show": [ODD],
    "learn": [ODD], "compare": [ODD, ODD], "plan": ["--model", ODD, "--gpus", "8"], "export": ["json", "--to", f"{ODD}/x"],
    "site": [f"/dev/null/{ODD}"],
}  # fmt: skip


@pytest.mark.parametrize("command", NAMED)
def test_a_name_with_a_newline_is_refused_in_one_line(home, command):
    refused = piped(home, command, *NAMED[command])
    assert (refused.returncode, refused.stdout) == (1, "")
    assert r"x[31m\ny" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_names_of_files_stand_in_one_line_of_a_page(home, tmp_path):
    (home / "packs" / ODD).mkdir(parents=True)
    assert piped(home, "pack", "list").stdout.startswith(r"x[31m\ny  cannot be read, and is left out: ")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / f"{ODD}.py").write_text("print(1)\n")
    (logs / "rank0.log").write_text("step 1\n")
    assert r"left out: x[31m\ny.py." in piped(home, "diagnose", str(logs)).stdout


@pytest.mark.parametrize("name", ["progress.db", "progress.db-shm"])
def test_a_pipe_in_the_place_of_the_progress_is_refused(home, name):
    piped(home, "stats")
    (home / name).unlink(missing_ok=True)
    os.mkfifo(home / name)
    refused = piped(home, "stats")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == f"{home / name} is a pipe or a device; remove it, or set DDPQUIZ_HOME to another folder.\n"


def test_pipes_in_the_place_of_backups_and_side_files_are_left_alone(home):
    (home / "backups").mkdir(parents=True)
    pipes = [home / "timings.json", home / "packs.json", home / "backups/progress-2026-01-01.db"]
    for pipe in pipes:
        os.mkfifo(pipe)
    for words in (["stats"], ["demo"], ["pack", "list"]):
        assert piped(home, *words).returncode == 0
    assert [*list_backups(home)] == []
    assert all(pipe.is_fifo() for pipe in pipes)


PIPES = {
    "compare": ([], "is incomplete"),
    "run": ([], "is a pipe or a device"),
    "plan": (["--gpus", "8", "--model"], "is a pipe or a device"),
    "import": ([], "is not valid JSON"),
    "diagnose": ([], "is a pipe or a device"),
}


@pytest.mark.parametrize("command", PIPES)
def test_no_command_waits_for_a_pipe_to_which_nobody_writes(home, tmp_path, command):
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    words, text = PIPES[command]
    refused = piped(home, command, *words, str(pipe), *[str(pipe)] * (command == "compare"))
    assert refused.returncode == 1
    assert f"{pipe} {text}" in refused.stderr


@pytest.mark.parametrize("place", ["/dev/null", "/dev/null/x", "/proc/x"])
def test_the_folder_of_a_site_is_tried_before_its_pages_are_made(monkeypatch, place):
    monkeypatch.setattr(loading, "load", lambda: pytest.fail("pages were made"))
    with pytest.raises(UserError, match=place):
        site(Path(place))
