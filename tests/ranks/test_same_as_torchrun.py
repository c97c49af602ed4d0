"""A script that runs here finds and leaves what it would find and leave under torchrun."""

import gzip
import inspect
import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import passed
import pytest
import real_run
import torch.distributed as dist
import what_a_rank_sees
from real_run import HEAD, end
from run_program import piped
from torch.nn.parallel import DistributedDataParallel

from ddpquiz.events.event import Claimed, Exited, Hung, Output, Raised, decode

pytestmark = passed.COMMANDS

ROOT = Path(__file__).parents[2]
DIFFERENCES = (
    (ROOT / "docs" / "runs.md").read_text().partition("## What differs from torchrun")[2].partition("\n## ")[0]
)


# What a rank sees differently, and the row of docs/runs.md that says so. The name may be a regular expression.
DIFFERENT = {
    r"(child )?environment (MASTER_ADDR|TORCHELASTIC_ERROR_FILE|TORCHELASTIC_RUN_ID)": "environment",
    r"(child )?environment (GLOO_SOCKET_IFNAME|TP_SOCKET_IFNAME|CUDA_VISIBLE_DEVICES)": "environment",
    r"modules before the first import|finders|objects that the collector leaves alone": "modules",
    r"torch modules|loggers": "modules",
    r"command line|original arguments": "command line",
    r"frames below the script": "stack",
    r"main __ddpquiz_claim__": "asserts",
    r"faulthandler|signal 64|status Sig(Cgt|Blk)|blocked signals|child blocked": "signals",
    r"status Threads": "threads",
    r"signal at the end of the parent": "the end of the launcher",
    r"descriptors from 100 on": "files",
}
# These differ between any two runs, or are the name of the launcher.
OF_EACH_RUN = r"random.*|seed of torch|(child )?environment (MASTER_PORT|_|LINES|COLUMNS)"
HASH = "hash"  # of each interpreter; forked ranks share one


def unlike_a_plain_shell():
    """Make this process one whose settings are no defaults, as a launcher may find them."""
    for ignored in (signal.SIGUSR1, signal.SIGHUP, signal.SIGQUIT):  # nohup ignores one, a shell's background another
        signal.signal(ignored, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    os.umask(0o027)
    os.nice(1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@pytest.fixture(scope="module")
def look(tmp_path_factory):
    """What the ranks of a command see of their process; its script is a link, and its input a file."""
    folder = tmp_path_factory.mktemp("seen")
    (folder / "link.py").symlink_to(what_a_rank_sees.__file__)
    (folder / "input").write_text("a line of input\n")
    ours = {"GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "PYTHONHASHSEED"}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    environment |= {"PYTHONWARNINGS": "ignore::ImportWarning", "PYTHONIOENCODING": "latin-1:strict"}

    def look(*command):
        ran = subprocess.run(
            [*command, "link.py", ".", "--an argument", "é"], cwd=folder, stdin=(folder / "input").open(),
            capture_output=True, timeout=300, env=environment, preexec_fn=unlike_a_plain_shell,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert ran.stdout.count("seen: é".encode("latin-1")) == 2, ran.stdout
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]

    return look


@pytest.fixture(scope="module")
def under_torchrun(look):
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    return {n: look(torchrun, "--nproc-per-node", "2", "--max-restarts", n) for n in ("0", "1")}


@pytest.mark.skipif(sys.platform != "linux", reason="lists the differences on Linux")
@pytest.mark.parametrize("way", [["--max-restarts", "0"], ["--fresh"], ["--max-restarts", "1"]], ids=" ".join)
def test_a_rank_sees_what_it_sees_under_torchrun_except_for_what_the_documentation_lists(way, look, under_torchrun):
    found = look(sys.executable, "-m", "ddpquiz", "run", "--plain", "--device", "cpu", "-n", "2", *way)
    expected = under_torchrun[way[-1] if way[-1] == "1" else "0"]
    for ours, theirs in zip(found, expected, strict=True):
        names = [name for name in ours.keys() | theirs.keys() if ours.get(name, "-") != theirs.get(name, "-")]
        unlisted = [name for name in names if not re.fullmatch("|".join([*DIFFERENT, OF_EACH_RUN, HASH]), name)]
        assert {name: (theirs.get(name, "-"), ours.get(name, "-")) for name in unlisted} == {}
        assert theirs["command line"][:2] == ["-u", "link.py"]  # which the test of endings relies on
    for what in ("random", "random of torch", "random of numpy", "seed of torch"):
        assert found[0].get(what) != found[1].get(what) or found[0].get(what) is None
    assert (found[0][HASH] == found[1][HASH]) == (way != ["--fresh"])
    if way == ["--max-restarts", "0"]:  # each listed difference is one
        for pattern in DIFFERENT:
            assert [name for name in ours if re.fullmatch(pattern, name) and ours[name] != theirs.get(name)] or (
                "torch modules" in pattern
            ), f"{pattern} is the same now"


def test_each_difference_has_a_row_in_the_documentation():
    rows = re.findall(r"^\| ([^|]+?) +\|", DIFFERENCES, re.MULTILINE)
    assert {*DIFFERENT.values(), *DIFFERENT_END.values(), "hashes", "terminal"} == {*rows} - {"what", "---"}


# How a script ends, and what it prints on the way: a body for each way.
ENDS = {
    "a hook for exceptions": "sys.excepthook = lambda kind, error, trace: print('hook', error, trace.tb_lineno)\nraise ValueError(1)",
    "a hook that prints the exception": "import traceback\nsys.excepthook = lambda kind, error, trace: traceback.print_exception(error)\ndef f():\n    1 / 0\ntry:\n    f()\nexcept ZeroDivisionError:\n    raise ValueError('bad')",
    "a hook that exits": "sys.excepthook = lambda *_: os._exit(7)\nraise ValueError('bad')",
    "a hook that fails": "sys.excepthook = lambda *_: 1 / 0\nraise ValueError('bad')",
    "an exception": "def f():\n    raise ValueError('bad')\nf()",
    "a chain": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('bad') from error",
    "a group": "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])",
    "an assert": "held = False\nassert held, 'no'",
    "KeyboardInterrupt": "import atexit\natexit.register(print, 'still')\nraise KeyboardInterrupt",
    "SIGINT": "os.kill(os.getpid(), 2)",
    "SIGTERM": "os.kill(os.getpid(), 15)",
    "abort": "os.abort()",
    "a text as status": "sys.exit('bye')",
    "status -1": "sys.exit(-1)",
    "status 256": "sys.exit(256)",
    "no status": "sys.exit()",
    "two statuses": "raise SystemExit(1, 2)",
    "a status too large": "sys.exit(1 << 70)",
    "functions and threads at the end": "import atexit, threading, time\natexit.register(print, 'first')\natexit.register(print, 'second')\nthreading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\nprint('main')",
    "a function at the end that fails": "import atexit\n@atexit.register\ndef f():\n    raise ValueError('late')\nprint('main')",
    "a function at the end that exits": "import atexit\natexit.register(os._exit, 6)\nprint('main')",
    "a daemon at the end": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint('end')",
    "a pool of threads": "from concurrent.futures import ThreadPoolExecutor\nimport time\nThreadPoolExecutor(1).submit(lambda: (time.sleep(0.1), print('late')))\nprint('end')",
    "a process at the end": "import multiprocessing, time\nf = lambda: (time.sleep(0.1), print('child'))\nmultiprocessing.get_context('fork').Process(target=f).start()\nprint('end')",
    "a daemon process": "import multiprocessing, time\nmultiprocessing.get_context('fork').Process(target=time.sleep, args=(60,), daemon=True).start()\nprint('end')",
    "finalizers": "import weakref\nclass A:\n    def __del__(self):\n        print('del')\na, b = A(), A\nweakref.finalize(b, print, 'finalized')",
    "a hook for finalizers": """
from types import FunctionType
def hook(it):
    print("hook", it.exc_type.__name__)
class A:
    def __del__(self):
        1 / 0
sys.unraisablehook = FunctionType(hook.__code__, {"print": print})  # with the globals of a module that still lives
a = A()
""",
    "a thread that fails": "import threading\nthread = threading.Thread(target=lambda: 1 / 0, name='t')\nthread.start()\nthread.join()\nprint('end')",
    "half a line, then _exit": "print('half', end='')\nos._exit(0)",
    "half a line, then SIGKILL": "print('half', end='')\nos.kill(os.getpid(), 9)",
    "half a line, then fork": "print('half', end='')\npid = os.fork()\nif pid:\n    os.wait()\nprint('!', bool(pid))",
    "half a line, then exec": "print('half', end='')\nos.execv(sys.executable, [sys.executable, '-c', 'print(1)'])",
    "bytes": "sys.stdout.buffer.write(b'bytes')\nos._exit(0)",
    "a closed output": "print('a')\nsys.stdout.close()",
    "another output": "class Upper:\n    def write(self, text):\n        sys.__stdout__.write(text.upper())\n    def flush(self):\n        pass\nsys.stdout = Upper()\nprint('low')",
    "half of a surrogate pair": "print('\\udc80')",
    "a warning": "import warnings\nwarnings.warn('look')\nwarnings.warn('old', DeprecationWarning)",
    "no input": "print([sys.stdin.read(), sys.stdin.fileno(), sys.stdin is sys.__stdin__])",
    "what a spawned process sends back": "import multiprocessing\nclass A:\n    x = 3\ndef work(q):\n    q.put(A())\nif __name__ == '__main__':\n    ways = multiprocessing.get_context('spawn')\n    q = ways.Queue()\n    ways.Process(target=work, args=(q,)).start()\n    print(q.get(timeout=60).x)",
    "the way to start processes": "import multiprocessing\nmultiprocessing.set_start_method('spawn')\nprint(multiprocessing.current_process().name)",
    "shared memory": "from multiprocessing.shared_memory import SharedMemory\nprint(bool(SharedMemory(create=True, size=8).name))",
    # These differ, and docs/runs.md says so.
    "a warning about a caller": "import warnings\nwarnings.warn('look', stacklevel=9)",
    "the stack": "import traceback\ntraceback.print_stack()",
    "a generator": "def g():\n    try:\n        yield\n    finally:\n        print('closed')\nx = g()\nnext(x)",
    "C functions at the end": "import ctypes\nat_end = ctypes.CFUNCTYPE(None)(lambda: None)\nlibc = ctypes.CDLL(None)\nlibc.__cxa_atexit(ctypes.cast(libc._exit, ctypes.c_void_p), ctypes.c_void_p(5), None)",
}
DIFFERENT_END = {
    "a warning about a caller": "stack",
    "the stack": "stack",
    "a generator": "the end of a rank",
    "C functions at the end": "the end of a rank",
}


# What the process in which torchrun's agent starts a rank could change.
UNDER_AN_AGENT = ["the way to start processes", "what a spawned process sends back", "a process at the end", "no input"]


@pytest.mark.skipif(sys.platform != "linux", reason="compares messages and statuses of Linux")
@pytest.mark.parametrize(("how", "restarts"), [*((how, 0) for how in ENDS), *((how, 1) for how in UNDER_AN_AGENT)])
def test_a_script_prints_and_ends_as_it_does_under_torchrun(how, restarts, script):
    """torchrun starts `python -u script`, as the test above shows."""
    path = script(ENDS[how], "import os, sys\n")
    python = subprocess.run([sys.executable, "-u", path], capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    events = real_run.run(path, ranks=1, timeout=None, restarts=restarts)
    theirs = [python.returncode, *map(lines_of, (python.stdout, python.stderr))]
    out, err = ([e.text for e in events if isinstance(e, Output) and e.stream == name] for name in ("stdout", "stderr"))
    raised = [line for event in events if isinstance(event, Raised) for line in event.traceback.splitlines()]
    status = next(event.status for event in events if isinstance(event, Exited))
    ours = [status, *map(lines_of, ("\n".join(out).encode(), "\n".join(err).encode()))]
    if theirs[2] != ours[2]:  # the traceback is an event, and not printed
        ours[2] = raised + ours[2]
    assert (ours == theirs) == (how not in DIFFERENT_END), (ours, theirs)


def test_a_module_that_a_script_forgot_to_import_is_not_there(home, script):
    """The server of this test is its own: one that has run a script which imports the module keeps it."""
    path = script("import torch.distributed\nprint('there:', hasattr(torch.distributed, 'checkpoint'))", "")
    assert "there: False" in piped(home, "run", "-n", "1", str(path)).stdout


def lines_of(data):
    return re.sub("0x[0-9a-f]+", "0x", data.decode(errors="replace")).splitlines()


@pytest.fixture
def run(script, tmp_path):
    def run(body, ranks=2, head=HEAD, **request):
        return real_run.run(script(body, head), ranks, **{"args": (str(tmp_path),)} | request)

    return run


def printed(events, rank=0):
    return [event.text for event in events if isinstance(event, Output) and event.rank == rank]


OPEN_FILES = """
import csv, gzip, io, tempfile
folder = sys.argv[1]
text = open(f"{folder}/log.txt", "w")
text.write("never closed")
table = csv.writer(open(f"{folder}/table.csv", "w", newline=""))
table.writerow([1, 2])
data = open(f"{folder}/data.bin", "wb")
data.write(b"bytes")
update = open(f"{folder}/update.bin", "w+b")
update.write(b"both ways")
packed = io.TextIOWrapper(gzip.open(f"{folder}/packed.gz", "wb"))
packed.write("packed text")
lost = tempfile.NamedTemporaryFile("w", dir=folder, prefix="temporary-")
lost.write("goes with the process")
"""


def test_files_that_a_script_never_closes_are_complete(run, tmp_path):
    assert end(run(OPEN_FILES, ranks=1, head="import sys\n")).ok
    assert (tmp_path / "log.txt").read_text() == "never closed"
    assert (tmp_path / "table.csv").read_text() == "1,2\n"
    assert (tmp_path / "data.bin").read_bytes() == b"bytes"
    assert (tmp_path / "update.bin").read_bytes() == b"both ways"
    assert gzip.decompress((tmp_path / "packed.gz").read_bytes()) == b"packed text"
    assert list(tmp_path.glob("temporary-*")) == []


def test_files_are_complete_too_after_an_exception_and_after_sys_exit(run, tmp_path):
    body = 'open(sys.argv[1] + "/a.txt", "w").write("a"); f = open(sys.argv[1] + "/b.txt", "w"); f.write("b")\n'
    for last in ("raise ValueError('bad')", "sys.exit(3)"):
        assert not end(run(body + last, ranks=1, head="import sys\n")).ok
        assert (tmp_path / "b.txt").read_text() == "b"
        (tmp_path / "b.txt").unlink()


FINALIZERS = """
class Log:
    def __init__(self, name):
        self.name = name
    def __del__(self):
        print("closed", self.name)

first, nested = Log("first"), [Log("nested")]

class Faulty:
    def __del__(self):
        raise ValueError("in a finalizer")

faulty = Faulty()
"""


def test_objects_of_a_module_are_finalized_once_and_their_faults_change_nothing(run):
    events = run(FINALIZERS, ranks=1, head="")
    out = [event.text for event in events if isinstance(event, Output) and event.stream == "stdout"]
    err = [event.text for event in events if isinstance(event, Output) and event.stream == "stderr"]
    assert out == ["closed first", "closed nested"]
    assert err[-1] == "ValueError: in a finalizer"
    assert end(events).ok


def test_what_c_code_has_printed_is_not_lost(run):
    body = "import ctypes\nctypes.CDLL(None).printf(b'from C')\n"
    assert printed(run(body, ranks=1, head="")) == ["from C"]


MODELS = """
import gc, weakref
from torch.nn.parallel import DistributedDataParallel as DDP
seen = []
for fold in range(4):
    model = DDP(torch.nn.Linear(2, 2))
    model(x).sum().backward()
    seen.append(weakref.ref(model))
    del model
    gc.collect()
print("alive:", sum(each() is not None for each in seen))
last = DDP(torch.nn.Linear(2, 2))
held = weakref.ref(last)
dist.destroy_process_group()
del last
gc.collect()
print("held:", held() is not None)
"""


def test_a_ddp_model_is_freed_unless_it_outlives_its_process_group(run):
    events = run(MODELS)
    for rank in (0, 1):
        assert printed(events, rank) == ["alive: 0", "held: True"]
    assert end(events).ok


RENDEZVOUS = """\
import os, torch, torch.distributed as dist, torch.multiprocessing as mp

def work(rank):  # two groups of two, which share process 1; each process meets others in an order of its own
    for port, members in ((29871, (0, 1)), (29872, (1, 2))):
        if rank in members:
            dist.init_process_group(
                "gloo", init_method=f"tcp://localhost:{port}", rank=members.index(rank), world_size=2
            )
            x = torch.ones(1) * rank
            dist.all_reduce(x)
            os.write(1, f"{port} {rank}: {x.item()}\\n".encode())
            dist.barrier()
            dist.destroy_process_group()
    os._exit(0)

if __name__ == "__main__":
    mp.spawn(work, nprocs=3)
"""


def test_spawned_ranks_that_meet_in_several_groups_find_each_other(run):
    events = run(RENDEZVOUS, ranks=1, head="", timeout=None)
    lines = [line for line in printed(events) if line.startswith("2987")]
    assert sorted(lines) == ["29871 0: 1.0", "29871 1: 1.0", "29872 1: 3.0", "29872 2: 3.0"]


def test_functions_that_are_wrapped_have_the_signatures_that_torch_gives_them(run):
    names = ("dist.init_process_group", "dist.destroy_process_group", "DDP.__init__", "DDP.no_sync", "spawning")
    body = "import inspect\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    body += "from torch.multiprocessing import start_processes as spawning\n"
    body += "".join(f"print('{name}:', inspect.signature({name}))\n" for name in names)
    body += "print('wait:', dist.Work.wait.__name__, bool(dist.Work.wait.__doc__))"
    lines = printed(run(body, ranks=1))
    assert lines[0] == f"dist.init_process_group: {inspect.signature(dist.init_process_group)}"
    assert lines[1] == f"dist.destroy_process_group: {inspect.signature(dist.destroy_process_group)}"
    assert lines[2] == f"DDP.__init__: {inspect.signature(DistributedDataParallel.__init__)}"
    assert not [line for line in lines if "(*args, **kwargs)" in line]
    assert lines[-1] == f"wait: wait {bool(dist.Work.wait.__doc__)}"


def test_a_rank_that_waits_in_init_process_group_stands_at_the_line_of_the_script(run):
    head = "import os, time, torch.distributed as dist\nif os.environ['RANK'] == '1':\n    time.sleep(600)\n"
    events = run("def join():\n    dist.init_process_group('gloo')\njoin()", head=head, timeout=1.0)
    (hung,) = [event for event in events if isinstance(event, Hung)]
    assert [(Path(each.file).name, each.line, each.waits_in) for each in hung.ranks] == [
        ("script.py", 5, "init_process_group"),
        ("script.py", 3, ""),
    ]


CLOSES = """
import os
for fd in range(3, 64):
    try:
        os.close(fd)
    except OSError:
        pass
files = [open(f"{sys.argv[1]}/{number}", "w") for number in range(64)]
print("printed")
for number, file in enumerate(files):
    file.write(str(number))
assert files, "files are open"
"""
CLOSES_ALL = CLOSES.replace("range(3, 64)", "range(3, 2048)")


def test_a_script_that_closes_descriptors_and_opens_files_is_still_watched(run, tmp_path):
    events = run("import sys\n" + CLOSES, ranks=1, head="")
    assert end(events).ok
    assert printed(events) == ["printed"]
    assert [(tmp_path / str(number)).read_text() for number in range(64)] == [str(number) for number in range(64)]
    assert [event.held for event in events if isinstance(event, Claimed)] == [True]


def test_a_script_that_closes_every_descriptor_finds_none_of_our_events_in_its_files(run, tmp_path):
    events = run("import sys\n" + CLOSES_ALL, ranks=1, head="")
    assert printed(events) == ["printed"]
    assert [(tmp_path / str(number)).read_text() for number in range(64)] == [str(number) for number in range(64)]


STANDS = "dist.all_reduce(x)\nprint('ready', flush=True)\nif rank == 1:\n    time.sleep(600)\ndist.all_reduce(x)\n"


@pytest.mark.parametrize("how", ["--plain", "--json"])
def test_a_run_that_sigterm_ends_is_saved_and_reported(tmp_path, how):
    path, saved = tmp_path / "script.py", tmp_path / "run.json"
    path.write_text(HEAD + STANDS)
    command = [sys.executable, "-m", "ddpquiz", "run", "-n", "2", how, "--save", saved, path]
    ran = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    ready = 0
    while ready < 2:
        line = ran.stdout.readline()
        assert line, "the run ended early"
        ready += "ready" in line
    ran.terminate()
    rest = ran.communicate(timeout=60)[0]
    assert ran.returncode == 143
    assert "SIGTERM ended the run." in rest
    *_, last = (decode(line) for line in saved.read_text().splitlines())
    assert last.why == "SIGTERM ended the run."
