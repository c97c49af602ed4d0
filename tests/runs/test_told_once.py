"""What is told of a run is told once, in whole words, and without lines of ours."""

import io

import pytest
from real_run import HEAD, end, of, run

from ddpquiz.events.event import Note, Output
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run
from ddpquiz.terminal.kit import style
from ddpquiz.terminal.kit.layout import Shortened, new_table
from ddpquiz.terminal.runs.plain_lines import print_run

NEVER_AWAITED = (
    "flat = torch.ones(1000)\nwork = dist.all_reduce(flat, async_op=True)\nflat.div_(2)\ndist.destroy_process_group()\n"
)


@pytest.fixture
def script(tmp_path):
    def script(body):
        path = tmp_path / "train.py"
        path.write_text(HEAD + body)
        return path

    return script


@pytest.mark.parametrize("summary", [False, True])
def test_a_fault_is_told_below_the_run_or_in_the_summary_that_follows(summary, script):
    started = Run(Request(script(NEVER_AWAITED), ranks=2, device="cpu", timeout=20.0, diagnose=True))
    started.seen.only_broken_claims = True
    file = io.StringIO()
    print_run(started, style.console(file, width=200), summary=summary)
    assert ("never waited" in file.getvalue()) is not summary
    assert "--summary" not in file.getvalue()  # there is no other advice


OPTIMIZERS = """\
from torch.nn.parallel import DistributedDataParallel as DDP
net, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
def step(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
step(net)
model = DDP(net)
step(model)
{last}
dist.destroy_process_group()
"""


@pytest.mark.parametrize(("last", "is_told"), [("", False), ("step(other)", True)])
def test_only_an_optimizer_beside_ddp_is_said_to_be_left_out(last, is_told, script):
    events = run(script(OPTIMIZERS.format(last=last)), check_replicas=True)
    assert end(events).ok
    assert any("does not compare them" in note.text for note in of(events, Note)) is is_told


OF_PYTHON = "import multiprocessing\none, other = multiprocessing.Pipe()\nos.close(one.fileno())\n"
OF_SCRIPT = "class Odd:\n    def __del__(self): raise OSError(9, 'closed')\nodd = Odd()\n"


@pytest.mark.parametrize(("body", "is_told"), [(OF_PYTHON, False), (OF_SCRIPT, True)])
def test_what_fails_at_the_end_is_printed_if_it_is_the_scripts_own(body, is_told, script):
    events = run(script(f"{body}dist.destroy_process_group()\n"))
    said = "\n".join(line.text for line in of(events, Output) if line.stream == "stderr")
    assert ("Exception ignored" in said) is is_told
    assert "leaving.py" not in said


@pytest.mark.parametrize(
    ("width", "shown"), [(40, "a_long_name_of_a_script.py:132"), (20, "a_long_na…ipt.py:132"), (12, "a_l…t.py:132")]
)
def test_a_place_that_has_no_room_keeps_its_line(width, shown):
    table = new_table(("",))
    table.add_row(Shortened("a_long_name_of_a_script.py:132"))
    file = io.StringIO()
    style.console(file, width=width).print(table)
    assert file.getvalue().split()[-1] == shown
