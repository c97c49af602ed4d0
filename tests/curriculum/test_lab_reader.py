"""Labs as files: complaints with their places, starters made from solutions, and the language of budgets."""

import shutil
from textwrap import dedent

import pytest
from inline_snapshot import snapshot

from ddpquiz.curriculum.budget_rule import Limit, Order, read_rule
from ddpquiz.curriculum.lab_reader import read_lab
from ddpquiz.curriculum.lab_solution import MarkerError, edit, read_solution
from ddpquiz.paths import labs_dir


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("lab.yaml", "minutes: 30", "minutes: 3000", "lab.yaml:3:10: `minutes`: expected a whole number from 5 to 90"),
        ("lab.yaml", "title: Ring", "titel: Ring", "lab.yaml:1:1: unknown key `titel`; did you mean `title`?"),
        ("lab.yaml", "limit: sent <=", "limit: sent", "`limit`: `sent 2 * (n - 1) * chunk` is not a rule; write a"),
        ("lab.yaml", "* chunk\n    say: A rank", "* chnk\n    say: A rank", "`chnk` is not measured, and no phase of check.py has it; did you mean `chunk`?"),
        ("lab.yaml", "phase: all-reduce\n    limit: coll", "phase: all\n    limit: coll", "`phase`: check.py has no phase `all`"),
        ("lab.yaml", "caught: bytes", "caught: byte", "`byte` is no claim of check.py, no budget, and none of hang, error, no end, not awaited; did you mean `bytes`?"),
        ("lab.yaml", "caught: rounds", "caught: hang", "`mutants`: no mutant is caught by the budget `rounds`"),
        ("lab.yaml", "old: arriving += received\n", "old: nowhere\n", "`old`: this must stand in solution.py exactly once"),
        ("lab.yaml", "{ranks: 4}", "{ranks: 99}", "`ranks`: expected a whole number from 1 to 8, got `99`"),
        ("check.py", "largest = -(", "largest = (-(", "check.py:20:1: not valid Python: '(' was never closed"),
        ("solution.py", "    # lab: end\n", "", "solution.py:22:1: `# lab: write` has no `# lab: end`"),
        ("solution.py", "arriving += received", "arriving += (", "solution.py:28:1: not valid Python: '(' was never closed"),
    ],
)  # fmt: skip
def test_a_complaint_says_where_and_what_is_wrong(tmp_path, file, old, new, complaint):
    folder = shutil.copytree(labs_dir() / "ring_all_reduce", tmp_path / "ring_all_reduce")
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))
    reading = read_lab(folder)
    assert reading.lab is None
    assert any(complaint in str(each) for each in reading.page.complaints), list(map(str, reading.page.complaints))


def test_a_pack_may_still_say_no_wait(tmp_path):
    folder = shutil.copytree(labs_dir() / "tree_broadcast", tmp_path / "tree_broadcast")
    text = (folder / "lab.yaml").read_text()
    (folder / "lab.yaml").write_text(text.replace("caught: not awaited", "caught: no wait"))
    assert read_lab(folder).lab.mutants == read_lab(labs_dir() / "tree_broadcast").lab.mutants


SOLUTION = dedent("""\
    def f(x):
        n = 1
        # lab: write double "x", then return it
        y = 2 * x
        return y
        # lab: end

    # lab: write
    g = f
    # lab: broken
    # g = None
    # lab: end
    """)


def test_the_starter_has_an_error_where_the_learner_writes_and_the_faulty_lines_where_they_repair():
    found = read_solution(SOLUTION)
    assert found.source == snapshot("def f(x):\n    n = 1\n    y = 2 * x\n    return y\n\ng = f\n")
    assert found.starter == (
        snapshot('def f(x):\n    n = 1\n    raise NotImplementedError("double \\"x\\", then return it")\n\ng = None\n')
    )
    ask = "double x, then add what arrives, and return the sum of the two to whoever calls"
    long = read_solution(SOLUTION.replace('double "x", then return it', ask)).starter
    assert max(map(len, long.splitlines())) < 80
    with pytest.raises(NotImplementedError, match=f"^{ask}$"):
        exec(f"{long}\nf(1)")
    assert found.replaced(("  return x", "g = 1")) == snapshot("def f(x):\n    n = 1\n    return x\n\ng = 1\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [("x = 1\n", 1), ("# lab: end\n", 1), ("# lab: write\n# lab: write\n", 2), ("# lab: write\n# lab: broken\nx\n# lab: end\n", 1)],
)  # fmt: skip
def test_markers_that_do_not_fit_together_are_refused(text, line):
    with pytest.raises(MarkerError) as wrong:
        read_solution(text)
    assert wrong.value.line == line


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("b", "c", "if x:\n    a = 1\n    c = 2\n"),
        ("a = 1\nb = 2", "pass", "if x:\n    pass\n"),
        ("b = 2", "for y in z:\n    b", "if x:\n    a = 1\n    for y in z:\n        b\n"),
        ("= ", "==", None),
        ("a = 1\nc = 2", "pass", None),
    ],
)
def test_an_edit_moves_to_where_the_old_text_stands(old, new, expected):
    assert edit("if x:\n    a = 1\n    b = 2\n", old, new) == expected


@pytest.mark.parametrize(
    ("rule", "values", "holds"),
    [
        ("sent <= 2 * (n - 1) / n * bytes", {"sent": 6, "n": 4, "bytes": 4}, True),
        ("sent <= 2 * (n - 1) / n * bytes", {"sent": 7, "n": 4, "bytes": 4}, False),
        ("calls_all_reduce == 1", {}, False),
        ("calls_send == 0", {}, True),
        ("rounds < ceil(log2(n)) + 1", {"rounds": 2, "n": 4}, True),
        ("overlapped >= 1", {"overlapped": 0}, False),
    ],
)
def test_a_limit_compares_two_formulas(rule, values, holds):
    limit = read_rule(rule)
    assert isinstance(limit, Limit)
    assert limit.holds(values) is holds


def test_an_order_names_two_moments_and_other_texts_are_no_rule():
    order = read_rule("first all_reduce before label backward done")
    assert isinstance(order, Order)
    assert (str(order.earlier), str(order.later)) == ("the first all_reduce", "the line `backward done`")
    for text in ("sent", "a <= b <= c", "first before last", "sent <= __import__('os')"):
        with pytest.raises(ValueError, match="`"):
            read_rule(text)
    with pytest.raises(ValueError, match="`bytes` is unknown"):
        Limit("", "sent", "<=", "bytes").holds({"sent": 1})
