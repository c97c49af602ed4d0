"""What all tests share: the same environment everywhere, a warm server of ranks, data folders, and their order.

`--all` and `--base` are described in helpers/passed.py. Tests that are marked `large` run only with `--all`; tests that use the
fixture `scale` are then larger. `--quick` leaves out tests that are marked `slow`, and test functions that took 0.2 s or more per case when
durations.json was written, unless they are marked `quick`. `--save-durations` writes that file; run it with all tests
on a machine that does nothing else.
"""

import gc
import json
import os
import shutil
import signal
import tempfile
import textwrap
from collections import Counter, defaultdict
from pathlib import Path
from statistics import mean

import browser
import passed
import pytest
import real_run
import recorded_calls
import ring_file
import template
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from ddpquiz.curriculum import pack_store
from ddpquiz.events.event import Note
from ddpquiz.learning.progress import Progress
from ddpquiz.ranks import server_connection

_MEMORY = Path("/dev/shm")
_ROOM = 4 << 30  # bytes; failed tests leave their folders, and shards of a thousand ranks are large


def _has_room_in_memory():
    """Whether temporary files can be in memory: SQLite syncs at every commit, and on a disk tests mostly wait for that."""
    try:
        found = os.statvfs(_MEMORY)
    except OSError:
        return False
    runs_programs = not found.f_flag & os.ST_NOEXEC  # Docker's own does not
    return runs_programs and os.access(_MEMORY, os.W_OK) and found.f_bavail * found.f_frsize >= _ROOM


if _has_room_in_memory():
    tempfile.tempdir = str(_MEMORY)  # pytest makes `tmp_path` there, too
_HOME = tempfile.TemporaryDirectory(prefix="ddpquiz-tests-")
_TEMPORARY = tempfile.TemporaryDirectory(prefix="ddpquiz-tests-")
os.environ["TMPDIR"] = _TEMPORARY.name  # of processes that tests start: torchrun leaves folders there
os.environ["DDPQUIZ_HOME"] = _HOME.name  # here, since test modules copy the environment while they are being imported

# Variables that change what a program does or how it looks, here and in every process that a test starts. Pytest sets the
# size of a terminal for its workers, but a pseudo-terminal has its own size.
_UNWANTED = (
    *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"),
    *("PAGER", "LESS", "LESSOPEN", "EDITOR", "VISUAL", "PYTHONWARNINGS"),
)
for name in _UNWANTED:
    os.environ.pop(name, None)
os.environ["TERM"] = "xterm-256color"

for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGINT):  # ignored under nohup, or in the background of a script
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)  # still ignored here, but the default in what we start

# The same examples each time, and no deadline: a change must not fail for an old bug or on a slow machine
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")
# Hypothesis also plays the constants of all loaded modules, which depend on the tests before. Turn that off.
providers._get_local_constants = providers.Constants

DURATIONS = Path(__file__).with_name("durations.json")  # seconds per case of the test functions that are slow
SLOW = 0.2  # seconds per case


def pytest_collection_finish():
    """Keep the collector from visiting, for each full collection, all that was loaded to find the tests."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="leave out the slow tests, as CONTRIBUTING.md says")
    parser.addoption("--all", action="store_true", help="run the large forms of tests too, and what passed before")
    parser.addoption("--base", metavar="REV", help="leave out cases that passed in this commit, as passed.py says")
    parser.addoption("--save-durations", action="store_true", help=f"write {DURATIONS.name}")


def pytest_collection_modifyitems(config, items):
    """Leave out what is slow in a quick check; otherwise let workers begin with what takes longest."""
    seconds = json.loads(DURATIONS.read_text("utf-8"))

    def is_slow(item):
        slow = item.originalname in seconds and not item.get_closest_marker("quick")
        return bool(slow or item.get_closest_marker("slow"))

    def is_left_out(item):
        return (config.option.quick and is_slow(item)) or (not config.option.all and item.get_closest_marker("large"))

    out = {item for item in items if is_left_out(item)}
    config.hook.pytest_deselected(items=[item for item in items if item in out])
    items[:] = [item for item in items if item not in out]
    if hasattr(config, "workerinput"):
        groups = Counter()  # one worker runs all tests of a group
        for item in items:
            groups[_group(item)] += seconds.get(item.originalname, 0)
        items.sort(key=lambda item: groups[_group(item)], reverse=True)


def _group(item):
    marker = item.get_closest_marker("xdist_group")
    return marker.args[0] if marker else item.nodeid


class _Durations:
    """Adds up the seconds of each case, and writes their mean for each test function."""

    def __init__(self):
        self.cases = Counter()

    def pytest_runtest_logreport(self, report):
        self.cases[report.nodeid.partition("@")[0]] += report.duration  # xdist appends @group

    def pytest_sessionfinish(self):
        functions = defaultdict(list)
        for case, seconds in self.cases.items():
            functions[case.partition("::")[2].partition("[")[0].rpartition("::")[2]].append(seconds)
        means = {name: round(mean(seconds), 1) for name, seconds in functions.items()}
        slow = {name: seconds for name, seconds in sorted(means.items()) if seconds >= SLOW}
        DURATIONS.write_text(json.dumps(slow, indent=0) + "\n", "utf-8")


def pytest_configure(config):
    config.pluginmanager.register(passed.Passed(config), "passed")
    template.install()
    if config.option.save_durations and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Durations())


def pytest_terminal_summary(terminalreporter):
    """Say how many tests need a browser that is not here, and how to install one."""
    skipped = [report for report in terminalreporter.stats.get("skipped", ()) if browser.HOW in str(report.longrepr)]
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} tests of pages were skipped: {browser.HOW}.")


@pytest.fixture(scope="session")
def scale(pytestconfig):
    """Chooses the size of a test: `scale(20, 2000)` is 20, and 2000 in `check --all`."""
    return lambda small, large: large if pytestconfig.option.all else small


@pytest.fixture(autouse=True, scope="session")
def _end_of_server():
    yield
    server_connection.close()
    template.close()


@pytest.fixture(autouse=True)
def _same_environment():
    """Fail a test that leaves environment variables changed: later tests, and the programs they start, would get them."""
    before = dict(os.environ)
    yield
    after = dict(os.environ)
    os.environ.clear()
    os.environ.update(before)
    changed = {name for name, _ in before.items() ^ after.items()} - {"PYTEST_CURRENT_TEST"}
    assert not changed


@pytest.fixture
def progress(tmp_path):
    """The progress of a learner who has done nothing yet."""
    with Progress(tmp_path) as opened:
        yield opened


@pytest.fixture
def home(tmp_path):
    """The data folder of a learner; it does not exist yet."""
    return tmp_path / "home"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Return the folder of a new pack; nothing is added yet."""
    monkeypatch.setenv("DDPQUIZ_HOME", str(tmp_path / "home"))
    pack_store.make_pack(tmp_path / "mine")
    return tmp_path / "mine"


@pytest.fixture
def script(tmp_path):
    """Writes a script for real ranks: a head that forms their group, and a body."""

    def write(body, head=real_run.HEAD):
        path = tmp_path / "script.py"
        path.write_text(head + textwrap.dedent(body))
        return path

    return write


@pytest.fixture
def watch(tmp_path):
    """Runs a script on real ranks, and returns its events."""

    def run(body, ranks=2, head=recorded_calls.HEAD, name="script.py", ok=True):
        path = tmp_path / name
        path.write_text(head + textwrap.dedent(body) + "\ndist.destroy_process_group()\n")
        events = real_run.run(path, ranks)
        assert events[-1].ok == ok, [event for event in events if event.event in ("error", "end", "note")]
        assert [event for event in events if isinstance(event, Note)] == []
        return events

    return run


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A copy of the content that fits, in the working directory."""
    shutil.copytree(ring_file.DATA, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "content" / "collectives" / "ring.yaml"
