"""A script that runs here finds and leaves what it would find and leave under torchrun."""

import gzip
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import real_run
import torch.distributed as dist
from real_run import HEAD, end
from torch.nn.parallel import DistributedDataParallel

from ddpquiz.events.event import Claimed, Hung, Output, decode


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


def test_ranks_have_the_limit_on_open_files_that_the_shell_has(tmp_path):
    """The launcher raises its own, for the pipes of many ranks."""
    path = tmp_path / "script.py"
    path.write_text("import resource\nprint('limit:', resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n")
    command = f"ulimit -S -n 300; exec {sys.executable} -m ddpquiz run {path} -n 1 --plain"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert "limit: 300" in ran.stdout, ran.stderr


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
