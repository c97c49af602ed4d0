"""What the machine may do to the engine: a silent nameserver, killed and stopped processes, limits, garbage."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import passed
import pytest
from real_run import end, of, run

from ddpquiz.errors import UserError
from ddpquiz.events.event import Claimed, Issued, Note, Output, Raised
from ddpquiz.ranks import server_connection
from ddpquiz.ranks.inside import torch_private
from ddpquiz.ranks.messages import StreamWrite, decode_line
from ddpquiz.ranks.request import Request
from ddpquiz.ranks.run import Run
from ddpquiz.ranks.script import read

pytestmark = passed.COMMANDS


@pytest.fixture
def own_server():
    """A server that no other test uses, before and after."""
    server_connection.close()
    yield
    server_connection.close()


# Become root of a namespace of our own in which the only nameserver never answers, and knows this machine's name alone;
# count what it is asked.
SILENT = """\
import ctypes, fcntl, socket, struct, subprocess, sys, threading

libc = ctypes.CDLL(None, use_errno=True)
resolver, status = sys.argv[1:3]
if libc.unshare(0x40000000 | 0x00020000 | 0x04000000) or libc.mount(None, b"/", None, 0x4000 | 0x40000, None):
    sys.exit(77)
socket.sethostname("machine.example")
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # the loopback interface, up and running
if libc.mount(resolver.encode(), b"/etc/resolv.conf", None, 0x1000, None):
    sys.exit(77)
nameserver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
nameserver.bind(("127.0.0.53", 53))
queries = []

def listen():
    while True:
        queries.append(nameserver.recv(512))

threading.Thread(target=listen, daemon=True).start()
ran = subprocess.run(sys.argv[3:])
open(status, "w").write(f"{len(queries)} queries, status {ran.returncode}")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs namespaces of Linux")
@pytest.mark.parametrize("restarts", ["0", "1"])
def test_no_name_is_looked_up_so_a_silent_nameserver_delays_nothing(tmp_path, script, restarts):
    path = script(f"{OWN_STORE}dist.all_reduce(x)\nprint('sum:', x[0].item())\nassert {restarts} == life\n")
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.53\n")
    ran = subprocess.run(
        [sys.executable, "-c", SILENT, tmp_path / "resolv.conf", tmp_path / "status",
         sys.executable, "-m", "ddpquiz", "run", "-n", "2", "--max-restarts", restarts, "--plain", path],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if ran.returncode == 77:
        pytest.skip("this user may not create network namespaces")
    assert (tmp_path / "status").read_text() == "0 queries, status 0", ran.stdout + ran.stderr
    assert "hostname of the client socket" not in ran.stdout + ran.stderr


# Stores of the script's own, in the main thread and in another one
OWN_STORE = """\
import threading
def meet():
    dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False).add("met", 1)
meet()
other = threading.Thread(target=meet)
other.start()
other.join()
life = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
"""


@pytest.mark.parametrize("restarts", [0, 1])
def test_the_script_itself_may_look_up_names(script, restarts):
    """Only while a store is made does its thread send no query."""
    body = "import ctypes\nstate = ctypes.CDLL(None)['__res_state']\nstate.restype = ctypes.POINTER(ctypes.c_int)\n"
    body += "print('attempts:', state()[1] > 0 and state()[2] & 1 == 1)\n"  # the resolver has begun, and may ask
    if not hasattr(ctypes.CDLL(None), "__res_state"):
        pytest.skip("needs glibc")
    events = run(script(OWN_STORE + body), restarts=restarts)
    assert [event.value for event in of(events, Output)] == ["True", "True"]


def test_ranks_that_are_all_in_init_process_group_may_be_slow(script):
    """Once all have come, only the network can be slow, so the timeout of the run does not apply."""
    head = """\
    import os, time
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d
    original = c10d._new_process_group_helper
    def slow(*args, **kwargs):
        time.sleep(3)
        return original(*args, **kwargs)
    c10d._new_process_group_helper = slow
    dist.init_process_group("gloo")
    """
    events = run(script("dist.barrier()", textwrap.dedent(head)), timeout=0.5)
    assert end(events).ok, end(events).why


def test_ranks_that_never_find_each_other_in_init_process_group_hang(script):
    """Both claim to be rank 0. They use a little processor time while they wait, which is no movement."""
    head = 'import torch.distributed as dist\ndist.init_process_group("gloo", rank=0, world_size=2)\n'
    last = end(run(script("", head), timeout=1.0))
    assert "init_process_group" in last.why


DAEMON = "import subprocess\nsubprocess.Popen(['sleep', sys.argv[1]], start_new_session=True)\nprint('ready')\ntime.sleep(600)\n"


def processes_of(marker):
    found = subprocess.run(["pgrep", "-f", f"sleep {marker}"], capture_output=True, text=True, check=False)
    return found.stdout.split()


def wait_until(true, seconds=30):
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.02)
    return true()


def started(path, ranks=2, **request):
    """Return a run whose ranks have all printed a line."""
    running, ready = Run(Request(path, ranks=ranks, device="cpu", **request)), set()
    while len(ready) < ranks:
        assert not running.over
        ready |= {event.rank for event in running.read(0.1) if isinstance(event, Output)}
    return running


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("pgrep"), reason="needs pgrep, and orphans of Linux")
def test_daemons_of_a_script_die_with_a_server_that_is_killed(script, own_server):
    marker = f"{2000 + os.getpid()}.5"
    running = started(script(DAEMON), args=(marker,))
    assert wait_until(lambda: len(processes_of(marker)) == 2)
    server_connection.server().process.kill()
    with pytest.raises(UserError, match="The process that starts ranks has died"):
        list(running.events())
    assert wait_until(lambda: processes_of(marker) == [])


def test_a_run_whose_server_is_stopped_can_still_be_ended(script, own_server):
    running = started(script("print('ready')\ntime.sleep(600)\n"))
    server = server_connection.server()
    pids = [*server.pids]
    server.process.send_signal(signal.SIGSTOP)
    running.stop("You stopped the run.")
    assert end(list(running.events())).why == "You stopped the run."
    assert server.process.poll() is not None
    assert wait_until(lambda: not any(map(is_running, pids)))


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


LIMIT = "ulimit -{which} -n {limit}; exec {python} -m ddpquiz run -n 32 --plain {path}"


@pytest.mark.parametrize("which", ["S", "H"])
def test_a_low_limit_on_open_files_is_raised_or_named(script, which):
    path = script("print('here')\n", head="")
    command = LIMIT.format(which=which if which == "S" else "SH", limit=200, python=sys.executable, path=path)
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    if which == "S":
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.count("here") == 32
    else:
        assert ran.returncode == 1
        assert ran.stderr == (
            "32 ranks need about 320 open files, and the limit of this shell is lower; "
            "lower --nproc, or run `ulimit -n 320` first.\n"
        )


def test_a_script_that_is_nested_too_deeply_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "deep.py"
    path.write_text(f"x = {'-' * 20_000}1\n")
    with pytest.raises(UserError) as refused:
        read(path)
    assert str(refused.value) == f"{path} is nested too deeply; Python cannot read this script."


def test_a_script_that_python_can_just_compile_runs_here_too(script):
    body = f"x = {'-' * 700}1\nassert x == 1, 'an even number of signs'\n"
    events = run(script(body, head=""), ranks=1)
    assert end(events).ok
    assert [event.held for event in of(events, Claimed)] == [True]


GARBAGE = [
    b"", b"}", b"{}", b"[1]}", b"\xff\xfe}", b'{"event": "issued"}', b'{"event": "nothing", "time": 0}', b"[" * 99_999 + b"}",
    b"stdout 1.0", b"stdout x 5", b"stdout 1.0 -5", b"stderr 1e999 3", b"stdout 1.0 " + b"9" * 400,
]  # fmt: skip


@pytest.mark.parametrize("line", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_on_the_event_pipe_says_nothing(line):
    assert decode_line(line) is None
    assert decode_line(b"stdout 1e-05 7") == StreamWrite("stdout", 1e-05, 7)


def test_garbage_that_a_script_writes_to_its_event_pipe_ends_nothing(script):
    body = """
    for fd in range(3, 1024):
        for garbage in (b'}\\n', b'{"event": "exit", "time": 1, "rank": 7, "status": 1}\\n', b'\\xff}\\nstdout 1 x\\n'):
            try:
                os.write(fd, garbage)
            except OSError:
                pass
    print("printed")
    """
    events = run(script(body, head="import os\n"), ranks=1)
    assert [event.text for event in of(events, Output)] == ["printed"]
    assert end(events).ok


def test_a_chain_of_thousands_of_exceptions_is_reported(script):
    body = """
    error = None
    for number in range(3000):
        new = ValueError(number)
        new.__cause__ = error
        error = new
    raise error
    """
    (raised,) = of(run(script(body, head=""), ranks=1), Raised)
    assert (raised.error, raised.message) == ("ValueError", "2999")
    assert "/ddpquiz/ranks/" not in raised.traceback


WORKS = """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
model(x).sum().backward()
import torch.distributed._functional_collectives as fc
fc.all_reduce(x, "sum", dist.group.WORLD) + 0
print("sum:", x.sum().item())
dist.destroy_process_group()
"""
RENAME = """\
from ddpquiz.ranks.inside import kernels, torch_private
torch_private.NAMES.update({names!r})
torch_private.NAMES[{name!r}] += "_gone"
kernels.remove()  # those that were registered before
kernels.prepare()
"""


def test_torch_compile_leaves_the_recorders_functions_alone(script):
    body = """
    graphs = []
    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward
    class Net(torch.nn.Linear):
        def forward(self, x):
            return x @ self.weight + self.bias
    model = torch.compile(torch.nn.parallel.DistributedDataParallel(Net(2, 2)), backend=backend)
    for step in range(3):
        model(torch.ones(2, 2)).sum().backward()
    print("graphs:", len(graphs))
    """
    printed = [each.value for each in of(run(script(body), ranks=1), Output) if each.stream == "stdout"]
    assert printed == ["1"]


@pytest.fixture(scope="module")
def renaming_server(tmp_path_factory):
    """A server that can import modules which rename what we look up in torch."""
    folder = tmp_path_factory.mktemp("renames")
    server_connection.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        server_connection.server()
    yield folder
    server_connection.close()


@pytest.mark.parametrize("name", torch_private.NAMES)
def test_without_one_of_torchs_private_names_a_run_goes_on_unwatched(name, script, renaming_server, monkeypatch):
    module = f"without_{name}"
    (renaming_server / f"{module}.py").write_text(RENAME.format(names=torch_private.NAMES, name=name))
    monkeypatch.setitem(server_connection.PRELOADS, "_functional_collectives", module)
    events = run(script(WORKS))
    assert end(events).ok
    assert len(of(events, Output)) == 2
    assert of(events, Issued) == []
    (note,) = of(events, Note)
    assert "does not allow collectives to be watched" in note.text


def test_no_other_module_uses_private_names_of_torch():
    inside = Path(torch_private.__file__).parent
    for path in [*inside.glob("*.py"), *inside.parent.glob("*.py")]:
        if path.name != "torch_private.py":
            text = path.read_text("utf-8")
            for private in (
                "torch._C",
                "._dispatch",
                "._schema",
                "._handle",
                "_execution_engine",
                "Work.unbox",
                "Group.unbox",
            ):
                assert private not in text, f"{path}: {private}"
