"""The order of a set differs by interpreter: where a script goes through one, each rank starts in its own."""

import textwrap

import passed
import pytest
from inline_snapshot import snapshot
from real_run import HEAD, end, of, run

from ddpquiz.diagnosis.set_order import find_set_loops
from ddpquiz.events.event import Note, Output

pytestmark = passed.ENGINE

LOOPS = {
    "for x in {'a', 'b'}: pass": 1,
    "names = set(d) - {'lr'}\nfor n in names: pass": 2,
    "for x in list({'a', 'b'}): pass": 1,
    "[x for x in frozenset(words)]": 1,
    "for x in a.keys() & b.keys(): pass": 1,
    "class C:\n    def f(self):\n        self.seen = set()\n        return [*self.seen]": 4,
    "for i, x in enumerate(set(words) | other): pass": 1,
    "for x in sorted({'a', 'b'}): pass": 0,
    "for x in {1, 2, 3}: pass": 0,
    "for x in set(range(4)): pass": 0,
    "for x in {'a': 1, 'b': 2}: pass": 0,
    "print('a' in {'a', 'b'}, len({'a', 'b'}), max({'a', 'b'}))": 0,
    "names = {'a'}\nnames = sorted(names)\nfor n in names: pass": 0,
    "for x in a - b: pass": 0,
}


@pytest.mark.parametrize("script", LOOPS)
def test_a_line_that_goes_through_a_set_is_found(script, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(script)
    assert [line for _, line in find_set_loops(path)] == [LOOPS[script]] * bool(LOOPS[script])


def test_files_that_the_script_imports_from_its_folder_are_read_too(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "names.py").write_text("for name in {'a', 'b'}: pass")
    (tmp_path / "unused.py").write_text("for name in {'a', 'b'}: pass")
    path = tmp_path / "train.py"
    path.write_text("import os\nfrom package import names")
    assert find_set_loops(path) == [(str(tmp_path / "package" / "names.py"), 1)]


BODY = """\
print("hash:", hash("a word"), flush=True)
for name in {loop}:
    dist.all_reduce(torch.ones(len(name)))
dist.destroy_process_group()
"""


def hashes(events):
    return {event.value for event in of(events, Output) if event.label == "hash"}


def test_ranks_differ_where_they_would_under_torchrun(tmp_path):
    words = {f"{'x' * length}" for length in range(1, 30)}
    path = tmp_path / "train.py"
    path.write_text(HEAD + textwrap.dedent(BODY.format(loop=words)))
    events = run(path, diagnose=True, timeout=120.0)
    assert len(hashes(events)) == 2
    assert of(events, Note)[0].text == snapshot(
        "train.py:6 goes through a set, whose order may differ between interpreters. So each rank starts in one of its "
        "own, as under torchrun."
    )
    assert not end(events).ok
    assert end(events).advice == snapshot(
        "train.py:6 goes through a set, and the order of a set depends on the hash secret of each interpreter: go "
        "through sorted(...) instead, which has the same order on all ranks."
    )


def test_ranks_are_forked_where_no_set_is_gone_through(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(HEAD + BODY.format(loop="sorted({'ab', 'c'})"))
    events = run(path, diagnose=True)
    assert end(events).ok
    assert len(hashes(events)) == 1
    assert len(hashes(run(path, fresh=True, timeout=120.0))) == 2
