"""The processes of a run: those that a script starts, and that none is left at the end."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from places import ROOT
from real_run import end, of, run

from ddpquiz.events.event import Exited, Hung, Issued, Note, Output

sys.path.append(str(ROOT / "benchmarks"))

from leftovers import CLEANER

LOADER = """\
import torch
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, at):
        return torch.tensor(at * at)

if __name__ == "__main__":
    for how in ("fork", "spawn"):
        loader = DataLoader(Squares(), batch_size=2, num_workers=2, multiprocessing_context=how)
        print(f"{how}: {sum(int(batch.sum()) for batch in loader)}")
"""


def test_data_loaders_have_workers_of_either_kind(script):
    events = run(script(LOADER, ""), ranks=1, timeout=None)
    said = [
        event for event in of(events, Output) if event.stream == "stdout"
    ]  # with one core torch warns of two workers
    assert [(event.label, event.value) for event in said] == [("fork", "140"), ("spawn", "140")]
    assert end(events).ok


SPAWNING = """\
import os, multiprocessing, torch, torch.distributed as dist

def work(rank, world, way):
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "29871"}
    dist.init_process_group("gloo", rank=rank, world_size=world)
    x = torch.ones(1) * (rank + 1)
    dist.all_reduce(x)
    os.write(1, f"{way}: {x.item()}\\n".encode())  # in one piece, also where PYTHONUNBUFFERED is set
    dist.barrier()
    os._exit(0)

if __name__ == "__main__":
    for _ in range(2):  # ranks that come later must not find what earlier ones have left
        forked = [multiprocessing.get_context("fork").Process(target=work, args=(r, 2, "forked")) for r in range(2)]
        for process in forked:
            process.start()
        for process in forked:
            process.join()
    torch.multiprocessing.spawn(work, args=(2, "spawned"), nprocs=2)
"""


def test_ranks_that_a_script_starts_itself_meet_on_loopback_and_are_not_watched(script):
    events = run(script(SPAWNING, ""), ranks=1, timeout=None)
    said = [event.text for event in of(events, Output) if event.stream == "stdout"]
    assert sorted(said) == ["forked: 3.0"] * 4 + ["spawned: 3.0"] * 2
    assert of(events, Issued) == []
    (note,) = of(events, Note)
    assert note.text == (
        "The script starts ranks of its own with torch.multiprocessing; those are not watched. To see what they do, put "
        "the body of the function that it starts inside `with ddpquiz.record.start(FOLDER):`, and run `ddpquiz diagnose "
        "FOLDER`."
    )
    assert end(events).ok


def test_a_rank_may_become_another_program(script):
    body = """
    if len(sys.argv) == 1:
        os.execv(sys.executable, [sys.executable, __file__, "again"])
    print("rank:", os.environ["RANK"])
    """
    events = run(script(body, "import os, sys\n"))
    assert sorted(event.value for event in of(events, Output)) == ["0", "1"]
    assert end(events).ok


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is unknown what a process handles")
@pytest.mark.parametrize("restarts", [0, 1])
def test_a_program_that_a_rank_has_become_is_not_ended_by_our_signal(script, restarts):
    body = (
        "if os.environ['RANK'] == '1': os.execv('/bin/sleep', ['sleep', '600'])\nprint('here: yes')\ntime.sleep(600)\n"
    )
    events = run(script(body, "import os, time\n"), timeout=1.0, diagnose=True, restarts=restarts)
    assert [(event.rank, event.status) for event in of(events, Exited) if not event.stopped] == []
    assert [each.waits_in for each in of(events, Hung)[0].ranks] == ["", ""]


def test_a_script_may_keep_signals_for_itself(script):
    body = """
    import signal
    for which in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
        signal.signal(which, lambda which, _: print("got:", signal.Signals(which).name))
        os.kill(os.getpid(), which)
    """
    events = run(script(body, "import os\n"), ranks=1)
    assert [event.value for event in of(events, Output)] == ["SIGUSR1", "SIGUSR2", "SIGTERM"]
    assert end(events).ok


def processes_of(marker):
    found = subprocess.run(["pgrep", "-f", marker], capture_output=True, text=True, check=False)
    return found.stdout.split()


@pytest.mark.skipif(not shutil.which("pgrep"), reason="needs pgrep")
def test_grandchildren_go_with_the_run_also_those_in_sessions_of_their_own(script):
    marker = f"{1000 + os.getpid()}.25"
    body = f"import subprocess\nsubprocess.Popen(['sleep', '{marker}'], start_new_session=True)\nsubprocess.Popen(['sleep', '{marker}'])\n"
    assert end(run(script(body))).ok
    assert processes_of(f"sleep {marker}") == []


def test_stopped_ranks_end_too(script):
    events = run(script("if rank == 1: os.kill(os.getpid(), 19)\ndist.all_reduce(x)"), timeout=1.0)
    assert of(events, Hung)[0].ranks[1].stack == ""
    assert sorted(event.rank for event in of(events, Exited)) == [0, 1]


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# Named shared memory of each rank, and of a child with a session and a cleaner of its own
SHARED_MEMORY = f"""\
import subprocess
cleaner = {CLEANER!r}
exec(cleaner)
mine = SharedMemory(create=True, size=8, name=f"mine-{os.getpid()}-{{rank}}")
make = cleaner + "made = SharedMemory(create=True, size=8, name=sys.argv[1]); print(flush=True); time.sleep(60)"
command = [sys.executable, "-c", make, f"childs-{os.getpid()}-{{rank}}"]
subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True).stdout.readline()
dist.barrier()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("restarts", [0, 1])
@pytest.mark.parametrize("ending", ["os._exit(3)", "sys.exit(0)", "os.kill(os.getpid(), 9)"])
def test_named_shared_memory_is_gone_when_the_run_is_over(script, ending, restarts):
    events = run(script(f"{SHARED_MEMORY}print('made: yes')\ndist.barrier()\n{ending}\n"), restarts=restarts)
    assert len(of(events, Output)) >= 2
    assert not list(Path("/dev/shm").glob(f"*-{os.getpid()}-[01]"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_is_left_when_the_launcher_goes(script, number):
    path = script(f"{SHARED_MEMORY}print('pid:', os.getpid())\ntime.sleep(60)\n")
    memory = [Path("/dev/shm", f"{prefix}-{os.getpid()}-{rank}") for prefix in ("mine", "childs") for rank in range(2)]
    launcher = subprocess.Popen(
        [sys.executable, "-m", "ddpquiz", "run", "--nproc", "2", "--plain", path],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    pids = []
    while len(pids) < 2:
        line = launcher.stdout.readline()
        assert line, "the run ended early"
        pids += [int(line.split()[-1])] if "pid:" in line else []
    assert all(file.exists() for file in memory)
    launcher.send_signal(number)
    status = launcher.wait(60)
    assert status == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(number, -number)
    end_by = time.monotonic() + 30
    while not all(gone(pid) for pid in pids) and time.monotonic() < end_by:
        time.sleep(0.02)
    assert all(gone(pid) for pid in pids)
    while any(file.exists() for file in memory) and time.monotonic() < end_by:
        time.sleep(0.02)
    assert not any(file.exists() for file in memory)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the server does not outlive the launcher")
@pytest.mark.parametrize(
    ("words", "appears"),
    [
        pytest.param(["lab", "ring-all-reduce", "--check", "--dir", "{files}"], "ddpquiz-*", id="lab"),
        pytest.param(["demo", "elastic", "--nproc", "2"], "ddpquiz-*/elastic-*", id="demo"),
        pytest.param(["run", "-n", "2", "--max-restarts", "1", "{script}"], "ddpquiz-*", id="agent"),
    ],
)
def test_a_command_that_is_killed_leaves_no_files(tmp_path, words, appears):
    # Not any file: Python's tempfile first tries the folder with a file of its own, which a kill at that moment leaves.
    temporary, script = tmp_path / "temporary", tmp_path / "script.py"
    temporary.mkdir()
    script.write_text("import time\ntime.sleep(600)\n")
    launcher = subprocess.Popen(
        [sys.executable, "-m", "ddpquiz", *(word.format(files=tmp_path / "files", script=script) for word in words)],
        stdout=subprocess.DEVNULL, cwd=ROOT, env=os.environ | {"TMPDIR": str(temporary)},
    )  # fmt: skip
    end_by = time.monotonic() + 60
    while not any(temporary.glob(appears)):
        assert launcher.poll() is None, "it ended early"
        assert time.monotonic() < end_by
        time.sleep(0.005)
    launcher.kill()
    launcher.wait()
    while any(temporary.iterdir()) and time.monotonic() < end_by:
        time.sleep(0.02)
    assert [*temporary.iterdir()] == []


KILLED_AT_ONCE = """\
import os, signal, tempfile
from ddpquiz.ranks.server_connection import temporary_folder
make = tempfile.mkdtemp
tempfile.mkdtemp = lambda *words: (make(*words), os.kill(os.getpid(), signal.SIGKILL))
temporary_folder()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the server does not outlive the launcher")
def test_a_launcher_that_is_killed_right_after_it_made_a_folder_leaves_none(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED_AT_ONCE], cwd=ROOT, env=os.environ | {"TMPDIR": str(tmp_path)})
    assert done.returncode == -signal.SIGKILL
    end_by = time.monotonic() + 60
    while any(tmp_path.iterdir()) and time.monotonic() < end_by:
        time.sleep(0.02)
    assert [*tmp_path.iterdir()] == []


PAGES = """\
import ctypes, mmap, re
from ddpquiz.ranks.forks import LARGE_PAGE, MADV_COLLAPSE, use_large_pages

def on_large_pages():
    with open("/proc/self/smaps_rollup") as file:
        return int(re.search(r"AnonHugePages: +(\\d+)", file.read())[1])

def filled(size):
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.write(b"x" * size)
    return memory

probe = filled(2 * LARGE_PAGE)  # memory may be too fragmented, and a kernel may refuse
page = -(-ctypes.addressof(ctypes.c_char.from_buffer(probe)) // LARGE_PAGE) * LARGE_PAGE
can = not ctypes.CDLL(None).madvise(ctypes.c_void_p(page), ctypes.c_size_t(LARGE_PAGE), MADV_COLLAPSE)
memory = filled(1 << 24)
objects = [str(number) for number in range(200_000)]
before = on_large_pages()
use_large_pages()
print(can, before, on_large_pages(), memory[:3], objects[-1])
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="this system does not say what it did")
def test_memory_moves_to_large_pages_where_the_kernel_can_do_that():
    done = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True)
    can, before, after, *values = done.stdout.split()
    assert values == ["b'xxx'", "199999"]
    if can == "True":
        assert int(after) > int(before)
