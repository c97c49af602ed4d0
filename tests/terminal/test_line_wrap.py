"""How text breaks at the edge of the screen: what was one line of code can still be run, what was a sentence be read."""

import ast
import io
import itertools
import re
import subprocess

import passed
import pytest
from inline_snapshot import snapshot

from ddpquiz.curriculum import loading
from ddpquiz.paths import demos_dir
from ddpquiz.terminal.kit import grid, style
from ddpquiz.terminal.kit.highlight import python
from ddpquiz.terminal.kit.layout import Barred, columns, show

COMMAND = "torchrun --nproc-per-node 4 --local-ranks-filter 0 demos/allreduce.py --size 300"


def drawn(page, width, *, colored=False):
    console = style.console(io.StringIO(), width=width)
    console._color_system = style.Console(color_system="256")._color_system if colored else None
    with console.capture() as captured:
        show(console, columns([("", page)]))
    return "\n".join(line.strip() for line in captured.get().splitlines())


def folded(text, width):
    return "\n".join(str(line) for line in python(text).wrap(style.console(width=width), width))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("short = 1", ["short = 1"]),
        (
            "    outgoing, incoming = (rank - step) % size, (rank - step - 1) % size",
            ["    outgoing, incoming = (rank - step) % \\", "        size, (rank - step - 1) % size"],
        ),
        (
            "left = [slots - serial] * gpus  # of the first GPUs of a million",
            ["left = [slots - serial] * gpus  # of the", "    # first GPUs of a million"],
        ),
        ("x = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1]  # a", ["x = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1]", "    # a"]),
        (
            "total = add(first_of_them[0],second_of_them[1])",
            ["total = add(first_of_them[0], \\", "    second_of_them[1])"],
        ),
        (
            "    # a comment on a line of its own goes on as one",
            ["    # a comment on a line of its own goes", "    # on as one"],
        ),
        (
            'print("these words stay in one piece", rank)  # ok',
            ['print("these words stay in one piece", \\', "    rank)  # ok"],
        ),
    ],
)
def test_a_long_line_of_code_goes_on_further_in_behind_a_backslash(text, lines):
    assert folded(text, 42).splitlines() == lines


KNOWN = loading.load()
QUESTIONS = {concept.id: concept.questions for concept in KNOWN.concepts}
PROGRAMS = {
    **{path.stem: [path.read_text("utf-8")] for path in sorted(demos_dir().glob("*.py"))},
    **{
        name: [text for each in found for text in (each.code, getattr(each.proof, "code", ""))]
        for name, found in QUESTIONS.items()
    },
}


@pytest.mark.case("folded code", lambda name, **_: [PROGRAMS[name], passed.ROOT / "ddpquiz" / "terminal" / "kit"])
@pytest.mark.parametrize("width", [60, 76])
@pytest.mark.parametrize("name", PROGRAMS)
def test_folded_python_is_the_same_program(name, width):
    programs = PROGRAMS[name]
    for text in filter(None, programs):
        lines = folded(text, width)
        assert max(map(len, lines.splitlines())) <= width
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue  # it holds a place for the options
        if not any(len(word) > width // 3 for word in re.findall("\"[^\"\n]*\"|'[^'\n]*'", text)):  # strings may break
            assert ast.dump(ast.parse(lines)) == ast.dump(tree)


def test_there_is_enough_python_to_fold():
    assert len(list(filter(None, itertools.chain.from_iterable(PROGRAMS.values())))) > 500


@pytest.mark.parametrize("width", [30, 60, 78])
def test_a_folded_command_can_be_pasted_into_a_shell(width):
    lines = drawn(style.code(COMMAND), width)
    assert " \\\n" in lines
    said = subprocess.run(
        ["bash", "-c", f"torchrun() {{ echo torchrun $@; }}\n{lines}"], capture_output=True, text=True
    )
    assert said.stdout.strip() == COMMAND


def test_code_beside_a_bar_is_folded_as_well():
    console = style.console(io.StringIO(), width=40)
    show(console, Barred(style.code(COMMAND), "quiet"))
    assert console.file.getvalue().splitlines()[:2] == snapshot(
        [
            "│ torchrun --nproc-per-node 4 \\",
            "│     --local-ranks-filter 0 \\",
        ]
    )


def test_without_colors_code_in_a_sentence_keeps_its_backticks():
    look = style.prose("Look at `all-to-all before` and **rows**.")
    assert drawn(look, 60) == "Look at `all-to-all before` and rows."
    assert "`" not in drawn(look, 60, colored=True)


def test_with_no_color_code_in_a_sentence_keeps_its_backticks(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "`x`" in drawn(style.prose("sum of `x`"), 60, colored=True)


@pytest.mark.parametrize("colored", [True, False])
def test_a_command_in_a_sentence_stays_on_one_line_where_it_fits_on_one(colored):
    text = style.prose("Everything here begins with `torchrun train.py --lr 1`, not python.")
    assert any("torchrun train.py --lr 1" in line for line in drawn(text, 40, colored=colored).splitlines())
    assert max(map(len, drawn(text, 20).splitlines())) <= 20


def test_a_line_breaks_between_words_whatever_marks_it_contains():
    said = "sample i scores i points · ranks 0-3"
    assert grid.folded(said, 22) == ("sample i scores i", "points · ranks 0-3")
    assert grid.folded("ab 漢字漢字", 6) == ("ab 漢", "字漢字")  # nobody knows where its words end
