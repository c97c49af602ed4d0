"""What tests share: a warm server of ranks that ends with the session, data folders that are nobody's own, and logs."""

import os
import signal
import tempfile

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from ddpquiz.learning.progress import Progress
from ddpquiz.ranks import launch

_HOME = tempfile.TemporaryDirectory(prefix="ddpquiz-tests-")
_TEMPORARY = tempfile.TemporaryDirectory(prefix="ddpquiz-tests-")
os.environ["TMPDIR"] = _TEMPORARY.name  # of processes that tests start: torchrun leaves folders there
os.environ["DDPQUIZ_HOME"] = _HOME.name  # here, since test modules copy the environment while they are being imported

# What would make the same program look or do otherwise, here and in every process that a test starts. Pytest's workers
# have the size of a terminal, and a pseudo-terminal has one of its own.
_OTHERWISE = (
    *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"),
    *("PAGER", "LESS", "LESSOPEN", "EDITOR", "VISUAL", "PYTHONWARNINGS"),
)
for name in _OTHERWISE:
    os.environ.pop(name, None)
os.environ["TERM"] = "xterm-256color"

for number in (signal.SIGHUP, signal.SIGINT):  # ignored under nohup, or in the background of a script
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)  # ignored still, but what we start finds them as a terminal gives them

# A change is not to fail for what was there before it, nor for a machine that is slow
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")
# Hypothesis also plays the constants of the modules that are loaded: here, of those that the tests before have needed
providers._get_local_constants = providers.Constants


@pytest.fixture(autouse=True, scope="session")
def _end_of_server():
    yield
    launch.close()


@pytest.fixture
def progress(tmp_path):
    """The log of a learner who has done nothing yet."""
    with Progress(tmp_path) as opened:
        yield opened


@pytest.fixture
def home(tmp_path):
    """The data folder of a learner; it is not there yet."""
    return tmp_path / "home"
