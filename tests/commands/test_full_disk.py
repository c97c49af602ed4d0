"""What is said where nothing more can be written: one sentence that names the place, for every command that writes."""

import re
import resource
import shutil
import subprocess
import sys

import pytest
from run_program import SAMPLE, environment, piped

WRITING = [
    "pack new mine",
    "site pages",
    "run --plain -n 1 --save run.json script.py",
    "run --plain -n 1 --save run.html script.py",
    "demo allreduce --copy .",
    "diagnose log.txt --save verdict.html",
    "lab ring-all-reduce --dir files",
    "study",
    "import progress.json",
]


SENTENCE = (
    r"(mine|files|allreduce|verdict|home).* cannot be |cannot be written to pages|^No folder takes temporary files"
)


def write_nothing():
    """Let every write into a file fail, as on a full disk; Python ignores the signal that comes with it."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.parametrize("words", WRITING)
def test_a_command_says_in_one_sentence_that_the_disk_takes_nothing(words, tmp_path):
    home = tmp_path / "home"
    piped(home, "study", lines="\n3\n")
    (tmp_path / "progress.json").write_text(piped(home, "export", "json").stdout)
    (tmp_path / "script.py").write_text("print('here: 1')\n")
    (tmp_path / "log.txt").write_text('Traceback (most recent call last):\n  File "a.py", line 1\nValueError: x\n')
    if words.startswith("import"):
        shutil.rmtree(home)
    done = subprocess.run(
        [sys.executable, SAMPLE, *words.split()],
        input="\n3\n", capture_output=True, text=True, env=environment(home), cwd=tmp_path, timeout=120,
        preexec_fn=write_nothing,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert re.search(SENTENCE, done.stderr)
    unfinished = [path for pattern in ("mine", "files/*", "allreduce*") for path in tmp_path.glob(pattern)]
    assert not unfinished  # which a second try would take for a pack or the learner's own file
    if words.startswith("diagnose"):
        assert done.stdout.startswith(
            "The cause is not known\nThe last thing in this log is"
        )  # it is shown all the same


def test_what_was_measured_is_printed_where_it_cannot_be_saved(tmp_path):
    home = tmp_path / "home"
    home.write_text("")  # in the place of the folder
    words = [
        "bench",
        "--op",
        "all_reduce",
        "--sizes",
        "8..32",
        "-n",
        "2",
        "--seconds",
        "1",
        "--device",
        "cpu",
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, SAMPLE, *words], capture_output=True, text=True, env=environment(home), cwd=tmp_path,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert '"all_reduce"' in done.stdout
    assert re.search("^.*home.* cannot be written .*so these times were not saved", done.stderr.splitlines()[-1])
