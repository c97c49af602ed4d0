"""What a demo says to try next, as commands that can be pasted."""

import pytest

from ddpquiz.curriculum.demo_scripts import read_demo
from ddpquiz.events.event import Began
from ddpquiz.paths import demos_dir
from ddpquiz.terminal.runs.script import Suggestion, of_script, suggestions

DEMOS = sorted(path.stem for path in demos_dir().glob("*.py"))
ABOUT = '''"""A title.

Try    --fast 3       twice as fast,
                      and half as warm
       on 1 rank, then 8    other numbers of ranks
"""
'''


def test_arguments_and_numbers_of_ranks_become_commands(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(ABOUT)
    assert of_script(str(script)) == (
        Suggestion(f"ddpquiz run {script} -- --fast 3", ("--fast", "3"), shows="twice as fast, and half as warm"),
        Suggestion(f"ddpquiz run --nproc 1 {script}", ranks=1),
        Suggestion(f"ddpquiz run --nproc 8 {script}", ranks=8, shows="other numbers of ranks"),
    )
    began = Began(str(script), (), 2, "cpu", "gloo", "2 ranks", module="mine")
    assert suggestions(began)[0].command == "ddpquiz run -m mine -- --fast 3"


@pytest.mark.parametrize("text", ["", "def broken(", '"""A title."""\n'])
def test_a_script_that_suggests_nothing_has_nothing_to_try(tmp_path, text):
    script = tmp_path / "mine.py"
    script.write_text(text)
    assert of_script(str(script)) == ()
    assert of_script(str(tmp_path / "none.py")) == ()


@pytest.mark.parametrize("name", DEMOS)
def test_every_demo_names_things_to_try_with_flags_that_it_has(name):
    found = of_script(str(demos_dir() / f"{name}.py"))
    assert len(found) >= 3
    flags = set(read_demo(demos_dir() / f"{name}.py").flags)
    for each in found:
        assert each.command.startswith(f"ddpquiz demo {name} ")
        assert {word for word in each.args if word.startswith("--")} <= flags
        assert ("--nproc" in each.command) == bool(each.ranks)
