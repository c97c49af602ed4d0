"""What holds for all commands: how they fail, and what they load."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from places import TESTS
from run_program import SAMPLE, environment, piped

from ddpquiz.cli.app import _COMMANDS


def test_rebuilding_says_what_it_did(home):
    piped(home, "study", lines="\n3\n\n1\n")
    assert piped(home, "progress", "rebuild").stdout == snapshot("2 cards from 2 rows of the log; nothing changed.\n")
    with sqlite3.connect(home / "progress.db") as database:
        database.execute("UPDATE card SET due = '2001-01-01' WHERE item = 'ring/one'")
    database.close()
    assert piped(home, "progress", "rebuild").stdout == snapshot("2 cards from 2 rows of the log; 1 of them changed.\n")


@pytest.mark.parametrize("group", ["pack", "progress"])
def test_a_group_of_commands_alone_shows_its_help_and_no_error(home, group):
    done = piped(home, group)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{piped(home, group, '--help').stdout}"
    assert "Error" not in done.stderr
    assert "..." not in done.stderr.partition("Commands:")[2]  # every line says its whole sentence


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("study", "rang"), "No concept named 'rang'. Did you mean 'ring'?\n"),
        (("study", "--track", "x"), "There is no track `x`; tracks are collectives.\n"),
        (("demo", "ring"), "No demo named 'ring'. Did you mean 'allreduce'?\n"),
        (("demo", "no-such"), "No demo named 'no-such'. `ddpquiz demo` lists them.\n"),
        (
            ("test", "ddp", "--level", "hard"),
            "No question matches; leave out --level, or name another concept.\n",
        ),
    ],
)
def test_what_does_not_exist_is_reported_in_a_sentence(home, words, complaint):
    done = piped(home, *words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", complaint)


@pytest.mark.parametrize("words", [("study", "--level", "x"), ("test", "--level", "x"), ("study", "--count", "0")])
def test_wrong_usage_is_status_two(home, words):
    assert piped(home, *words).returncode == 2


def test_a_sitting_loads_neither_torch_nor_a_markdown_parser(home):
    script = f"""
import runpy, sys
sys.argv = ["ddpquiz", "study"]
try:
    runpy.run_path({SAMPLE!r}, run_name="__main__")
except SystemExit:
    pass
heavy = {{name.split(".")[0] for name in sys.modules}} & {{"torch", "markdown_it", "pydantic", "pygments"}}
print(sorted(heavy), "rich.markdown" in sys.modules, file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        input="\n3\n",
        capture_output=True,
        text=True,
        env=environment(home, PYTHONPATH=str(TESTS / "helpers")),
    )
    assert done.stderr == "[] False\n"


PRINTING = (
    *("", "--help", "study", "test ring", "learn ring", "explain ring", "demo", "demo allreduce --help", "run --help"),
    *("prove --help", "list", "search ring", "show ring/one", "stats", "optimize --help", "export csv", "export json"),
    *(
        "import progress.json",
        "check --help",
        "doctor --help",
        "watch --help",
        "where --help",
        "diagnose --help",
        "bench --help",
        "compare --help",
        "plan --help",
        "progress rebuild",
        "progress restore-backup --list",
        "lab --help",
        "pack list",
        "site --help",
    ),
)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_every_command_says_in_one_sentence_that_its_output_cannot_be_written(tmp_path):
    home = tmp_path / "home"
    piped(home, "study", lines="\n3\n")
    (tmp_path / "progress.json").write_text(piped(home, "export", "json").stdout)
    assert {*_COMMANDS} == {words.split()[0] for words in PRINTING if words} - {"--help"}
    wrong = {}
    for words in PRINTING:
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, SAMPLE, *words.split()],
                input="The root\n" if "explain" in words else "\n3\n",
                stdout=full, stderr=subprocess.PIPE, text=True, env=environment(home), cwd=tmp_path, timeout=120,
            )  # fmt: skip
        if (done.returncode, done.stderr) != (1, "Standard output cannot be written: No space left on device.\n"):
            wrong[words] = (done.returncode, done.stderr[-300:])
    assert wrong == {}
