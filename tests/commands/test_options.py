"""The help of ddpquiz, and options: one name for one thing in every command, and old names that go on working."""

import re

import pytest
import typer
from inline_snapshot import snapshot
from run_program import piped

from ddpquiz.cli import app
from ddpquiz.cli.typer_options import _OLD_NAMES

COMMANDS = typer.main.get_command(app.app).commands


def options():
    """Yield each option with the name of its command."""
    for name, command in COMMANDS.items():
        for one in (command, *getattr(command, "commands", {}).values()):
            yield from ((name, option) for option in one.params if option.opts[0][0] == "-")


def test_the_help_lists_the_commands_by_what_they_are_for(home):
    assert piped(home, "--help").stdout == snapshot("""\
Usage: ddpquiz [OPTIONS] COMMAND [ARGS]...

  Learn distributed training: recall cards, quizzes, and demos that run real
  ranks on this machine.

Options:
  --version             Show the version.
  --install-completion  Install completion for the current shell.
  --show-completion     Show completion for the current shell, to copy it or
                        customize the installation.
  -h, --help            Show this message and exit.

Learn:
  learn     Learn a concept step by step; go on where you left off.
  study     Review cards: first those that are due, then new ones.
  test      Answer questions, and see why each wrong answer is wrong.
  explain   Explain a concept in your own words, then see a model answer.
  demo      Run a demo on real ranks, live, or list the demos.
  lab       Write a distributed program; real ranks check each save.

Look up:
  list      List the curriculum, or the items of one concept.
  search    Search concepts, demos, labs, cards and questions.
  show      Show a card or question with its answer, steps, source and proof.
  prove     Run the proof behind an answer on real ranks.
  stats     Show what you remember, what comes due, and what you know well.

Your jobs:
  run       Run a script of your own on this machine, and watch its ranks.
  watch     Watch a job live while ddpquiz.record records it.
  where     Find the rank that is not where the others are waiting, right now.
  diagnose  Find out why a job hangs or failed, from its logs or stacks.
  compare   Compare two saved runs: what got slower or faster, what is new.
  plan      Predict memory, traffic and time on GPUs that you do not have.
  bench     Measure the collectives of this machine: time and bandwidth.
  `python -m ddpquiz.record` records a job that another launcher starts.

Your data:
  progress  Restore a backup or hidden cards; recompute when cards are due.
  export    Export your progress, or export the cards to Anki.
  import    Add progress that was exported elsewhere.
  optimize  Adapt the review schedule to how well you remember.

Content:
  check     Check content files, and list every problem.
  pack      Add concepts, demos and labs by others, or make a pack.
  site      Write the curriculum as a static site.

This machine:
  doctor    Check what this machine can do.

  Without a command, ddpquiz shows what is due, where you are strong and weak,
  and what to do next.
""")


def test_the_help_names_each_command_once_on_a_line_of_its_own(home):
    listed = re.findall(r"^  ([a-z]+) +[A-Z].*\.$", piped(home, "--help").stdout, re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)


def test_n_means_the_number_of_ranks_wherever_it_is_shown():
    for name, option in options():
        assert ("-n" in option.opts) == ("--nproc" in option.opts), name


def test_how_many_and_how_hard_have_one_name_in_every_command():
    names = {name: option for name, option in options() if {"--count", "--level"} & {*option.opts}}
    assert {*names} == {"study", "test", "search"}
    shown = {name for _, option in options() for name in option.opts}
    assert not shown & {"--limit", "--number", "--ranks", "--difficulty", "--view"}
    levels = {option.metavar for _, option in options() if "--level" in option.opts}
    assert levels == {"<easy|medium|hard>"}


@pytest.mark.parametrize(("command", "old"), [(name, old) for name, names in _OLD_NAMES.items() for old in names])
def test_no_help_shows_an_old_name(home, command, old):
    said = piped(home, command, "--help").stdout
    assert f"{_OLD_NAMES[command][old]} " in said
    assert not re.search(rf"(?<![\w-]){old}\b", said)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("study ring --limit 2", "study ring --count 2"),
        ("study ring --limit=2", "study ring --count=2"),
        ("study ring --level beginner", "study ring --level easy"),
        ("study ring --level intermediate", "study ring --level medium"),
        ("study ring --level advanced", "study ring --level hard"),
        ("search ring --limit 1", "search ring --count 1"),
        ("search --limit 1 -- --limit", "search --count 1 -- --limit"),
        ("diagnose run.json --ranks 2 --view", "diagnose run.json -n 2 --step"),
        ("plan -n 64 --layout tp=8", "plan --gpus 64 --layout tp=8"),
        ("plan -n64 --layout tp=8", "plan --gpus 64 --layout tp=8"),
    ],
)
def test_an_old_name_or_value_still_does_what_it_did(home, old, new):
    before, now = (piped(home / words, *words.split(), lines="\n3\n") for words in (old, new))
    assert (before.returncode, before.stdout, before.stderr) == (now.returncode, now.stdout, now.stderr)
    assert now.returncode != 2


def test_an_old_name_is_answered_with_the_new_one(home):
    assert "for '--count': 0 is not in the range" in piped(home, "study", "--limit", "0").stderr
    assert "to continue: `ddpquiz study ring --level easy --count 2`." in " ".join(
        piped(home, "study", "ring", "--level", "beginner", "--limit", "2").stdout.split()
    )


@pytest.mark.parametrize("command", ["study", "test"])
def test_a_level_that_does_not_exist_is_answered_with_those_that_do(home, command):
    said = piped(home, command, "--level", "expert").stderr
    assert "Invalid value for '--level': `expert` is not a level; use easy, medium, hard.\n" in said
