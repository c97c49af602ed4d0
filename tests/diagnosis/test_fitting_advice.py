"""Advice follows what the verdict quotes: a missing path, lists of objects, an error that a script catches and prints."""

import textwrap

import passed
import pytest
from inline_snapshot import snapshot
from real_run import HEAD, end, run

from ddpquiz.diagnosis.diagnosis import ADVICE, OBJECTS, OTHER_LAYERS, UNEVEN

pytestmark = passed.ENGINE

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
        "Rank 1 called broadcast of 3 int64 with root 0 at train.py:6, but rank 0 called broadcast of 2 int64 with "
        "root 0 at train.py:6. As many ranks made the other call, so rank 0 may be at fault instead."
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


TWICE = """\
from torch.utils.checkpoint import checkpoint
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.block, self.head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
    def forward(self, x):
        x = self.embed(x)
        for _ in range({times}):
            x = checkpoint(self.block, x, use_reentrant=True)
        return self.head(x)
model = torch.nn.parallel.DistributedDataParallel(Net())
model(torch.ones(2, 4)).sum().backward()
dist.destroy_process_group()
"""


def test_a_block_that_is_checkpointed_twice_gets_its_cure_and_not_the_whole_message_again(verdict):
    found = verdict(TWICE.format(times=2))
    assert found.why == snapshot(
        "DDP got the gradient of a parameter twice in one backward pass (block.bias), and raised at train.py:16 on "
        "rank 0. Rank 1 raised the same error."
    )
    assert "use_reentrant=False" in found.advice
    assert verdict(TWICE.format(times=1)).ok


def test_a_long_message_is_quoted_up_to_a_sentence(verdict):
    assert verdict("raise ValueError('One sentence. ' + 'word ' * 100)").why.endswith(
        "ValueError at train.py:5: One sentence. ..."
    )


def test_a_call_in_a_handler_is_told_with_the_exception_that_came_before(verdict):
    found = verdict("""
        try:
            dist.all_reduce(x[[0, 5][rank]])
            dist.all_reduce(x)
        finally:
            dist.barrier()
            dist.destroy_process_group()
        """)
    assert found.why == snapshot(
        "Rank 1 called barrier at train.py:10 while handling IndexError raised at train.py:7: index 5 is out of bounds for dimension 0 with size 2. Rank 1 did not call all_reduce at train.py:7, in which rank 0 waits, but went on to barrier at train.py:10."
    )
    assert found.rank == 1
    assert found.advice.startswith("That exception comes first")


SAVES = """\
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
for step in range(4):
    model(torch.ones(1, 2)).sum().backward()
    if step == 1:
        try:
            with open("/dev/full" if rank == 2 else os.devnull, "w") as file: file.write("x")
            dist.barrier()
        except OSError as error:
            %s
dist.destroy_process_group()
"""
SAVES_TOLD = {
    "print('could not save:', error)": "The last line that rank 2 printed: could not save: [Errno 28] No space left on "
    "device.",
    "import traceback; traceback.print_exc()": "Rank 2 had printed an exception raised at train.py:10: OSError: [Errno "
    "28] No space left on device.",
    "print('step', step)": "",
}


@pytest.mark.parametrize("handler", SAVES_TOLD)
def test_a_rank_that_printed_an_error_and_went_on_is_at_fault_and_its_error_is_told(verdict, handler):
    found = verdict(SAVES % handler, ranks=3)
    calls = (
        "Rank 2 did not call barrier at train.py:11, in which ranks 0 and 1 wait, but went on to all_reduce at "
        "train.py:7."
    )
    assert (found.rank, found.why) == (2, f"{calls} {SAVES_TOLD[handler]}".strip())
    assert found.advice.startswith("If the rank went on after that error") is bool(SAVES_TOLD[handler])


def test_a_value_that_is_called_an_error_is_not_told(verdict):
    body = "dist.barrier()\nif rank == 1: print('epoch 1: validation error 0.042')\nelse: dist.all_reduce(x)\ndist.barrier()"
    assert "0.042" not in verdict(body, ranks=3).why


def test_an_error_of_a_rank_that_makes_one_more_call_is_not_told(verdict):
    body = "dist.barrier()\nif rank == 1: print('could not plot'); dist.all_reduce(x)\ndist.barrier()"
    found = verdict(body, ranks=3)
    assert (found.rank, "could not plot" in found.why) == (1, False)


def test_an_error_that_other_ranks_print_too_is_not_told(verdict):
    body = "print('failed to import apex, which is not needed')\ndist.barrier()\nif rank != 2: dist.all_reduce(x)\ndist.barrier()"
    assert "apex" not in verdict(body, ranks=3).why


SHARDED = """\
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
mesh = init_device_mesh("cpu", (world,))
class Net(torch.nn.Sequential):
    def forward(self, y, skipped):
        for at, block in enumerate(self):
            y = y if at == skipped else block(y)
        return y
net = Net(*(torch.nn.Linear(4, 4) for _ in range(3)))
for block in net: fully_shard(block, mesh=mesh)
fully_shard(net, mesh=mesh)
for step in range(3):
    y = net(torch.ones(2, 4), %d if step == rank == 1 else None)
    y.sum().backward()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("skipped", [0, 1, 2])
def test_a_rank_that_skips_a_sharded_layer_is_told_of_layers_and_not_only_of_conditions_on_that_line(verdict, skipped):
    found = verdict(SHARDED % skipped)
    assert "all_gather_into_tensor" in found.why
    assert "reduce_scatter_tensor" in found.why
    assert found.advice.startswith(OTHER_LAYERS)


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_handler_that_raises_while_a_rank_reports_its_error_is_not_taken_for_a_fault_of_ours(verdict, when):
    """Torch's handler of SIGCHLD raises wherever the main thread is, once a worker of a DataLoader has died.

    The call in C gets the signal and raises an exception of its own, before Python has called the handler.
    """
    found = verdict(f"""
        import ctypes, signal
        def handler(*_): raise RuntimeError("DataLoader worker (pid 17) is killed by signal: Killed. ")
        signal.signal(signal.SIGCHLD, handler)
        class Broken(ValueError):
            def __str__(self):
                os.kill(os.getpid(), signal.SIGCHLD)
                return "broken row 5"
        in_c = map(ctypes.CDLL(None)["raise"], [int(signal.SIGCHLD)])
        if rank == 1 and {when!r} == "before": list(zip(in_c, [], strict=True))
        if rank == 1: raise Broken
        dist.barrier()
        """)
    raised = {
        "before": "ValueError at train.py:14: zip() argument 2 is shorter than argument 1",
        "meanwhile": "Broken at train.py:15: broken row 5",
    }
    assert (found.rank, found.why) == (1, f"Rank 1 raised {raised[when]}")


def test_a_call_of_a_thread_in_the_group_of_the_main_thread_gets_advice_on_threads(verdict):
    found = verdict("""
        import threading
        if rank == 0:
            threading.Thread(target=lambda: dist.all_reduce(x)).start()
            time.sleep(0.5)
        dist.barrier()
        dist.all_reduce(x)
        """)
    assert "all_reduce at train.py:8" in found.why
    assert found.advice.startswith("A thread and the main thread call in the same group")


def test_a_rank_that_has_destroyed_its_groups_is_no_longer_late(verdict):
    found = verdict("""
        dist.all_reduce(x)
        if rank == 0:
            dist.destroy_process_group()
            time.sleep(30)
        dist.all_reduce(x)
        """)
    assert found.why == snapshot(
        "Rank 1 waits in all_reduce at train.py:10 for rank 0: it has destroyed its process groups at train.py:8."
    )


def test_a_file_that_another_rank_still_writes_gets_advice_on_the_barrier(verdict):
    found = verdict("""
        if rank == 1:
            half = os.path.join(os.path.dirname(__file__), "half.pt")
            with open(half, "wb") as file: file.write(b"PK")
            torch.load(half)
        dist.barrier()
        """)
    assert found.rank == 1
    assert found.advice.startswith("That file is not whole")


@pytest.mark.parametrize("helper", [False, True])
def test_a_rank_that_skips_the_backward_pass_of_a_step_gets_advice_on_uneven_steps(verdict, helper):
    step = "    if rank == 1 and step == 2: {}\n    ddp(torch.ones(1, 2)).sum().backward()\n"
    loop = "for step in range(4):\n"
    loop += "    train(step)\n" if helper else step.format("continue")
    function = ("def train(step):\n" + step.format("return")) if helper else ""
    model = "ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))\n"
    assert verdict(f"{model}{function}{loop}dist.barrier()\n").advice == UNEVEN


def test_a_rank_that_only_lost_its_connection_did_not_raise_the_same_error(verdict):
    found = verdict("""
        def send(x):
            if rank == 1: raise RuntimeError("no data")
            dist.all_reduce(x)
        send(x) if rank else [send(x), send(x)]
        """)
    assert "Rank 1 raised RuntimeError at train.py:7: no data" in found.why
    assert "Ranks 0" not in found.why
