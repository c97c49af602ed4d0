"""`ddpquiz demo`, `run` and `prove` as whole processes: what they print, and with which status they end."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import run_program
import template
from inline_snapshot import snapshot

from ddpquiz.curriculum.demo_scripts import demos
from ddpquiz.learning.side_files import load_timings
from ddpquiz.paths import demos_dir

PYTHON = sys.executable
ENV = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")} | {
    "TERM": "xterm-256color"
}


def ddpquiz(*args, **more):
    return subprocess.run(
        [PYTHON, "-m", "ddpquiz", *args], capture_output=True, text=True, timeout=120, env=ENV, **more
    )


def test_a_demo_in_a_pipe_prints_plain_lines():
    ran = ddpquiz("demo", "allreduce", "--nproc", "2", "--", "--size", "4")
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[0] == snapshot("All-reduce: every rank brings a tensor, and every rank leaves with the sum.")
    assert lines[1].startswith("2 ranks on ")
    assert "rank 1  bytes sent (ring): 16" in lines
    assert lines[-1].startswith("done in ")
    assert "\x1b" not in ran.stdout


def test_json_is_one_event_a_line_and_nothing_else():
    ran = ddpquiz("demo", "allreduce", "--nproc", "2", "--json")
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    assert events[0]["event"] == "run"
    assert events[-1]["event"] == "end"
    assert events[-1]["ok"] is True
    assert {event["rank"] for event in events if event["event"] == "claim"} == {0, 1}


def test_a_saved_run_comes_as_json_where_that_is_asked_for(tmp_path):
    path = tmp_path / "run.json"
    ddpquiz("demo", "launch", "--nproc", "2", "--save", path)
    ran = ddpquiz("demo", "--replay", path, "--json")
    assert sorted(ran.stdout.splitlines()) == sorted(path.read_text(encoding="utf-8").splitlines())


def test_a_demo_in_a_terminal_leaves_its_last_frame_there():
    terminal = run_program.ddpquiz("demo", "allreduce", "--nproc", "4", "--no-predict", height=60)
    assert terminal.end() == 0
    lines = terminal.lines
    head = max(at for at, line in enumerate(lines) if line.startswith("4 ranks on "))  # pyte keeps live frames too
    assert lines[head + 2].split() == ["rank", "0", "rank", "1", "rank", "2", "rank", "3"]
    assert any(line.startswith("✓ every rank ") for line in lines)
    assert any(line.startswith("To run it without ddpquiz: torchrun --nproc-per-node 4 ") for line in lines)


def test_a_broken_run_ends_with_status_1(tmp_path):
    script = tmp_path / "bad.py"
    script.write_text("raise ValueError('bad')\n")
    ran = ddpquiz("run", "--nproc", "1", str(script))
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout.splitlines()[-3] == snapshot("Rank 0 raised ValueError at bad.py:1: bad")


def test_arguments_after_the_dashes_are_the_scripts(tmp_path):
    script = tmp_path / "args.py"
    script.write_text("import sys\nprint('argv:', sys.argv[1:])\n")
    ran = ddpquiz("run", "--nproc", "1", str(script), "--", "--nproc", "9", "-x", "--", "y")
    assert "rank 0  argv: ['--nproc', '9', '-x', '--', 'y']" in ran.stdout


SLOW = "import time\nprint('state: sleeping', flush=True)\ntime.sleep(60)\n"


def test_ctrl_c_in_a_terminal_ends_the_run_and_prints_what_was_seen(tmp_path):
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    terminal = run_program.ddpquiz("run", "--nproc", "2", str(script))
    terminal.wait("^state +sleeping +sleeping$")
    terminal.press("\x03")
    assert terminal.end() == 130
    assert "\nYou stopped the run.\n" in terminal.text


def test_many_lines_are_printed_as_fast_as_they_come(tmp_path, scale):
    """Only what was quadratic, or took a millisecond a line, would run into the limit."""
    lines = scale(20_000, 100_000)
    script = tmp_path / "talk.py"
    script.write_text(f"for i in range({lines}):\n    print(i)\n")
    ran = ddpquiz("run", str(script), "--nproc", "1", "--plain")
    assert [line for line in ran.stdout.splitlines() if line.startswith("rank 0  ")] == [
        f"rank 0  {number}" for number in range(lines)
    ]


def test_ctrl_c_in_a_pipe_ends_the_run_and_prints_what_was_seen(tmp_path):
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    child = subprocess.Popen(
        [PYTHON, "-m", "ddpquiz", "run", "--nproc", "1", script], stdout=subprocess.PIPE, text=True
    )
    while "sleeping" not in (line := child.stdout.readline()):
        assert line
    child.send_signal(signal.SIGINT)
    assert "You stopped the run." in child.stdout.read()
    assert child.wait(10) == 130


def test_a_reader_that_goes_away_ends_the_run(tmp_path):
    script = tmp_path / "talk.py"
    script.write_text("for i in range(100000):\n    print(i)\n")
    command = f"{PYTHON} -m ddpquiz run --nproc 2 {script} | head -3"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert len(ran.stdout.splitlines()) == 3
    assert "Traceback" not in ran.stderr


REFUSED = {
    ("demo", "allredcue"): (1, "No demo named 'allredcue'. Did you mean 'allreduce'?"),
    ("demo", "zzz"): (1, "No demo named 'zzz'. `ddpquiz demo` lists them."),
    ("run", "missing.py"): (1, "There is no script missing.py."),
    ("demo", "allreduce", "--nproc", "0"): (1, "--nproc is 0, but one machine runs 1 to 64 ranks."),
}


@pytest.mark.parametrize("args", REFUSED, ids=" ".join)
def test_what_cannot_run_is_refused_in_one_sentence(args, tmp_path):
    ran = ddpquiz(*args, cwd=tmp_path)
    assert (ran.returncode, ran.stderr.strip()) == REFUSED[args]
    assert ran.stdout == ""


def test_demo_names_the_command_that_runs_a_script_of_ones_own(tmp_path):
    (tmp_path / "train.py").touch()
    ran = ddpquiz("demo", "train.py", cwd=tmp_path)
    assert ran.stderr == "No demo named 'train.py'. `ddpquiz run train.py` runs a script of your own.\n"


def test_a_wrong_device_is_wrong_usage():
    ran = ddpquiz("demo", "allreduce", "--device", "tpu")
    assert ran.returncode == 2
    assert "'tpu' is not one of auto, cpu, cuda" in ran.stderr


def test_a_copy_of_a_demo_can_be_run_and_is_never_written_over(tmp_path):
    assert ddpquiz("demo", "launch", "--copy", str(tmp_path)).returncode == 0
    assert ddpquiz("run", "--nproc", "2", str(tmp_path / "launch.py")).returncode == 0
    again = ddpquiz("demo", "launch", "--copy", str(tmp_path))
    assert again.returncode == 1
    assert again.stderr.startswith(f"{tmp_path / 'launch.py'} already exists")


def test_every_demo_is_listed_with_what_it_shows():
    ran = ddpquiz("demo")
    assert ran.returncode == 0, ran.stderr
    for demo in demos(demos_dir()):
        first, *_ = demo.summary.split()
        assert any(line.split()[:2] == [demo.name, first] for line in ran.stdout.splitlines())


def test_the_list_says_how_long_a_demo_took_once_it_ended_well(tmp_path, monkeypatch):
    monkeypatch.setitem(ENV, "DDPQUIZ_HOME", str(tmp_path))

    def times():
        return re.findall(r"[0-9.]+ s on [0-9] ranks?", " ".join(ddpquiz("demo").stdout.split()))

    assert ddpquiz("demo", "launch", "--nproc", "2", "--", "--missing", "9").returncode == 1
    assert times() == []
    assert ddpquiz("demo", "launch", "--nproc", "2").returncode == 0
    seconds = load_timings(tmp_path)["launch"].seconds
    assert times() == [f"{seconds:.1f} s on 2 ranks"]


def doctor(home, **more):
    env = ENV | {"DDPQUIZ_HOME": str(home)} | more
    return subprocess.run([PYTHON, "-m", "ddpquiz", "doctor"], capture_output=True, text=True, timeout=120, env=env)


def test_the_doctor_ends_with_a_real_all_reduce(tmp_path):
    ran = doctor(tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "two ranks summed 1 and 2 to 3" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "No problems found."


def test_the_doctor_says_apart_from_its_checks_what_an_older_torch_cannot_run(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "from ddpquiz.ranks import installed_torch\ninstalled_torch.OLDEST_TAUGHT = 99, 0\n"
    )
    ran = doctor(tmp_path, PYTHONPATH=str(tmp_path))
    assert "\nnote torch     Demos, labs, proofs and listings of lessons need torch 99.0 or newer, and " in ran.stdout
    assert ran.stdout.endswith("\nNothing else is wrong.\n")
    assert "a demo would run" not in ran.stdout
    assert ran.returncode == 0


def test_the_doctor_names_a_data_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    ran = doctor(tmp_path / "file" / "home")
    assert ran.returncode == 1
    assert f"BAD  data      {tmp_path / 'file' / 'home'} is not writable" in ran.stdout


def test_the_doctor_names_a_package_that_is_not_installed(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "from importlib import metadata\n"
        "def missing(name):\n    raise metadata.PackageNotFoundError(name)\n"
        "metadata.version = missing\n"
    )
    ran = doctor(tmp_path, PYTHONPATH=str(tmp_path))
    assert ran.returncode == 1
    assert "BAD  packages  typer is not installed in " in ran.stdout
    assert "two ranks summed 1 and 2 to 3" in ran.stdout


def test_the_doctor_goes_on_where_a_package_cannot_be_imported(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['yaml'] = None\n")
    ran = doctor(tmp_path, PYTHONPATH=str(tmp_path))
    assert (ran.returncode, "Traceback" in ran.stderr) == (1, False)
    assert "BAD  content   import of yaml halted" in ran.stdout
    assert "two ranks summed 1 and 2 to 3" in ran.stdout


def test_a_proof_is_shown_with_what_was_observed():
    from ddpquiz.curriculum.loading import load

    concept = load().concept("data-parallelism")
    proven = {question.id for question in concept.questions if question.proof}
    card = next(card for card in concept.cards if card.proof in proven)
    for item in (card.key, f"{card.concept}/{card.proof}"):
        ran = ddpquiz("prove", item, "--seed", "1")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "observed" in ran.stdout
        assert "✓" in ran.stdout


def test_a_missing_torch_is_said_in_a_sentence(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    ran = subprocess.run(
        [PYTHON, "-m", "ddpquiz", "demo", "allreduce"],
        capture_output=True,
        text=True,
        timeout=60,
        env=ENV | {"PYTHONPATH": str(tmp_path)},
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == snapshot(
        "torch is not installed, and demos run on it; install it as pytorch.org/get-started says.\n"
    )


def test_asserts_that_python_drops_are_refused():
    ran = subprocess.run(
        [PYTHON, "-O", "-m", "ddpquiz", "demo", "allreduce"], capture_output=True, text=True, timeout=60, env=ENV
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == snapshot(
        "Python runs with -O, which drops the asserts that demos make; start it without -O.\n"
    )


def test_a_demo_that_does_not_fit_waits_for_its_reader_and_can_be_stepped_through():
    terminal = run_program.ddpquiz("demo", "allreduce", "--no-predict", height=20)
    terminal.wait("step through")
    terminal.press("t", "ddpquiz demo allreduce -- --sweep")
    terminal.press("t", "step through")
    terminal.press("\x1b[F", "more above")  # scroll to the end; the steps are seen from their top all the same
    terminal.press("\x1b[C", "^All-reduce: every rank brings", "call 0 of", "q end")
    terminal.press("q", "step through")
    terminal.press("\r", "To run it without ddpquiz: torchrun")
    assert terminal.end() == 0


def test_a_demo_explains_its_knobs():
    ran = ddpquiz("demo", "allreduce", "--", "--help")
    assert ran.returncode == 0
    assert ran.stdout.startswith("All-reduce: every rank brings a tensor")
    assert (
        "\n  ddpquiz demo allreduce -- --size 6\n      a tensor that does not divide evenly among 4 ranks\n"
        in ran.stdout
    )
    assert "--size" in ran.stdout.partition("options:")[2]
    assert ddpquiz("demo", "allreduce", "--help").stdout == ran.stdout
    assert ddpquiz("demo", "--help").stdout.startswith("Usage: ddpquiz demo")


def test_what_is_to_try_next_stands_below_the_last_frame_as_commands():
    terminal = run_program.ddpquiz("demo", "launch", "--nproc", "2", "--no-predict", height=70)
    assert terminal.end() == 0
    shown = "\nTry next\n  ddpquiz demo launch -- --late 1\n      rank 1 is late: how long do the others wait?\n"
    assert shown in terminal.text


def test_a_demo_whose_own_command_has_restarts_gets_them():
    ran = ddpquiz("demo", "elastic", "--nproc", "2", "--json")
    assert ran.returncode == 0, ran.stderr
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    starts = [(event["rank"], event["restart"]) for event in events if event["event"] == "start"]
    assert sorted(starts) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    again = events.index(next(event for event in events if event["event"] == "start" and event["restart"]))
    assert "all_reduce" in {event.get("op") for event in events[:again]} & {event.get("op") for event in events[again:]}
    assert "--max-restarts 1 " in ddpquiz("demo", "elastic", "--emit", "torchrun").stdout


@pytest.mark.parametrize("demo", ["allreduce", "elastic"])
def test_a_reader_that_goes_early_ends_the_run_and_nothing_around_it(demo):
    """One process group holds the shell too, as in a script: whatever ends the ranks must not end that."""
    line = f"{PYTHON} -m ddpquiz demo {demo} | head -n 1; echo and on"
    ran = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=60, env=ENV, start_new_session=True
    )
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "and on")


def test_a_replay_may_be_asked_for_before_or_after_the_name_but_not_without_one():
    before = ddpquiz("demo", "--replay", "allreduce", "--json")
    after = ddpquiz("demo", "allreduce", "--json", "--replay")
    assert before.returncode == after.returncode == 0
    assert json.loads(before.stdout.splitlines()[0])["script"].endswith("allreduce.py")
    assert before.stdout == after.stdout
    ran = ddpquiz("demo", "--replay")
    assert ran.returncode == 2
    assert "Name one demo or file: `ddpquiz demo --replay allreduce`" in ran.stderr


@pytest.fixture
def args_script(tmp_path):
    script = tmp_path / "args.py"
    script.write_text("import sys\nprint('argv:', sys.argv[1:])\n")
    return str(script)


def test_everything_after_the_script_is_the_scripts(args_script):
    ran = ddpquiz("run", "-n", "1", args_script, "--device=tpu", "-lr", "0.1", "x", "--", "--plain", "--help")
    assert ran.returncode == 0, ran.stderr
    assert "rank 0  argv: ['--device=tpu', '-lr', '0.1', 'x', '--', '--plain', '--help']" in ran.stdout


def test_an_option_of_ours_that_a_script_does_not_mention_is_noted(args_script):
    words = ("--epochs=2", "--nproc", "1", "-n2", "--summary")
    ran = ddpquiz("run", "--plain", args_script, *words)
    note = (
        f"Note: {args_script} receives --nproc 1 -n2 --summary. If that is meant for ddpquiz: "
        f"ddpquiz run --plain --nproc 1 -n2 --summary {args_script} --epochs=2\n"
    )
    assert ran.stderr == 2 * note  # before and after what the ranks print
    assert ddpquiz("run", "--emit", "torchrun", args_script, "-n", "2").stderr.count("Note: ") == 1
    assert ddpquiz("run", "no-such.py", "-n", "2").stderr.count("Note: ") == 1
    quiet = ddpquiz("run", "-n", "1", args_script, "--", "--nproc", "1")
    assert (quiet.returncode, quiet.stderr) == (0, "")


def test_an_option_that_a_script_rejects_is_noted_below_what_the_run_says(tmp_path):
    script = tmp_path / "strict.py"
    script.write_text("import argparse\nargparse.ArgumentParser().parse_args()\n")
    terminal = run_program.ddpquiz("run", "--no-stay", str(script), "-n", "2", width=300)
    assert terminal.end() == 1
    said = " ".join(terminal.lines)
    noted = said.rindex("receives -n 2. If that is meant for ddpquiz: ddpquiz run --no-stay -n 2 ")
    assert noted > said.index("The script rejects its arguments: unrecognized arguments: -n 2.")


@pytest.mark.parametrize(
    ("reads", "given"), [("'--device'", "--device=cpu"), ("'-n'", "-n2"), ("'--max_restarts'", "--max-restarts")]
)
def test_an_option_that_a_script_mentions_is_passed_without_a_note(tmp_path, reads, given):
    script = tmp_path / "own.py"
    script.write_text(f"import argparse\nargparse.ArgumentParser().add_argument({reads})\n")
    ran = ddpquiz("run", "-n", "1", str(script), given)
    assert (ran.returncode, ran.stderr) == (0, "")


WRONG_SIDE = {
    "demo allreduce --chunks": "--chunks. Options of the demo go after --: `ddpquiz demo allreduce -- --chunks`",
    "demo ddp --steps 2 --nproc 3 -- --perturb 1": (
        "--steps. Options of the demo go after --: `ddpquiz demo ddp --nproc 3 -- --steps 2 --perturb 1`"
    ),
    "demo --nprocs 3": "--nprocs. Options of the demo go after --.",
    "run --epochs 2 train.py": "--epochs. Options of the script go after the script.",
}


@pytest.mark.parametrize("words", WRONG_SIDE)
def test_an_unknown_option_is_answered_with_the_right_command(words):
    ran = ddpquiz(*words.split())
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines()[-1] == f"Error: No such option: {WRONG_SIDE[words]}"


def test_options_of_a_demo_follow_the_dashes():
    ran = ddpquiz("demo", "ddp", "--nproc", "2", "--json", "--", "--perturb", "1", "--steps=2", "--nproc", "9")
    began = json.loads(ran.stdout.splitlines()[0])
    assert (began["ranks"], began["args"]) == (2, ["--perturb", "1", "--steps=2", "--nproc", "9"])


@pytest.mark.parametrize("command", ["demo", "run"])
def test_the_help_says_where_options_go(command):
    said = " ".join(ddpquiz(command, "--help").stdout.split())
    assert f"Options of ddpquiz go before {'--' if command == 'demo' else 'SCRIPT'}" in said
    assert "[default: `run` does; `demo` does if the page does not fit on the screen]" in said


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
@pytest.mark.parametrize("words", [("demo", "nosuch"), ("run", "nosuch.py")])
def test_a_refused_command_leaves_no_process_behind(tmp_path, words):
    """To import torch is begun before the command line is parsed."""
    with template.real_starts():
        done = subprocess.run(
            [PYTHON, "-m", "ddpquiz", *words], capture_output=True, timeout=120, env=ENV | {"MARK": str(tmp_path)}
        )
    assert done.returncode == 1
    marked = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"MARK={tmp_path}".encode() in process.joinpath("environ").read_bytes():
                marked.append(process.joinpath("cmdline").read_bytes())
    assert marked == []


def test_who_predicts_and_then_tries_another_run_reads_which_run_the_explanation_is_about(tmp_path):
    terminal = run_program.ddpquiz("demo", "allreduce", home=tmp_path)
    asked = terminal.wait("^ 4  .* bytes$")
    (tensor,) = re.findall(r"take\s+up (\d+) bytes", asked)
    options = dict(re.findall(r"^ (\d)  (\d+) bytes$", asked, re.MULTILINE))
    wrong = next(number for number, size in options.items() if int(size) != int(tensor) * 6 / 4)
    terminal.press(wrong)
    terminal.press("\r", "^done in .*\n.*t try")
    terminal.press("t", "^Try next$")
    terminal.press("2", "arguments  --size 6(.*\n)+done in ")
    terminal.press("q")
    terminal.end()
    text = " ".join(" ".join(terminal.lines).split())
    assert "Why the first run, which you predicted, shows that" in text
    suggested = text.partition("Try next")[2]
    assert "demo allreduce -- --root" in suggested
    assert "-- --size 6" not in suggested
