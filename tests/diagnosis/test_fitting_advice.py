"""Advice follows what the verdict quotes: a missing path, lists of objects, an error that a script catches and prints."""

import textwrap

import pytest
from inline_snapshot import snapshot
from real_run import HEAD, end, run

from ddpquiz.diagnosis.verdict import ADVICE, OBJECTS

NO_FILE = "That path must exist where this rank runs."


@pytest.fixture
def verdict(tmp_path):
    def verdict(body, ranks=2):
        path = tmp_path / "train.py"
        path.write_text(HEAD + textwrap.dedent(body))
        return end(run(path, ranks, diagnose=True))

    return verdict


@pytest.mark.parametrize(
    "body", ["open('/no/such/file')", "os.listdir('/no/such')", "torch.save(x, '/no/such/model.pt')"]
)
def test_a_missing_path_gets_advice_on_paths(verdict, body):
    found = verdict(f"dist.barrier()\nif rank == 1:\n    {body}\ndist.barrier()")
    assert found.rank == 1
    assert found.advice.startswith(NO_FILE)


def test_another_error_of_that_line_gets_no_advice_on_paths(verdict):
    assert verdict("if rank == 1: open('/etc/hostname', 'q')\ndist.barrier()").advice == ADVICE["raised"]


def test_lists_of_different_lengths_get_advice_on_the_lists(verdict):
    body = "dist.barrier()\ndist.broadcast_object_list([1] * (2 + %s), src=0)\ndist.barrier()\ndist.destroy_process_group()"
    found = verdict(body % "rank")
    assert found.why == snapshot(
        "Rank 1 called broadcast of 3 int64 with root 0 at train.py:6, but rank 0 called broadcast of 2 int64 with root 0 "
        "at train.py:6. As many ranks are on both sides: rank 0 may be wrong instead."
    )
    assert found.advice == OBJECTS
    assert verdict(body % "world").ok


CAUGHT = """\
dist.barrier()
try:
    if rank == 1:
        raise ValueError("broken row 5")
    dist.barrier()
except ValueError as error:
    %s
"""
CAUGHT_AS = {
    "import traceback; traceback.print_exc(); os._exit(3)": snapshot(
        "Rank 1 exited with status 3, after barrier at train.py:5. Before that, its script caught an exception at "
        "train.py:8: ValueError: broken row 5"
    ),
    "sys.exit(3)": snapshot(
        "Rank 1 exited with status 3 at train.py:11. Before that, its script caught an exception at train.py:8: "
        "ValueError: broken row 5"
    ),
    "print('error:', error); os._exit(3)": snapshot(
        "Rank 1 exited with status 3, after barrier at train.py:5. The last line that it printed: error: broken row 5"
    ),
    "print('all is well'); os._exit(3)": snapshot("Rank 1 exited with status 3, after barrier at train.py:5."),
}


@pytest.mark.parametrize("handler", CAUGHT_AS)
def test_an_error_that_a_script_printed_before_it_exited_is_quoted(verdict, handler):
    assert verdict(CAUGHT % handler).why == CAUGHT_AS[handler]
